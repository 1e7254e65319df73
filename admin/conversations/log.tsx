/** The messages of a conversation. Only those in view are rendered. */
import { type Signal, useComputed, useSignal, useSignalEffect } from '@preact/signals'
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
import { useApprovals } from './approvals.ts'
import { useView } from './log-view.ts'
import { type Bars, useBars } from './message-bar.tsx'
import { MessageDialog } from './message-dialogs.tsx'
import { preview } from './message-summary.ts'
import type { Desk } from './outgoing.ts'
import { rowOf } from './quotes.ts'
import { useMarkRead } from './read-marks.ts'
import { RowView } from './row-view.tsx'
import { type Row, rowsOf } from './rows.ts'
import type { Thread } from './thread.ts'

interface LogProps {
  thread: Thread
  desk: Desk
  place: Place
}

export function Log({ thread, desk, place }: LogProps) {
  const scroller = useRef<HTMLDivElement>(null)
  const rows = useRows(thread, desk)
  useApprovals(thread)
  const view = useView(thread, place, rows, scroller)
  const { atEnd, toEnd } = view
  const { bars, listeners } = useBars(rows, view.list)
  const { unseen, announced } = useNews(thread, atEnd)
  // After a send, show the sent message.
  const sent = desk.outgoing.value.length
  const sentBefore = useRef(sent)
  useLayoutEffect(() => {
    if (sent > sentBefore.current) void toEnd()
    sentBefore.current = sent
  }, [sent])
  useEffect(
    () => () => {
      thread.isAtEnd = true
    },
    [thread],
  )
  useMarkRead(thread, atEnd)
  const asked = bars.asked.value
  const ready = thread.state.value === 'ready'
  if (thread.state.value === 'failed') return <Failed thread={thread} place={place} />
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
        {...listeners}
      >
        <LogRows thread={thread} desk={desk} place={place} rows={rows} view={view} bars={bars} />
        {!ready && rows.length === 0 && (
          <div class="log-wait">
            <span class="spinner" role="img" aria-label={t('status.loading')} />
          </div>
        )}
        {ready && rows.length === 0 && <p class="log-wait soft">{t('chat.nothing')}</p>}
      </div>
      {(!atEnd.value || thread.hasNewer.value) && ready && (
        <ToEnd count={unseen.value} onPress={() => void toEnd()} />
      )}
      <div class="visually-hidden" aria-live="polite">
        {announced.value}
      </div>
      {asked && <MessageDialog {...asked} onClose={set(bars.asked, undefined)} />}
    </div>
  )
}

function useRows(thread: Thread, desk: Desk): readonly Row[] {
  const messages = thread.messages.value
  const outgoing = desk.outgoing.value
  const pieces = useComputed(() => desk.outgoing.value.map(one => one.pieces.value)).value
  const unread = thread.readUpTo.value
  return useMemo(() => rowsOf(messages, outgoing, unread), [messages, outgoing, pieces, unread])
}

/** What a screen reader says about new messages, and how many came while the end was out of view. */
function useNews(thread: Thread, atEnd: Signal<boolean>) {
  const unseen = useSignal(0)
  const announced = useSignal('')
  useSignalEffect(() => {
    if (atEnd.value) unseen.value = 0
  })
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
  return { unseen, announced }
}

interface LogRowsProps extends LogProps {
  rows: readonly Row[]
  view: ReturnType<typeof useView>
  bars: Bars
}

function LogRows({ thread, desk, place, rows, view, bars }: LogRowsProps) {
  const { list, settled, showAgain } = view
  const unfolded = useMemo(() => new Set<number>(), [thread])
  const frame = useRef<HTMLDivElement>(null)
  const latest = useRef(place)
  latest.current = place
  const onQuote = useCallback(
    async (quote: NonNullable<Message['ref_msg']>) => {
      const id = await rowOf(thread, quote)
      // If the person has left the chat, stay there.
      if (!frame.current) return
      if (id === undefined) return tellDoubt(t('chat.quote_gone'))
      showAgain()
      navigate(hrefOf({ ...latest.current, m: id }), { replace: latest.current.m === id })
    },
    [thread],
  )
  const onAgain = useCallback((message: Message, queue: boolean) => desk.again(message, queue), [desk])
  return (
    <div class="log-bottom" ref={frame}>
      <div
        class={settled.value ? 'log-rows' : 'log-rows unsettled'}
        style={{ blockSize: `${list.getTotalSize()}px` }}
      >
        <div class="log-top small soft">
          {thread.loading.value === 'older' ? (
            <span class="spinner" role="img" aria-label={t('status.loading')} />
          ) : (
            thread.state.value === 'ready' && !thread.hasOlder.value && t('chat.begins')
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
                  bars={bars}
                  needle={place.q}
                  looked={row.key === place.m}
                />
              </div>
            )
          )
        })}
      </div>
    </div>
  )
}

const Failed = ({ thread, place }: Pick<LogProps, 'thread' | 'place'>) => (
  <div class="log empty">
    <h2>{errorText(thread.error.value).title}</h2>
    <button type="button" class="button" onClick={() => void thread.open(place.m)}>
      {t('action.retry')}
    </button>
  </div>
)

/** @param count of messages that came while the end was out of view */
function ToEnd({ count, onPress }: { count: number; onPress(): void }) {
  return (
    <button
      type="button"
      class={`to-end button${count > 0 ? ' primary' : ''}`}
      onClick={onPress}
      aria-label={count > 0 ? undefined : t('chat.to_end')}
      title={t('chat.to_end')}
    >
      {count > 0 && t('chat.new_count', { count })}
      <Icon name="down" />
    </button>
  )
}
