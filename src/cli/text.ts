/** Words and numbers for people: made safe for a terminal, aligned. */
import stringWidth from 'string-width'
import { seen } from '../platform/escape-controls.ts'

/** Text from outside on one line: whatever a terminal would obey, and what turns the direction of writing, by number. */
export const oneLine = (text: string): string => seen(text.replace(/\r\n|[\n\v\f\u0085\u2028\u2029]/g, ' ⏎ '))

/** The lines of a text from outside, each made safe. */
export const safeLines = (text: string): string[] =>
  text.split(/\r\n|[\n\v\f\u0085\u2028\u2029]/).map(line => seen(line))

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
