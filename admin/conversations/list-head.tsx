/** The head of the list: the search field and its filters. */
import { type Signal, useSignal } from '@preact/signals'
import type { TargetedKeyboardEvent } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { t } from '../i18n.ts'
import { type Filter, hrefOf, type Place } from '../place.ts'
import { navigate } from '../service-urls.ts'
import { Icon, IconButton } from '../ui/icon.tsx'
import { set } from '../ui/set.ts'
import { Filters } from './filters.tsx'
import { Accounts, ListTabs } from './list-tabs.tsx'

interface ListHeadProps {
  place: Place
  /** The search as it is typed. It goes into the URL after a short pause. */
  typed: Signal<string>
  /** How much was found, for screen readers. */
  found: string
  /** Keys that act on the list. */
  onArrow(event: KeyboardEvent): void
  /** Opens the first line of the list. */
  onEnter(): void
}

export function ListHead({ place, typed, found, onArrow, onEnter }: ListHeadProps) {
  const { filter } = place
  const isNarrowed = typed.value !== '' || Object.keys(filter).some(key => key !== 'account')
  /** Whether the person wants to see the filters; undefined: while there is a search. */
  const wished = useSignal<boolean | undefined>(undefined)
  useLayoutEffect(() => {
    wished.value = undefined
  }, [isNarrowed])
  /** A search is in all conversations. Each tab leads out of it. */
  const searched: Place = {
    ...place,
    show: 'all',
    q: '',
    filter: filter.account ? { account: filter.account } : {},
  }
  const filtering = wished.value ?? isNarrowed
  // This drops the account from the path, so that another one can be chosen.
  const narrow = (wanted: Filter) =>
    navigate(hrefOf({ ...place, q: typed.value.trim(), filter: wanted }), { replace: true })
  return (
    <header class="list-head">
      <h1>{t('nav.conversations')}</h1>
      <search class="search-line">
        <SearchField place={place} typed={typed} onArrow={onArrow} onEnter={onEnter} />
        <IconButton
          icon="filter"
          class={`button plain icon-only${Object.keys(filter).length > 0 ? ' on' : ''}`}
          label={t('search.filters')}
          aria-expanded={filtering}
          onClick={set(wished, !filtering)}
        />
        {filtering && <Filters filter={filter} onChange={narrow} />}
      </search>
      <ListTabs place={isNarrowed ? searched : place} />
      {!filtering && (
        <ul class="list-chips" aria-label={t('search.account')}>
          <Accounts place={place} />
        </ul>
      )}
      <p class="visually-hidden" role="status">
        {found}
      </p>
    </header>
  )
}

function SearchField({ place, typed, onArrow, onEnter }: Omit<ListHeadProps, 'found'>) {
  const field = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => {
    if ((history.state as { search?: unknown } | null)?.search === true) field.current?.focus()
  }, [place])
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'Escape') typed.value = ''
    if (event.key === 'ArrowDown') onArrow(event)
    if (event.key === 'Enter' && !event.isComposing && typed.value.trim() !== '') onEnter()
  }
  const clear = () => {
    typed.value = ''
    field.current?.focus()
  }
  return (
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
        onKeyDown={onKeyDown}
      />
      {typed.value === '' ? (
        <span class="key" aria-hidden="true">
          /
        </span>
      ) : (
        <IconButton icon="close" size={16} label={t('search.clear')} onClick={clear} />
      )}
    </div>
  )
}
