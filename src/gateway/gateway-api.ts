/**
 * The gateway's public face: the verbs that tools and doors call. The parts behind it are the gateway's own business.
 *
 * Everything here throws `SvcError` from the closed catalogue for what a caller can cause or act on.
 */

import type { NameRequest, UserFilter } from '../accounts/users.ts'
import type { DownloadRequest, OpenedMedia } from '../media/downloads.ts'
import type { GivenUpload } from '../media/uploads.ts'
import type { Call } from '../model/call.ts'
import type { Conversation, Hour } from '../model/conversation.ts'
import type { AcceptedUpload, Downloaded } from '../model/media.ts'
import type { Message, OutboxEntry, RecvRequest, SendResult, WaitingRequest } from '../model/message.ts'
import type {
  KnownUser,
  LoginFlow,
  LoginRequest,
  LoginStatus,
  Session,
  SessionCheck,
  SessionUser,
  SessionWithUsers,
  SilentSession,
} from '../model/session.ts'
import type { Cancelled } from '../send/outbox.ts'
import type { SendRequest } from '../send/plan.ts'
import type { HistoryFilter } from '../store/store.ts'

export type { NameRequest, UserFilter } from '../accounts/users.ts'
export type { DownloadRequest, OpenedMedia } from '../media/downloads.ts'
export type { GivenUpload } from '../media/uploads.ts'
export type { AcceptedUpload, Downloaded } from '../model/media.ts'
export type { RecvRequest, WaitingRequest } from '../model/message.ts'
export type { LoginFlow, LoginRequest } from '../model/session.ts'
export type { Cancelled } from '../send/outbox.ts'
export type { SendRequest } from '../send/plan.ts'

/** What to search by, in the store's own words. */
export type HistoryRequest = HistoryFilter

export interface HistoryPage {
  messages: Message[]
  total: number
  total_is_lower_bound: boolean
  limit: number
  offset: number
  /** Row id to pass as `before` for the next page; absent on the last one. */
  next_before?: number
}

export interface Health {
  status: 'ok' | 'degraded'
  version: string
  role: 'poller' | 'watcher'
  /** Of a watcher: the process that polls keeps its lock and shows no life. */
  stalled: boolean
  sessions: number
  connected: number
  /** Those whose polls fail; absent where there is none. */
  failing?: number
  store: 'ok' | 'unavailable'
  /** low: less is free than is kept for messages; uploads and downloads are refused, messages still stored. */
  disk: 'ok' | 'low'
  /** Of a store that is unavailable: what is wrong and what to do; names no paths. */
  trouble?: { message: string; hint: string }
}

export interface Gateway {
  readonly inbox: {
    recv(request: RecvRequest, call: Call): Promise<Message[]>
    /** How many messages wait for such a request, counted up to `most`. */
    waiting(request: WaitingRequest, most: number): Promise<number>
  }
  readonly sender: { send(request: SendRequest, call: Call): Promise<SendResult> }
  readonly outbox: {
    /** What waits until its user writes, oldest first. */
    list(filter?: { user_id?: string; session?: string }): Promise<OutboxEntry[]>
    /** One, also after it left, until a week after the call. */
    get(outboxId: string): Promise<OutboxEntry>
    cancel(outboxId: string): Promise<Cancelled>
  }
  readonly media: {
    download(request: DownloadRequest, call: Call): Promise<Downloaded>
    /** Streams the decrypted bytes without keeping a file. */
    open(request: { message_id: string; item: number }, signal: AbortSignal): Promise<OpenedMedia>
    /** Takes an upload for a later send, streamed to disk and kept for 24 h. */
    accept(upload: GivenUpload, signal: AbortSignal): Promise<AcceptedUpload>
  }
  readonly history: {
    /** A search that takes long ends with its signal, by throwing what that bears. `hasRoom` as of a call. */
    page(
      request: HistoryRequest,
      signal?: AbortSignal,
      hasRoom?: (message: Message) => boolean,
    ): Promise<HistoryPage>
  }
  readonly accounts: {
    list(): Promise<Session[]>
    /** Those that bring no messages, or may bring none, of the one named or of all. */
    silent(only?: string): Promise<SilentSession[]>
    /** Who has written to a session, who wrote last first; '' is the default session. */
    users(name: string): Promise<SessionUser[]>
    /** Asks WeChat whether a session works, in some seconds; '' is the default session. */
    check(name: string): Promise<SessionCheck>
    /** '' is the default session. */
    logout(name: string): Promise<{ success: true; session: string }>
    rename(oldName: string, newName: string): Promise<{ success: true; old_name: string; new_name: string }>
    setDefault(name: string): Promise<{ success: true; default_session: string }>
  }
  readonly users: {
    /** Everybody who has written, who wrote last first; of one session, or one of them alone, if asked. */
    list(filter?: UserFilter): Promise<KnownUser[]>
    /** What people call a user from now on. Never for agents: whoever talks to them could have a stranger named. */
    name(request: NameRequest): Promise<KnownUser>
  }
  readonly logins: { login(request: LoginRequest, signal: AbortSignal): Promise<LoginStatus> }
  health(): Promise<Health>
}

/**
 * Why a message is told of: it was received, it is being sent or waits for it, the status of a sent one is another, or
 * it is an old one that was brought over from another program.
 */
export type MessageNews = 'received' | 'sent' | 'settled' | 'past'

export interface ChangeListener {
  /** Each message that is stored from now on, and again a sent one whose status changes. */
  message?(message: Message, news: MessageNews): void
  /** All sessions as they are and as they were, when anything but the time of a poll is another; that every 15 s. */
  sessions?(now: readonly SessionWithUsers[], before: readonly SessionWithUsers[]): void
}

/** Which conversations; all without it. */
export interface ConversationFilter {
  session?: string
  user_id?: string
  limit?: number
}

/** What people look at: the panel's part of the face. */
export interface PanelGateway extends Gateway {
  readonly accounts: Gateway['accounts'] & {
    /** Every session with its users. */
    withUsers(): Promise<SessionWithUsers[]>
  }
  readonly logins: Gateway['logins'] & {
    /** Starts a login, or joins the one of that session; `login_id` is '' when the session is connected already. */
    begin(name: string, force: boolean, signal: AbortSignal): Promise<LoginFlow>
    /** Waits up to `timeoutMs` for a change, of what was `seen` if that is told. @throws SvcError `not_found` */
    follow(
      login: { login_id?: string; session?: string; seen?: number },
      timeoutMs: number,
      signal: AbortSignal,
    ): Promise<LoginFlow>
    giveCode(loginId: string, code: string, signal: AbortSignal): Promise<LoginFlow>
    /** @returns whether it was under way */
    callOff(loginId: string): boolean
    leave(loginId: string): Promise<void>
  }
  readonly conversations: {
    /** The newest first. */
    list(filter?: ConversationFilter): Promise<Conversation[]>
    /** Everything up to row `upTo` has been looked at. */
    markRead(session: string, userId: string, upTo: number): Promise<void>
    /** Messages per hour of the last `count` hours, the running one last. */
    hours(count: number): Promise<Hour[]>
  }
  readonly changes: {
    /** Tells the listener of messages and sessions from now on. @returns how to stop it */
    subscribe(listener: ChangeListener): () => void
  }
}
