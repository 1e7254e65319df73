/** Keyboard control of the list. */
import { useRef, useState } from 'preact/hooks'
import { narrow } from '../screen.ts'
import { keyOf, type Line } from './lines.ts'
import type { VirtualList } from './virtual.ts'

/** A key that is held down goes past rows without opening them. */
const restMs = 120

/**
 * Tab stops once in the whole list. Inside it, the arrow keys, Home and End go from row to row. A hit opens beside the
 * list when they come to rest on it.
 */
export function useArrows(
  lines: readonly Line[],
  list: VirtualList,
  scroller: { current: HTMLElement | null },
  open: number,
) {
  // Keep the row's key, not its index: new messages move the rows.
  const [row, setRow] = useState('')
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const openSoon = (row: HTMLElement) => {
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      if (document.activeElement === row && !narrow.value) row.click()
    }, restMs)
  }
  const isStop = (index: number) => lines[index] !== undefined && lines[index].kind !== 'head'
  const first = lines.findIndex((_line, index) => isStop(index))
  const at = row === '' ? -1 : lines.findIndex(line => keyOf(line) === row)
  const current = isStop(at) ? at : open >= 0 ? open : first
  const go = (from: number, step: number) => {
    let index = from
    while (lines[index] !== undefined && !isStop(index)) index += step
    if (!isStop(index)) return
    setRow(keyOf(lines[index]!))
    list.scrollToIndex(index, { align: 'auto' })
    // A row that was outside of the view must be drawn first.
    const focus = (tries: number) => {
      const row = scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"] [data-stop]`)
      if (row) {
        row.focus({ preventScroll: true })
        if (lines[index]?.kind === 'hit') openSoon(row)
      } else if (tries > 0) requestAnimationFrame(() => focus(tries - 1))
    }
    focus(5)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
    const inside = (event.target as HTMLElement).closest('[data-index]') !== null
    if (event.key === 'ArrowDown') go(inside ? current + 1 : first, 1)
    else if (event.key === 'ArrowUp') go(current - 1, -1)
    else if (event.key === 'Home') go(first, 1)
    else if (event.key === 'End') go(lines.length - 1, -1)
    else return
    event.preventDefault()
  }
  const onFocus = (event: FocusEvent) => {
    const at = (event.target as HTMLElement).closest<HTMLElement>('[data-index]')
    const line = lines[Number(at?.dataset.index)]
    if (line) setRow(keyOf(line))
  }
  return { current, onKeyDown, onFocus }
}
