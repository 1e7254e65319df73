/** Text in columns, also where letters are twice as wide. */
import stringWidth from 'string-width'

/** A column of a table: its head, and what stands in it. */
export type Column<T> = readonly [head: string, cell: (row: T) => string]

/** Rows in columns that line up, also where letters are twice as wide; the last column is not filled up. */
export function table<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  paintHead: (text: string) => string,
): string {
  const filled = columns.map(([head, cell], nth) => {
    const cells = [head, ...rows.map(cell)]
    const width = nth === columns.length - 1 ? 0 : Math.max(...cells.map(text => stringWidth(text)))
    return cells.map(text => text + ' '.repeat(Math.max(0, width - stringWidth(text))))
  })
  const [head = '', ...lines] = [undefined, ...rows].map((_row, nth) =>
    filled
      .map(cells => cells[nth])
      .join('  ')
      .trimEnd(),
  )
  return [paintHead(head), ...lines].map(line => `${line}\n`).join('')
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
