/** The virtual list of the messages, and where it is scrolled. */
import { type Signal, useSignal } from '@preact/signals'
import { useCallback, useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { hrefOf, type Place } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { set } from '../ui/set.ts'
import { heightOf, type Row } from './rows.ts'
import { nearPx, useStayAtEnd } from './stay-at-end.ts'
import type { Thread } from './thread.ts'
import { useVirtual, type VirtualList } from './virtual.ts'

/** Load more when this few rows are left in a direction. */
const aheadRows = 20

/** The virtual list of the rows, and where it is scrolled. */
export function useView(
  thread: Thread,
  place: Place,
  rows: readonly Row[],
  scroller: { current: HTMLDivElement | null },
) {
  const atEnd = useSignal(true)
  const drawsAhead = useSignal(false)
  const hasNewer = thread.hasNewer.value
  const hadNewer = useRef(hasNewer)
  const stays = useStayAtEnd(scroller, () => !thread.hasNewer.peek(), thread.state.value !== 'failed')
  // Keep the width: reading it from the page would force a layout.
  const width = useRef(800)
  const list = useVirtual({
    count: rows.length,
    getScrollElement: () => scroller.current,
    getItemKey: useCallback((index: number) => rows[index]!.key, [rows]),
    estimateSize: useCallback((index: number) => heightOf(rows[index]!, width.current), [rows]),
    // Draw only the visible rows at first.
    overscan: drawsAhead.value ? 6 : 0,
    paddingStart: 52,
    paddingEnd: 12,
    scrollPaddingStart: 60,
    scrollPaddingEnd: 60,
    anchorTo: 'end',
    // Rows that fill a gap are not new messages.
    followOnAppend: !hasNewer && !hadNewer.current,
    scrollEndThreshold: nearPx,
    onChange: () => updateView(),
  })
  hadNewer.current = hasNewer
  width.current = list.scrollRect?.width ?? 800
  const updateView = () => {
    const { range } = list
    if (!range || rows.length === 0 || position.of.current !== thread) return
    const end = stays.current || list.isAtEnd(nearPx)
    thread.isAtEnd = end
    thread.readsAt = rows[range.startIndex]?.message.id ?? 0
    if (end !== atEnd.peek()) atEnd.value = end
    if (range.startIndex < aheadRows && thread.hasOlder.peek()) void thread.older()
    if (range.endIndex > rows.length - aheadRows && thread.hasNewer.peek()) void thread.newer()
  }
  const position = usePosition(thread, place, rows, list, stays)
  const settled = useSettled(thread.state.value === 'ready', drawsAhead)
  const toEnd = async () => {
    if (place.m !== undefined) navigate(hrefOf({ ...place, m: undefined }), { replace: true })
    if (thread.hasNewer.peek()) {
      position.of.current = undefined
      await thread.open()
    } else {
      stays.current = true
      list.scrollToEnd()
    }
  }
  return { list, atEnd, settled, toEnd, showAgain: position.showAgain }
}

/** Sets the scroll position: at first, and each time the URL asks for another message. */
function usePosition(
  thread: Thread,
  { m }: Place,
  rows: readonly Row[],
  list: VirtualList,
  stays: { current: boolean },
) {
  /** The thread whose position was set, and the message that it was set to. */
  const of = useRef<Thread | undefined>(undefined)
  const at = useRef<number | undefined>(undefined)
  const drawnRows = useRef<readonly Row[]>([])
  const ready = thread.state.value === 'ready'
  // Draw the rows at the end at once. Without this, others would be drawn before the page has scrolled.
  const staysAtEnd = of.current === thread ? stays.current && !thread.hasNewer.value : m === undefined
  if (ready && staysAtEnd && drawnRows.current !== rows && list.scrollRect)
    list.scrollOffset = Math.max(0, list.getTotalSize() - list.scrollRect.height)
  drawnRows.current = rows
  // Send the request before the first drawing, which is slow.
  useLayoutEffect(() => {
    void thread.open(m)
  }, [thread, m])
  useLayoutEffect(() => {
    if (!ready || rows.length === 0) return
    const index = m === undefined ? -1 : rows.findIndex(({ key }) => key === m)
    if (index >= 0 && at.current !== m) {
      at.current = m
      of.current = thread
      stays.current = false
      list.scrollToIndex(index, { align: 'center' })
    } else if (of.current !== thread) {
      of.current = thread
      const unreadAt = rows.findIndex(({ unreadFromHere }) => unreadFromHere)
      if (unreadAt > 0) list.scrollToIndex(unreadAt, { align: 'start' })
      // With few unread messages, the end is still in view.
      stays.current = unreadAt <= 0 || list.isAtEnd(nearPx)
      if (stays.current) list.scrollToEnd()
    }
    if (m === undefined) at.current = undefined
  }, [ready, rows, m, thread])
  const showAgain = useCallback(() => {
    at.current = undefined
  }, [])
  return { of, showAgain }
}

/** Row heights are known after a frame. Until then the rows are hidden, because they still move. */
function useSettled(ready: boolean, drawsAhead: Signal<boolean>): Signal<boolean> {
  const settled = useSignal(false)
  useEffect(() => {
    if (!ready || settled.peek()) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => {
        settled.value = true
        timer = setTimeout(set(drawsAhead, true))
      })
    })
    return () => {
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [ready])
  return settled
}
