/** Formats text in columns by its width on a terminal, where Chinese characters take two columns. */
import stringWidth from 'string-width'
import { formatLocalTime } from '../platform/format.ts'
import { colours, oneLine } from './terminal.ts'

/** A column of a table: its head, and the field of a row, or the function that returns a row's cell. */
export type Column<T> = readonly [head: string, cell: (keyof T & string) | ((row: T) => string)]

const formatField = (name: string, value: unknown): string =>
  name.endsWith('_at') ? formatLocalTime(value as number | undefined) : oneLine(String(value ?? ''))

/** Formats rows in aligned columns. The last column gets no padding. Heads in capitals are bold, others are dim. */
export function formatTable<T>(rows: readonly T[], columns: readonly Column<T>[]): string {
  const filled = columns.map(([head, cell], nth) => {
    const cellOf = typeof cell === 'function' ? cell : (row: T) => formatField(cell, row[cell])
    const cells = [head, ...rows.map(cellOf)]
    const width = nth === columns.length - 1 ? 0 : Math.max(...cells.map(text => stringWidth(text)))
    return cells.map(text => text + ' '.repeat(Math.max(0, width - stringWidth(text))))
  })
  const [head = '', ...lines] = [undefined, ...rows].map((_row, nth) =>
    filled
      .map(cells => cells[nth])
      .join('  ')
      .trimEnd(),
  )
  const paint = head === head.toUpperCase() ? colours.bold : colours.dim
  return [paint(head), ...lines].map(line => `${line}\n`).join('')
}

/** Cuts text to a width in terminal columns, with an ellipsis. */
export function shortenTo(text: string, width: number): string {
  if (stringWidth(text) <= width) return text
  let cut = ''
  let used = 1
  const characters = new Intl.Segmenter(undefined, { granularity: 'grapheme' })
  for (const { segment } of characters.segment(text)) {
    used += stringWidth(segment)
    if (used > width) break
    cut += segment
  }
  return `${cut}…`
}
