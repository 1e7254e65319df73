/** Decodes percent-encoded texts and Content-Disposition headers. */

/** Decodes a percent-encoded text; undefined when it is malformed. */
export function decodeUri(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Reads the parameters of a Content-Disposition. The UTF-8 form of a file name wins. Not sanitised. */
export function parseDisposition(header: string): { name?: string; fileName?: string } {
  const parameter = (key: string) => {
    const pattern = new RegExp(`(?:^|;)\\s*${key}\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;]+))`, 'i')
    const [, quoted, bare] = pattern.exec(header) ?? []
    return quoted?.replace(/\\(["\\])/g, '$1') ?? bare
  }
  const extended = /(?:^|;)\s*filename\*\s*=\s*utf-8'[^']*'([^\s;]+)/i.exec(header)?.[1]
  return { name: parameter('name'), fileName: decodeUri(extended ?? '') || parameter('filename') }
}
