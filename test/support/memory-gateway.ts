/**
 * A gateway in memory: its log is an array, its sessions are set by the test. For tests of tools and
 * servers that must not depend on WeChat, disk or time.
 */
import { createHash } from 'node:crypto'
import { Keys } from '../../src/access/keys.ts'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import type { Health } from '../../src/gateway/health.ts'
import type { DownloadRequest, OpenedMedia } from '../../src/media/downloads.ts'
import type { MediaUpload } from '../../src/media/uploads.ts'
import type { Call } from '../../src/model/call.ts'
import { SvcError } from '../../src/model/error.ts'
import type { LoginRequest } from '../../src/model/login.ts'
import type { AcceptedUpload } from '../../src/model/media.ts'
import type { CountWaitingRequest, Message, RecvRequest } from '../../src/model/message.ts'
import type { Principal } from '../../src/model/principal.ts'
import type { Session } from '../../src/model/session.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { Webhooks } from '../../src/push/webhooks.ts'
import type { SendRequest } from '../../src/send/plan.ts'
import type { HistoryFilter as HistoryRequest } from '../../src/storage/messages.ts'
import { quietPorts } from './quiet-ports.ts'
import { runtimeOf } from './runtime.ts'
import { storeInMemory } from './store-in-memory.ts'

const none = async () => {}
/** Throws `not_found` for every name and id. */
/** Answers that there is nothing of this name. */
export const unknown = async (): Promise<never> => {
  throw new SvcError('not_found', 'nothing has this id')
}

export class MemoryGateway implements Gateway {
  /** The message log, oldest first. */
  readonly log: Message[] = []
  readonly known: Session[] = []
  /** Verbs called so far, with the requests that the tools passed. */
  readonly asked: { verb: string; request: unknown }[] = []
  readonly position = new Map<string, number>()
  readonly uploads: { bytes: number; sha256: string; file_name?: string; kind?: string }[] = []
  /** Delivery results that the servers reported, in order. */
  readonly settled: boolean[] = []
  /** Answers that were written and wait for a sign of life. */
  readonly handedOut: number[] = []
  /** The signal of each recv call. */
  readonly signals: AbortSignal[] = []
  /** Set to make recv throw after it has registered its claim. */
  failAfterClaim = false
  /** Errors to throw, by verb. */
  readonly failures = new Map<string, unknown>()
  /** What GET /media opens. */
  opened: (() => OpenedMedia) | undefined
  readonly events: Gateway['events'] = {
    markActive: none,
    startReader: async after => after ?? '',
    getHead: async () => '',
    wait: none,
    readPage: async () => ({ events: [], cursor: '' }),
    async *follow() {},
    followSession: session => async () => ({ session }),
    resolveFilter: async wanted => wanted,
  }
  readonly keys = new Keys(
    {
      keys: storeInMemory().keys,
      sessions: { list: async () => [] },
      maintenance: { isClockTrusted: async () => true },
      resolveTarget: async who => who,
    },
    runtimeOf(),
  )
  readonly tasks = new Tasks(systemClock)
  readonly consumers: Gateway['consumers'] = { list: async () => [], remove: unknown }
  readonly audit = storeInMemory().audit
  readonly backups: Gateway['backups'] = { status: async () => ({}), make: unknown }
  readonly people = {
    countErasures: async () => 0,
    listOwned: async () => [],
    forget: async () => ({
      hash: 'user:0',
      messages: 0,
      sends: 0,
      webhooks: [],
      keys: [],
      agents: [],
      backups: [],
      remains: [],
    }),
  }
  readonly agents = {} as Gateway['agents']
  readonly relays = {} as Gateway['relays']
  readonly relayLogins = { ask: unknown, poll: unknown, allow: unknown }
  readonly relayClients = { list: async () => [], add: unknown, remove: unknown }
  readonly asks = {} as Gateway['asks']
  readonly invitations = {
    list: async () => [],
    add: unknown,
    revoke: unknown,
    look: unknown,
    join: unknown,
    giveCode: unknown,
  }
  readonly topics = {
    list: async () => [],
    find: unknown,
    accept: unknown,
    add: unknown,
    show: unknown,
    change: unknown,
    remove: unknown,
  }
  readonly changes: Gateway['changes'] = {
    subscribe(listener) {
      listener.reached?.('')
      return () => {}
    },
  }
  #wake = Promise.withResolvers<void>()
  #asked = Promise.withResolvers<void>()

  /** Adds a received text message and wakes waiting calls. */
  say(text: string): Message {
    const id = this.log.length + 1
    const message: Message = {
      id,
      message_id: String(9007199254740993n + BigInt(id)),
      session: 'default',
      bot_id: 'b@im.bot',
      direction: 'received',
      from_user: 'u@im.wechat',
      to_user: 'b@im.bot',
      msg_type: 'TEXT',
      text,
      timestamp: 1767225600000 + id,
      items: [{ kind: 'TEXT', text, has_media: false }],
    }
    this.log.push(message)
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
    return message
  }

  /** Resolves at the next call of a verb. */
  get nextCall(): Promise<void> {
    return this.#asked.promise
  }

  #note(verb: string, request: unknown): void {
    this.asked.push({ verb, request })
    this.#asked.resolve()
    this.#asked = Promise.withResolvers()
    if (this.failures.has(verb)) throw this.failures.get(verb)
  }

  /** What servers reported about their answers. */
  readonly answered: Parameters<Gateway['metrics']['answered']>[0][] = []
  readonly metrics: Gateway['metrics'] = {
    answered: call => void this.answered.push(call),
    refused() {},
    text: async () => '# TYPE svc_build_info gauge\nsvc_build_info{version="1.2.3"} 1\n',
  }

  readonly inbox = {
    countWaiting: async (request: CountWaitingRequest, most: number): Promise<number> => {
      const from = request.after ?? this.position.get(request.consumer) ?? 0
      return this.log.filter(message => message.id > from).slice(0, most).length
    },
    begin: none,
    getHead: async () => this.log.length,
    async *follow() {},
    async *open() {},
    lease: async () => [],
    renewLeases: async () => ({ leases: [], expires_at: 0 }),
    settleLeases: async () => [],
    recv: async (request: RecvRequest, call: Call): Promise<Message[]> => {
      this.signals.push(call.signal)
      this.#note('recv', request)
      const deadline = Date.now() + request.timeout * 1000
      for (;;) {
        const from = request.after ?? this.position.get(request.consumer) ?? 0
        const found = this.log.filter(message => message.id > from).slice(0, request.limit)
        const leftMs = deadline - Date.now()
        if (found.length > 0 && !call.signal.aborted) {
          if (request.after === undefined)
            call.onDelivered(
              delivered => {
                this.settled.push(delivered)
                if (delivered) this.position.set(request.consumer, found.at(-1)?.id ?? from)
              },
              () => void this.handedOut.push(found.at(-1)?.id ?? from),
            )
          if (this.failAfterClaim) throw new Error('broken')
          return found
        }
        if (leftMs <= 0 || call.signal.aborted) return []
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, leftMs)
          const done = () => {
            clearTimeout(timer)
            resolve()
          }
          call.signal.addEventListener('abort', done, { once: true })
          void this.#wake.promise.then(done)
        })
      }
    },
  }

  readonly sender = {
    foresee: async () => 'new' as const,
    send: async (request: SendRequest, _call: Call) => {
      this.#note('send', request)
      return {
        success: true,
        status: 'accepted' as const,
        message_id: '9007199254740993',
        session: request.session ?? 'default',
        parts: [],
        remaining: 9,
        window_expires_at: 1767312000000,
      }
    },
  }

  readonly outbox = { list: async () => [], get: unknown, approve: unknown, cancel: unknown }

  readonly media = {
    download: async (request: DownloadRequest, _call: Call) => {
      this.#note('download', request)
      return { path: '/media/a.png', size: 3, file_name: 'a.png', content_type: 'image/png' }
    },
    open: async (request: { message_id: string; item: number }, _signal: AbortSignal) => {
      this.#note('open', request)
      if (!this.opened) throw new SvcError('message_not_found', `No message ${request.message_id}`)
      return this.opened()
    },
    show: unknown,
    accept: async (upload: MediaUpload, _signal: AbortSignal): Promise<AcceptedUpload> => {
      this.#note('accept', { file_name: upload.file_name, kind: upload.kind })
      const hash = createHash('sha256')
      let size = 0
      for await (const chunk of upload.body) {
        hash.update(chunk)
        size += chunk.length
      }
      const sha256 = hash.digest('hex')
      this.uploads.push({ bytes: size, sha256, file_name: upload.file_name, kind: upload.kind })
      const upload_id = `up_${this.uploads.length}`
      return { upload_id, size, ...(upload.digest && { sha256 }), expires_at: 1767312000000 }
    },
  }

  readonly history = {
    page: async (request: HistoryRequest) => {
      this.#note('history', request)
      const { limit, offset } = request
      const messages = this.log.toReversed().slice(offset, offset + limit)
      return { messages, total: this.log.length, total_is_lower_bound: false, limit, offset }
    },
    walk: async function* (this: void) {},
  }

  readonly conversations = {
    list: async () => [],
    markRead: none,
    markUnread: none,
    countPerHour: async () => [],
  }

  readonly signIns = {
    addLink: none,
    takeLink: async () => false,
    filterEnded: async () => new Set<string>(),
    end: none,
  }
  readonly clock: Clock = systemClock
  nodes = async () => ({ nodes: [] })
  pollerPid = async () => undefined
  pollsSince = () => undefined

  readonly users = { list: async () => [], name: unknown }

  readonly accounts = {
    list: async () => {
      this.#note('sessions', undefined)
      return this.known
    },
    listUsers: unknown,
    listWithUsers: async () => [],
    getReceiving: async (only?: string) => ({
      connected: this.known.some(({ connected }) => connected),
      silent: this.known.flatMap(({ name, status }) =>
        (status === 'expired' || status === 'lapsed') &&
        (only === undefined || only.toLowerCase() === name.toLowerCase())
          ? [{ name, status }]
          : [],
      ),
    }),
    check: unknown,
    logout: async (session: string) => {
      this.#note('logout', session)
      if (session !== '' && !this.known.some(({ name }) => name === session))
        throw new SvcError('session_not_found', `No session ${session}`)
      return { success: true as const, session }
    },
    rename: async (old_name: string, new_name: string) => {
      this.#note('rename', { old_name, new_name })
      return { success: true as const, old_name, new_name }
    },
    setDefault: async (default_session: string) => {
      this.#note('setDefault', default_session)
      return { success: true as const, default_session }
    },
  }

  /** In memory; nothing is delivered. */
  readonly webhooks = new Webhooks({
    webhooks: storeInMemory().webhooks,
    events: { getHead: async () => 'm-0', listAfter: async cursor => ({ events: [], cursor }) },
    resolveTarget: async target => target,
    getMessage: async id => this.log.find(message => message.message_id === id),
    isKeyOver: async () => false,
    listKeys: async () => [],
    clock: systemClock,
    ...quietPorts,
  })

  readonly subscriptions: Gateway['subscriptions'] = {
    subscribe: unknown,
    unsubscribe: async () => ({ id: '' }),
  }

  readonly logins: Gateway['logins'] = {
    begin: unknown,
    follow: unknown,
    giveCode: unknown,
    callOff: async () => true,
    forget: none,
    isFollowed: async () => false,
    leave: none,
    login: async (_by: Principal, request: LoginRequest, _signal: AbortSignal) => {
      this.#note('login', request)
      return {
        status: 'waiting' as const,
        session: request.session_name || 'default',
        message: 'Scan the QR code with WeChat, then call login again.',
      }
    },
  }

  health = async (): Promise<Health> => {
    const [sessions, connected] = [this.known.length, this.known.length]
    const fine = { status: 'ok', store: 'ok', disk: 'ok', role: 'poller', stalled: false } as const
    return { ...fine, version: '0.0.0', sessions, connected }
  }
}
