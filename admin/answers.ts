/** Answers of the service that follow what happens: asked anew after messages, though not after each. */
import { type ReadonlySignal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { call, type OutboxEntry } from './api.ts'
import { online, onMessages } from './live.ts'

interface Answer<T> {
  /** The newest; undefined before the first. */
  readonly value: ReadonlySignal<T | undefined>
  readonly error: ReadonlySignal<unknown>
  again(): void
}

export const askOutbox = (): Promise<readonly OutboxEntry[]> => call('list_outbox', {})

/**
 * Asks now, and anew after messages.
 *
 * @param restMs least time between two asks
 * @param take is given each answer that is newer than those before it
 * @returns how to end it
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
    // One that was overtaken by a later one is older than what is there.
    if (over || at < newest) return
    newest = at
    answer()
  }
  const soon = () => {
    timer ??= setTimeout(load, Math.max(0, askedAt + restMs - performance.now()))
  }
  const silence = onMessages(soon)
  // Hours pass, and what waits lapses, without a message.
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
 * @param restMs least time between two asks
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
