/** What stands in headers and addresses in a coded form. */

/** A text as it was before it was percent-encoded; undefined when it is not well encoded. */
export function decodedUri(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** Parameters of a Content-Disposition. Of the two forms of a file name the one in UTF-8 goes before. Not sanitised. */
export function dispositionOf(header: string): { name?: string; fileName?: string } {
  const parameter = (key: string) => {
    const pattern = new RegExp(`(?:^|;)\\s*${key}\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;]+))`, 'i')
    const [, quoted, bare] = pattern.exec(header) ?? []
    return quoted?.replace(/\\(["\\])/g, '$1') ?? bare
  }
  const extended = /(?:^|;)\s*filename\*\s*=\s*utf-8'[^']*'([^\s;]+)/i.exec(header)?.[1]
  return { name: parameter('name'), fileName: decodedUri(extended ?? '') || parameter('filename') }
}
