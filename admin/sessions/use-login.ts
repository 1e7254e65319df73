/** Follows one QR login: starts it, watches it until it ends, cancels it when the page is left. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call, type Login } from '../api.ts'
import { applyAnswer, showAccounts } from '../live.ts'
import { keyOf } from './names.ts'

type Progress =
  /** The login is being looked up or started. */
  | { step: 'starting' }
  /** No login is under way; the person has to start one. */
  | { step: 'ready' }
  /** No login was started, because the account works. */
  | { step: 'connected' }
  | { step: 'following'; login: Login }
  | { step: 'failed'; error: unknown }

interface Following {
  progress: Progress
  /** Starts a login, or starts it again; with `force` even if the account works. */
  begin(force: boolean): void
  /** Sends the digits that the phone shows. */
  giveCode(code: string): Promise<void>
}

/** The longest time that the service may hold an answer, in seconds. */
const holdS = 25
const retryMs = 2000

/** Whether WeChat still waits for the person. Then there is a code to show. */
export const isOpen = (login: Login): boolean => login.qr_url !== undefined

/** @param atOnce whether to start without a press of a button */
export function useLogin(name: string, atOnce: boolean): Following {
  const [progress, setProgress] = useState<Progress>({ step: 'starting' })
  const [asked, setAsked] = useState<{ begin: boolean; force: boolean }>({ begin: atOnce, force: false })
  const latest = useRef<Login | undefined>(undefined)

  const show = useCallback((login: Login) => {
    const known = latest.current
    if (known && known.login_id === login.login_id && known.revision > login.revision) return
    latest.current = login
    setProgress({ step: 'following', login })
    if (login.status === 'confirmed') void refreshSessions()
  }, [])

  useEffect(() => {
    const left = new AbortController()
    latest.current = undefined
    setProgress({ step: 'starting' })
    void follow(name, asked, show, left.signal)
      .then(end => end && !left.signal.aborted && setProgress(end))
      .catch(error => !left.signal.aborted && setProgress({ step: 'failed', error }))
    const onHide = () => {
      const login = latest.current
      if (login && isOpen(login))
        void call('cancel_login', { login_id: login.login_id, left: true }, { keepalive: true }).catch(
          () => {},
        )
    }
    addEventListener('pagehide', onHide)
    return () => {
      removeEventListener('pagehide', onHide)
      left.abort()
      const login = latest.current
      if (login && isOpen(login)) void callOff(name, login).catch(() => {})
    }
  }, [name, asked, show])

  const begin = useCallback((force: boolean) => setAsked({ begin: true, force }), [])
  const giveCode = useCallback(
    async (code: string) => {
      const login = latest.current
      if (login) show(await call('give_login_code', { login_id: login.login_id, verify_code: code }))
    },
    [show],
  )
  return { progress, begin, giveCode }
}

/** The last call for each account. */
const calls = new Map<string, Promise<unknown>>()

/**
 * Runs the calls of an account one after the other. Starting a login joins one that is under way. So a cancel
 * must end before the next start, or it would cancel the login that the start joined.
 */
function callInOrder<T>(name: string, call: () => Promise<T>): Promise<T> {
  const result = (calls.get(keyOf(name)) ?? Promise.resolve()).then(call)
  const over = result.catch(() => {})
  calls.set(keyOf(name), over)
  return result
}

const callOff = (name: string, { login_id }: Login) =>
  callInOrder(name, () => call('cancel_login', { login_id }))

/**
 * @returns the login, with an empty id if the account works; undefined if `left` aborted before the answer
 */
export const beginLogin = (name: string, force: boolean, left: AbortSignal): Promise<Login | undefined> =>
  callInOrder(name, async () => {
    if (left.aborted) return undefined
    const login = await call('start_login', { name, force })
    if (!left.aborted) return login
    // The dialog was closed before the answer.
    if (login.login_id !== '') await call('cancel_login', { login_id: login.login_id })
    return undefined
  })

/** Shows the login until it ends. @returns the progress to show if there is no login */
async function follow(
  name: string,
  { begin, force }: { begin: boolean; force: boolean },
  show: (login: Login) => void,
  signal: AbortSignal,
): Promise<Progress | undefined> {
  let login: Login
  if (begin) {
    const begun = await beginLogin(name, force, signal)
    if (!begun) return undefined
    if (begun.login_id === '') return { step: 'connected' }
    login = begun
  } else {
    const account = (await refreshSessions()).find(one => keyOf(one.name) === keyOf(name))
    if (account?.status !== 'logging_in') return { step: account?.connected ? 'connected' : 'ready' }
    const found = await call('follow_login', { session: name })
    if (!isOpen(found)) return { step: 'ready' }
    login = found
  }
  while (!signal.aborted) {
    show(login)
    if (!isOpen(login)) return undefined
    try {
      const { login_id, revision } = login
      login = await call('follow_login', { login_id, seen: revision, timeout: holdS }, { signal })
    } catch (error) {
      if (signal.aborted) return undefined
      // Retry while the service is down. Any other error ends the login.
      if (!(error instanceof ApiError) || (error.status !== 0 && error.status < 500)) throw error
      await new Promise(resolve => setTimeout(resolve, retryMs))
    }
  }
  return undefined
}

/** Loads the accounts for the whole panel. */
export async function refreshSessions() {
  const { sessions: all } = await applyAnswer(call('list_accounts', {}), answer =>
    showAccounts(answer.sessions),
  )
  return all
}
