/** Answers of the service that follow what happens: asked anew after messages, though not after each. */
import { type ReadonlySignal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { api, type OutboxEntry } from '../api.ts'
import { online, onMessage } from '../live.ts'
import { set } from '../ui/set.ts'

interface Answer<T> {
  /** The newest; undefined before the first. */
  readonly value: ReadonlySignal<T | undefined>
  readonly error: ReadonlySignal<unknown>
  again(): void
}

export const askOutbox = (): Promise<readonly OutboxEntry[]> => api.outbox()

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
    let over = false
    let timer: ReturnType<typeof setTimeout> | undefined
    let askedAt = 0
    let newest = 0
    const load = async () => {
      timer = undefined
      askedAt = performance.now()
      const at = askedAt
      const answer = await ask().then(
        answer => () => {
          value.value = answer
          error.value = undefined
        },
        problem => set(error, problem),
      )
      // One that was overtaken by a later one is older than what is there.
      if (over || at < newest) return
      newest = at
      answer()
    }
    const soon = () => {
      timer ??= setTimeout(load, Math.max(0, askedAt + restMs - performance.now()))
    }
    const silence = onMessage(soon)
    // Hours pass, and what waits lapses, without a message.
    const tick = setInterval(soon, 60_000)
    void load()
    return () => {
      over = true
      silence()
      clearInterval(tick)
      clearTimeout(timer)
    }
  }, [ask, isOnline, wanted.value])
  return { value, error, again: () => void wanted.value++ }
}
