/** JSON of an unknown form as lines `key: value`. */

const maxLines = 30
const maxValueLength = 200
const maxDepth = 6

/** Returns at most 30 lines, such as `disk[0].free: 12`. Long values, further lines and what is nested deeper are cut. */
export function formatFields(json: unknown): string {
  const lines: string[] = []
  addLines(json, '', 0, lines)
  return lines.length > maxLines ? [...lines.slice(0, maxLines), '…'].join('\n') : lines.join('\n')
}

function addLines(value: unknown, name: string, depth: number, lines: string[]): void {
  if (lines.length > maxLines) return
  const isNested = typeof value === 'object' && value !== null
  if (isNested && depth < maxDepth) {
    const isList = Array.isArray(value)
    for (const key in value) {
      if (lines.length > maxLines) return
      const inner = isList ? `${name}[${key}]` : name ? `${name}.${key}` : key
      addLines((value as Record<string, unknown>)[key], inner, depth + 1, lines)
    }
    return
  }
  const text = isNested ? '…' : `${value}`.trim()
  const short = text.length > maxValueLength ? `${text.slice(0, maxValueLength)}…` : text
  if (value !== null && text !== '') lines.push(name ? `${name.slice(0, maxValueLength)}: ${short}` : short)
}
