/** Answers of the service that stay up to date: requested again after messages, at a limited rate. */
import { type ReadonlySignal, signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { call, type OutboxEntry } from './api.ts'
import { online, onMessages } from './live.ts'
import { answering, seesQueue } from './rights.ts'

interface Answer<T> {
  /** The newest answer; undefined before the first. */
  readonly value: ReadonlySignal<T | undefined>
  readonly error: ReadonlySignal<unknown>
  again(): void
}

/**
 * Calls `ask` now, and again after messages.
 *
 * @param restMs least time between two calls
 * @param take gets each answer that is newer than the ones before it
 * @returns ends it
 */
export function followAnswer<T>(
  ask: () => Promise<T>,
  restMs: number,
  take: (answer: T) => void,
  failed: (problem: unknown) => void,
): () => void {
  let over = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let askedAt = 0
  let newest = 0
  const load = async () => {
    timer = undefined
    askedAt = performance.now()
    const at = askedAt
    const answer = await ask().then(
      value => () => take(value),
      problem => () => failed(problem),
    )
    // Drop an answer that a later call has overtaken.
    if (over || at < newest) return
    newest = at
    answer()
  }
  const soon = () => {
    timer ??= setTimeout(load, Math.max(0, askedAt + restMs - performance.now()))
  }
  const silence = onMessages(soon)
  // Some changes come without a message: an hour passes, a waiting send expires.
  const tick = setInterval(soon, 60_000)
  void load()
  return () => {
    over = true
    silence()
    clearInterval(tick)
    clearTimeout(timer)
  }
}

/**
 * @param ask must stay the same function
 * @param restMs least time between two calls
 */
export function useAnswer<T>(ask: () => Promise<T>, restMs: number): Answer<T> {
  const value = useSignal<T | undefined>(undefined)
  const error = useSignal<unknown>(undefined)
  const wanted = useSignal(0)
  const isOnline = online.value
  useEffect(() => {
    if (!isOnline) return
    const take = (answer: T) => {
      value.value = answer
      error.value = undefined
    }
    return followAnswer(ask, restMs, take, problem => {
      error.value = problem
    })
  }, [ask, isOnline, wanted.value])
  return { value, error, again: () => void wanted.value++ }
}

export const askOutbox = (): Promise<readonly OutboxEntry[]> => call('list_outbox', {})
const outboxRequests = signal(0)

/** The sends that wait: for their user, or for approval. Undefined until they are loaded. */
export const outbox = signal<readonly OutboxEntry[] | undefined>(undefined)
/** Loads `outbox` again. */
export const askOutboxAgain = (): void => void outboxRequests.value++

/** Keeps `outbox` up to date, for a caller that may see it. */
export function useOutbox(): void {
  const follows = online.value && (seesQueue() || answering() !== undefined)
  useEffect(() => {
    if (!follows) return
    const take = (entries: readonly OutboxEntry[]) => {
      outbox.value = entries
    }
    return followAnswer(askOutbox, 2000, take, () => {})
  }, [follows, outboxRequests.value])
}
