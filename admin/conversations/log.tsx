/** The messages of a conversation. Only those in view are rendered. */

import { useComputed, useSignal } from '@preact/signals'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import type { Message } from '../api.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { onMessages, peerOf } from '../live.ts'
import { hrefOf, type Place } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { Icon } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { tellDoubt } from '../ui/toasts.tsx'
import { preview } from './message-summary.ts'
import type { Desk } from './outgoing.ts'
import { rowOf } from './quotes.ts'
import { useMarkRead } from './read-marks.ts'
import { RowView } from './row-view.tsx'
import { heightOf, type Row, rowsOf } from './rows.ts'
import { nearPx, useStayAtEnd } from './stay-at-end.ts'
import type { Thread } from './thread.ts'
import { useVirtual } from './virtual.ts'

/** Load more when this few rows are left in a direction. */
const aheadRows = 20

export function Log({ thread, desk, place }: { thread: Thread; desk: Desk; place: Place }) {
  const scroller = useRef<HTMLDivElement>(null)
  const messages = thread.messages.value
  const outgoing = desk.outgoing.value
  const pieces = useComputed(() => desk.outgoing.value.map(one => one.pieces.value)).value
  const unread = thread.readUpTo.value
  const rows = useMemo(() => rowsOf(messages, outgoing, unread), [messages, outgoing, pieces, unread])
  const atEnd = useSignal(true)
  const unseen = useSignal(0)
  const announced = useSignal('')
  const unfolded = useMemo(() => new Set<number>(), [thread])
  const hasNewer = thread.hasNewer.value
  const hadNewer = useRef(hasNewer)
  const settled = useSignal(false)
  const drawsAhead = useSignal(false)
  const hasFailed = thread.state.value === 'failed'
  const stays = useStayAtEnd(scroller, () => !thread.hasNewer.peek(), !hasFailed)

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
    if (!range || rows.length === 0 || positioned.current !== thread) return
    const end = stays.current || list.isAtEnd(nearPx)
    thread.isAtEnd = end
    thread.readsAt = rows[range.startIndex]?.message.id ?? 0
    if (end !== atEnd.peek()) atEnd.value = end
    if (end && unseen.peek() > 0) unseen.value = 0
    if (range.startIndex < aheadRows && thread.hasOlder.peek()) void thread.older()
    if (range.endIndex > rows.length - aheadRows && thread.hasNewer.peek()) void thread.newer()
  }

  // The scroll position: set at first, and each time the URL asks for another message.
  const positioned = useRef<Thread | undefined>(undefined)
  const positionedAt = useRef<number | undefined>(undefined)
  const drawnRows = useRef<readonly Row[]>([])
  const ready = thread.state.value === 'ready'
  // Draw the rows at the end at once. Without this, others would be drawn before the page has scrolled.
  const staysAtEnd = positioned.current === thread ? stays.current && !hasNewer : place.m === undefined
  if (ready && staysAtEnd && drawnRows.current !== rows && list.scrollRect)
    list.scrollOffset = Math.max(0, list.getTotalSize() - list.scrollRect.height)
  drawnRows.current = rows
  // Send the request before the first drawing, which is slow.
  useLayoutEffect(() => {
    void thread.open(place.m)
  }, [thread, place.m])
  useLayoutEffect(() => {
    if (!ready || rows.length === 0) return
    const index = place.m === undefined ? -1 : rows.findIndex(({ key }) => key === place.m)
    if (index >= 0 && positionedAt.current !== place.m) {
      positionedAt.current = place.m
      positioned.current = thread
      stays.current = false
      list.scrollToIndex(index, { align: 'center' })
    } else if (positioned.current !== thread) {
      positioned.current = thread
      const unreadAt = rows.findIndex(({ unreadFromHere }) => unreadFromHere)
      if (unreadAt > 0) list.scrollToIndex(unreadAt, { align: 'start' })
      // With few unread messages, the end is still in view.
      stays.current = unreadAt <= 0 || list.isAtEnd(nearPx)
      if (stays.current) list.scrollToEnd()
    }
    if (place.m === undefined) positionedAt.current = undefined
  }, [ready, rows, place.m, thread])
  useEffect(() => {
    if (!ready || settled.peek()) return
    // Row heights are known after a frame. Until then the rows are hidden, because they still move.
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

  // After a send, show the sent message.
  const sentBefore = useRef(outgoing.length)
  useLayoutEffect(() => {
    if (outgoing.length > sentBefore.current) void toEnd()
    sentBefore.current = outgoing.length
  }, [outgoing.length])

  useEffect(
    () =>
      onMessages(messages => {
        const own = messages.filter(one => one.session === thread.session && peerOf(one) === thread.userId)
        const came = own.filter(({ direction }) => direction === 'received')
        const failed = own.findLast(({ status }) => status === 'refused' || status === 'unknown')
        const isDoubtful = failed?.status === 'unknown'
        if (failed)
          announced.value = `${t(isDoubtful ? 'delivery.unknown' : 'delivery.refused')}: ${preview(failed)}`
        else if (came.length > 0) announced.value = t('chat.announced', { text: preview(came.at(-1)!) })
        if (!atEnd.peek()) unseen.value += came.length
      }),
    [thread],
  )

  const toEnd = async () => {
    if (place.m !== undefined) navigate(hrefOf({ ...place, m: undefined }), { replace: true })
    if (thread.hasNewer.peek()) {
      positioned.current = undefined
      await thread.open()
    } else {
      stays.current = true
      list.scrollToEnd()
    }
  }

  useEffect(
    () => () => {
      thread.isAtEnd = true
    },
    [thread],
  )
  useMarkRead(thread, atEnd)

  const latest = useRef(place)
  latest.current = place
  const onQuote = useCallback(
    async (quote: NonNullable<Message['ref_msg']>) => {
      const id = await rowOf(thread, quote)
      // If the person has left the chat, stay there.
      if (!scroller.current) return
      if (id === undefined) return tellDoubt(t('chat.quote_gone'))
      positionedAt.current = undefined
      navigate(hrefOf({ ...latest.current, m: id }), { replace: latest.current.m === id })
    },
    [thread],
  )
  const onAgain = useCallback((message: Message, queue: boolean) => desk.again(message, queue), [desk])

  if (hasFailed) {
    return (
      <div class="log empty">
        <h2>{errorText(thread.error.value).title}</h2>
        <button type="button" class="button" onClick={() => void thread.open(place.m)}>
          {t('action.retry')}
        </button>
      </div>
    )
  }
  return (
    <div class="log-frame">
      <div
        class="log"
        ref={scroller}
        role="log"
        // New messages are announced once, below. Rows that scroll into view are not new.
        aria-live="off"
        aria-label={t('chat.messages')}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so it must take the focus
        tabIndex={0}
      >
        <div class="log-bottom">
          <div
            class={settled.value ? 'log-rows' : 'log-rows unsettled'}
            style={{ blockSize: `${list.getTotalSize()}px` }}
          >
            <div class="log-top small soft">
              {thread.loading.value === 'older' ? (
                <span class="spinner" role="img" aria-label={t('status.loading')} />
              ) : (
                ready && !thread.hasOlder.value && t('chat.begins')
              )}
            </div>
            {list.getVirtualItems().map(({ key, index, start }) => {
              const row = rows[index]
              return (
                row && (
                  <div
                    key={key}
                    ref={list.measureElement}
                    data-index={index}
                    class="log-row"
                    style={{ transform: `translateY(${start}px)` }}
                  >
                    <RowView
                      row={row}
                      unfolded={unfolded}
                      onQuote={onQuote}
                      onAgain={onAgain}
                      desk={desk}
                      needle={place.q}
                      looked={row.key === place.m}
                    />
                  </div>
                )
              )
            })}
          </div>
        </div>
        {!ready && rows.length === 0 && (
          <div class="log-wait">
            <span class="spinner" role="img" aria-label={t('status.loading')} />
          </div>
        )}
        {ready && rows.length === 0 && <p class="log-wait soft">{t('chat.nothing')}</p>}
      </div>
      {(!atEnd.value || hasNewer) && ready && (
        <button
          type="button"
          class={`to-end button${unseen.value > 0 ? ' primary' : ''}`}
          onClick={() => void toEnd()}
          aria-label={unseen.value > 0 ? undefined : t('chat.to_end')}
          title={t('chat.to_end')}
        >
          {unseen.value > 0 && t('chat.new_count', { count: unseen.value })}
          <Icon name="down" />
        </button>
      )}
      <div class="visually-hidden" aria-live="polite">
        {announced.value}
      </div>
    </div>
  )
}
