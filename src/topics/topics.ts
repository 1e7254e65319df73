/** Topics: made and changed by people, and what senders say to them. */
import { Buffer } from 'node:buffer'
import { localZone } from '../config/time-zone.ts'
import type { Call } from '../model/call.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { MediaContent } from '../model/message.ts'
import { firstSegments } from '../model/paths.ts'
import { formatPrincipal, type Principal } from '../model/principal.ts'
import {
  type AcceptedNotice,
  longestNotice,
  type NewTopicInput,
  type Notice,
  type Topic,
  type TopicChangeInput,
  type TopicForDoor,
  type TopicState,
} from '../model/topic.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type { Runtime } from '../platform/runtime.ts'
import {
  defaultTopicSettings,
  type NameCounts,
  type StoredTopic,
  type TopicSettings,
  type TopicStore,
} from '../storage/topics.ts'
import type { BulletinPorts } from './bulletins.ts'
import { planFactsOf, timeIn } from './facts.ts'
import { planBulletin } from './plan.ts'

export interface TopicPorts extends Pick<BulletinPorts, 'findRight'> {
  readonly topics: TopicStore
  /** Resolves a user to an id, and the session that sends to that user. @throws SvcError as `Sender.send` */
  findChat(to: string, session: string | undefined): Promise<{ session: string; user_id: string }>
  /** Keeps a file for a later send. @throws SvcError the errors of staging media */
  keepFile(content: MediaContent, call: Call): Promise<MediaContent>
}

/** Maximum number of notices of one call. */
export const mostNotices = 1000
const mostShown = 100

export class Topics {
  readonly #ports: TopicPorts
  readonly #runtime: Runtime

  constructor(ports: TopicPorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Stores what a sender says. It is durable when this returns.
   *
   * @throws SvcError `not_found` for an unknown topic, and for one that the caller's key does not name;
   *   `invalid_arguments` for a notice that says nothing, `payload_too_large` for too many at once
   */
  async accept(call: Call, topic: string, notices: readonly Notice[]): Promise<AcceptedNotice[]> {
    const { by } = call
    if (!namesTopic(by, topic)) throw unknownTopicError()
    if (notices.length > mostNotices)
      throw new SvcError('payload_too_large', `expected at most ${mostNotices} notices at once`)
    for (const notice of notices) requireContent(notice)
    const received_at = this.#runtime.clock.now()
    const staged: Notice[] = []
    for (const notice of notices) staged.push(await this.#stage(notice, call))
    const accepted = notices.length === 0 ? [] : await this.#ports.topics.accept(topic, staged)
    if (!accepted) throw unknownTopicError()
    return accepted.map(({ expires_at, id }) => ({ id: String(id), topic, received_at, expires_at }))
  }

  /**
   * A file of the caller may be gone when it is sent; an address is fetched then. A text that a message cannot hold is a
   * file, too.
   */
  async #stage(notice: Notice, call: Call): Promise<Notice> {
    const { keepFile } = this.#ports
    const { media } = notice
    if (media?.path !== undefined || media?.data !== undefined)
      return { ...notice, media: await keepFile(media, call) }
    const bytes = Buffer.from(notice.text)
    if (media || bytes.length <= longestNotice) return notice
    try {
      return { ...notice, media: await keepFile(textFileOf(bytes), call) }
    } catch (error) {
      // Its beginning and its end are in the message.
      if (isSvcError(error) && error.code === 'rate_limited') return notice
      throw error
    }
  }

  /** Returns what a door needs to know of a topic; undefined where `accept` answers `not_found`. */
  async find(by: Principal, topic: string): Promise<TopicForDoor | undefined> {
    const found = namesTopic(by, topic) ? await this.#ports.topics.find(topic) : undefined
    if (!found) return undefined
    const { attach_private, name, priorities, secret, template } = found
    return withoutUndefined({ name, attach_private, priorities, secret, template })
  }

  /** Makes a topic. @throws SvcError `invalid_arguments`, `not_connected`, `session_not_found` */
  async add(by: Principal, { name, session, to, ...settings }: NewTopicInput): Promise<Topic> {
    if (firstSegments.includes(name.toLowerCase()))
      throw badArgument('name', 'svc itself has an address of this name')
    const chat = await this.#ports.findChat(to, session)
    await this.#ports.topics.add({
      ...changedBy({ ...defaultTopicSettings }, settings),
      ...chat,
      name,
      made_by: formatPrincipal(by),
      created_at: this.#runtime.clock.now(),
    })
    return this.#get(name)
  }

  /** Lists all topics, by name. */
  async list(_by: Principal): Promise<Topic[]> {
    const [all, waiting] = [await this.#ports.topics.list(), await this.#ports.topics.countWaiting()]
    return all.map(topic => toTopic(topic, waiting[topic.name] ?? 0))
  }

  /** Returns a topic with what waits, and why. @throws SvcError `not_found` */
  async show(_by: Principal, name: string): Promise<TopicState> {
    const { findRight, topics } = this.#ports
    const found = await topics.find(name)
    if (!found) throw unknownTopicError()
    const { waits } = planBulletin(
      planFactsOf(await topics.read(found), await findRight(found), this.#runtime.clock.now()),
    )
    const reasons = new Map(waits.map(({ id, ...wait }) => [id, wait]))
    const notices = (await topics.listWaiting(name, mostShown)).map(({ id, priority, state, ...one }) => ({
      id: String(id),
      name: one.name,
      priority,
      count: one.count,
      received_at: one.received_at,
      expires_at: one.expires_at,
      state: state === 'sending' || state === 'unknown' ? state : ('waiting' as const),
      ...(state === 'waiting' && (reasons.get(id) ?? { why: 'sending' as const })),
    }))
    return { ...(await this.#get(name)), notices }
  }

  /** @throws SvcError `not_found`, `invalid_arguments` */
  async change(_by: Principal, { topic, ...change }: TopicChangeInput): Promise<Topic> {
    const found = await this.#ports.topics.find(topic)
    if (!found || !(await this.#ports.topics.change(topic, changedBy(found, change))))
      throw unknownTopicError()
    return this.#get(topic)
  }

  /** Removes a topic with what waits. @throws SvcError `not_found` */
  async remove(_by: Principal, name: string): Promise<Topic> {
    const topic = await this.#get(name)
    await this.#ports.topics.remove({ name })
    return topic
  }

  async #get(name: string): Promise<Topic> {
    const found = await this.#ports.topics.find(name)
    if (!found) throw unknownTopicError()
    return toTopic(found, (await this.#ports.topics.countWaiting())[name] ?? 0)
  }
}

/** Whether the caller's key names a topic; a caller without a grant has all. */
const namesTopic = ({ grant }: Principal, topic: string): boolean => grant?.topics?.includes(topic) !== false

function requireContent({ media, text, title }: Notice): void {
  if (!text.trim() && !title?.trim() && !media)
    throw badArgument('text', 'expected a text, a title or a file')
}

/** @throws SvcError `invalid_arguments` */
function changedBy(
  before: TopicSettings,
  { keep_seconds, ...change }: Omit<TopicChangeInput, 'topic'>,
): TopicSettings {
  const { quiet, secret, template, zone } = change
  if (secret && secret.length < 16)
    throw badArgument('secret', 'expected at least 16 characters: who guesses it can send to the topic')
  if (zone !== undefined) requireZone(zone)
  else if (quiet && before.zone === undefined) localZone()
  const given = withoutUndefined({ ...change, keep_ms: keep_seconds && keep_seconds * 1000 })
  const optional = { quiet: quiet || undefined, secret: secret || undefined, template: template || undefined }
  const cleared = Object.fromEntries(
    Object.keys(optional).flatMap(key => (key in given ? [[key, optional[key as 'quiet']]] : [])),
  )
  return withoutUndefined({ ...before, ...given, ...cleared }) as TopicSettings
}

function requireZone(zone: string): void {
  try {
    timeIn(zone, 0)
  } catch {
    throw badArgument('zone', 'expected a time zone, such as Asia/Shanghai')
  }
}

function toTopic({ keep_ms, secret, ...topic }: StoredTopic, waiting: number): Topic {
  const { answers, attach_private, created_at, digest, expired, made_by, max_priority, min_priority } = topic
  const { name, priorities, quiet, sent, session, template, unread, user_id, zone } = topic
  return withoutUndefined({
    name,
    session,
    user_id,
    min_priority,
    max_priority,
    quiet,
    zone,
    digest,
    answers,
    keep_seconds: Math.round(keep_ms / 1000),
    template,
    priorities: priorities && { ...priorities },
    attach_private,
    signed: secret !== undefined,
    created_at,
    made_by,
    waiting,
    sent,
    expired,
    template_missed: unread.template || undefined,
    unknown_severities: isEmpty(unread.severities) ? undefined : { ...unread.severities },
  })
}

const textFileOf = (bytes: Buffer): MediaContent => ({
  kind: 'file',
  data: bytes.toString('base64'),
  file_name: 'notice.txt',
})

const isEmpty = (counts: NameCounts = {}): boolean => Object.keys(counts).length === 0

const unknownTopicError = () =>
  new SvcError('not_found', 'there is no such topic', { hint: 'List the topics.' })
