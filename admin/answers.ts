/** Answers of the service that stay up to date: requested again after messages, at a limited rate. */
import { computed, type ReadonlySignal, signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type Answer as AnswerOf, call, type OutboxEntry } from './api.ts'
import { online, onMessages } from './live.ts'
import { answering, may, seesQueue } from './rights.ts'
import { talkKey } from './talks.ts'

interface Answer<T> {
  /** The newest answer; undefined before the first. */
  readonly value: ReadonlySignal<T | undefined>
  readonly error: ReadonlySignal<unknown>
  again(): void
}

/** Some changes come without a message: an hour passes, a waiting send expires. */
const usuallyMs = 60_000

/**
 * Calls `ask` now, again after messages, and every `everyMs` while the page is visible.
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
  everyMs = usuallyMs,
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
  const soonIfSeen = () => {
    if (!document.hidden) soon()
  }
  const tick = setInterval(soonIfSeen, everyMs)
  document.addEventListener('visibilitychange', soonIfSeen)
  void load()
  return () => {
    over = true
    silence()
    clearInterval(tick)
    document.removeEventListener('visibilitychange', soonIfSeen)
    clearTimeout(timer)
  }
}

/**
 * @param ask must stay the same function
 * @param restMs least time between two calls
 */
export function useAnswer<T>(ask: () => Promise<T>, restMs: number, everyMs = usuallyMs): Answer<T> {
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
    const failed = (problem: unknown) => {
      error.value = problem
    }
    return followAnswer(ask, restMs, take, failed, everyMs)
  }, [ask, isOnline, wanted.value])
  return { value, error, again: () => void wanted.value++ }
}

export const askOutbox = (): Promise<readonly OutboxEntry[]> => call('list_outbox', {})
const outboxRequests = signal(0)

/** The sends that wait: for their user, or for approval. Undefined until they are loaded, or cannot be. */
export const outbox = signal<readonly OutboxEntry[] | undefined>(undefined)
/** The conversations with a send that waits for approval, by `talkKey`. */
export const drafted = computed(
  () =>
    new Set(
      outbox.value
        ?.filter(({ waits_for }) => waits_for === 'approval')
        .map(({ session, to_user }) => talkKey(session, to_user)),
    ),
)
/** Loads `outbox` again. */
export const askOutboxAgain = (): void => void outboxRequests.value++

/** The ids of sends that were decided about in this page, until the service lists them no more. */
export const decided = signal<ReadonlySet<string>>(new Set())

/** Whether the caller may see `outbox`. */
export const seesOutbox = (): boolean => seesQueue() || answering() !== undefined

/** Keeps `outbox` up to date, for a caller that may see it. */
export function useOutbox(): void {
  const follows = online.value && seesOutbox()
  useEffect(() => {
    if (!follows) return
    const take = (entries: readonly OutboxEntry[]) => {
      outbox.value = entries
    }
    const failed = () => {
      outbox.value ??= []
    }
    return followAnswer(askOutbox, 2000, take, failed)
  }, [follows, outboxRequests.value])
}

export type Question = AnswerOf<'list_agent_questions'>[number]

/** The open questions of agents. Undefined until they are loaded, or cannot be. */
export const questions = signal<readonly Question[] | undefined>(undefined)
/** How often they are loaded, in ms. The page of agents loads them more often. */
export const questionsEveryMs = signal(10_000)
const questionRequests = signal(0)
/** Loads `questions` again. */
export const askQuestionsAgain = (): void => void questionRequests.value++

/** Keeps `questions` up to date, for a caller that may see them. */
export function useQuestions(): void {
  const follows = online.value && may('agents')
  const everyMs = questionsEveryMs.value
  useEffect(() => {
    if (!follows) return
    const take = (open: readonly Question[]) => {
      questions.value = open
    }
    const failed = () => {
      questions.value ??= []
    }
    return followAnswer(() => call('list_agent_questions', {}), 2000, take, failed, everyMs)
  }, [follows, everyMs, questionRequests.value])
}
