/**
 * Reads a request body that is one file: its raw bytes, or a form with the file as its last field. The file
 * is streamed and never completely in memory.
 */

import { usageOf } from '../access/usage.ts'
import { invalidArguments } from '../model/error.ts'
import type { SentFile } from '../operations/operation.ts'
import { checkContentLength, limitStream } from './body.ts'
import { principalOf } from './caller.ts'
import { boundaryOf, readFilePart } from './multipart.ts'

/**
 * Returns the file with its fields. A field in the query takes precedence over one in the form.
 *
 * @throws SvcError `payload_too_large`; `rate_limited` if the key has used its bytes; `invalid_arguments` if
 *   there is no file
 */
export async function readSentFile(
  request: Request,
  query: Readonly<Record<string, unknown>>,
  maxBytes: number,
): Promise<Record<string, unknown> & { file: SentFile }> {
  const usage = usageOf(principalOf(request))
  const limit = { maxBytes, count: (bytes: number) => usage?.countBytes(bytes) }
  checkContentLength(request.headers, limit)
  const announced = request.headers.get('content-length')
  usage?.admitBytes(Number(announced ?? 1))
  if (!request.body || announced === '0')
    throw invalidArguments([{ field: 'body', problem: 'expected the bytes of a file' }])
  const body = limitStream(request.body, limit)
  // The length of a form is slightly larger than that of the file in it.
  const size = announced === null ? undefined : Number(announced)
  const boundary = boundaryOf(request.headers.get('content-type'))
  if (boundary === undefined) return { ...query, file: { body, size } }
  const part = await readFilePart(body, boundary)
  return {
    file_name: part.fileName || undefined,
    ...part.fields,
    ...query,
    file: { body: part.body, size },
  }
}
