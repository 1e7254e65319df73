/**
 * The panel's API for its pages: one typed call for all operations, transfers of files, and errors to show.
 */

import type { Static } from '@sinclair/typebox'
import type { Message } from '../src/model/message.ts'
import type { NameProblem } from '../src/model/session.ts'
import type { exportMessages } from '../src/operations/export.ts'
import type { panelOperations } from '../src/operations/operations.ts'
import type { CallerInput } from '../src/operations/schema.ts'
import { base } from './service-urls.ts'
import { setServiceTime } from './times.ts'

type Operations = typeof panelOperations
type Operation = Operations[keyof Operations][number]
type OperationName = Operation['name']
type Named<N extends OperationName> = Extract<Operation, { name: N }>
/** The input and the answer of an operation. */
export type Input<N extends OperationName> = CallerInput<Named<N>['input']>
export type Answer<N extends OperationName> = Static<Named<N>['output']>

export type Status = Answer<'status'>
export type SessionWithUsers = Answer<'list_accounts'>['sessions'][number]
export type Login = Answer<'start_login'>
export type Conversation = Answer<'list_conversations'>[number]
export type MessageQuery = Input<'list_messages'>
export type Hour = Answer<'count_messages'>[number]
export type { Message, OutboxEntry } from '../src/model/message.ts'
export type { KnownUser, Session, SessionUser } from '../src/model/session.ts'

/** Details of an error, as data. */
export interface ProblemDetails {
  /** What WeChat said. */
  quote?: string
  /** The invalid arguments. */
  errors?: readonly { field: string }[]
  /** Why an account cannot have this name. */
  session_name?: NameProblem
  /** The limit that was reached. */
  most?: number
  /** The cause, if it was not WeChat: svc's own pace, or that there is no key yet. */
  why?: 'pace' | 'no_key'
  /** The time that a person may have meant. */
  meant?: string
  /** The right that the caller lacks. */
  right?: string
}

/** An error of the API, with code, message and hint of the error catalogue. */
export class ApiError extends Error {
  readonly code: string
  readonly hint: string
  readonly status: number
  readonly retryAfter: number | undefined
  readonly details: ProblemDetails

  constructor(
    status: number,
    problem: {
      code?: string
      detail?: string
      hint?: string
      retry_after?: number
      details?: ProblemDetails
    },
  ) {
    super(problem.detail ?? `HTTP ${status}`)
    this.status = status
    this.code = problem.code ?? 'internal'
    this.hint = problem.hint ?? ''
    this.retryAfter = problem.retry_after
    this.details = problem.details ?? {}
  }
}

/**
 * The secret of the sign-in, which goes with every call: the cookie alone also reaches other servers of this host. The storage
 * is of this origin alone, and of all its tabs.
 */
const secretKey = `svc.secret${base}`
const secretHeader = 'svc-panel'
const ownHeaders = (): Record<string, string> => {
  const secret = localStorage.getItem(secretKey)
  return secret === null ? {} : { [secretHeader]: secret }
}

/** Takes the secret from the address to which a link to sign in leads. */
export function takeSecret(): void {
  const [name, secret] = location.hash.slice(1).split('=')
  if (name !== secretHeader || !secret) return
  localStorage.setItem(secretKey, secret)
  history.replaceState(null, '', location.pathname + location.search)
}

/** Called when a call fails because nobody is signed in. */
export const onSignedOut: { call: () => void } = { call: () => {} }

/** Options of a call. `keepalive` lets it finish after the page is closed. */
type How = Pick<RequestInit, 'keepalive' | 'signal'>
type Init = How & Pick<RequestInit, 'method' | 'body'> & { headers?: Record<string, string> }

/** Calls an operation. @throws ApiError */
export function call<N extends OperationName>(name: N, input: Input<N>, how?: How): Promise<Answer<N>> {
  const answer = post<Answer<N>>(`call/${name}`, input, how)
  if (name === addKey) keyMade = answer
  return answer
}

/** From the first key on, calls need a sign-in. It comes with the answer to the call that makes the key. */
const addKey = 'add_key'
let keyMade: Promise<unknown> = Promise.resolve()

/** Exchanges the token for the cookie that the other calls need. @throws ApiError */
export const signIn = (token: string) => post('sign-in', { token })
export const signOut = async (): Promise<void> => {
  await post('sign-out', {})
  localStorage.removeItem(secretKey)
}

/** Returns a URL of the API that the browser may load within a minute, without the headers of this page. @throws ApiError */
export async function linkTo(url: string): Promise<string> {
  if (localStorage.getItem(secretKey) === null) return url
  const answer = await answerOf(`${base}/api/pass`, postOf({}))
  const link = new URL(url, location.href)
  const pass = answer.headers.get('svc-pass')
  if (pass !== null) link.searchParams.set('pass', pass)
  return link.href
}

/** Lets a click on a link to a file of the API load it. @param failed gets the error of one that cannot be loaded */
export function followFileLinks(failed: (error: unknown) => void): void {
  const follow = (event: MouseEvent) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (event.defaultPrevented || !link?.href.startsWith(new URL(`${base}/api/`, location.href).href)) return
    const isForNewTab = event.button === 1 || event.ctrlKey || event.metaKey || event.shiftKey
    // The menu of the browser, which a right click opens, has the link as it is.
    if (event.button > 1) return
    event.preventDefault()
    const { download, rel } = link
    const target = isForNewTab ? '_blank' : link.target
    linkTo(link.href).then(
      href => Object.assign(document.createElement('a'), { href, target, rel, download }).click(),
      failed,
    )
  }
  document.addEventListener('click', follow)
  document.addEventListener('auxclick', follow)
}

async function post<T>(path: string, input: object, how: How = {}): Promise<T> {
  const answer = await answerOf(`${base}/api/${path}`, { ...how, ...postOf(input) })
  return (await answer.json()) as T
}

const postOf = (input: object) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(input),
})

/** A call that exceeds the rate of the caller's key is repeated, if it may go within this time. */
const soonS = 1
const mostTries = 8

async function answerOf(url: string, init: Init = {}, tries = 1): Promise<Response> {
  let response: Response
  const own = ownHeaders()
  try {
    const headers = { ...init.headers, ...own }
    response = await fetch(url, { credentials: 'same-origin', ...init, headers })
  } catch (error) {
    if (init.signal?.aborted && init.signal.reason.name !== 'TimeoutError') throw error
    throw new ApiError(0, { code: 'unreachable', detail: '' })
  }
  setServiceTime(Date.parse(response.headers.get('date') ?? ''))
  const secret = response.headers.get(secretHeader)
  if (secret !== null) localStorage.setItem(secretKey, secret)
  if (response.ok) return response
  const problem = (await response.json().catch(() => ({}))) as { retry_after?: number }
  const { retry_after: waitS = Number.POSITIVE_INFINITY } = problem
  if (response.status === 429 && waitS <= soonS && tries < mostTries) {
    // Calls that were rejected together are not repeated together.
    await new Promise(resolve => setTimeout(resolve, waitS * 1000 * (1 + 4 * Math.random())))
    return answerOf(url, init, tries + 1)
  }
  if (response.status === 401) {
    if (!url.endsWith(addKey)) await keyMade.catch(() => {})
    if (ownHeaders()[secretHeader] !== own[secretHeader] && tries < mostTries)
      return answerOf(url, init, tries + 1)
    onSignedOut.call()
  }
  throw new ApiError(response.status, problem)
}

/** Downloads received or sent media. @throws ApiError */
export async function bytesOf(url: string, onProgress?: (bytes: number) => void): Promise<Blob> {
  const response = await answerOf(url)
  if (!onProgress || !response.body) return response.blob()
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let size = 0
  for (let reader = response.body.getReader(), next = await reader.read(); !next.done; ) {
    chunks.push(next.value)
    size += next.value.byteLength
    onProgress(size)
    next = await reader.read()
  }
  return new Blob(chunks, { type: response.headers.get('content-type') ?? '' })
}

/** Whether a stored message still waits to be sent. Its file is then with the service, not with WeChat. */
export const waits = ({ id, status }: Pick<Message, 'id' | 'status'>): boolean =>
  id > 0 && status === 'queued'

/** Returns the URL of media: a file at WeChat, or a file that still waits at the service. */
export const mediaUrl = (message: Pick<Message, 'id' | 'message_id' | 'status'>, item: number): string =>
  waits(message)
    ? waitingFileUrl(message.id)
    : `${base}/api/media/${encodeURIComponent(message.message_id)}/${item}`

/** Returns the URL of the file of a waiting message, by its row id. */
export const waitingFileUrl = (row: number): string => `${base}/api/waiting-files/${row}`

/** Returns the URL of an export, for the browser to download. */
export const exportUrl = (input: CallerInput<typeof exportMessages.input>): string => {
  const query = Object.entries(input).map(([key, value]) => [key, String(value)])
  return `${base}/api/export?${new URLSearchParams(query)}`
}

/**
 * Uploads a file for a later send. Uses XMLHttpRequest because fetch reports no upload progress.
 *
 * @param onProgress gets the uploaded share, 0 to 1
 */
export function upload(
  file: File,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<{ upload_id: string; size: number }> {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest()
    call.open('POST', `${base}/api/media?${new URLSearchParams({ file_name: file.name })}`)
    call.responseType = 'json'
    call.upload.onprogress = event => event.lengthComputable && onProgress(event.loaded / event.total)
    call.onload = () =>
      call.status < 300
        ? resolve(call.response)
        : reject(new ApiError(call.status, (call.response as object | null) ?? {}))
    call.onerror = () => reject(new ApiError(0, { code: 'unreachable', detail: '' }))
    call.onabort = () => reject(new DOMException('', 'AbortError'))
    signal.addEventListener('abort', () => call.abort(), { once: true })
    const headers = { ...ownHeaders(), 'content-type': 'application/octet-stream' }
    for (const [name, value] of Object.entries(headers)) call.setRequestHeader(name, value)
    call.send(file)
  })
}
