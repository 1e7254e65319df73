/** Everybody there are messages with; or, while something is searched for, who and what was found. */
import { useSignal } from '@preact/signals'
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Link } from 'wouter-preact'
import { navigate } from 'wouter-preact/use-browser-location'
import type { Conversation, Message } from '../api.ts'
import { errorText } from '../errors.ts'
import { number, t } from '../i18n.ts'
import { conversations, peerOf, sessions, status } from '../live.ts'
import { short, whole } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Delivery } from './delivery.tsx'
import { hrefOf, type Place } from './place.ts'
import { RightBadge, rightOf } from './right.tsx'
import { Search } from './search.ts'
import { around, contains, Marked } from './text.tsx'
import { useVirtual } from './virtual.ts'
import { Avatar, Who } from './who.tsx'
import { preview } from './words.ts'

type Line =
  | { kind: 'head'; text: string }
  | { kind: 'conversation'; one: Conversation }
  | { kind: 'hit'; message: Message }
  | { kind: 'more' }

const heights = { head: 40, conversation: 72, hit: 84, more: 56 } as const
/** With the account's name below. */
const tallConversation = 92

export function List({ place }: { place: Place }) {
  const { q } = place
  const search = useMemo(() => new Search(), [])
  const scroller = useRef<HTMLDivElement>(null)
  const field = useRef<HTMLInputElement>(null)
  const typed = useSignal(q)
  const all = conversations.value
  const found = search.found.value

  useEffect(() => search.ask(typed.value), [typed.value])
  // Back and forward bring another search.
  useEffect(() => {
    if (q !== typed.peek().trim()) typed.value = q
  }, [q])
  useEffect(() => {
    const wanted = typed.value.trim()
    if (wanted === q) return
    const timer = setTimeout(() => navigate(hrefOf({ ...place, q: wanted }), { replace: true }), 200)
    return () => clearTimeout(timer)
  }, [typed.value, place])
  useSlash(field)

  const several = (sessions.value?.length ?? 0) > 1
  const needle = typed.value.trim()
  const lines = useMemo(
    () => linesOf(all ?? [], needle, needle === '' ? undefined : found),
    [all, needle, found],
  )
  const list = useVirtual({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: useCallback(
      (index: number) => {
        const { kind } = lines[index]!
        return several && kind === 'conversation' ? tallConversation : heights[kind]
      },
      [lines, several],
    ),
    getItemKey: useCallback((index: number) => keyOf(lines[index]!), [lines]),
    overscan: 5,
    paddingEnd: 8,
  })
  const open = lines.findIndex(
    line =>
      line.kind === 'conversation' && line.one.session === place.session && line.one.user_id === place.userId,
  )
  const { current, onKeyDown, onFocus } = useArrows(lines, list, scroller, open)

  return (
    <div class="list-pane">
      <header class="list-head">
        <h1>{t('nav.conversations')}</h1>
        <search class="search">
          <Icon name="search" size={18} />
          <input
            ref={field}
            class="input"
            type="search"
            value={typed.value}
            placeholder={t('search.placeholder')}
            aria-label={t('search.label')}
            aria-keyshortcuts="/"
            dir="auto"
            onInput={event => {
              typed.value = event.currentTarget.value
            }}
            onKeyDown={event => {
              if (event.key === 'Escape') typed.value = ''
              if (event.key === 'ArrowDown') {
                event.preventDefault()
                onKeyDown(event)
              }
            }}
          />
          {typed.value === '' ? (
            <span class="key" aria-hidden="true">
              /
            </span>
          ) : (
            <button
              type="button"
              class="button plain icon-only"
              aria-label={t('search.clear')}
              onClick={() => {
                typed.value = ''
                field.current?.focus()
              }}
            >
              <Icon name="close" size={16} />
            </button>
          )}
        </search>
        <p class="visually-hidden" role="status">
          {needle === '' || search.busy.value || !found ? '' : t('search.found', { count: found.total })}
        </p>
      </header>
      <div class="list" ref={scroller} aria-busy={search.busy.value}>
        {all === undefined ? (
          <Skeleton />
        ) : lines.length === 0 && needle === '' ? (
          <Nobody />
        ) : (
          // biome-ignore lint/a11y/useSemanticElements: the rows stand where the account of heights says
          <div
            role="list"
            aria-label={t('nav.conversations')}
            class="list-rows"
            style={{ blockSize: `${list.getTotalSize()}px` }}
            onKeyDown={onKeyDown}
            onFocusIn={onFocus}
          >
            {list.getVirtualItems().map(({ key, index, start, size }) => {
              const line = lines[index]
              return (
                line && (
                  // biome-ignore lint/a11y/useSemanticElements: as above
                  <div
                    role="listitem"
                    key={key}
                    data-index={index}
                    aria-setsize={lines.length}
                    aria-posinset={index + 1}
                    class="list-row"
                    style={{ transform: `translateY(${start}px)`, blockSize: `${size}px` }}
                  >
                    <LineView
                      {...{ line, place, needle, search }}
                      tabIndex={index === current ? 0 : -1}
                      isOpen={index === open}
                    />
                  </div>
                )
              )
            })}
          </div>
        )}
        {search.busy.value && found?.q !== needle && (
          <p class="list-note list-wait">
            <span class="spinner" role="img" aria-label={t('status.loading')} />
          </p>
        )}
        {search.error.value !== undefined && (
          <p class="problem list-note">{errorText(search.error.value).title}</p>
        )}
        {needle !== '' && found?.q === needle && lines.length === 0 && (
          <p class="soft list-note">{t('search.nothing')}</p>
        )}
      </div>
    </div>
  )
}

function linesOf(
  all: readonly Conversation[],
  needle: string,
  found: Search['found']['value'],
): readonly Line[] {
  if (needle === '') return all.map(one => ({ kind: 'conversation', one }))
  const wanted = needle.toLowerCase()
  const named = all.filter(
    ({ session, user_id }) =>
      user_id.toLowerCase().includes(wanted) || session.toLowerCase().includes(wanted),
  )
  const lines: Line[] = []
  if (named.length > 0) lines.push({ kind: 'head', text: t('search.people', { count: named.length }) })
  for (const one of named) lines.push({ kind: 'conversation', one })
  if (!found || found.messages.length === 0) return lines
  const { total, totalIsLowerBound } = found
  if (found.q !== needle) {
    // Until the answer is there: what was found before and still fits.
    const fitting = found.messages.filter(({ text }) => contains(text, needle))
    return [...lines, ...fitting.map(message => ({ kind: 'hit' as const, message }))]
  }
  lines.push({
    kind: 'head',
    text: totalIsLowerBound
      ? t('search.many', { most: number(total) })
      : t('search.messages', { count: total }),
  })
  for (const message of found.messages) lines.push({ kind: 'hit', message })
  if (found.next !== undefined) lines.push({ kind: 'more' })
  return lines
}

const keyOf = (line: Line): string =>
  line.kind === 'conversation'
    ? `c ${line.one.session}/${line.one.user_id}`
    : line.kind === 'hit'
      ? `m ${line.message.id}`
      : line.kind === 'head'
        ? `h ${line.text}`
        : 'more'

interface LineViewProps {
  line: Line
  place: Place
  needle: string
  search: Search
  tabIndex: number
  isOpen: boolean
}

function LineView({ line, place, needle, search, tabIndex, isOpen }: LineViewProps) {
  if (line.kind === 'head') return <h2 class="list-section small soft">{line.text}</h2>
  if (line.kind === 'conversation')
    return <ConversationLine one={line.one} {...{ needle, tabIndex, isOpen, q: needle }} />
  if (line.kind === 'hit') return <Hit message={line.message} {...{ needle, tabIndex, place }} />
  return (
    <button
      type="button"
      class="button plain more"
      tabIndex={tabIndex}
      data-stop
      disabled={search.busy.value}
      onClick={() => search.more()}
    >
      {t('search.more')}
    </button>
  )
}

interface ConversationLineProps {
  one: Conversation
  q: string
  tabIndex: number
  isOpen: boolean
}

function ConversationLine({ one, q, tabIndex, isOpen }: ConversationLineProps) {
  const { session, user_id, last_message, unread } = one
  const several = (sessions.value?.length ?? 0) > 1
  const badge = <RightBadge right={rightOf(session, user_id)} />
  return (
    <Link
      class="conversation"
      href={hrefOf({ session, userId: user_id, q })}
      tabIndex={tabIndex}
      data-stop
      {...(isOpen && { 'aria-current': 'true' as const })}
    >
      <Avatar id={user_id} />
      <span class="two">
        <span class="upper">
          <Who id={user_id} />
          <time
            class="small soft"
            dateTime={new Date(last_message.timestamp).toISOString()}
            title={whole(last_message.timestamp)}
          >
            {short(last_message.timestamp)}
          </time>
        </span>
        <span class="lower">
          {last_message.status && <Delivery status={last_message.status} />}
          <span class={`cut foreign soft grow${unread > 0 ? ' strong' : ''}`} dir="auto">
            {preview(last_message)}
          </span>
          {!several && badge}
          {unread > 0 && (
            <span class="count">
              {unread > 99 ? '99+' : unread}
              <span class="visually-hidden"> {t('nav.unread')}</span>
            </span>
          )}
        </span>
        {several && (
          <span class="lower">
            <span class="session-tag cut">{session}</span>
            {badge}
          </span>
        )}
      </span>
    </Link>
  )
}

interface HitProps {
  message: Message
  needle: string
  place: Place
  tabIndex: number
}

function Hit({ message, needle, place, tabIndex }: HitProps) {
  const userId = peerOf(message)
  const { session, id } = message
  const isOpen = place.m === id
  return (
    <Link
      class="conversation hit"
      href={hrefOf({ session, userId, q: needle, m: id })}
      tabIndex={tabIndex}
      data-stop
      {...(isOpen && { 'aria-current': 'true' as const })}
    >
      <Avatar id={userId} small />
      <span class="two">
        <span class="upper">
          <Who id={userId} />
          <time
            class="small soft"
            dateTime={new Date(message.timestamp).toISOString()}
            title={whole(message.timestamp)}
          >
            {short(message.timestamp)}
          </time>
        </span>
        <span class="excerpt soft small foreign" dir="auto">
          {message.status && <Delivery status={message.status} size={12} />}
          <Marked text={around(message.text, needle)} needle={needle} />
        </span>
      </span>
    </Link>
  )
}

function Nobody() {
  const phone = status.value?.sandbox_phone
  const none = sessions.value?.length === 0
  return (
    <div class="empty">
      <Icon name="conversations" size={32} />
      <h2>{t('conversations.none')}</h2>
      <p>{t(none ? 'conversations.none_account' : 'conversations.none_about')}</p>
      {none ? (
        <Link class="button primary" href="/sessions">
          {t('conversations.add')}
        </Link>
      ) : (
        phone && (
          <a class="button" href={phone} target="_blank" rel="noopener noreferrer">
            <Icon name="phone" />
            {t('conversations.phone')}
          </a>
        )
      )}
    </div>
  )
}

const Skeleton = () => (
  <div class="skeleton" role="img" aria-label={t('status.loading')}>
    {Array.from({ length: 6 }, (_none, row) => (
      <span key={row} />
    ))}
  </div>
)

/** One stop of Tab for the whole list; inside it the arrows, Home and End go from row to row. */
function useArrows(
  lines: readonly Line[],
  list: ReturnType<typeof useVirtual>,
  scroller: { current: HTMLElement | null },
  open: number,
) {
  const [at, setAt] = useState(-1)
  const isStop = (index: number) => lines[index] !== undefined && lines[index].kind !== 'head'
  const first = lines.findIndex((_line, index) => isStop(index))
  const current = isStop(at) ? at : open >= 0 ? open : first
  const go = (from: number, step: number) => {
    let index = from
    while (lines[index] !== undefined && !isStop(index)) index += step
    if (!isStop(index)) return
    setAt(index)
    list.scrollToIndex(index, { align: 'auto' })
    // A row that was out of sight is drawn first.
    const focus = (tries: number) => {
      const row = scroller.current?.querySelector<HTMLElement>(`[data-index="${index}"] [data-stop]`)
      if (row) row.focus({ preventScroll: true })
      else if (tries > 0) requestAnimationFrame(() => focus(tries - 1))
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
    const row = (event.target as HTMLElement).closest<HTMLElement>('[data-index]')
    if (row) setAt(Number(row.dataset.index))
  }
  return { current, onKeyDown, onFocus }
}

/** `/` goes to the search from anywhere but where one writes. */
function useSlash(field: { current: HTMLInputElement | null }): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const at = event.target as HTMLElement
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return
      if (at.matches('input:not([type=range]), textarea, select, [contenteditable]')) return
      event.preventDefault()
      field.current?.focus()
      field.current?.select()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}
