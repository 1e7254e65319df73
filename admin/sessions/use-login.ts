/** One QR login as a page follows it: begun, watched until it ends, called off when the page leaves it. */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, call, type Login } from '../api.ts'
import { accountsAre, answered } from '../live.ts'
import { keyOf } from './names.ts'

export type Progress =
  /** Being looked up or begun. */
  | { step: 'starting' }
  /** Nothing is under way; somebody has to say so first. */
  | { step: 'ready' }
  /** Nothing was begun: the account works. */
  | { step: 'connected' }
  | { step: 'following'; login: Login }
  | { step: 'failed'; error: unknown }

interface Following {
  progress: Progress
  /** Begins, or begins again; `force`: although the account works. */
  begin(force: boolean): void
  /** Gives the digits that the phone shows. */
  giveCode(code: string): Promise<void>
}

/** Seconds the service may hold an answer. */
const holdS = 25
const retryMs = 2000

/** Whether upstream still waits for the person: then there is a code to show. */
export const isOpen = (login: Login): boolean => login.qr_url !== undefined

/** @param atOnce begin without being told to */
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

/** The last call for each name. */
const calls = new Map<string, Promise<unknown>>()

/**
 * What is begun again joins what is under way: before that, whatever was left is called off, or the call would end what
 * was begun after it.
 */
function inTurn<T>(name: string, call: () => Promise<T>): Promise<T> {
  const turn = (calls.get(keyOf(name)) ?? Promise.resolve()).then(call)
  const over = turn.catch(() => {})
  calls.set(keyOf(name), over)
  return turn
}

const callOff = (name: string, { login_id }: Login) => inTurn(name, () => call('cancel_login', { login_id }))

/** @returns the login, without an id where the account works; undefined where `left` came before the answer */
export const beginLogin = (name: string, force: boolean, left: AbortSignal): Promise<Login | undefined> =>
  inTurn(name, async () => {
    if (left.aborted) return undefined
    const login = await call('start_login', { name, force })
    if (!left.aborted) return login
    // Closed before there was anything to see.
    if (login.login_id !== '') await call('cancel_login', { login_id: login.login_id })
    return undefined
  })

/** Shows the login until it ends. @returns what to show instead, when there is none */
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
      // A service that is down for a moment does not end a login; one that forgot it does.
      if (!(error instanceof ApiError) || (error.status !== 0 && error.status < 500)) throw error
      await new Promise(resolve => setTimeout(resolve, retryMs))
    }
  }
  return undefined
}

/** The accounts as they are now, for the whole panel. */
export async function refreshSessions() {
  const { sessions: all } = await answered(call('list_accounts', {}), answer => accountsAre(answer.sessions))
  return all
}
