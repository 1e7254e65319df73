/**
 * Sends what waits in topics, one message for each person at a time. A bulletin is durable before it is handed over, and is
 * sent with an idempotency key: a process that takes it over after a crash gets the result of the first time.
 */

import { createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { keyKnownMs, type SendResult } from '../model/message.ts'
import type { KnownUser } from '../model/session.ts'
import { changeApart, type SetAside, settingAside } from '../platform/apart.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { RunningPart, type Runtime } from '../platform/runtime.ts'
import type { Sender } from '../send/send.ts'
import { sumNames } from '../storage/rules/notices.ts'
import type { BriefNotice, PersonTopics, StoredBulletin, TopicPerson, TopicStore } from '../storage/topics.ts'
import { type BulletinLine, formatBulletin } from './bulletin.ts'
import { planFactsOf, timeIn } from './facts.ts'
import { type Plan, planBulletin } from './plan.ts'

export interface BulletinPorts {
  readonly topics: TopicStore
  readonly history: {
    /** Returns what a person wrote last, the newest first. */
    lastWords(person: TopicPerson): Promise<readonly string[]>
  }
  readonly sender: Pick<Sender, 'send'>
  /** What is left of the right to answer a person; undefined if the account is not connected. */
  findRight(person: TopicPerson): Promise<Pick<KnownUser, 'remaining' | 'last_received'> | undefined>
}

const lookEveryMs = 1000
/** A person is looked at again after this time, also if nothing seems to have changed. */
const lookAgainMs = 5000
const expireEveryMs = 15_000
/** After a message could not be sent. */
const restMs = 30_000
/** Notices with their whole text. */
const mostLines = 60

type Outcome = { state: 'sent' | 'unknown' | 'undone'; withoutMedia?: boolean; restMs?: number }

/** What a person was like at the last look. */
interface Looked {
  readonly version: number
  /** Unix ms: the next look, at the latest. */
  readonly next: number
}

export class Bulletins extends RunningPart<BulletinPorts> {
  readonly #looked = new Map<string, Looked>()
  /** Unix ms: nothing goes to the person before. */
  readonly #heldUntil = new Map<string, number>()
  /** Persons who get one file at a time until they write: of several, one could not be sent. */
  readonly #oneFile = new Set<string>()
  /** Bulletins that this process is sending, by their ids. */
  readonly #running = new Map<string, Promise<void>>()
  #work: Promise<unknown> | undefined

  constructor(ports: BulletinPorts, runtime: Runtime) {
    super(ports, runtime)

    runtime.bus.on('committed', ({ messages, session }) => {
      for (const { from_user } of messages) {
        const key = keyOf({ session, user_id: from_user })
        this.#looked.delete(key)
        this.#oneFile.delete(key)
      }
    })
  }

  /** Sends while this process polls, until the gateway closes. */
  start(isPolling: () => boolean): void {
    const { closing: signal, log, tasks } = this.runtime
    const repeat = (
      name: string,
      everyMs: number,
      failure: string,
      work: (setAside: SetAside) => Promise<void>,
    ) =>
      tasks.repeat({ name, everyMs, firstMs: lookEveryMs, failure, log, signal }, async setAside => {
        if (isPolling()) await work(setAside)
      }).done
    this.#work = Promise.all([
      repeat('topics', lookEveryMs, 'topics cannot be looked up', setAside => this.look(setAside)),
      repeat('bulletins', lookAgainMs, 'bulletins are not taken over', setAside => this.takeOver(setAside)),
      repeat('notices', expireEveryMs, 'old notices are not removed', () => this.ports.topics.expire()),
    ])
  }

  /** Resolves when nothing is being sent any more. Abort `closing` first. */
  async waitUntilClosed(): Promise<void> {
    await this.#work
    await this.settled()
  }

  /** Resolves when what is being sent now has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  /** Looks once what may go, and begins to send it. */
  async look(setAside: SetAside): Promise<void> {
    const { topics } = this.ports
    const { clock } = this.runtime
    for (const { version, ...person } of await topics.listPersons()) {
      const key = keyOf(person)
      const looked = this.#looked.get(key)
      const now = clock.now()
      const isNew = looked?.version !== version || looked.next <= now || looked.next > now + lookAgainMs
      if (!isNew || (this.#heldUntil.get(key) ?? 0) > now) continue
      const nameOf = ({ session, user_id }: TopicPerson) => `topics of ${user_id} in ${session}`
      setAside(...(await changeApart([person], nameOf, () => this.#lookAt(person, version))))
    }
  }

  /** Renews what this process is sending, and goes on with what nobody sends. */
  async takeOver(setAside: SetAside): Promise<void> {
    const taken = this.ports.topics.takeOver([...this.#running.keys()])
    for (const bulletin of await settingAside(setAside, taken)) this.#begin(bulletin, true)
  }

  async #lookAt(person: TopicPerson, version: number): Promise<void> {
    const { findRight, topics } = this.ports
    const now = this.runtime.clock.now()
    const [known, right] = [await topics.read(person), await findRight(person)]
    const mostFiles = this.#oneFile.has(keyOf(person)) ? 1 : undefined
    const plan = planBulletin({ ...planFactsOf(known, right, now), mostFiles })
    this.#looked.set(keyOf(person), { version, next: Math.min(plan.until, now + lookAgainMs) })
    if (plan.answers === 0) return
    const bulletin = await this.#compose(person, known, plan)
    if (await topics.claim(bulletin, version)) this.#begin({ ...bulletin, created_at: now }, false)
  }

  async #compose(person: TopicPerson, known: PersonTopics, plan: Plan) {
    const { doubts, notices, topics } = known
    const going = new Set(plan.go)
    const all = notices.filter(({ id }) => going.has(id))
    const whole = await this.ports.topics.readNotices(all.slice(0, mostLines).map(({ id }) => id))
    const hasTags = whole.some(({ tags }) => tags !== undefined)
    const { nameToEmoji = {} } = hasTags ? await import('gemoji') : {}
    const topicOf = new Map(topics.map(topic => [topic.id, topic]))
    const lines = whole.map((one): BulletinLine => {
      const { name = '', time_zone: zone } = topicOf.get(one.member) ?? {}
      const isLater = one.has_media && !plan.files.includes(one.id)
      const file = one.lost_file ?? (isLater ? (one.media?.file_name ?? one.name) : undefined)
      return {
        ...one,
        emojis: nameToEmoji,
        topic: name,
        count: countOf(one),
        wasSent: one.reported > 0 && one.count > one.reported,
        time: timeIn(zone, one.last_at),
        file: file === undefined ? undefined : { name: file, isLost: !isLater },
      }
    })
    const counted = topics.filter(({ id }) => plan.missed.includes(id))
    const missed = Object.fromEntries(counted.map(({ id, missed }) => [id, missed]))
    const text = formatBulletin({
      wrote: await this.ports.history.lastWords(person),
      lines,
      others: sumNames(all.slice(mostLines).map(one => ({ [one.name]: countOf(one) }))),
      missed: {
        more: sumNames(counted.map(({ missed }) => missed.more)),
        expired: sumNames(counted.map(({ missed }) => missed.expired)),
      },
      doubts: sumNames(doubts.map(({ names }) => names)),
      // In quiet hours and a pause writing brings nothing.
      rest:
        plan.waits.filter(({ why }) => why !== 'quiet' && why !== 'paused').length +
        all.filter(one => one.has_media && !plan.files.includes(one.id)).length,
      isLast: plan.isLast,
    })
    return {
      ...person,
      id: randomBytes(12).toString('base64url'),
      text,
      media: whole.flatMap(({ id, media }) => (media && plan.files.includes(id) ? [media] : [])),
      answers: plan.answers,
      priority: plan.priority,
      notices: plan.go,
      missed,
      names: sumNames(all.map(one => ({ [one.name]: countOf(one) }))),
      doubts: doubts.map(({ id }) => id),
    }
  }

  #begin(bulletin: StoredBulletin, isTakenOver: boolean): void {
    const { id } = bulletin
    const { log } = this.runtime
    const running = this.#deliver(bulletin, isTakenOver)
      .catch(error => log.warn('a bulletin is tried again', { bulletin: id, error }))
      .finally(() => this.#running.delete(id))
    this.#running.set(id, running)
  }

  /** Sends a bulletin, and stores what became of it. @throws if that is not known yet */
  async #deliver(bulletin: StoredBulletin, isTakenOver: boolean): Promise<void> {
    const { clock, log } = this.runtime
    const isOld = clock.now() - bulletin.created_at > keyKnownMs
    const { restMs, state, withoutMedia } = isOld ? unknown : await this.#send(bulletin, isTakenOver)
    if (restMs !== undefined) this.#heldUntil.set(keyOf(bulletin), clock.now() + restMs)
    await this.ports.topics.settle(bulletin.id, state, withoutMedia)
    if (state === 'unknown') log.warn('a bulletin may not have arrived', { bulletin: bulletin.id })
  }

  async #send({ id, media, session, text, user_id }: StoredBulletin, isTakenOver: boolean): Promise<Outcome> {
    const by = { kind: 'topic' } as const
    const call = createDirectCall({ by, signal: this.runtime.closing, local: false })
    // A notice has its file as an upload or an address. Only a store that another program changed names a path.
    const files = media.filter(({ path }) => path === undefined)
    const request = { to: user_id, session, text, media: files, idempotency_key: `svc:bulletin:${id}` }
    try {
      return outcomeOf(await this.ports.sender.send({ ...request, when_closed: 'fail' }, call))
    } catch (error) {
      if (!(error instanceof SvcError) || isPassing(error.code, isTakenOver)) throw error
      // It was handed over with other bytes: a picture that is fetched is not the same twice.
      if (error.code === 'idempotency_conflict') return unknown
      const isClosed = closedCodes.has(error.code)
      if (!isClosed) this.runtime.log.warn('a bulletin was not sent', { bulletin: id, error })
      if (!isClosed && media.length > 1) this.#oneFile.add(keyOf({ session, user_id }))
      if (!isClosed && media.length > 0) return { state: 'undone', withoutMedia: media.length === 1 }
      return { state: 'undone', restMs: Math.max(restMs, 1000 * (error.retryAfter ?? 0)) }
    }
  }
}

const unknown: Outcome = { state: 'unknown' }
const closedCodes: ReadonlySet<string> = new Set([
  'window_closed',
  'quota_exhausted',
  'rate_limited',
  'not_connected',
  'session_expired',
  'session_not_found',
])

/** Whether the same call must be made again. After a takeover, `rate_limited` may mean that the first one still runs. */
const isPassing = (code: string, isTakenOver: boolean): boolean =>
  code === 'shutting_down' || code === 'store_unavailable' || (isTakenOver && code === 'rate_limited')

function outcomeOf({ parts, status }: SendResult): Outcome {
  if (status === 'accepted') return { state: 'sent' }
  if (status === 'refused') return { state: 'undone', restMs }
  const isTextThere = parts.some(({ kind, status }) => kind === 'text' && status === 'accepted')
  return { state: isTextThere ? 'sent' : 'unknown' }
}

export const keyOf = ({ session, user_id }: TopicPerson): string => `${session}\0${user_id}`
const countOf = ({ count, reported, resolved }: BriefNotice): number =>
  resolved ? 1 : Math.max(1, count - reported)
