/** The list of conversations, or the results of a search. */
import { type Signal, useSignal } from '@preact/signals'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import type { Conversation } from '../api.ts'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { conversations, online, sessions, status, userOf } from '../live.ts'
import { hrefOf, type Place, type Show } from '../place.ts'
import { navigate, phonePath } from '../service-urls.ts'
import { accountOf } from '../sessions/names.ts'
import { NoAccount } from '../sessions/no-account.tsx'
import { waitsSince } from '../talks.ts'
import { now } from '../times.ts'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { keyOf, type Line, linesOf } from './lines.ts'
import { ListHead } from './list-head.tsx'
import { useArrows } from './list-keyboard.ts'
import { LineView, MarkButton } from './list-line.tsx'
import { tabs } from './list-tabs.tsx'
import { keyOfSearch, Search } from './search.ts'
import { useVirtual, type VirtualList } from './virtual.ts'

const heights = { head: 40, conversation: 68, hit: 60, more: 56 } as const

export function List({ place }: { place: Place }) {
  const { filter } = place
  const { account: only = '', person = '' } = filter
  const scroller = useRef<HTMLDivElement>(null)
  const typed = useTyped(place)
  const needle = typed.value.trim()
  const key = keyOfSearch(needle, filter)
  const search = useSearch(key)
  const found = search.found.value
  const all = useShown(place, key !== '')
  const lines = useMemo(
    () => linesOf(all ?? [], needle, key, key === '' ? undefined : found),
    [all, needle, key, found],
  )
  const list = useLines(lines, scroller)
  const open = lines.findIndex(line => isOpen(line, place, key !== ''))
  const keys = useArrows(lines, list, scroller, open)
  return (
    <div class="list-pane">
      <ListHead
        place={place}
        typed={typed}
        found={key === '' || search.busy.value || !found ? '' : t('search.found', { count: found.total })}
        onArrow={keys.onKeyDown}
        onEnter={() => scroller.current?.querySelector<HTMLElement>('[data-stop]')?.click()}
      />
      <div class="list" ref={scroller} aria-busy={search.busy.value}>
        {all === undefined ? (
          <Skeleton />
        ) : lines.length === 0 && key === '' && person === '' ? (
          <Nobody show={place.show} only={only} />
        ) : (
          <Rows
            list={list}
            lines={lines}
            place={place}
            needle={needle}
            search={search}
            open={open}
            keys={keys}
          />
        )}
        <SearchNotes search={search} wanted={key} isEmpty={lines.length === 0} place={place} />
      </div>
    </div>
  )
}

/** Since when a contact waits; the open one may have its answer, and is the last then. */
const waitOf = (one: Conversation): number =>
  waitsSince(one, userOf(one.session, one.user_id)) ?? Number.MAX_SAFE_INTEGER

/** The conversations of the tab, the account and the person. */
function useShown({ show, filter, session, userId }: Place, searches: boolean) {
  const { account: only = '', person = '' } = filter
  const everybody = conversations.value
  const { has } = tabs[searches ? 'all' : show]
  // Windows close by the clock, and with the state of an account.
  const clock = show === 'open' ? now.value : 0
  return useMemo(() => {
    const some = everybody?.filter(
      one =>
        (only === '' || one.session === only) &&
        (person === '' || one.user_id === person) &&
        // The open one stays: reading or answering it must not take it away.
        (has(one) || (one.session === session && one.user_id === userId)),
    )
    return show === 'waiting' ? some?.toSorted((one, other) => waitOf(one) - waitOf(other)) : some
  }, [everybody, only, person, has, session, userId, clock, sessions.value])
}

/** Whether a line is what the chat shows: its conversation, or among the hits its message. */
const isOpen = (line: Line, { session, userId, m }: Place, searches: boolean): boolean =>
  searches && m !== undefined
    ? line.kind === 'hit' && line.message.id === m
    : line.kind === 'conversation' && line.one.session === session && line.one.user_id === userId

/** The search as it is typed, which follows the URL and changes it. */
function useTyped(place: Place): Signal<string> {
  const { q } = place
  const typed = useSignal(q)
  // Layout effects. A passive effect runs only after the next drawing: the person may have typed more or left
  // by then.
  useLayoutEffect(() => {
    // Back and forward change the search.
    if (q !== typed.peek().trim()) typed.value = q
  }, [q])
  useLayoutEffect(() => {
    const wanted = typed.value.trim()
    if (wanted === q) return
    const timer = setTimeout(() => navigate(hrefOf({ ...place, q: wanted }), { replace: true }), 200)
    return () => clearTimeout(timer)
  }, [typed.value, place])
  return typed
}

/** The search for a key, which is asked again once the service is back. */
function useSearch(key: string): Search {
  const search = useMemo(() => new Search(), [])
  const isOnline = online.value
  useEffect(() => search.ask(key), [key])
  useEffect(() => {
    if (isOnline && search.error.peek() !== undefined) search.ask(key)
  }, [isOnline])
  return search
}

const useLines = (lines: readonly Line[], scroller: { current: HTMLElement | null }): VirtualList =>
  useVirtual({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: useCallback((index: number) => heights[lines[index]!.kind], [lines]),
    getItemKey: useCallback((index: number) => keyOf(lines[index]!), [lines]),
    overscan: 5,
    paddingEnd: 8,
  })

interface RowsProps {
  list: VirtualList
  lines: readonly Line[]
  place: Place
  needle: string
  search: Search
  /** The index of the open conversation; -1 for none. */
  open: number
  keys: ReturnType<typeof useArrows>
}

function Rows({ list, lines, place, needle, search, open, keys }: RowsProps) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: the virtual list positions its rows
    <div
      role="list"
      aria-label={t('nav.conversations')}
      class="list-rows"
      style={{ blockSize: `${list.getTotalSize()}px` }}
      onKeyDown={keys.onKeyDown}
      onFocusIn={keys.onFocus}
    >
      {list.getVirtualItems().map(({ key, index, start, size }) => {
        const line = lines[index]
        const tabIndex = index === keys.current ? 0 : -1
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
                line={line}
                place={place}
                needle={needle}
                search={search}
                tabIndex={tabIndex}
                isOpen={index === open}
              />
              {line.kind === 'conversation' && <MarkButton one={line.one} tabIndex={tabIndex} />}
            </div>
          )
        )
      })}
    </div>
  )
}

interface SearchNotesProps {
  search: Search
  /** The key of the search. */
  wanted: string
  isEmpty: boolean
  place: Place
}

/** What is below the lines: that the search goes on, failed, or found nothing. */
function SearchNotes({ search, wanted, isEmpty, place }: SearchNotesProps) {
  const isFound = search.found.value?.key === wanted
  return (
    <>
      {search.busy.value && !isFound && (
        <p class="list-note list-wait">
          <span class="spinner" role="img" aria-label={t('status.loading')} />
        </p>
      )}
      {search.error.value !== undefined && (
        <p class="problem list-note">{errorText(search.error.value).title}</p>
      )}
      {wanted !== '' && isFound && isEmpty && (
        <div class="empty">
          <Icon name="search" size={32} />
          <p>{t('search.nothing')}</p>
          {Object.keys(place.filter).length > 0 && (
            <Link class="button" href={hrefOf({ ...place, filter: {} })} replace>
              {t('search.clear_filters')}
            </Link>
          )}
        </div>
      )}
    </>
  )
}

function Nobody({ show, only }: { show: Show; only: string }) {
  if (show !== 'all') return <p class="soft list-note">{t(tabs[show].none)}</p>
  if (only !== '' && sessions.value?.length && !accountOf(only)) return <NoAccount name={only} />
  const hasPhone = status.value?.sandbox_phone !== undefined
  const none = sessions.value?.length === 0
  return (
    <div class="empty">
      <Icon name="conversations" size={32} />
      <h2>{t('conversations.none')}</h2>
      <p>{t(none ? 'conversations.none_account' : 'conversations.none_about')}</p>
      {none ? (
        <Link class="button primary" href="/sessions">
          {t('welcome.add')}
        </Link>
      ) : (
        hasPhone && (
          <a class="button" href={phonePath} target="_blank" rel="noopener noreferrer">
            <Icon name="phone" />
            {t('overview.sandbox_phone')}
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
