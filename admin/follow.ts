/** Listens to the service: the events that `live.ts` takes in. */
import { ApiError, type SessionWithUsers, type Status } from './api.ts'
import {
  askAgain,
  happened,
  type News,
  newsOf,
  online,
  onUnheard,
  refresh,
  setAccounts,
  setStatus,
  signedOut,
  status,
} from './live.ts'
import { base } from './service-urls.ts'
import { markTalkRead, markTalkUnread, type ReadMark, type UnreadMark } from './talks.ts'
import { heardTime } from './times.ts'

/**
 * A browser keeps six lines to a host, for all its tabs together: with as many panels open the next one would not even
 * load. So a tab that nobody sees gives its line away when another one asks, and looks now and then instead.
 */
const tabs = new BroadcastChannel(`svc.line${base}`)
const lookMs = 20_000
/** Before a silence is told (`patienceMs` of app.tsx). */
const againMs = 1000

/**
 * Follows the service until the page goes; asks again by itself when it falls silent.
 *
 * @param refusedMs how long after a refusal
 */
export function follow(refusedMs = 3000): void {
  let source: EventSource | undefined
  /** Of a tab that gave its line away. */
  let looking: ReturnType<typeof setInterval> | undefined
  let again: ReturnType<typeof setTimeout> | undefined
  const open = () => {
    // What was missed meanwhile is caught up with as after any other silence.
    if (looking !== undefined) online.value = false
    clearInterval(looking)
    looking = undefined
    tabs.postMessage('line')
    source?.close()
    source = new EventSource(`${base}/api/events`)
    source.addEventListener('hello', () => {
      // What happened while nobody listened.
      void refresh().catch(failed)
    })
    const on = <T>(name: string, newsOf: (told: T) => News, isWhole = false) =>
      source!.addEventListener(name, ({ data }) =>
        happened(() => newsOf(JSON.parse(data) as T), isWhole ? name : undefined),
      )
    on('message', newsOf)
    on<ReadMark>('read', mark => ({ take: changed => markTalkRead(changed, mark) && askAgain() }))
    on<UnreadMark>('unread', mark => ({ take: changed => markTalkUnread(changed, mark) }))
    on<{ sessions: SessionWithUsers[] }>(
      'sessions',
      told => ({ take: () => setAccounts(told.sessions) }),
      true,
    )
    on<Status>('status', told => ({ take: () => setStatus(told) }), true)
    source.addEventListener('names', () => void refresh().catch(failed))
    source.addEventListener('time', event => heardTime((JSON.parse(event.data) as { now: number }).now))
    source.onerror = () => {
      online.value = false
      // The browser tries again after a broken connection, not after a refusal.
      const isRefused = source?.readyState === EventSource.CLOSED
      // Until there is a stream, this is how it was when it was asked for: what comes then is caught up with after it.
      if (isRefused || !status.value) {
        void refresh().then(() => {
          online.value = source?.readyState === EventSource.OPEN
        }, failed)
      }
      if (isRefused) {
        setTimeout(() => signedOut.value || looking !== undefined || open(), refusedMs)
      }
    }
  }
  const failed = (error: unknown) => {
    if (error instanceof ApiError && error.status === 401) {
      source?.close()
      source = undefined
      clearInterval(looking)
      looking = undefined
      return
    }
    online.value = false
    // While the stream goes on, nothing else would ask again.
    clearTimeout(again)
    again = setTimeout(() => {
      if (source?.readyState === EventSource.OPEN) void refresh().catch(failed)
    }, againMs)
  }
  onUnheard.call = failed
  tabs.onmessage = () => {
    if (document.visibilityState === 'visible' || !source) return
    source.close()
    source = undefined
    looking = setInterval(() => void refresh().catch(failed), lookMs)
  }
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible' && looking !== undefined) open()
  })
  reopen = open
  if (!signedOut.value) open()
}

/** Opens the stream again after a sign-in. Set by `follow`. */
let reopen = () => {}
export const listenAgain = (): void => reopen()
