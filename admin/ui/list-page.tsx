/** A page with a list: its head, and what it shows while the list is loaded, if that fails, and if it is empty. */
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { errorText } from '../errors.ts'
import { t } from '../i18n.ts'
import { commandHere } from '../live.ts'
import { now } from '../times.ts'
import { Copyable } from './copy.tsx'
import { Icon, type IconName } from './icon.tsx'
import { set } from './set.ts'

interface HeadProps {
  title: string
  /** One short sentence. */
  about?: string | undefined
  /** The main action of the page. */
  action?: ComponentChildren
}

/** The same place and height on each page. */
export const PageHead = ({ title, about, action }: HeadProps) => (
  <header class="page-head">
    <div>
      <h1>{title}</h1>
      {about !== undefined && <p class="soft">{about}</p>}
    </div>
    {action}
  </header>
)

/** Adds an entry to a list: the main action of its page. */
export const AddButton = ({ text, onClick }: { text: string; onClick(): void }) => (
  <button type="button" class="button primary" onClick={onClick}>
    <Icon name="add" />
    {text}
  </button>
)

/** The main action at the head of the page. It gets the focus when the one of the empty list is gone. */
export const mainAction = () => document.querySelector<HTMLElement>('.page-head .button') ?? undefined

interface ListPageProps<T> extends HeadProps {
  class?: string
  /** Undefined until the list is loaded. */
  all: readonly T[] | undefined
  failure: unknown
  onRetry(): void
  /** Tabs and chips, which stay while the list is loaded. */
  filters?: ComponentChildren
  /** Shown if the list has no entry. It has the main action then. */
  empty: ComponentChildren
  children(all: readonly T[]): ComponentChildren
  /** Below all of it: dialogs, and the side sheet. */
  after?: ComponentChildren
}

export function ListPage<T>({
  all,
  failure,
  onRetry,
  filters,
  empty,
  children,
  after,
  ...head
}: ListPageProps<T>) {
  return (
    <div class={`page ${head.class ?? ''}`}>
      <PageHead {...head} action={all?.length === 0 ? undefined : head.action} />
      {filters && <div class="list-filters">{filters}</div>}
      {!all && (failure === undefined ? <LoadingRows /> : <Failure error={failure} onRetry={onRetry} />)}
      {all && (all.length === 0 ? empty : children(all))}
      {after}
    </div>
  )
}

/** Rows of the right height, so that nothing jumps when the others come. */
export const LoadingRows = ({ count = 6 }: { count?: number }) => (
  <div class="rows" aria-busy="true">
    {Array.from({ length: count }, (_, nth) => (
      <div key={nth} class="row">
        <span class="skeleton line" />
      </div>
    ))}
    <p class="visually-hidden" role="status">
      {t('status.loading')}
    </p>
  </div>
)

/** What happened, with a button to try again. */
export const Failure = ({ error, onRetry }: { error: unknown; onRetry(): void }) => (
  <div class="notice bad" role="alert">
    <Icon name="warn" />
    <p>{errorText(error).title}</p>
    <button type="button" class="button" onClick={onRetry}>
      {t('action.retry')}
    </button>
  </div>
)

interface NothingProps {
  icon?: IconName
  title: string
  /** What the list is for. */
  about: string
  /** One button. */
  action?: ComponentChildren
  /** A command of svc to paste. */
  command?: string
}

/** In place of a list without an entry. */
export const Nothing = ({ icon, title, about, action, command }: NothingProps) => (
  <div class="card empty">
    {icon && <Icon name={icon} size={32} />}
    <h2>{title}</h2>
    <p>{about}</p>
    {action}
    {command !== undefined && <Copyable text={commandHere(command)} what={t('overview.command')} />}
  </div>
)

/** In place of a list of which the filters leave nothing. */
export const NothingFound = () => <p class="rows none">{t('filter.none')}</p>

/**
 * Loads what changes by itself: now, twice a minute, and when the page becomes visible.
 *
 * @param wanted names the list: another one is loaded at once
 */
export function useLoading(load: () => Promise<void>, wanted = '') {
  const failure = useSignal<unknown>(undefined)
  const again = () =>
    load().then(set(failure, undefined), error => {
      failure.value = error
    })
  useEffect(() => void again(), [now.value, wanted])
  return { failure: failure.value, again }
}
