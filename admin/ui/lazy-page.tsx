/** Pages that are loaded when they are opened, with a placeholder until then. */
import { signal } from '@preact/signals'
import { type ComponentType, type FunctionComponent, h } from 'preact'
import { useEffect, useLayoutEffect } from 'preact/hooks'
import { t } from '../i18n.ts'

/** The code of a page could not be loaded: the service has a newer version, or the connection failed. */
export class NotLoaded extends Error {}

export interface LaterPage<P> extends FunctionComponent<P> {
  /** Loads the page ahead of time. Never throws; a failure is reported when the page is shown. */
  load(): Promise<void>
}

/**
 * @param load imports the page
 * @param onShown called each time the page has been rendered after it was opened
 * @param Placeholder shown until the page is loaded
 */
export function later<P extends object>(
  load: () => Promise<ComponentType<P>>,
  onShown: () => void = () => {},
  Placeholder: FunctionComponent = Skeleton,
): LaterPage<P> {
  const page = signal<ComponentType<P> | undefined>(undefined)
  const problem = signal<NotLoaded | undefined>(undefined)
  let loading: Promise<void> | undefined
  let isMounted = false
  const begin = () => {
    problem.value = undefined
    loading ??= load().then(
      loaded => {
        page.value = loaded
      },
      cause => {
        loading = undefined
        // Loading ahead of time may fail: the page tries again when it is shown.
        if (isMounted) problem.value = new NotLoaded('', { cause })
      },
    )
    return loading
  }
  const Later = (props: P) => {
    useEffect(() => {
      isMounted = true
      void begin()
      return () => {
        isMounted = false
      }
    }, [])
    if (problem.value) throw problem.value
    return page.value ? <Loaded page={page.value} given={props} onShown={onShown} /> : <Placeholder />
  }
  return Object.assign(Later, { load: begin })
}

const Nothing = () => null

/** A part of a page that is loaded when it is needed. */
export const laterPart = <P extends object>(load: () => Promise<ComponentType<P>>): LaterPage<P> =>
  later(load, undefined, Nothing)

interface LoadedProps<P> {
  page: ComponentType<P>
  given: P
  onShown(): void
}

function Loaded<P extends object>({ page, given, onShown }: LoadedProps<P>) {
  useLayoutEffect(onShown, [onShown])
  return h(page, given)
}

export const Skeleton = () => (
  <div class="page" aria-busy="true">
    <p class="skeleton line" />
    <div class="skeleton block" />
    <p class="visually-hidden" role="status">
      {t('status.loading')}
    </p>
  </div>
)
