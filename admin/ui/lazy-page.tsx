/** Pages that are loaded when somebody opens them, and what stands in their place meanwhile. */
import { signal } from '@preact/signals'
import { type ComponentType, type FunctionComponent, h } from 'preact'
import { useEffect, useLayoutEffect } from 'preact/hooks'
import { t } from '../i18n.ts'

/** A page whose code did not come: of a version that is gone, or over a broken line. */
export class NotLoaded extends Error {}

interface LaterPage<P> extends FunctionComponent<P> {
  /** Loads it ahead of time. Never throws: a failure is the page's, when it is shown. */
  load(): Promise<void>
}

/**
 * @param load imports the page
 * @param onShown is told once the page stands there, also the next times
 * @param Meanwhile stands in its place until it has come
 */
export function later<P extends object>(
  load: () => Promise<ComponentType<P>>,
  onShown: () => void = () => {},
  Meanwhile: FunctionComponent = Skeleton,
): LaterPage<P> {
  const page = signal<ComponentType<P> | undefined>(undefined)
  const problem = signal<NotLoaded | undefined>(undefined)
  let loading: Promise<void> | undefined
  let isShown = false
  const begin = () => {
    problem.value = undefined
    loading ??= load().then(
      loaded => {
        page.value = loaded
      },
      cause => {
        loading = undefined
        // Ahead of time it is nobody's problem: the page tries again when it is shown.
        if (isShown) problem.value = new NotLoaded('', { cause })
      },
    )
    return loading
  }
  const Later = (props: P) => {
    useEffect(() => {
      isShown = true
      void begin()
      return () => {
        isShown = false
      }
    }, [])
    if (problem.value) throw problem.value
    return page.value ? <Shown page={page.value} given={props} onShown={onShown} /> : <Meanwhile />
  }
  return Object.assign(Later, { load: begin })
}

interface ShownProps<P> {
  page: ComponentType<P>
  given: P
  onShown(): void
}

function Shown<P extends object>({ page, given, onShown }: ShownProps<P>) {
  useLayoutEffect(onShown, [onShown])
  return h(page, given)
}

const Skeleton = () => (
  <div class="page" aria-busy="true">
    <p class="skeleton line" />
    <div class="skeleton block" />
    <p class="visually-hidden" role="status">
      {t('status.loading')}
    </p>
  </div>
)
