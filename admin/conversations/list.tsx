/** The list of conversations, or the results of a search. */
import { useSignal } from '@preact/signals'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { conversations, online, sessions, status } from '../live.ts'
import { type Filter, hrefOf, type Place } from '../place.ts'
import { navigate, phonePath } from '../service-urls.ts'
import { accountOf } from '../sessions/names.ts'
import { NoAccount } from '../sessions/no-account.tsx'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { Filters } from './filters.tsx'
import { keyOf, linesOf } from './lines.ts'
import { useArrows } from './list-keyboard.ts'
import { LineView, MarkButton } from './list-line.tsx'
import { keyOfSearch, Search } from './search.ts'
import { useVirtual } from './virtual.ts'

const heights = { head: 40, conversation: 68, hit: 84, more: 56 } as const

export function List({ place }: { place: Place }) {
  const { q, filter } = place
  const { account: only = '', person = '' } = filter
  const search = useMemo(() => new Search(), [])
  const scroller = useRef<HTMLDivElement>(null)
  const field = useRef<HTMLInputElement>(null)
  const typed = useSignal(q)
  const everybody = conversations.value
  const all = useMemo(
    () =>
      everybody?.filter(
        ({ session, user_id }) => (only === '' || session === only) && (person === '' || user_id === person),
      ),
    [everybody, only, person],
  )
  const found = search.found.value

  const filtering = useSignal(Object.keys(filter).some(key => key !== 'account'))
  const needle = typed.value.trim()
  const key = keyOfSearch(needle, filter)

  const isOnline = online.value
  useEffect(() => search.ask(key), [key])
  useEffect(() => {
    if (isOnline && search.error.peek() !== undefined) search.ask(key)
  }, [isOnline])
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
  useLayoutEffect(() => {
    if ((history.state as { search?: unknown } | null)?.search === true) field.current?.focus()
  }, [place])

  const lines = useMemo(
    () => linesOf(all ?? [], needle, key, key === '' ? undefined : found),
    [all, needle, key, found],
  )
  const list = useVirtual({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: useCallback((index: number) => heights[lines[index]!.kind], [lines]),
    getItemKey: useCallback((index: number) => keyOf(lines[index]!), [lines]),
    overscan: 5,
    paddingEnd: 8,
  })
  const open = lines.findIndex(
    line =>
      line.kind === 'conversation' && line.one.session === place.session && line.one.user_id === place.userId,
  )
  const { current, onKeyDown, onFocus } = useArrows(lines, list, scroller, open)

  // This drops the account from the path, so that another one can be chosen.
  const narrow = (wanted: Filter) =>
    navigate(hrefOf({ ...place, q: needle, filter: wanted }), { replace: true })
  return (
    <div class="list-pane">
      <header class="list-head">
        <h1>{t('nav.conversations')}</h1>
        <search class="search-line">
          <div class="search">
            <Icon name="search" size={18} />
            <input
              ref={field}
              class="input"
              type="search"
              value={typed.value}
              placeholder={t('search.placeholder')}
              aria-label={t('search.label')}
              aria-keyshortcuts="/ Control+K"
              dir="auto"
              onInput={event => {
                typed.value = event.currentTarget.value
              }}
              onKeyDown={event => {
                if (event.key === 'Escape') typed.value = ''
                if (event.key === 'ArrowDown') onKeyDown(event)
                if (event.key === 'Enter' && !event.isComposing && needle !== '')
                  scroller.current?.querySelector<HTMLElement>('[data-stop]')?.click()
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
          </div>
          <button
            type="button"
            class={`button plain icon-only${Object.keys(filter).length > 0 ? ' on' : ''}`}
            aria-label={t('search.filters')}
            title={t('search.filters')}
            aria-expanded={filtering.value}
            onClick={() => {
              filtering.value = !filtering.value
            }}
          >
            <Icon name="filter" />
          </button>
          {filtering.value && <Filters filter={filter} onChange={narrow} />}
        </search>
        {only !== '' && !filtering.value && (
          <Link class="badge only" href={hrefOf({ q, filter: { ...filter, account: '' } })}>
            <span class="foreign cut">{only}</span>
            <span class="visually-hidden">{t('conversations.show_all')}</span>
            <Icon name="close" size={14} />
          </Link>
        )}
        <p class="visually-hidden" role="status">
          {key === '' || search.busy.value || !found ? '' : t('search.found', { count: found.total })}
        </p>
      </header>
      <div class="list" ref={scroller} aria-busy={search.busy.value}>
        {all === undefined ? (
          <Skeleton />
        ) : lines.length === 0 && key === '' && person === '' ? (
          <Nobody only={only} />
        ) : (
          // biome-ignore lint/a11y/useSemanticElements: the virtual list positions its rows
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
                      line={line}
                      place={place}
                      needle={needle}
                      search={search}
                      tabIndex={index === current ? 0 : -1}
                      isOpen={index === open}
                    />
                    {line.kind === 'conversation' && (
                      <MarkButton one={line.one} tabIndex={index === current ? 0 : -1} />
                    )}
                  </div>
                )
              )
            })}
          </div>
        )}
        {search.busy.value && found?.key !== key && (
          <p class="list-note list-wait">
            <span class="spinner" role="img" aria-label={t('status.loading')} />
          </p>
        )}
        {search.error.value !== undefined && (
          <p class="problem list-note">{errorText(search.error.value).title}</p>
        )}
        {key !== '' && found?.key === key && lines.length === 0 && (
          <p class="soft list-note">{t('search.nothing')}</p>
        )}
      </div>
    </div>
  )
}

function Nobody({ only }: { only: string }) {
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
          {t('login.add_title')}
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
