/** The panel's API as the pages call it: types, one fetch, errors that can be shown. */

import type { Hour } from '../src/model/conversation.ts'
import type { Message, OutboxEntry, SendResult } from '../src/model/message.ts'
import type {
  KnownUser,
  NamedUser,
  NameProblem,
  Session,
  SessionCheck,
  SessionUser,
  SessionWithUsers,
} from '../src/model/session.ts'
import type {
  ConversationLine as Conversation,
  Login,
  Messages,
  SendBody,
  Status,
} from '../src/server/admin/bodies.ts'
import { base } from './service-urls.ts'
import { heardTime } from './times.ts'

export type {
  Conversation,
  Hour,
  KnownUser,
  Login,
  Message,
  OutboxEntry,
  SendResult,
  Session,
  SessionUser,
  SessionWithUsers,
  Status,
}

export interface MessageQuery {
  session?: string
  user_id?: string
  text_contains?: string
  msg_type?: string
  direction?: string
  since?: number
  until?: number
  before?: number
  limit?: number
}

/** What is known of a problem besides, as data. */
export interface ProblemDetails {
  /** What WeChat said. */
  quote?: string
  /** The arguments that are wrong. */
  errors?: readonly { field: string }[]
  /** Why a name cannot be that of an account. */
  session_name?: NameProblem
  /** How many there may be at most. */
  most?: number
  /** What refused it, where it was not WeChat. */
  why?: 'pace'
}

/** What the API refused, in the words of the catalogue. */
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

/** Called when a call is refused for want of a sign-in. */
export const onSignedOut: { call: () => void } = { call: () => {} }

/** One call. @throws ApiError */
export const request = async <T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> => (await (await answerOf(method, base + path, body, signal)).json()) as T

async function answerOf(
  method: string,
  url: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  let response: Response
  try {
    response = await fetch(url, {
      method,
      credentials: 'same-origin',
      ...(signal && { signal }),
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    })
  } catch (error) {
    if (signal?.aborted && signal.reason.name !== 'TimeoutError') throw error
    throw new ApiError(0, { code: 'unreachable', detail: '' })
  }
  heardTime(Date.parse(response.headers.get('date') ?? ''))
  if (response.ok) return response
  const problem = (await response.json().catch(() => ({}))) as object
  if (response.status === 401) onSignedOut.call()
  throw new ApiError(response.status, problem)
}

export const part = encodeURIComponent

const query = (values: object): string => {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  return given.length === 0
    ? ''
    : `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`
}

/** Every call of the panel. Each throws `ApiError`. */
export const api = {
  status: (signal?: AbortSignal) => request<Status>('GET', '/api/status', undefined, signal),
  sessions: (signal?: AbortSignal) =>
    request<{ sessions: SessionWithUsers[] }>('GET', '/api/sessions', undefined, signal),
  login: (name: string, force: boolean) => request<Login>('POST', '/api/sessions/login', { name, force }),
  /** The newest login of a session, as it is. */
  loginOf: (session: string) => request<Login>('GET', `/api/sessions/login/status${query({ session })}`),
  /** Answers when there is something newer than what was seen, or after `timeout` seconds. */
  loginStatus: (loginId: string, seen: number, timeout: number, signal: AbortSignal) =>
    request<Login>(
      'GET',
      `/api/sessions/login/status${query({ login_id: loginId, seen, timeout })}`,
      undefined,
      signal,
    ),
  loginCode: (loginId: string, verifyCode: string) =>
    request<Login>('POST', '/api/sessions/login/code', { login_id: loginId, verify_code: verifyCode }),
  cancelLogin: (loginId: string) =>
    request<{ success: boolean }>('POST', '/api/sessions/login/cancel', { login_id: loginId }),
  /** While the page goes: the answer is of no interest. */
  leaveLogin: (loginId: string): void =>
    void fetch(`${base}/api/sessions/login/cancel`, {
      ...{ method: 'POST', keepalive: true, headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({ login_id: loginId, left: true }),
    }).catch(() => {}),
  check: (name: string) => request<SessionCheck>('POST', `/api/sessions/${part(name)}/check`, {}),
  logout: (name: string) => request<{ success: boolean }>('POST', `/api/sessions/${part(name)}/logout`, {}),
  rename: (name: string, newName: string) =>
    request<{ success: boolean; name: string }>('POST', `/api/sessions/${part(name)}/rename`, {
      new_name: newName,
    }),
  setDefault: (name: string) =>
    request<{ success: boolean }>('POST', `/api/sessions/${part(name)}/default`, {}),
  conversations: (signal?: AbortSignal) =>
    request<{ conversations: Conversation[] }>('GET', '/api/conversations', undefined, signal),
  markUnread: (session: string, userId: string) =>
    request<{ success: boolean }>('POST', '/api/conversations/unread', { session, user_id: userId }),
  markRead: (session: string, userId: string, upTo: number) =>
    request<{ success: boolean }>('POST', '/api/conversations/read', {
      session,
      user_id: userId,
      up_to: upTo,
    }),
  messages: (filter: MessageQuery, signal?: AbortSignal) =>
    request<Messages>('GET', `/api/messages${query(filter)}`, undefined, signal),
  send: (message: SendBody) => request<SendResult>('POST', '/api/messages', message),
  /** An empty name takes it away. */
  nameUser: (session: string, userId: string, name: string) =>
    request<NamedUser>('PUT', `/api/users/${part(userId)}/name`, { session, name }),
  outbox: () => request<OutboxEntry[]>('GET', '/api/outbox'),
  /** A person's yes. */
  approve: (id: string) => request<OutboxEntry>('POST', `/api/outbox/${part(id)}/approve`),
  cancelQueued: (id: string) => request<{ success: boolean }>('DELETE', `/api/outbox/${part(id)}`),
  stats: (hours: number) => request<{ hours: Hour[] }>('GET', `/api/stats${query({ hours })}`),
  signIn: (token: string) => request<{ success: boolean }>('POST', '/api/sign-in', { token }),
  /** The bytes of received or sent media. */
  media: async (url: string, onProgress?: (bytes: number) => void): Promise<Blob> => {
    const response = await answerOf('GET', url)
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
  },
  signOut: () => request<{ success: boolean }>('POST', '/api/sign-out', {}),
}

/** Whether a stored message waits: its file is with it then, and WeChat has none. */
export const waits = ({ id, status }: Pick<Message, 'id' | 'status'>): boolean =>
  id > 0 && status === 'queued'

/** Where the bytes of media are: with WeChat, or still here with what waits. */
export const mediaUrl = (message: Pick<Message, 'id' | 'message_id' | 'status'>, item: number): string =>
  waits(message) ? waitingFileUrl(message.id) : `${base}/api/media/${part(message.message_id)}/${item}`

/** The file of a message that waits, by its row. */
export const waitingFileUrl = (row: number): string => `${base}/api/waiting-files/${row}`

/**
 * Uploads a file for a later send. XMLHttpRequest, since fetch tells no progress of what it sends.
 *
 * @param onProgress share that is up, 0 to 1
 */
export function upload(
  file: File,
  onProgress: (share: number) => void,
  signal: AbortSignal,
): Promise<{ upload_id: string; size: number }> {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest()
    call.open('POST', `${base}/api/media${query({ file_name: file.name })}`)
    call.responseType = 'json'
    call.upload.onprogress = event => event.lengthComputable && onProgress(event.loaded / event.total)
    call.onload = () =>
      call.status < 300
        ? resolve(call.response)
        : reject(new ApiError(call.status, (call.response as object | null) ?? {}))
    call.onerror = () => reject(new ApiError(0, { code: 'unreachable', detail: '' }))
    call.onabort = () => reject(new DOMException('', 'AbortError'))
    signal.addEventListener('abort', () => call.abort(), { once: true })
    call.setRequestHeader('content-type', 'application/octet-stream')
    call.send(file)
  })
}
