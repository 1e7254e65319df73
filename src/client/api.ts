/** What a program can do with svc, whether it has opened a data directory or is connected to a service. */
import type { Health } from '../gateway/health.ts'
import type { presets, Right } from '../model/access.ts'
import type { AuditLine } from '../model/audit.ts'
import type { Event } from '../model/event.ts'
import type { LoginStatus } from '../model/login.ts'
import type { Message, Received, SendResult } from '../model/message.ts'
import type { ListPage } from '../model/page.ts'
import type { UserQuestion } from '../model/question.ts'
import type { KnownUser, NamedUser, NameRequest, Session, UserFilter } from '../model/session.ts'
import type { listAudit } from '../operations/audit.ts'
import type { exportMessages, OpenedExport } from '../operations/export.ts'
import type { forgetUser } from '../operations/people.ts'
import type { ask } from '../operations/questions.ts'
import type { CallerInput } from '../operations/schema.ts'
import type { listNodes } from '../operations/service.ts'
import type { OpenMessage } from '../receive/inbox.ts'
import type { HandlerOptions, MessageHandler } from './handlers.ts'
import type { Groups, Method } from './methods.ts'
import type {
  Downloaded,
  DownloadInput,
  HistoryInput,
  HistoryPage,
  LoginInput,
  LogoutInput,
  LogoutResult,
  RecvInput,
  RenameSessionInput,
  RenameSessionResult,
  SendInput,
  SetDefaultInput,
  SetDefaultResult,
} from './verbs.ts'

export interface CallOptions {
  /** Ends the call. Its promise then rejects with the reason of the signal. */
  signal?: AbortSignal
  /**
   * For `send` and `download`: the files that the call names must lie in this folder, and no link in it is followed.
   * Use it for a folder in which another program writes. Only of `Svc.open`.
   */
  below?: string
}

/** What a part of a program may do. */
export interface PartGrant {
  /** Its name, in the audit log and in messages. */
  name: string
  /** Presets and rights, same as `svc key add --can`. */
  can: readonly (keyof typeof presets | Right)[]
  /** Only these users, by their ids. Default: all. */
  users?: readonly string[]
}

/** The methods of a part of a program. */
export interface SvcPart extends Pick<SvcApi, 'send' | 'download' | 'history' | 'users'> {
  /** Shows a user that the bot is typing, for some seconds, or ends that. Uses no answer. */
  showTyping(to: string, others?: { session?: string; typing?: boolean }): Promise<SendResult>
}

/** A question to a person. */
export type AskInput = CallerInput<typeof ask.input>

/** Which lines of the audit log to list. */
export type AuditQuery = CallerInput<typeof listAudit.input>

/** Which messages to export, and the format of the file. */
export type ExportFilter = CallerInput<typeof exportMessages.input>

export interface MessagesOptions extends HandlerOptions {
  /** Ends the iteration. */
  signal?: AbortSignal
}

export interface EventsOptions {
  /**
   * Id of an event, or a time (ISO 8601): only events after it. `'0'`: all stored events. Default: events
   * from now on.
   */
  after?: string
  /** Only events of these types. Default: all types. */
  types?: readonly Event['type'][]
  /** Only events of this session. */
  session?: string
  /** Only messages from and to this user, by id or name. */
  user?: string
  /** Ends the iteration. */
  signal?: AbortSignal
  /** Called when retention has deleted events before this iteration read them. */
  onGone?: () => void
}

/** Methods for queued sends. All processes that use the store of the data directory share the outbox. */
export type SvcOutbox = Groups['outbox']

/**
 * Methods for webhook endpoints. The process of the data directory that polls delivers to them. This program
 * can be that process once `runBackground` runs.
 */
export type SvcWebhooks = Groups['webhooks']

/** Methods for keys of programs and people that call a service of the data directory. */
export type SvcKeys = Groups['keys']
/** Methods for invitations, by which people log an account in by themselves. */
export type SvcInvitations = Groups['invitations']
/** Methods for topics, by which programs notify people. */
export type SvcTopics = Groups['topics']

/** Methods for backups, which a service makes by its schedule. */
export type SvcBackups = Groups['backups']

/** Methods for agents in front of WeChat (`svc agent`). */
export type SvcAgents = Groups['agents']

/**
 * The methods of `Svc.open` and `Svc.connect`. It has a field for each group of operations.
 *
 * @example
 * await using svc = await Svc.open({ store: true })
 * for await (const message of svc) {
 *   await svc.send({ to: message.from_user, text: `You said: ${message.text}` })
 * }
 */
export interface SvcApi extends Groups, AsyncDisposable, AsyncIterable<Message> {
  /**
   * Sends that wait until they may go, such as until the user writes. `send` with `when_closed: 'queue'` adds
   * them.
   */
  readonly outbox: SvcOutbox
  /** Endpoints that receive events. All processes that use the store of the data directory share them. */
  readonly webhooks: SvcWebhooks
  /** Keys of callers. */
  readonly keys: SvcKeys
  readonly invitations: SvcInvitations
  /** Topics, by which programs notify people. */
  readonly topics: SvcTopics
  /** Backups. A service makes them by its schedule. */
  readonly backups: SvcBackups
  /** Agents in front of WeChat. */
  readonly agents: SvcAgents
  /**
   * Erases everything that svc has about a user (id or name), in all sessions. Rewrites the message store,
   * which holds the event loop: about a second for 100 MB. If it rejects with `store_unavailable`, call it
   * again.
   */
  readonly forget: Method<typeof forgetUser>
  /** Returns the nodes that share a store on PostgreSQL, and how the database is replicated. */
  readonly nodes: Method<typeof listNodes>

  /**
   * Returns the new messages of a consumer, oldest first. Waits up to `timeout` seconds for the first one.
   *
   * Connected, it is the tool `recv` of the service. With a data directory, while `runBackground` runs, the messages come
   * from the message log: without `consumer` those that it received, or from where an earlier program stopped. Otherwise
   * the call polls WeChat itself. If another process polls, the call returns what that process received in the
   * last 60 seconds, or nothing if the store is off. These are up to 1000 messages, or `limit`: if there were more, the
   * array has the field `more`, and holds the newest ones; `history` and `recv` with `after` return the others.
   */
  recv(input?: RecvInput, options?: CallOptions): Promise<Received>

  /**
   * Sends text, media, or both to a user who has written. Paths may name any file of the machine of this program except
   * svc's own.
   */
  send(input: SendInput, options?: CallOptions): Promise<SendResult>

  /**
   * Asks a person who has written, and waits for the choice. `signal` takes the question back.
   *
   * @throws SvcError `no_answer` if the time is over, and the errors of `send`
   */
  ask(input: AskInput, options?: CallOptions): Promise<UserQuestion>

  /** Saves the media of a message as a file, on the machine of this program. */
  download(input: DownloadInput, options?: CallOptions): Promise<Downloaded>

  /**
   * Searches stored messages, newest first. Without a store it searches the messages that this program sent
   * or received.
   */
  history(input?: HistoryInput, options?: CallOptions): Promise<HistoryPage>

  /** Lists the registered accounts, called sessions. */
  sessions(options?: CallOptions): Promise<Session[]>

  /**
   * Lists the users who have written, latest first, with their names and how many answers are left until
   * when: 1000 of them from `offset` on, or `limit`.
   */
  users(filter?: UserFilter & ListPage): Promise<KnownUser[]>

  /**
   * Gives a user a name. An empty name removes it. Without a store the name is forgotten when this program
   * ends.
   *
   * @throws SvcError `invalid_arguments` if the name contains `@` or belongs to another user of the
   *   session; `not_found` if the user has not written
   */
  nameUser(user_id: string, name: string, of?: Pick<NameRequest, 'session'>): Promise<NamedUser>

  /** Starts a QR login, or follows the one in progress. Call it again until the status is `confirmed`. */
  login(input?: LoginInput, options?: CallOptions): Promise<LoginStatus>

  /** Ends a session and deletes its credentials. */
  logout(input?: LogoutInput, options?: CallOptions): Promise<LogoutResult>

  /** Renames a session. */
  renameSession(input: RenameSessionInput, options?: CallOptions): Promise<RenameSessionResult>

  /** Makes a session the default session. */
  setDefault(input: SetDefaultInput, options?: CallOptions): Promise<SetDefaultResult>

  /** Lists the calls that changed or sent something, by any process of the data directory, newest first. */
  audit(filter?: AuditQuery): Promise<AuditLine[]>

  /**
   * Opens a file with stored messages, oldest first: JSON lines, or one page for people. It is made while its
   * `stream` is read; cancel the stream to stop before its end.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name that no user has
   */
  export(filter?: ExportFilter): Promise<OpenedExport>

  /**
   * Returns whether svc polls or follows, how many sessions are connected, and whether the store works. Connected, it is
   * that of the service.
   */
  health(): Promise<Health>

  /**
   * Calls the handler with each received message while `runBackground` runs: one message at a time, in order,
   * independently of other handlers. A message is processed when the handler returns, or when its promise
   * resolves. A handler that throws gets the message up to two more times, marked `redelivered`, and then the
   * next message.
   *
   * @returns a function that unsubscribes the handler
   */
  onMessage(handler: MessageHandler, options?: HandlerOptions): () => void

  /**
   * Receives in the background until `close`. Connected, it calls the handlers, and the service polls. With a data
   * directory it polls; if another process polls, it follows the store and takes over when that process ends. Resolves
   * when receiving has started. Calling it again has no effect.
   *
   * @throws SvcError `poll_lock_held` if another process polls and the store is off
   */
  runBackground(): Promise<void>

  /**
   * Runs `runBackground` and waits until `close`. SIGINT and SIGTERM call `close`; a second signal ends the
   * process.
   */
  runForever(): Promise<void>

  /**
   * Iterates over received messages, and starts `runBackground`. Asking for the next message acknowledges the
   * one before. Leaving the loop does not: with a `consumer` that message comes again. Without a `consumer`
   * the iteration starts with the messages that arrive from now on. It ends with `close` and with the signal.
   */
  messages(options?: MessagesOptions): AsyncGenerator<Message, void, void>

  /**
   * Iterates over received messages like `messages`, but each one stays open until the program settles it. Any number may
   * be open (connected: 100 of a consumer), and they may be settled in any order, also after the iteration.
   * `settle(true)` says that the message was processed. After `settle(false)`, or if the program ends before, the message
   * comes again, marked `redelivered`.
   */
  openMessages(options: MessagesOptions & { consumer: string }): AsyncGenerator<OpenMessage, void, void>

  /**
   * Returns methods for a part of the program that may not do everything, such as an agent: its calls may do only what the
   * grant allows. The audit log and the messages name it, as `agent:NAME`. Connected, its calls have a key of their own,
   * which ends within minutes of its last use, and with `close`.
   *
   * @throws SvcError `invalid_arguments`; connected also `forbidden` without a key
   */
  as(part: PartGrant): SvcPart

  /**
   * Iterates over all events in one order: messages received, the status of messages sent, changes of
   * sessions. Starts `runBackground`. The first event is the next one that happens, or the one `after` an
   * event id. An event can come more than once. To miss nothing, keep the id of the last event that you
   * processed and pass it as `after`. The iteration ends with `close` and with the signal.
   */
  events(options?: EventsOptions): AsyncGenerator<Event, void, void>

  /** Same as `messages()` without options. */
  [Symbol.asyncIterator](): AsyncGenerator<Message, void, void>

  /**
   * Ends handlers, iterations, polling and logins, and closes the files. Waits up to two seconds for handlers
   * and loops that still process a message. A handler that calls `close` must not await it.
   */
  close(): Promise<void>
}
