/** Text in columns, also where letters are twice as wide. */
import stringWidth from 'string-width'

/** Rows in columns that line up, also where letters are twice as wide; the last column is not filled up. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  paintHead: (text: string) => string,
): string {
  const widths = head.map((title, column) =>
    Math.max(...[title, ...rows.map(row => row[column] ?? '')].map(cell => stringWidth(cell))),
  )
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column === row.length - 1 ? cell : cell + ' '.repeat((widths[column] ?? 0) - stringWidth(cell)),
      )
      .join('  ')
      .trimEnd()
  return [paintHead(line(head)), ...rows.map(line)].map(text => `${text}\n`).join('')
}

/** As many columns of the text as fit. */
export function cutTo(text: string, width: number): string {
  if (stringWidth(text) <= width) return text
  let cut = ''
  let used = 1
  for (const character of text) {
    used += stringWidth(character)
    if (used > width) break
    cut += character
  }
  return `${cut}…`
}
