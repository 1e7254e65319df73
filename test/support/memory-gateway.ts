/**
 * A gateway without a world: its log is an array, its sessions are what the test put there. For tests of tools and
 * doors, which must not depend on upstream, disk or time.
 */
import { createHash } from 'node:crypto'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import type { Health } from '../../src/gateway/health.ts'
import type { DownloadRequest, OpenedMedia } from '../../src/media/downloads.ts'
import type { GivenUpload } from '../../src/media/uploads.ts'
import type { Call } from '../../src/model/call.ts'
import { SvcError } from '../../src/model/error.ts'
import type { LoginFlow, LoginRequest } from '../../src/model/login.ts'
import type { AcceptedUpload } from '../../src/model/media.ts'
import type { Message, OutboxEntry, RecvRequest, WaitingRequest } from '../../src/model/message.ts'
import type { NameRequest, Session, SessionUser, UserFilter } from '../../src/model/session.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { Webhooks } from '../../src/push/webhooks.ts'
import type { SendRequest } from '../../src/send/plan.ts'
import type { HistoryFilter as HistoryRequest } from '../../src/storage/messages.ts'
import { memoryWebhooks } from '../storage/memory-events.ts'
import { Tables, verbs } from '../storage/memory-tables.ts'

export class MemoryGateway implements Gateway {
  /** The message log, oldest first. */
  readonly log: Message[] = []
  readonly known: Session[] = []
  /** Who has written, by session name. */
  readonly writers = new Map<string, SessionUser[]>()
  /** What the outbox lists. */
  readonly waiting: OutboxEntry[] = []
  /** What each verb was asked, as the tools handed it down. */
  readonly asked: { verb: string; request: unknown }[] = []
  readonly position = new Map<string, number>()
  readonly uploads: { bytes: number; sha256: string; file_name?: string; kind?: string }[] = []
  /** Outcomes told by the door, in order. */
  readonly settled: boolean[] = []
  /** The signal of each recv call. */
  readonly signals: AbortSignal[] = []
  /** recv breaks after it registered its claim. */
  failAfterClaim = false
  /** Set to make a verb fail. */
  readonly failures = new Map<string, unknown>()
  /** What GET /media opens. */
  opened: (() => OpenedMedia) | undefined
  healthState: Health['status'] = 'ok'
  readonly events: Gateway['events'] = {
    seen: async () => {},
    begin: async after => after ?? '',
    head: async () => '',
    page: async () => ({ events: [], cursor: '' }),
    async *follow() {},
    wanted: async wanted => wanted,
  }
  readonly changes: Gateway['changes'] = {
    subscribe(listener) {
      listener.reached?.('')
      return () => {}
    },
  }
  #wake = Promise.withResolvers<void>()
  #asked = Promise.withResolvers<void>()

  /** Adds a received text message and wakes who waits. */
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

  /** Resolves when a verb has been called that was not before. */
  get nextCall(): Promise<void> {
    return this.#asked.promise
  }

  #note(verb: string, request: unknown): void {
    this.asked.push({ verb, request })
    this.#asked.resolve()
    this.#asked = Promise.withResolvers()
    if (this.failures.has(verb)) throw this.failures.get(verb)
  }

  /** What doors told of their answers. */
  readonly answered: Parameters<Gateway['metrics']['answered']>[0][] = []
  readonly metrics: Gateway['metrics'] = {
    answered: call => void this.answered.push(call),
    text: async () => '# TYPE svc_build_info gauge\nsvc_build_info{version="1.2.3"} 1\n',
  }

  readonly inbox = {
    waiting: async (request: WaitingRequest, most: number): Promise<number> => {
      const from = request.after ?? this.position.get(request.consumer) ?? 0
      return this.log.filter(message => message.id > from).slice(0, most).length
    },
    begin: async () => {},
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
            call.onDelivered(delivered => {
              this.settled.push(delivered)
              if (delivered) this.position.set(request.consumer, found.at(-1)?.id ?? from)
            })
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

  readonly outbox = {
    list: async (filter: { user_id?: string; session?: string } = {}): Promise<OutboxEntry[]> => {
      this.#note('outbox', filter)
      return this.waiting
    },
    get: async (outbox_id: string) => {
      this.#note('queued', outbox_id)
      const entry = this.waiting.find(one => one.outbox_id === outbox_id)
      if (!entry) throw new SvcError('not_found', 'no queued send has this id')
      return entry
    },
    approve: async (outbox_id: string) => {
      this.#note('approve', outbox_id)
      const entry = this.waiting.find(one => one.outbox_id === outbox_id)
      if (!entry) throw new SvcError('not_found', 'nothing of this id waits for a yes')
      return entry
    },
    cancel: async (outbox_id: string) => {
      this.#note('cancel', outbox_id)
      const at = this.waiting.findIndex(entry => entry.outbox_id === outbox_id)
      if (at < 0) throw new SvcError('not_found', 'nothing of this id waits in the outbox')
      const [entry] = this.waiting.splice(at, 1)
      return { success: true, outbox_id, cancelled: entry!.parts.length }
    },
  }

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
    show: async ({ row }: { row: number }, _signal: AbortSignal) => {
      this.#note('show', row)
      if (!this.opened) throw new SvcError('message_not_found', `No message ${row}`)
      return this.opened()
    },
    accept: async (upload: GivenUpload, _signal: AbortSignal): Promise<AcceptedUpload> => {
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
      const messages = this.log.toReversed().slice(request.offset, request.offset + request.limit)
      return {
        messages,
        total: this.log.length,
        total_is_lower_bound: false,
        limit: request.limit,
        offset: request.offset,
      }
    },
  }

  readonly conversations = {
    list: async () => [],
    markRead: async () => {},
    markUnread: async () => {},
    hours: async () => [],
  }

  readonly signIns: Gateway['signIns'] = {
    addLink: async () => {},
    takeLink: async () => false,
    ended: async () => new Set(),
    end: async () => {},
  }
  readonly clock: Clock = systemClock
  pollerPid = async () => undefined
  pollsSince = () => undefined

  readonly users = {
    list: async ({ session, user_id }: UserFilter = {}) => {
      this.#note('list users', { session, user_id })
      return [...this.writers].flatMap(([name, users]) => users.map(user => ({ session: name, ...user })))
    },
    name: async ({ user_id, name, session = 'default' }: NameRequest) => {
      this.#note('name', { user_id, name, session })
      return { session, user_id, remaining: 10, ...(name !== '' && { name }) }
    },
  }

  readonly accounts = {
    list: async () => {
      this.#note('sessions', undefined)
      return this.known
    },
    users: async (name: string) => {
      this.#note('users', name)
      const session = this.known.find(one => (name === '' ? one.is_default : one.name === name))
      if (!session) throw new SvcError('session_not_found', `No session ${name}`)
      return this.writers.get(session.name) ?? []
    },
    withUsers: async () =>
      this.known.map(session => ({ ...session, users: this.writers.get(session.name) ?? [] })),
    silent: async (only?: string) =>
      this.known.flatMap(({ name, status }) =>
        (status === 'expired' || status === 'lapsed') &&
        (only === undefined || only.toLowerCase() === name.toLowerCase())
          ? [{ name, status }]
          : [],
      ),
    check: async (name: string) => {
      this.#note('check', name)
      const session = this.known.find(one => (name === '' ? one.is_default : one.name === name))
      if (!session) throw new SvcError('session_not_found', `No session ${name}`)
      return { session: session.name, status: session.status, answered: true }
    },
    logout: async (name: string) => {
      this.#note('logout', name)
      const session = this.known.find(one => (name === '' ? one.is_default : one.name === name))
      if (!session) throw new SvcError('session_not_found', `No session ${name}`)
      this.known.splice(this.known.indexOf(session), 1)
      return { success: true as const, session: session.name }
    },
    rename: async (old_name: string, new_name: string) => {
      this.#note('rename', { old_name, new_name })
      return { success: true as const, old_name, new_name }
    },
    setDefault: async (name: string) => {
      this.#note('setDefault', name)
      return { success: true as const, default_session: name }
    },
  }

  /** Kept in memory; nothing is delivered. */
  readonly webhooks = new Webhooks({
    webhooks: verbs(memoryWebhooks(new Tables())),
    events: { head: async () => 'm-0', after: async cursor => ({ events: [], cursor }) },
    meant: async who => {
      const isKnown = who.session === undefined || this.known.some(one => one.name === who.session)
      if (!isKnown) throw new SvcError('session_not_found', `No session ${who.session}`)
      return who
    },
    message: async id => this.log.find(one => one.message_id === id),
    clock: systemClock,
  })

  readonly #flow = async (request: unknown): Promise<LoginFlow> => {
    this.#note('flow', request)
    return { login_id: 'lg_1', revision: 1, status: 'waiting', session: 'default', message: 'Scan it.' }
  }

  readonly logins: Gateway['logins'] = {
    begin: (session, force) => this.#flow({ session, force }),
    follow: asked => this.#flow(asked),
    giveCode: (login_id, code) => this.#flow({ login_id, code }),
    callOff: async () => true,
    forget: async () => {},
    leave: async () => {},
    login: async (request: LoginRequest, _signal: AbortSignal) => {
      this.#note('login', request)
      return {
        status: 'waiting' as const,
        session: request.session_name || 'default',
        message: 'Scan the QR code with WeChat, then call login again.',
      }
    },
  }

  health = async (): Promise<Health> => {
    this.#note('health', undefined)
    return {
      status: this.healthState,
      version: '0.0.0',
      role: 'poller',
      stalled: false,
      sessions: this.known.length,
      connected: this.known.length,
      store: this.healthState === 'ok' ? 'ok' : 'unavailable',
      disk: 'ok',
    }
  }
}
