/** `Svc`: svc inside a program. The nine tools are methods; messages and events are iterated. */
import { createGrant } from '../access/grants.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import type { Health } from '../gateway/health.ts'
import { grantableRights, presets, type Right } from '../model/access.ts'
import type { AuditLine } from '../model/audit.ts'
import { badArgument } from '../model/error.ts'
import type { Event } from '../model/event.ts'
import type { LoginStatus } from '../model/login.ts'
import type { Message, Received, SendResult } from '../model/message.ts'
import type { ListPage } from '../model/page.ts'
import { owner, type Principal } from '../model/principal.ts'
import type { UserQuestion } from '../model/question.ts'
import type { KnownUser, NamedUser, NameRequest, Session, UserFilter } from '../model/session.ts'
import { type AgentWork, workAsAgent } from '../operations/agents.ts'
import { listAudit } from '../operations/audit.ts'
import { followEvents } from '../operations/events.ts'
import { exportMessages, type OpenedExport } from '../operations/export.ts'
import { forgetUser } from '../operations/people.ts'
import { ask } from '../operations/questions.ts'
import { followMessages, openMessages } from '../operations/reading.ts'
import type { CallerInput } from '../operations/schema.ts'
import { health, listNodes } from '../operations/service.ts'
import { showTyping } from '../operations/typing.ts'
import { listUsers, nameUser } from '../operations/users.ts'
import type { Log } from '../platform/log.ts'
import type { OpenMessage } from '../receive/inbox.ts'
import { version } from '../version.ts'
import { Background, type Timing } from './background.ts'
import { type CallOptions, Calls } from './calls.ts'
import type { HandlerOptions, MessageHandler } from './handlers.ts'
import { type Groups, groups, type Method, methodsOf } from './methods.ts'
import { checkOptions, resolveOptions, type SvcOptions } from './options.ts'
import { openSandbox, type UsedSandbox } from './sandbox.ts'
import {
  type Downloaded,
  type DownloadInput,
  type HistoryInput,
  type HistoryPage,
  type LoginInput,
  type LogoutInput,
  type LogoutResult,
  type RecvInput,
  type RenameSessionInput,
  type RenameSessionResult,
  type SendInput,
  type SetDefaultInput,
  type SetDefaultResult,
  verbs,
} from './verbs.ts'

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
export interface SvcPart extends Pick<Svc, 'send' | 'download' | 'history' | 'users'> {
  /** Shows a user that the bot is typing, for some seconds, or ends that. Uses no answer. */
  showTyping(to: string, others?: { session?: string; typing?: boolean }): Promise<SendResult>
}

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

/** The name of a part is also that of its folder of downloads. */
const partName = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/

/**
 * A data directory that a program has opened. Any number of programs and services may share it: one of them
 * polls WeChat, the others follow its store. It has a field for each group of operations.
 *
 * @example
 * await using svc = await Svc.open({ store: true })
 * for await (const message of svc) {
 *   await svc.send({ to: message.from_user, text: `You said: ${message.text}` })
 * }
 */
export class Svc implements Groups, AsyncDisposable, AsyncIterable<Message> {
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
  /** Backups. A service makes them by its schedule. */
  readonly backups: SvcBackups
  /**
   * Erases everything that svc has about a user (id or name), in all sessions. Rewrites the message store,
   * which holds the event loop: about a second for 100 MB. If it rejects with `store_unavailable`, call it
   * again.
   */
  readonly forget: Method<typeof forgetUser>
  /** Returns the nodes that share a store on PostgreSQL, and how the database is replicated. */
  readonly nodes: Method<typeof listNodes>
  /** Agents in front of WeChat. */
  readonly agents: SvcAgents
  /** Address of the simulated phone's page. Only with the option `sandbox` or `sandboxUrl`. */
  readonly phoneUrl: string | undefined
  readonly #calls: Calls
  readonly #background: Background

  private constructor(
    gateway: RunningGateway,
    log: Log,
    stored: boolean,
    sandbox: UsedSandbox | undefined,
    timing: Timing,
  ) {
    const calls = new Calls(gateway, log, stored)
    this.#calls = calls
    this.phoneUrl = sandbox && `${sandbox.url}/phone`
    const run: Parameters<typeof methodsOf>[1] = (operation, input) => calls.run(owner, operation, input)
    this.outbox = methodsOf(groups.outbox, run)
    this.webhooks = methodsOf(groups.webhooks, run)
    this.keys = methodsOf(groups.keys, run)
    this.invitations = methodsOf(groups.invitations, run)
    this.backups = methodsOf(groups.backups, run)
    this.forget = methodsOf({ forgetUser }, run).forgetUser
    this.nodes = methodsOf({ listNodes }, run).listNodes
    this.agents = methodsOf(groups.agents, run)
    const close = () => gateway.close().finally(sandbox?.stop)
    this.#background = new Background({ start: () => gateway.start(), close }, calls, log, timing)
  }

  /** Topics, by which programs notify people. */
  get topics(): SvcTopics {
    return methodsOf(groups.topics, (operation, input) => this.#calls.run(owner, operation, input))
  }

  /**
   * Opens the data directory, and creates it if it is missing. Does not start polling. Reads no environment
   * variables: all settings are options.
   *
   * @throws SvcError `invalid_arguments` for a wrong option (the error names it), or if the directory is of
   *   another kind (sandbox or WeChat); `store_unavailable` if the directory or the store cannot be used
   */
  static async open(options: SvcOptions = {}, timing: Timing = {}): Promise<Svc> {
    const opened = await resolveOptions(options)
    const { config, log, store } = opened
    await claimDirectory(config, optionNames)
    const sandbox = await openSandbox(opened)
    try {
      const sandboxUrl = sandbox && { sandboxUrl: sandbox.url }
      const { clock, tasks, wallClock } = timing
      const more = { clock, tasks, wallClock, ...sandboxUrl }
      const gateway = await openGateway({ config, log, version, oneShot: true, store, ...more })
      return new Svc(gateway, log, store !== false, sandbox, timing)
    } catch (error) {
      await sandbox?.stop?.()
      throw error
    }
  }

  /**
   * Returns the new messages of a consumer, oldest first. Waits up to `timeout` seconds for the first one.
   *
   * While `runBackground` runs, the messages come from the message log: without `consumer` those that it received,
   * or from where an earlier program stopped. Otherwise the call polls WeChat
   * itself. If another process polls, the call returns what that process received in the last 60 seconds, or
   * nothing if the store is off. These are up to 1000 messages, or `limit`: if there were more, the array has
   * the field `more`, and holds the newest ones; `history` and `recv` with `after` return the others.
   */
  async recv(input: RecvInput = {}, options: CallOptions = {}): Promise<Received> {
    await this.#background.beginInbox(input)
    return this.#calls.call(owner, verbs.recv, input, options)
  }

  /**
   * Sends text, media, or both to a user who has written. Paths may name any file of this machine except
   * svc's own.
   */
  async send(input: SendInput, options: CallOptions = {}): Promise<SendResult> {
    return this.#calls.send(owner, input, options)
  }

  /**
   * Asks a person who has written, and waits for the choice. `signal` takes the question back.
   *
   * @throws SvcError `no_answer` if the time is over, and the errors of `send`
   */
  ask(input: CallerInput<typeof ask.input>, options: CallOptions = {}): Promise<UserQuestion> {
    return this.#calls.call(owner, ask, input, options)
  }

  /** Saves the media of a message as a file. */
  download(input: DownloadInput, options: CallOptions = {}): Promise<Downloaded> {
    return this.#calls.call(owner, verbs.download, input, options)
  }

  /**
   * Searches stored messages, newest first. Without a store it searches the messages that this program sent
   * or received.
   */
  history(input: HistoryInput = {}, options: CallOptions = {}): Promise<HistoryPage> {
    return this.#calls.call(owner, verbs.history, input, options)
  }

  /** Lists the registered accounts, called sessions. */
  sessions(options: CallOptions = {}): Promise<Session[]> {
    return this.#calls.call(owner, verbs.sessions, {}, options)
  }

  /**
   * Lists the users who have written, latest first, with their names and how many answers are left until
   * when: 1000 of them from `offset` on, or `limit`.
   */
  async users(filter: UserFilter & ListPage = {}): Promise<KnownUser[]> {
    return this.#calls.run(owner, listUsers, filter)
  }

  /**
   * Gives a user a name. An empty name removes it. Without a store the name is forgotten when this program
   * ends.
   *
   * @throws SvcError `invalid_arguments` if the name contains `@` or belongs to another user of the
   *   session; `not_found` if the user has not written
   */
  async nameUser(user_id: string, name: string, of: Pick<NameRequest, 'session'> = {}): Promise<NamedUser> {
    return this.#calls.run(owner, nameUser, { user_id, name, ...of })
  }

  /** Starts a QR login, or follows the one in progress. Call it again until the status is `confirmed`. */
  login(input: LoginInput = {}, options: CallOptions = {}): Promise<LoginStatus> {
    return this.#calls.call(owner, verbs.login, input, options)
  }

  /** Ends a session and deletes its credentials. */
  logout(input: LogoutInput = {}, options: CallOptions = {}): Promise<LogoutResult> {
    return this.#calls.call(owner, verbs.logout, input, options)
  }

  /** Renames a session. */
  renameSession(input: RenameSessionInput, options: CallOptions = {}): Promise<RenameSessionResult> {
    return this.#calls.call(owner, verbs.renameSession, input, options)
  }

  /** Makes a session the default session. */
  setDefault(input: SetDefaultInput, options: CallOptions = {}): Promise<SetDefaultResult> {
    return this.#calls.call(owner, verbs.setDefault, input, options)
  }

  /** Lists the calls that changed or sent something, by any process of the data directory, newest first. */
  async audit(filter: AuditQuery = {}): Promise<AuditLine[]> {
    return this.#calls.run(owner, listAudit, filter)
  }

  /**
   * Opens a file with stored messages, oldest first: JSON lines, or one page for people. It is made while its
   * `stream` is read; cancel the stream to stop before its end.
   *
   * @throws SvcError `session_not_found`; `invalid_arguments` for a name that no user has
   */
  async export(filter: ExportFilter = {}): Promise<OpenedExport> {
    return this.#calls.run(owner, exportMessages, filter)
  }

  /**
   * Returns whether this program polls or follows, how many sessions are connected, and whether the store
   * works.
   */
  async health(): Promise<Health> {
    return this.#calls.run(owner, health, {})
  }

  /**
   * Calls the handler with each received message while `runBackground` runs: one message at a time, in order,
   * independently of other handlers. A message is processed when the handler returns, or when its promise
   * resolves. A handler that throws gets the message up to two more times, marked `redelivered`, and then the
   * next message.
   *
   * @returns a function that unsubscribes the handler
   */
  onMessage(handler: MessageHandler, options: HandlerOptions = {}): () => void {
    this.#calls.rejectIfEnded()
    if (typeof handler !== 'function') throw badArgument('handler', 'expected a function')
    checkOptions('handler', options)
    checkReader(options)
    return this.#background.handlers.add(handler, options)
  }

  /**
   * Receives in the background until `close`. It polls; if another process polls, it follows the store and
   * takes over when that process ends. Resolves when receiving has started. Calling it again has no effect.
   *
   * @throws SvcError `poll_lock_held` if another process polls and the store is off
   */
  runBackground(): Promise<void> {
    return this.#background.start()
  }

  /**
   * Runs `runBackground` and waits until `close`. SIGINT and SIGTERM call `close`; a second signal ends the
   * process.
   */
  runForever(): Promise<void> {
    return this.#background.runForever()
  }

  /**
   * Iterates over received messages, and starts `runBackground`. Asking for the next message acknowledges the
   * one before. Leaving the loop does not: with a `consumer` that message comes again. Without a `consumer`
   * the iteration starts with the messages that arrive from now on. It ends with `close` and with the signal.
   */
  async *messages(options: MessagesOptions = {}): AsyncGenerator<Message, void, void> {
    checkOptions('messages', options)
    checkReader(options)
    const { consumer, session } = options
    const opened = await this.#calls.run(owner, followMessages, { consumer, session })
    const follow = (signal: AbortSignal) => opened.follow(signal)
    if (consumer === undefined) yield* this.#background.read(follow, options.signal)
    else yield* this.#background.readToEnd(follow, options.signal)
  }

  /**
   * Iterates over received messages like `messages`, but each one stays open until the program settles it. Any number may
   * be open, and they may be settled in any order, also after the iteration. `settle(true)` says that the message was
   * processed. After `settle(false)`, or if the program ends before, the message comes again, marked `redelivered`.
   */
  async *openMessages(
    options: MessagesOptions & { consumer: string },
  ): AsyncGenerator<OpenMessage, void, void> {
    checkOptions('messages', options)
    const { consumer, session } = options
    const opened = await this.#calls.run(owner, openMessages, { consumer, session })
    yield* this.#background.readToEnd(signal => opened.follow(signal), options.signal)
  }

  /**
   * Returns methods for a part of the program that may not do everything, such as an agent: its calls may do only what the
   * grant allows. The audit log and the messages name it, as `agent:NAME`.
   *
   * @throws SvcError `invalid_arguments`
   */
  as(part: PartGrant): SvcPart {
    checkOptions('part', part)
    const { name, can, users } = part
    if (!partName.test(name))
      throw badArgument('name', 'expected 1 to 64 letters (a-z), digits, ".", "_" or "-"')
    for (const word of can)
      if (!Object.hasOwn(presets, word) && !grantableRights.includes(word as Right))
        throw badArgument('can', `"${word}" is no preset and no right`)
    const grant = createGrant({ can: [...can] }, { ...(users && { users: [...users] }) })
    const by: Principal = { kind: 'agent', id: name, name, grant }
    return {
      send: (input, options) => this.#calls.send(by, input, options),
      download: (input, options) => this.#calls.call(by, verbs.download, input, options),
      history: (input = {}, options = {}) => this.#calls.call(by, verbs.history, input, options),
      users: (filter = {}) => this.#calls.run(by, listUsers, filter),
      showTyping: (to, others = {}) => this.#calls.run(by, showTyping, { to, ...others }),
    }
  }

  /** Returns the methods with which the process of an agent keeps its turns, so that they survive a crash. */
  workAsAgent(): Promise<AgentWork> {
    return this.#calls.run(owner, workAsAgent, {})
  }

  /**
   * Iterates over all events in one order: messages received, the status of messages sent, changes of
   * sessions. Starts `runBackground`. The first event is the next one that happens, or the one `after` an
   * event id. An event can come more than once. To miss nothing, keep the id of the last event that you
   * processed and pass it as `after`. The iteration ends with `close` and with the signal.
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<Event, void, void> {
    checkOptions('events', options)
    const { after, signal, onGone, types, session, user } = options
    const events = await this.#calls.run(owner, followEvents, {
      after,
      types: types?.join(','),
      session,
      user,
    })
    yield* this.#background.read(stop => events.follow(stop, { onGone }), signal)
  }

  /** Same as `messages()` without options. */
  [Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    return this.messages()
  }

  /**
   * Ends handlers, iterations, polling and logins, and closes the files. Waits up to two seconds for handlers
   * and loops that still process a message. A handler that calls `close` must not await it.
   */
  close(): Promise<void> {
    return this.#background.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** How errors about the data directory name the options. */
const optionNames = { basePath: 'basePath', sandbox: 'sandbox', mediaRoot: 'mediaRoot' }

/** @throws SvcError `invalid_arguments` if `recv` would reject these options */
function checkReader({ consumer, session }: HandlerOptions): void {
  verbs.recv.parse({ consumer, session })
}
