import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { Event } from '../model/event.ts'
import type { LoginStatus } from '../model/login.ts'
import type { Message, Received, SendResult } from '../model/message.ts'
import type { UserQuestion } from '../model/question.ts'
import type { OpenedExport } from '../operations/export.ts'
import type { Log } from '../platform/log.ts'
import type { OpenMessage } from '../receive/inbox.ts'
import type {
  AskInput,
  CallOptions,
  EventsOptions,
  ExportFilter,
  MessagesOptions,
  PartGrant,
  SvcApi,
  SvcPart,
} from './api.ts'
import { Background, Life } from './background.ts'
import { followEvents } from './events.ts'
import { GroupMethods } from './group-methods.ts'
import type { HandlerOptions } from './handlers.ts'
import { type CallPlan, type FetchFunction, Http } from './http.ts'
import { consoleLog } from './log.ts'
import { Messages } from './messages.ts'
import { createId, PartKey } from './part.ts'
import type { Route } from './route.ts'
import { routes } from './routes.ts'
import { loadFiles, uploadMedia } from './send.ts'
import type { Downloaded, DownloadInput, LoginInput, RecvInput, SendInput } from './verbs.ts'

export interface ConnectOptions {
  /** A key of `svc key add`, or the master token. A service of this machine needs none until there is a key. */
  key?: string
  /** How long a call is repeated while no service answers, in seconds. Default: 60. Loops go on for ever. */
  patience?: number
  /** How long an answer may take beyond the time that the call itself waits, in seconds. Default: 30. */
  timeout?: number
  /** Folder for `download` without `save_dir`. Default: the current one. */
  mediaRoot?: string
  /** Receives the log lines in place of the console. */
  log?: Log
  /** In place of the `fetch` of the runtime, such as one for a socket or with a certificate of your own. */
  fetch?: FetchFunction
}

const { calls, groups } = routes
/** A send waits for its pace, and for the upload of its files to WeChat. */
const paceS = 30
const uploadS = 600
/** Longest wait of one call for a choice. A proxy may end a call that waits for longer. */
const choiceS = 45

export class ConnectedSvc extends GroupMethods implements SvcApi {
  readonly #http: Http
  readonly #options: ConnectOptions
  readonly #messages: Messages
  readonly #life: Life
  readonly #parts: PartKey[] = []

  private constructor(http: Http, options: ConnectOptions) {
    const { log = consoleLog } = options
    const life = new Life()
    super({
      groups,
      single: { forget: calls.forgetUser, nodes: calls.listNodes },
      invoke: (route, input) => {
        if (route === groups.topics.notify && input.file_path !== undefined)
          throw badArgument('file_path', 'works only with Svc.open')
        return this.#call(route as Route, input)
      },
      call: (name, input, options) => this.#call(calls[name], input, options),
      background: new Background({
        start: () => this.#start(log),
        open: async start => ({ follow: signal => this.#messages.follow(start, signal) }),
        close: () => this.#end(),
        checkHandler(options) {
          rejectUnknown(options, ['consumer', 'session'])
          checkConsumer(options)
        },
        onStopSignals,
        life,
        log,
      }),
    })
    this.#http = http
    this.#options = options
    this.#life = life
    this.#messages = new Messages({ http, log })
  }

  /**
   * Connects to a running service.
   *
   * @param url its address: `http://127.0.0.1:8000`, or that of a proxy in front of it
   * @throws SvcError `unauthorized` for a wrong key, `unreachable` if no service answers
   */
  static async connect(url: string, options: ConnectOptions = {}): Promise<ConnectedSvc> {
    rejectUnknown(options, ['key', 'patience', 'timeout', 'mediaRoot', 'log', 'fetch'])
    if (!/^https?:\/\//i.test(url)) throw badArgument('url', 'expected an http or https URL')
    const { fetch: own = fetch, key, patience = 60, timeout = 30 } = options
    const http = new Http({
      url,
      getKey: async () => key,
      patienceMs: patience * 1000,
      limitMs: timeout * 1000,
      // A browser accepts no other `this`.
      fetch: (address, request) => own(address, request),
    })
    await http.json(calls.me, {})
    return new ConnectedSvc(http, options)
  }

  recv(input: RecvInput = {}, options: CallOptions = {}): Promise<Received> {
    const { ack, after, timeout = 5 } = input
    // Others move a position when they are answered.
    const isRepeatable = after !== undefined || ack !== undefined
    return this.#call(calls.recv, input, options, { isRepeatable, waitsS: timeout })
  }

  send(input: SendInput, options: CallOptions = {}): Promise<SendResult> {
    return this.#send(this.#http, input, options)
  }

  async ask(input: AskInput, options: CallOptions = {}): Promise<UserQuestion> {
    const keyed = { idempotency_key: createId(), ...input }
    let question = await this.#call<UserQuestion>(calls.addQuestion, keyed, options, { isRepeatable: true })
    const { id } = question
    try {
      while (question.status === 'open') {
        const plan = { isEndless: true, waitsS: choiceS }
        question = await this.#call(calls.getQuestion, { id, wait: choiceS }, options, plan)
      }
    } catch (error) {
      if (options.signal?.aborted)
        await this.#call(calls.cancelQuestion, { id }, {}, { isRepeatable: true }).catch(() => undefined)
      throw error
    }
    if (question.status === 'answered') return question
    throw new SvcError(
      'no_answer',
      question.status === 'cancelled' ? 'the question was taken back' : 'nobody answered in time',
    )
  }

  download(input: DownloadInput, options: CallOptions = {}): Promise<Downloaded> {
    return this.#download(this.#http, input, options)
  }

  login(input: LoginInput = {}, options: CallOptions = {}): Promise<LoginStatus> {
    // The same call again follows the login that is in progress.
    return this.#call(calls.login, input, options, { isRepeatable: true, waitsS: input.timeout ?? 30 })
  }

  async export(filter: ExportFilter = {}): Promise<OpenedExport> {
    this.#life.rejectIfEnded()
    const { body: stream, headers } = await this.#http.open(calls.exportMessages, filter)
    const [, file_name = 'export'] = /filename="([^"]*)"/.exec(headers.get('content-disposition') ?? '') ?? []
    return { file_name, content_type: headers.get('content-type') ?? '', stream }
  }

  async *messages(options: MessagesOptions = {}): AsyncGenerator<Message, void, void> {
    const { consumer, session, signal } = this.#checkReader(options)
    const follow = (stop: AbortSignal) => this.#messages.follow({ consumer, session }, stop)
    if (consumer === undefined) yield* this.background.read(follow, signal)
    else yield* this.background.readToEnd(follow, signal)
  }

  async *openMessages(
    options: MessagesOptions & { consumer: string },
  ): AsyncGenerator<OpenMessage, void, void> {
    const { session, signal } = this.#checkReader(options)
    const follow = (stop: AbortSignal) => this.#messages.openEach(options.consumer, session, stop)
    yield* this.background.readToEnd(follow, signal)
  }

  as(part: PartGrant): SvcPart {
    rejectUnknown(part, ['name', 'can', 'users'])
    if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/.test(part.name))
      throw badArgument('name', 'expected 1 to 64 letters (a-z), digits, ".", "_" or "-"')
    if (this.#options.key === undefined)
      throw new SvcError('forbidden', 'a connection without a key makes no key for a part')
    const key = new PartKey({ http: this.#http, grant: part })
    this.#parts.push(key)
    const http = new Http({ ...this.#http.options, getKey: () => key.get() })
    return {
      send: (input, options = {}) => this.#send(http, input, options),
      download: (input, options = {}) => this.#download(http, input, options),
      history: (input = {}, options = {}) => this.#call(calls.history, input, options, {}, http),
      users: (filter = {}) => this.#call(calls.listUsers, filter, {}, {}, http),
      showTyping: (to, others = {}) =>
        this.#call(calls.showTyping, { to, ...others }, {}, { isRepeatable: true }, http),
    }
  }

  async *events(options: EventsOptions = {}): AsyncGenerator<Event, void, void> {
    rejectUnknown(options, ['after', 'types', 'session', 'user', 'signal', 'onGone'])
    const { onGone, signal, types, ...filter } = options
    const query = { ...filter, types: types?.join(',') }
    yield* this.background.read(stop => followEvents(this.#http, query, stop, onGone), signal)
  }

  [Symbol.asyncIterator](): AsyncGenerator<Message, void, void> {
    return this.messages()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #start(log: Log): Promise<number | undefined> {
    // A key may be without one of these rights.
    const orForbidden = (error: unknown) => {
      if (!isSvcError(error, 'forbidden')) throw error
      return undefined
    }
    const from = await this.#messages.findEnd().catch(orForbidden)
    const sessions = await this.sessions().catch(orForbidden)
    if (sessions?.length === 0) log.warn('no session yet: log in with svc.login()')
    return from
  }

  async #end(): Promise<void> {
    await this.#messages.end()
    await Promise.all(this.#parts.map(part => part.revoke()))
  }

  async #call<T>(
    route: Route,
    input: object,
    options: CallOptions = {},
    plan: CallPlan = {},
    http: Http = this.#http,
  ): Promise<T> {
    this.#rejectBelow(options)
    return await http.json<T>(route, input, { ...plan, signal: options.signal })
  }

  async #send(http: Http, input: SendInput, options: CallOptions): Promise<SendResult> {
    this.#rejectBelow(options)
    const { sent, uploads, withFields } = await uploadMedia(http, input, options.signal)
    const plan = { isRepeatable: true, waitsS: paceS + uploads * uploadS }
    const keyed = { idempotency_key: createId(), ...sent }
    return await this.#call<SendResult>(calls.send, keyed, options, plan, http).catch(error => {
      throw withFields(error)
    })
  }

  async #download(http: Http, input: DownloadInput, options: CallOptions): Promise<Downloaded> {
    this.#rejectBelow(options)
    rejectUnknown(input, ['message_id', 'item', 'save_dir', 'digest'])
    const { digest, item = 0, message_id, save_dir = this.#options.mediaRoot ?? '.' } = input
    const { saveFile } = await loadFiles('save_dir')
    return await http.read(calls.getMedia, { message_id, item }, options, (answer, onProgress) =>
      saveFile(answer, save_dir, digest, onProgress),
    )
  }

  #rejectBelow({ below }: CallOptions): void {
    this.#life.rejectIfEnded()
    if (below !== undefined) throw badArgument('below', 'works only with Svc.open')
  }

  #checkReader(options: MessagesOptions): MessagesOptions {
    this.#life.rejectIfEnded()
    rejectUnknown(options, ['consumer', 'session', 'signal'])
    checkConsumer(options)
    return options
  }
}

/** @throws SvcError `invalid_arguments` for an option that is misspelt */
function rejectUnknown(options: object, known: readonly string[]): void {
  for (const name of Object.keys(options))
    if (!known.includes(name)) throw badArgument(name, 'unknown option')
}

function checkConsumer({ consumer }: HandlerOptions): void {
  if (consumer !== undefined && !/^[A-Za-z0-9._-]{1,64}$/.test(consumer))
    throw badArgument('consumer', 'expected 1 to 64 letters (a-z), digits, ".", "_" or "-"')
}

/** A browser has no signals. A second signal ends the process, as the first one removes its listener. */
function onStopSignals(stop: (signal: string) => void): () => void {
  const { process } = globalThis as { process?: NodeJS.Process }
  for (const signal of stopSignals) process?.once(signal, stop)
  return () => {
    for (const signal of stopSignals) process?.off(signal, stop)
  }
}
const stopSignals = ['SIGINT', 'SIGTERM'] as const
