/** Receives the service's events and passes them to `live.ts`. */
import { ApiError, linkTo, type SessionWithUsers, type Status } from './api.ts'
import {
  askAgain,
  type News,
  newsOf,
  online,
  onUnheard,
  queueEvent,
  refresh,
  setAccounts,
  setStatus,
  signedOut,
  status,
  storeFails,
} from './live.ts'
import { may, me } from './rights.ts'
import { base } from './service-urls.ts'
import { markTalkRead, markTalkUnread, type ReadMark, type UnreadMark } from './talks.ts'
import { setServiceTime } from './times.ts'

/**
 * A browser opens six connections to a host, for all tabs together. With six panels open, the next one would
 * not even load. So a hidden tab closes its stream when another tab asks for a connection, and loads the
 * state every `lookMs`.
 */
const tabs = new BroadcastChannel(`svc.line${base}`)
const lookMs = 20_000
/** Less than the time after which the page shows that it is offline (`patienceMs` of app.tsx). */
const againMs = 1000

/** The stream of this tab. */
let source: EventSource | undefined
/** The wait for the URL of a stream; another value: it is not wanted any more. */
let opening: object | undefined
/** Set while this tab has given its connection away. */
let looking: ReturnType<typeof setInterval> | undefined
let again: ReturnType<typeof setTimeout> | undefined
/** Time to wait after the service rejected the stream. */
let rejectedMs = 3000

/** Opens the stream, also after a sign-in. It reconnects by itself. */
export function listenAgain(): void {
  // Catch up as after any other interruption.
  if (looking !== undefined) online.value = false
  lookNoMore()
  tabs.postMessage('line')
  leave()
  const own = {}
  opening = own
  linkTo(`${base}/api/events`).then(
    url => opening === own && listen(new EventSource(url)),
    error => {
      if (opening !== own) return
      failed(error)
      openLater()
    },
  )
}

const openLater = () =>
  setTimeout(() => signedOut.value || looking !== undefined || listenAgain(), rejectedMs)

function leave(): void {
  source?.close()
  source = undefined
  opening = undefined
}

function listen(stream: EventSource): void {
  source = stream
  takeEvents(stream)
  stream.onerror = () => {
    online.value = false
    // The browser reconnects after a broken connection, not after an HTTP error.
    const isClosed = source?.readyState === EventSource.CLOSED
    // Without a stream this answer may already be old. `hello` loads it again once there is one.
    if (isClosed || !status.value) {
      void refresh().then(() => {
        online.value = source?.readyState === EventSource.OPEN
        // A caller without this right gets no stream.
        if (isClosed && me.value && !may('history')) look()
      }, failed)
    }
    if (isClosed) openLater()
  }
}

function takeEvents(stream: EventSource): void {
  stream.addEventListener('hello', () => {
    // Load what happened before the stream was open.
    void refresh().catch(failed)
  })
  const on = <T>(name: string, newsOf: (data: T) => News, isWhole = false) =>
    stream.addEventListener(name, ({ data }) =>
      queueEvent(() => newsOf(JSON.parse(data) as T), isWhole ? name : undefined),
    )
  on('message', newsOf)
  on<ReadMark>('read', mark => ({ take: changed => markTalkRead(changed, mark) && askAgain() }))
  on<UnreadMark>('unread', mark => ({ take: changed => markTalkUnread(changed, mark) }))
  on<{ sessions: SessionWithUsers[] }>('sessions', all => ({ take: () => setAccounts(all.sessions) }), true)
  on<Status>('status', newStatus => ({ take: () => setStatus(newStatus) }), true)
  stream.addEventListener('names', () => void refresh().catch(failed))
  stream.addEventListener('time', event => setServiceTime((JSON.parse(event.data) as { now: number }).now))
}

function failed(error: unknown): void {
  if (error instanceof ApiError && error.status === 401) {
    leave()
    lookNoMore()
    return
  }
  storeFails.value = error instanceof ApiError && error.code === 'store_unavailable'
  online.value = false
  // While the stream is open, nothing else would load it again.
  clearTimeout(again)
  again = setTimeout(() => {
    if (source?.readyState === EventSource.OPEN) void refresh().catch(failed)
  }, againMs)
}

/** Loads the state at intervals, without a stream. */
function look(): void {
  online.value = true
  leave()
  looking ??= setInterval(() => void refresh().catch(failed), lookMs)
}

function lookNoMore(): void {
  clearInterval(looking)
  looking = undefined
}

/** Follows the service until the page is closed. */
export function follow(waitMs = rejectedMs): void {
  rejectedMs = waitMs
  onUnheard.call = failed
  tabs.onmessage = () => {
    if (document.visibilityState !== 'visible' && source) look()
  }
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible' && looking !== undefined) listenAgain()
  })
  if (!signedOut.value) listenAgain()
}
