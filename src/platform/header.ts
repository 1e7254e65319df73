/** Decodes percent-encoded texts and Content-Disposition headers. */
import { parse } from 'content-disposition'
import { attempt } from './fields.ts'

/** Decodes a percent-encoded text; undefined when it is malformed. */
export const decodeUri = (text: string): string | undefined => attempt(() => decodeURIComponent(text))

/**
 * Reads the parameters of a Content-Disposition. The UTF-8 form of a file name wins. Not sanitised.
 * @param options.isForm The header is that of a part of a form: browsers escape only quotes and line breaks
 *   there, as `%22`, `%0D` and `%0A`. Older programs write `\"` as in other headers.
 */
export function parseDisposition(
  header: string,
  { isForm = false } = {},
): { name?: string; fileName?: string } {
  const { name, filename } = parse(header, { multipart: isForm && !header.includes('\\"') }).parameters
  return { name, fileName: filename }
}
