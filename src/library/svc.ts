/** `Svc`: svc inside a program. The nine tools are methods; messages and events are iterated. `SvcApi` describes them. */

import type { TObject, TSchema } from '@sinclair/typebox'
import { createGrant } from '../access/grants.ts'
import type {
  CallOptions,
  EventsOptions,
  ExportFilter,
  MessagesOptions,
  PartGrant,
  SvcApi,
  SvcPart,
} from '../client/api.ts'
import { Background } from '../client/background.ts'
import { GroupMethods } from '../client/group-methods.ts'
import type { HandlerOptions } from '../client/handlers.ts'
import type { Callable } from '../client/methods.ts'
import { ConnectedSvc, type ConnectOptions } from '../client/svc.ts'
import type { Downloaded, DownloadInput, LoginInput, RecvInput, SendInput } from '../client/verbs.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { openGateway, type RunningGateway } from '../gateway/gateway.ts'
import { grantableRights, presets, type Right } from '../model/access.ts'
import { badArgument } from '../model/error.ts'
import type { Event } from '../model/event.ts'
import type { LoginStatus } from '../model/login.ts'
import type { Message, Received, SendResult } from '../model/message.ts'
import { owner, type Principal } from '../model/principal.ts'
import type { UserQuestion } from '../model/question.ts'
import { type AgentWork, workAsAgent } from '../operations/agents.ts'
import { followEvents } from '../operations/events.ts'
import { exportMessages, type OpenedExport } from '../operations/export.ts'
import { groups } from '../operations/groups.ts'
import type { TypedOperation } from '../operations/operation.ts'
import { forgetUser } from '../operations/people.ts'
import { ask } from '../operations/questions.ts'
import { beginReading, followMessages, openMessages } from '../operations/reading.ts'
import type { CallerInput } from '../operations/schema.ts'
import { listNodes } from '../operations/service.ts'
import { verbs } from '../operations/tools.ts'
import { showTyping } from '../operations/typing.ts'
import { listUsers } from '../operations/users.ts'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { onStopSignals } from '../platform/process.ts'
import type { Tasks } from '../platform/tasks.ts'
import type { OpenMessage } from '../receive/inbox.ts'
import { version } from '../version.ts'
import { Calls } from './calls.ts'
import { checkOptions, resolveOptions, type SvcOptions } from './options.ts'
import { openSandbox, type UsedSandbox } from './sandbox.ts'

/** Clock and grace period of a program, which only tests set, and where `svc agent` hears of tasks that fail. */
export interface Timing {
  readonly clock?: Clock
  /** Same as in `GatewayOptions`. */
  readonly wallClock?: Clock
  readonly tasks?: Tasks
  readonly graceMs?: number
}

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
export class Svc extends GroupMethods implements SvcApi {
  /** Address of the simulated phone's page. Only with the option `sandbox` or `sandboxUrl`. */
  readonly phoneUrl: string | undefined
  readonly #calls: Calls

  private constructor(
    gateway: RunningGateway,
    log: Log,
    stored: boolean,
    sandbox: UsedSandbox | undefined,
    timing: Timing,
  ) {
    const calls = new Calls({ gateway, log, hasStore: stored })
    super({
      groups,
      single: { forget: forgetUser, nodes: listNodes },
      invoke: (operation, input) =>
        calls.run(owner, operation as Callable & TypedOperation<TObject, TSchema>, input),
      call: calls.callPlain,
      background: new Background({
        ...timing,
        life: calls.life,
        log,
        onStopSignals,
        checkHandler(options) {
          checkOptions('handler', options)
          checkReader(options)
        },
        open: start => calls.run(owner, followMessages, start),
        async start() {
          // The position is read before polling starts, so handlers get every message that polling brings.
          const { from } = await calls.run(owner, followMessages, {})
          await gateway.start()
          // Without a session no message can arrive; the log says so.
          if ((await calls.run(owner, verbs.sessions, {})).length === 0)
            log.warn('no session yet: log in with svc.login()')
          return from
        },
        close: () => gateway.close().finally(sandbox?.stop),
      }),
    })
    this.#calls = calls
    this.phoneUrl = sandbox && `${sandbox.url}/phone`
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
   * Connects to a running service, on this machine or another: the same methods, over its REST API.
   *
   * @param url its address: `http://127.0.0.1:8000`, or that of a proxy in front of it
   * @throws SvcError `unauthorized` for a wrong key, `unreachable` if no service answers
   */
  static connect(url: string, options: ConnectOptions = {}): Promise<SvcApi> {
    return ConnectedSvc.connect(url, options)
  }

  async recv(input: RecvInput = {}, options: CallOptions = {}): Promise<Received> {
    const { consumer = 'default', after } = input
    const { from } = this.background
    // The usual consumer, if it is new, starts with the messages that are dispatched.
    if (from !== undefined && consumer === 'default' && after === undefined)
      await this.#calls.run(owner, beginReading, { consumer, after: from })
    return this.#calls.call(owner, verbs.recv, input, options)
  }

  async send(input: SendInput, options: CallOptions = {}): Promise<SendResult> {
    return this.#calls.send(owner, input, options)
  }

  ask(input: CallerInput<typeof ask.input>, options: CallOptions = {}): Promise<UserQuestion> {
    return this.#calls.call(owner, ask, input, options)
  }

  download(input: DownloadInput, options: CallOptions = {}): Promise<Downloaded> {
    return this.#calls.call(owner, verbs.download, input, options)
  }

  login(input: LoginInput = {}, options: CallOptions = {}): Promise<LoginStatus> {
    return this.#calls.call(owner, verbs.login, input, options)
  }

  async export(filter: ExportFilter = {}): Promise<OpenedExport> {
    return this.#calls.run(owner, exportMessages, filter)
  }

  async *messages(options: MessagesOptions = {}): AsyncGenerator<Message, void, void> {
    checkOptions('messages', options)
    checkReader(options)
    const { consumer, session } = options
    const opened = await this.#calls.run(owner, followMessages, { consumer, session })
    const follow = (signal: AbortSignal) => opened.follow(signal)
    if (consumer === undefined) yield* this.background.read(follow, options.signal)
    else yield* this.background.readToEnd(follow, options.signal)
  }

  async *openMessages(
    options: MessagesOptions & { consumer: string },
  ): AsyncGenerator<OpenMessage, void, void> {
    checkOptions('messages', options)
    const { consumer, session } = options
    const opened = await this.#calls.run(owner, openMessages, { consumer, session })
    yield* this.background.readToEnd(signal => opened.follow(signal), options.signal)
  }

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

  async *events(options: EventsOptions = {}): AsyncGenerator<Event, void, void> {
    checkOptions('events', options)
    const { after, signal, onGone, types, session, user } = options
    const events = await this.#calls.run(owner, followEvents, {
      after,
      types: types?.join(','),
      session,
      user,
    })
    yield* this.background.read(stop => events.follow(stop, { onGone }), signal)
  }

  [Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    return this.messages()
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
