/**
 * What programs do that speak WeChat's protocol to svc: each reads the messages of its account as WeChat sent them, by a position that
 * it shows, and answers. All of them get every message. To show a position says that what came before it has arrived.
 */

import type { Right } from '../model/access.ts'
import { type Call, waitOf } from '../model/call.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaContent, SendResult } from '../model/message.ts'
import { formatPrincipal, keyIdOf, type Principal, scopeOf } from '../model/principal.ts'
import { createMutex, type RunAlone } from '../platform/one-at-a-time.ts'
import { RunningPart } from '../platform/runtime.ts'
import { linkSignals } from '../platform/signals.ts'
import type { Inbox } from '../receive/inbox.ts'
import type { Views } from '../receive/view.ts'
import type { Sender } from '../send/send.ts'
import { splitText, textLimitBytes } from '../send/split.ts'
import type { StoredMessage } from '../storage/messages.ts'
import type { OutboxStore } from '../storage/outbox.ts'
import type { RelayClient, RelayNote, RelayStore } from '../storage/relays.ts'
import type { Acknowledgements, MessageLog } from '../storage/store.ts'

export interface RelaysPorts {
  readonly store: {
    relays: RelayStore
    log: Pick<MessageLog, 'getHead' | 'getByIds' | 'getByMessageIds'>
    acknowledgements: Acknowledgements
    outbox: Pick<OutboxStore, 'findByKey'>
  }
  readonly inbox: Pick<Inbox, 'waitForMore' | 'isClosing'>
  readonly sender: Pick<Sender, 'send'>
  readonly views: Pick<Views, 'toSketch' | 'startStaleCheck'>
}

/** A place in the log. After a restore of an older copy, the row with that id may be another message: the mark tells. */
export interface RelayPosition {
  readonly row: number
  readonly mark: string
}

export interface RelayRead {
  readonly rows: readonly StoredMessage[]
  /** Up to where the client has read; absent if there was nothing. */
  readonly last?: RelayPosition
}

interface RelayMessage {
  readonly to: string
  readonly text?: string
  readonly media?: readonly MediaContent[]
  readonly client_id?: string
}

/** A poll under way. */
interface OpenPoll {
  readonly beganAt: number
  readonly caller: AbortSignal
  readonly end: AbortController
}

const right: Right = 'relay'
const perAnswer = { limit: 100, characters: 2 * 1024 * 1024 }
/** Clients leave after 10 to 15 s. A message that has not begun by then is not sent. */
const patienceMs = 9000
/** Two programs with one token end each other's polls, but no faster than this. */
const leastPollMs = 1000
/** If polls of one client meet twice in this time, two programs use its token. Once, a connection broke. */
const doubledMs = 60_000
/** The time of the last poll is stored this often. */
const noteEveryMs = 10_000
const anyEveryMs = 500

const markOf = ({ message_id }: StoredMessage): string => message_id.slice(-12)

export class Relays extends RunningPart<RelaysPorts> {
  readonly #polls = new Map<string, OpenPoll>()
  /** When polls of a client met, and whether that was more than once, by its key. */
  readonly #met = new Map<string, { at: number; isDoubled: boolean }>()
  /** Sends of a client with a share go one after the other, so that all count. Those that another node sends just then do not. */
  readonly #turns = new Map<string, RunAlone>()
  #any = { exists: false, readAt: Number.NEGATIVE_INFINITY }

  /** Whether there was ever a client, as this process knows it. */
  hasAny(): boolean | Promise<boolean> {
    const now = this.runtime.clock.monotonic()
    if (this.#any.exists || now - this.#any.readAt < anyEveryMs) return this.#any.exists
    return this.ports.store.relays.list().then(clients => {
      this.#any = { exists: clients.length > 0 || this.#any.exists, readAt: now }
      return this.#any.exists
    })
  }

  /** Returns the client of a key. @throws SvcError `not_found` if it is of none */
  async clientOf(by: Principal): Promise<RelayClient> {
    const client = await this.ports.store.relays.get(keyIdOf(by) ?? '')
    if (!client)
      throw new SvcError('not_found', 'The key is of no program of the relay', { details: { right } })
    return client
  }

  /**
   * Returns the messages for a client after a position; without one, or after one that is not known any more, those that it has not
   * acknowledged. Waits up to `timeout` seconds if there are none. Leases nothing.
   */
  async poll(
    { after, source, timeout }: { after?: RelayPosition; source?: string; timeout: number },
    call: Call,
  ): Promise<RelayRead> {
    const { clock } = this.runtime
    const client = await this.clientOf(call.by)
    const deadline = clock.monotonic() + waitOf(call, timeout) * 1000
    const poll = this.#begin(client, source, call.signal)
    using either = linkSignals(call.signal, poll.end.signal)
    try {
      const read = await this.#readOrWait(client, after, { by: call.by, signal: either.signal, deadline })
      if (poll.end.signal.aborted && read.rows.length === 0)
        await clock.sleep(Math.max(0, poll.beganAt + leastPollMs - clock.monotonic()), call.signal)
      return read
    } finally {
      if (this.#polls.get(client.key) === poll) this.#polls.delete(client.key)
    }
  }

  /** Ends an earlier poll of the client, as WeChat does, and notes this one. */
  #begin(client: RelayClient, source: string | undefined, caller: AbortSignal): OpenPoll {
    const { key } = client
    const beganAt = this.runtime.clock.monotonic()
    const now = this.runtime.clock.now()
    const earlier = this.#polls.get(key)
    const poll = { beganAt, caller, end: new AbortController() }
    this.#polls.set(key, poll)
    earlier?.end.abort('over')
    const isOther = source !== client.source && now - (client.polled_at ?? 0) < doubledMs
    const meets = (earlier && !earlier.caller.aborted) || isOther
    const met = this.#met.get(key)
    const isDoubled = meets && met !== undefined && beganAt - met.at < doubledMs
    const isNews = isDoubled && !met.isDoubled
    if (meets) this.#met.set(key, { at: beganAt, isDoubled })
    if (isNews)
      this.runtime.log.warn('two programs use one token: add one for each', { program: client.name })
    if (isNews || Math.abs(now - (client.polled_at ?? 0)) >= noteEveryMs)
      void this.#note(key, { polled_at: now, source, ...(isDoubled && { doubled_at: now }) })
    return poll
  }

  async #readOrWait(
    client: RelayClient,
    after: RelayPosition | undefined,
    { by, signal, deadline }: { by: Principal; signal: AbortSignal; deadline: number },
  ): Promise<RelayRead> {
    const { inbox, store, views } = this.ports
    const scope = scopeOf(by)
    let position = await this.#find(after)
    let last: RelayPosition | undefined
    for (;;) {
      const seen = await store.log.getHead()
      const withoutStale = views.startStaleCheck()
      const found = await this.#readAfter(client, position, scope)
      const newest = found.at(-1)
      if (newest) {
        last = { row: newest.id, mark: markOf(newest) }
        position = newest.id
        await store.acknowledgements.markHandedOut(client.consumer, newest.id)
      }
      const rows = await withoutStale(await this.#listOwn(client, by, found))
      const leftMs = deadline - this.runtime.clock.monotonic()
      if (rows.length > 0 || leftMs <= 0 || signal.aborted || inbox.isClosing)
        return { rows, ...(last && { last }) }
      if (!newest) await inbox.waitForMore(signal, leftMs, seen, { scope })
    }
  }

  /** Returns the row of a position; 0 if that is another message now, or gone. */
  async #find(after: RelayPosition | undefined): Promise<number> {
    const [row] = after ? await this.ports.store.log.getByIds([after.row]) : []
    return row && markOf(row) === after?.mark ? row.id : 0
  }

  async #readAfter({ consumer }: RelayClient, row: number, scope: ReturnType<typeof scopeOf>) {
    const { acknowledgements } = this.ports.store
    const read = async () => (await acknowledgements.readAfter(consumer, row, { ...perAnswer, scope })).rows
    try {
      return await read()
    } catch (error) {
      if (row === 0 || !isSvcError(error, 'invalid_arguments')) throw error
      // The store may have forgotten that the row was handed out. Only who got it can show it.
      await acknowledgements.markHandedOut(consumer, row)
      return await read()
    }
  }

  /** Returns the messages that are for this client: of those that are only for called ones, it passes over the others. */
  async #listOwn(
    client: RelayClient,
    by: Principal,
    found: readonly StoredMessage[],
  ): Promise<StoredMessage[]> {
    if (client.answers !== 'called') return [...found]
    const quotes = new Map(found.map(row => [row.id, this.ports.views.toSketch(row).quotedId]))
    const ids = [...new Set(quotes.values())].filter(id => id !== undefined)
    const { rows } = ids.length > 0 ? await this.ports.store.log.getByMessageIds(ids) : { rows: [] }
    const answers = new Set(rows.flatMap(row => (row.sent_by === formatPrincipal(by) ? row.message_id : [])))
    return found.filter(({ id, text }) => isCalled(text, client.name) || answers.has(quotes.get(id) ?? ''))
  }

  /**
   * Sends a message of a client, from its session.
   *
   * @throws SvcError as `Sender.send`; `quota_exhausted` if the client has used its share of the answers
   */
  async send({ client_id, ...message }: RelayMessage, call: Call): Promise<SendResult> {
    const client = await this.clientOf(call.by)
    const over = new AbortController()
    const late = new AbortController()
    void this.runtime.clock.sleep(patienceMs, over.signal).then(() => late.abort(lateError()))
    using either = linkSignals(call.signal, late.signal)
    const { signal } = either
    const { by, address, requestId } = call
    const idempotency_key = client_id === undefined ? undefined : `${client.key}/relay:${client_id}`
    const media = [...(message.media ?? [])]
    const send = async () => {
      signal.throwIfAborted()
      await this.#requireShare(client, message, idempotency_key)
      const request = { ...message, media, session: client.session, typing: false, idempotency_key }
      const caller = { by, address, requestId, signal, local: false, below: undefined }
      return this.ports.sender.send(request, caller)
    }
    try {
      return await (typeof client.answers === 'number' ? this.#turnsOf(client.key)(send) : send())
    } catch (error) {
      if (late.signal.aborted && (await this.#mayArrive(idempotency_key))) throw onItsWayError()
      if (error instanceof SvcError && !passing.has(error.code))
        await this.#note(client.key, { refusal: error.code })
      throw error
    } finally {
      over.abort()
    }
  }

  #turnsOf(key: string): RunAlone {
    const turns = this.#turns.get(key) ?? createMutex()
    this.#turns.set(key, turns)
    return turns
  }

  async #requireShare(
    { answers, key }: RelayClient,
    { text = '', to }: RelayMessage,
    idempotency_key?: string,
  ): Promise<void> {
    if (typeof answers !== 'number') return
    const { outbox, relays } = this.ports.store
    // A long text becomes several messages.
    const parts = splitText(text, textLimitBytes, answers)?.length ?? answers + 1
    if ((await relays.countAnswers(key, to)) + Math.max(1, parts) <= answers) return
    // A call that was made before sends nothing.
    if (idempotency_key === undefined || !(await outbox.findByKey(idempotency_key)))
      throw new SvcError('quota_exhausted', `this program may send ${answers} of the answers to a message`)
  }

  /** Whether a message with this key went out, or may still. An earlier call may have handed it over. */
  async #mayArrive(key: string | undefined): Promise<boolean> {
    const entry = key === undefined ? undefined : await this.ports.store.outbox.findByKey(key)
    return entry?.parts.some(({ status }) => status !== 'refused') ?? false
  }

  #note(key: string, note: RelayNote): Promise<void> {
    return this.ports.store.relays
      .note(key, note)
      .catch(error => this.runtime.log.warn('not noted about a relay client', { key, error }))
  }
}

/** Errors that are no refusal of a send. */
const passing = new Set<string>(['unauthorized', 'store_unavailable', 'shutting_down', 'internal'])

const lateError = () => new SvcError('rate_limited', 'the program waits no longer: this message was not sent')

const onItsWayError = () =>
  new SvcError('shutting_down', 'an earlier call with this client_id goes on: call again with it')

/** Whether a text begins with a name, which may follow an @. */
function isCalled(text: string, name: string): boolean {
  const said = text.trimStart().replace(/^[@＠]/, '')
  const rest = said.slice(name.length)
  if (said.slice(0, name.length).toLowerCase() !== name.toLowerCase()) return false
  return !(/[\w-]$/.test(name) && /^[\w-]/.test(rest))
}
