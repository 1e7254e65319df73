/** svc inside a program: the nine verbs as methods, and messages as they come. */
import { addAbortListener } from 'node:events'
import type { Static, TObject, TSchema } from '@sinclair/typebox'
import { localFiles } from '../config/local-files.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import type { Health } from '../gateway/health.ts'
import { directCall } from '../model/call.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { Event } from '../model/event.ts'
import type { LoginStatus } from '../model/login.ts'
import type { Message, SendResult } from '../model/message.ts'
import type { KnownUser, NamedUser, NameRequest, Session, UserFilter } from '../model/session.ts'
import { followEvents } from '../operations/events.ts'
import { invoke } from '../operations/gate.ts'
import type { TypedOperation, TypedTool } from '../operations/operation.ts'
import { followMessages } from '../operations/reading.ts'
import { health } from '../operations/service.ts'
import { listUsers, nameUser } from '../operations/users.ts'
import { type Clock, endsWithin, systemClock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { isNode, onStopSignals, spareLoopbackTheProxy } from '../platform/process.ts'
import { linked } from '../platform/signals.ts'
import { version } from '../version.ts'
import { type HandlerOptions, Handlers, type MessageHandler } from './handlers.ts'
import { type Groups, groups, methodsOf } from './methods.ts'
import { type OpenedOptions, openedOptions, type SvcOptions } from './options.ts'
import {
  type DefaultSet,
  type Downloaded,
  type DownloadInput,
  type HistoryInput,
  type HistoryPage,
  type LoggedOut,
  type LoginInput,
  type LogoutInput,
  type RecvInput,
  type Renamed,
  type RenameSessionInput,
  type SendInput,
  type SetDefaultInput,
  verbs,
} from './verbs.ts'

export interface CallOptions {
  /** Ends the call; it then rejects with the signal's reason. */
  signal?: AbortSignal
}

export interface MessagesOptions extends HandlerOptions {
  /** Ends the iteration. */
  signal?: AbortSignal
}

export interface EventsOptions {
  /** Id of an event, or a time (ISO 8601): what came after it; `'0'`: from the beginning. */
  after?: string
  /** All by default. */
  types?: readonly Event['type'][]
  /** Only events of this session. */
  session?: string
  /** Only messages from and to this user, by id or name. */
  user?: string
  /** Ends the iteration. */
  signal?: AbortSignal
  /** Called when retention took events before they were read. */
  onGone?: () => void
}

/** What waits in the outbox, shared with every process of the data directory that has the store. */
export type SvcOutbox = Groups['outbox']

/**
 * Webhook endpoints. Whichever program or service of the data directory polls delivers to them: this one from
 * `runBackground` on.
 */
export type SvcWebhooks = Groups['webhooks']

/** close() waits this long for what is being done with messages. */
const usualGraceMs = 2000

/** For tests: the time that a program lives by. */
interface Timing {
  readonly clock?: Clock
  readonly graceMs?: number
}

/**
 * One data directory, opened by a program. Any number of programs and services may share it: one of them polls, the
 * others follow its store.
 *
 * @example
 * await using svc = await Svc.open({ store: true })
 * for await (const message of svc) {
 *   await svc.send({ to: message.from_user, text: `You said: ${message.text}` })
 * }
 */
export class Svc implements Groups, AsyncDisposable, AsyncIterable<Message> {
  /** Sends that wait until their user writes; they are made with `when_closed: 'queue'`. */
  readonly outbox: SvcOutbox
  /** Endpoints that events are delivered to, shared with every process of the data directory that has the store. */
  readonly webhooks: SvcWebhooks
  /** Of the simulated phone, with the option `sandbox`. */
  readonly phoneUrl: string | undefined
  readonly #gateway: RunningGateway
  readonly #handlers: Handlers
  readonly #log: Log
  readonly #stored: boolean
  readonly #graceMs: number
  readonly #stopSandbox: () => Promise<unknown>
  /** Aborts when close() begins. */
  readonly #stop = new AbortController()
  /** Iterations that keep a position: each resolves when it has ended. */
  readonly #iterating = new Set<Promise<void>>()
  #background: Promise<void> | undefined
  #closing: Promise<void> | undefined
  #closed = false

  private constructor(
    gateway: RunningGateway,
    log: Log,
    stored: boolean,
    sandbox: UsedSandbox | undefined,
    { clock = systemClock, graceMs = usualGraceMs }: Timing,
  ) {
    this.#graceMs = graceMs
    this.#gateway = gateway
    this.#log = log
    this.#stored = stored
    this.phoneUrl = sandbox && `${sandbox.url}/phone`
    this.#stopSandbox = async () => sandbox?.stop?.()
    const run: Parameters<typeof methodsOf>[1] = (operation, input) => this.#run(operation, input)
    this.outbox = methodsOf(groups.outbox, run)
    this.webhooks = methodsOf(groups.webhooks, run)
    this.#handlers = new Handlers({
      open: place => this.#run(followMessages, place),
      clock,
      log: log.child('handlers'),
    })
  }

  /**
   * Opens the data directory, which is made when it is not there. Nothing is polled yet. Options come from the program
   * alone; the environment is not read.
   *
   * @throws SvcError `invalid_arguments` naming an option that is wrong, or a directory of another kind;
   *   `store_unavailable` when directory or store cannot be used
   */
  static async open(options: SvcOptions = {}, timing: Timing = {}): Promise<Svc> {
    const opened = await openedOptions(options)
    const { config, log, store } = opened
    await claimDirectory(config, called)
    const sandbox = await sandboxOf(opened)
    try {
      const sandboxUrl = sandbox && { sandboxUrl: sandbox.url }
      const { clock } = timing
      const gateway = await openGateway({
        config,
        log,
        version,
        clock,
        oneShot: true,
        store,
        ...sandboxUrl,
      })
      return new Svc(gateway, log, store !== false, sandbox, timing)
    } catch (error) {
      await sandbox?.stop?.()
      throw error
    }
  }

  /**
   * New messages of a consumer, oldest first, waiting up to `timeout` seconds for one.
   *
   * While `runBackground` runs they come from the log. Otherwise the call polls WeChat itself; where another process
   * does that it returns what that one received in the last 60 seconds, or nothing without a store.
   */
  recv(input: RecvInput = {}, options: CallOptions = {}): Promise<Message[]> {
    return this.#call(verbs.recv, input, options)
  }

  /** Sends text, media, or both to a user who has written. Paths may lead anywhere on this machine. */
  async send(input: SendInput, options: CallOptions = {}): Promise<SendResult> {
    if (!this.#stored && input?.when_closed === 'queue') {
      throw badArgument('when_closed', '"queue" keeps the message in the store, which is off', {
        hint: 'Open svc with store: true, or a path.',
      })
    }
    return this.#call(verbs.send, input, options)
  }

  /** Saves the media of a message as a file. */
  download(input: DownloadInput, options: CallOptions = {}): Promise<Downloaded> {
    return this.#call(verbs.download, input, options)
  }

  /** Searches stored messages, newest first; without a store those that this program has seen. */
  history(input: HistoryInput = {}, options: CallOptions = {}): Promise<HistoryPage> {
    return this.#call(verbs.history, input, options)
  }

  /** The registered accounts. */
  sessions(options: CallOptions = {}): Promise<Session[]> {
    return this.#call(verbs.sessions, {}, options)
  }

  /** Who has written, who wrote last first: what is left of the right to answer, and their names. */
  async users(filter: UserFilter = {}): Promise<KnownUser[]> {
    return this.#run(listUsers, filter)
  }

  /**
   * What people call a user from now on; an empty name takes it away. Without a store it lasts as long as this program.
   *
   * @throws SvcError `invalid_arguments` for a name with an `@`, or that of another user of the session; `not_found` for
   *   a user who has not written
   */
  async nameUser(user_id: string, name: string, of: Pick<NameRequest, 'session'> = {}): Promise<NamedUser> {
    return this.#run(nameUser, { user_id, name, ...of })
  }

  /** Starts a QR login, or follows the one under way: call it again until the status is `confirmed`. */
  login(input: LoginInput = {}, options: CallOptions = {}): Promise<LoginStatus> {
    return this.#call(verbs.login, input, options)
  }

  /** Ends a session and deletes its credentials. */
  logout(input: LogoutInput = {}, options: CallOptions = {}): Promise<LoggedOut> {
    return this.#call(verbs.logout, input, options)
  }

  /** Gives a session another name. */
  renameSession(input: RenameSessionInput, options: CallOptions = {}): Promise<Renamed> {
    return this.#call(verbs.renameSession, input, options)
  }

  /** Makes a session the default one. */
  setDefault(input: SetDefaultInput, options: CallOptions = {}): Promise<DefaultSet> {
    return this.#call(verbs.setDefault, input, options)
  }

  /** Whether this program polls or follows, how many sessions are connected, and whether the store works. */
  async health(): Promise<Health> {
    return this.#run(health, {})
  }

  /**
   * Has the handler called with each received message once `runBackground` runs: one at a time, in order, on its own
   * beside other handlers. A message is done when the handler has returned (a promise: was kept); when it throws it
   * gets the message again, twice, marked `redelivered`, then the next.
   *
   * @returns unsubscribes
   */
  onMessage(handler: MessageHandler, options: HandlerOptions = {}): () => void {
    this.#refuseClosed()
    if (typeof handler !== 'function') throw badArgument('handler', 'expected a function')
    checkReader(options)
    return this.#handlers.add(handler, options)
  }

  /**
   * Receives in the background until `close`: polls, or, where another process polls, follows the store and takes over
   * when that process ends. Resolves when it is under way; calling it again changes nothing.
   *
   * @throws SvcError `poll_lock_held` when another process polls and the store is off
   */
  async runBackground(): Promise<void> {
    this.#refuseClosed()
    this.#background ??= this.#start()
    try {
      await this.#background
    } catch (error) {
      this.#background = undefined
      throw error
    }
  }

  /** `runBackground`, and on until `close` or a SIGINT or SIGTERM, which closes; a second one ends the process. */
  async runForever(): Promise<void> {
    const forget = onStopSignals(signal => {
      this.#log.info('stopping', { signal })
      void this.close()
    })
    try {
      await this.runBackground()
      await new Promise<void>(resolve => addAbortListener(this.#stop.signal, () => resolve()))
      await this.close()
    } finally {
      forget()
    }
  }

  /**
   * Received messages one by one, running in the background for it. Asking for the next one says that the one before is
   * dealt with; leaving the loop says that it is not: with a `consumer` it comes again. Without one the iteration begins
   * with what arrives from now on. Ends with `close` and with the signal.
   */
  async *messages(options: MessagesOptions = {}): AsyncGenerator<Message, void, void> {
    checkReader(options)
    const { consumer, session } = options
    const opened = await this.#run(followMessages, { consumer, session })
    await this.runBackground()
    using ended = linked(options.signal ?? this.#stop.signal, this.#stop.signal)
    const over = Promise.withResolvers<void>()
    if (consumer !== undefined) this.#iterating.add(over.promise)
    try {
      yield* opened.follow(ended.signal)
    } finally {
      over.resolve()
      this.#iterating.delete(over.promise)
    }
  }

  /**
   * Everything that happens, in one order: messages, the status of sent ones, sessions; running in the background for it.
   * Begins with what comes from now on, or `after` an event's id. At least once: a program that keeps the id of what it has
   * dealt with misses nothing. Ends with `close` and with the signal.
   */
  async *events({
    after,
    signal,
    onGone,
    types,
    session,
    user,
  }: EventsOptions = {}): AsyncGenerator<Event, void, void> {
    const events = await this.#run(followEvents, { after, types: types?.join(','), session, user })
    await this.runBackground()
    using ended = linked(signal ?? this.#stop.signal, this.#stop.signal)
    yield* events.follow(ended.signal, { onGone })
  }

  /** The same as `messages()`. */
  [Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    return this.messages()
  }

  /**
   * Ends handlers, iterations, polling and logins, and closes the files. What is being done with messages gets two
   * seconds to end: a handler that calls this must not wait for it.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #start(): Promise<void> {
    // Before polling begins: what it brings is new to the handlers.
    const { from } = await this.#run(followMessages, {})
    await this.#gateway.start()
    // Without it a bot that nobody can write to waits in silence.
    if ((await this.#run(verbs.sessions, {})).length === 0)
      this.#log.warn('no session yet: log in with svc.login()')
    if (!this.#stop.signal.aborted) this.#handlers.start(from)
  }

  async #close(): Promise<void> {
    this.#stop.abort(new SvcError('shutting_down', 'svc is closed'))
    await Promise.all([
      this.#handlers.stop(this.#graceMs),
      endsWithin(this.#graceMs, Promise.all(this.#iterating)),
      this.#background?.catch(() => undefined),
    ])
    this.#closed = true
    try {
      await this.#gateway.close()
    } finally {
      await this.#stopSandbox()
    }
  }

  async #call<I extends TObject, O extends TSchema>(
    tool: TypedTool<I, O>,
    input: unknown,
    { signal }: CallOptions,
  ): Promise<Static<O>> {
    this.#refuseClosed()
    signal?.throwIfAborted()
    const call = directCall({ local: true, ...(signal && { signal }) })
    let delivered = false
    try {
      const result = await invoke(tool, this.#gateway, input, call, this.#log)
      // Messages for a caller that no longer wants them come again.
      if (tool.name === verbs.recv.name) signal?.throwIfAborted()
      delivered = true
      return result
    } catch (error) {
      if (signal?.aborted && (!isSvcError(error) || isSvcError(error, 'shutting_down'))) throw signal.reason
      throw error
    } finally {
      call.done(delivered)
    }
  }

  /** An operation that goes on while this closes, until it has. */
  #run<I extends TObject, O extends TSchema>(
    operation: TypedOperation<I, O>,
    input: unknown,
  ): Promise<Static<O>> {
    this.#refuseClosed()
    return invoke(operation, this.#gateway, input, directCall({ signal: this.#stop.signal }), this.#log)
  }

  #refuseClosed(): void {
    if (this.#closed) throw new SvcError('shutting_down', 'svc is closed')
  }
}

/** The names by which a program knows the options that a directory may be wrong for. */
const called = { basePath: 'basePath', sandbox: 'sandbox', mediaRoot: 'mediaRoot' }

/** The simulated WeChat in use, and what ends this program's part in it. */
interface UsedSandbox {
  url: string
  stop?: () => Promise<void>
}

async function sandboxOf({ config, log, sandboxUrl }: OpenedOptions): Promise<UsedSandbox | undefined> {
  if (!config.sandbox) return undefined
  spareLoopbackTheProxy()
  if (sandboxUrl !== undefined) return { url: sandboxUrl }
  if (isNode)
    throw badArgument(
      'sandbox',
      'the simulated WeChat runs on Bun or Deno, and this is Node: name one that runs as sandboxUrl',
      {
        hint: 'Run svc sandbox, and open with the address that it prints as sandboxUrl.',
      },
    )
  // Loaded on use: whoever talks to the real WeChat starts without it.
  const { followSandbox, startSandbox } = await import('../sandbox/sandbox.ts')
  const options = {
    ...{ dir: localFiles(config.basePath).sandbox, host: '127.0.0.1', port: config.sandboxPort },
    ...{ clock: systemClock, log: log.child('sandbox') },
  }
  return (await followSandbox(options)) ?? startSandbox(options)
}

/** @throws SvcError `invalid_arguments`, as recv would for these */
function checkReader({ consumer, session }: HandlerOptions): void {
  verbs.recv.parse({ consumer, session })
}
