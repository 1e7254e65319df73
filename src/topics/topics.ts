/** Topics: made and changed by people, and what senders say to them. */
import { Buffer } from 'node:buffer'
import { localZone } from '../config/time-zone.ts'
import type { Call } from '../model/call.ts'
import { badArgument, isSvcError, SvcError } from '../model/error.ts'
import type { MediaContent } from '../model/message.ts'
import { formatPrincipal, type Principal } from '../model/principal.ts'
import {
  type AcceptedNotice,
  fileOfText,
  longestNotice,
  mostMembers,
  type NewTopicInput,
  type Notice,
  saysSomething,
  type Topic,
  type TopicChangeInput,
  type TopicForDoor,
  type TopicState,
} from '../model/topic.ts'
import { normalizeTopicName, readTopicName } from '../model/topic-name.ts'
import { nameKeyOf } from '../model/user-name.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RunningPart } from '../platform/runtime.ts'
import {
  type BriefNotice,
  defaultTopicSettings,
  type NameCounts,
  type NoticeSender,
  type OwnSettings,
  type StoredTopic,
  type TopicMember,
  type TopicPerson,
  type TopicSettings,
  type TopicStore,
} from '../storage/topics.ts'
import { type BulletinPorts, keyOf } from './bulletins.ts'
import { planFactsOf, timeIn } from './facts.ts'
import { planBulletin } from './plan.ts'

export interface TopicPorts extends Pick<BulletinPorts, 'findRight'> {
  readonly topics: TopicStore
  /** Resolves a user to an id, and the session that sends to that user. @throws SvcError as `Sender.send` */
  findChat(to: string, session: string | undefined): Promise<TopicPerson>
  /** Returns the name of the key at the top of a key's family, see `familyOf` of `storage/keys.ts`. */
  findTopName(key: string): Promise<string>
  /** Whether a process sends what waits. */
  isRunning(): Promise<boolean>
  /** Keeps a file for a later send. @throws SvcError the errors of staging media */
  keepFile(content: MediaContent, call: Call): Promise<MediaContent>
}

/** Maximum number of notices of one call. */
export const mostNotices = 1000
/** Each is a row for each person: more would block the process. */
const storedAtOnce = 50
const mostShown = 100
/** Topics that an error names. */
const mostNamed = 20

export class Topics extends RunningPart<TopicPorts> {
  /**
   * Stores what a sender says. It is durable when this returns.
   *
   * @throws SvcError `not_found` for an unknown topic, and for one that the caller's key does not name;
   *   `invalid_arguments` for a notice that says nothing, `payload_too_large` for too many at once
   */
  async accept(call: Call, topic: string, notices: readonly Notice[]): Promise<AcceptedNotice[]> {
    const { by } = call
    if (!namesTopic(by, topic)) throw await this.#unknown(by)
    if (notices.length > mostNotices)
      throw new SvcError('payload_too_large', `expected at most ${mostNotices} notices at once`, {
        hint: 'Send them in several calls.',
      })
    for (const notice of notices) requireContent(notice)
    const received_at = this.runtime.clock.now()
    const staged: Notice[] = []
    for (const notice of notices) staged.push(await this.#stage(notice, call))
    const sender = await this.#senderOf(by)
    const accepted: { id: string; expires_at: number }[] = []
    for (let at = 0; at < staged.length; at += storedAtOnce) {
      const some = staged.slice(at, at + storedAtOnce)
      const stored = await this.ports.topics.accept(topic, some, sender)
      if (!stored) throw await this.#unknown(by)
      accepted.push(...stored)
    }
    return accepted.map(({ expires_at, id }) => ({ id, topic, received_at, expires_at }))
  }

  /**
   * A file of the caller may be gone when it is sent; an address is fetched then. A text that a message cannot hold is a
   * file, too.
   */
  async #stage(notice: Notice, call: Call): Promise<Notice> {
    const { keepFile } = this.ports
    const { media } = notice
    if (media?.path !== undefined || media?.data !== undefined)
      return { ...notice, media: await keepFile(media, call) }
    if (media || Buffer.byteLength(notice.text) <= longestNotice) return notice
    try {
      return { ...notice, media: await keepFile(textFileOf(notice), call) }
    } catch (error) {
      // Its beginning and its end are in the message.
      if (isSvcError(error) && error.code === 'rate_limited') return notice
      throw error
    }
  }

  /**
   * Returns whom notices are from. A key that is made again under its name, by the same maker, is the same sender. The owner
   * and the panel may end what any sender said.
   */
  async #senderOf({ grant, id = '', kind, maker, name = id }: Principal): Promise<NoticeSender> {
    if (!grant) return {}
    const top = maker === undefined ? name : await this.ports.findTopName(id)
    const family = `${kind === 'panel' ? 'key' : kind} ${top}`
    return { family, ...(kind !== 'panel' && { id: `${kind} ${maker ?? ''} ${name}` }) }
  }

  /** Returns what a door needs of a topic. @throws SvcError `not_found` as `accept` */
  async find(by: Principal, topic: string): Promise<TopicForDoor> {
    const { attach_private, name, priorities, secret, template } = await this.#find(topic, by)
    return withoutUndefined({ name, attach_private, priorities, secret, template })
  }

  /** Makes a topic. @throws SvcError `invalid_arguments`, `not_connected`, `session_not_found` */
  async add(by: Principal, { name: typed, session, to, ...settings }: NewTopicInput): Promise<Topic> {
    const name = readTopicName(typed, 'name')
    await this.ports.topics.add({
      ...changedBy({ ...defaultTopicSettings }, settings),
      people: await this.#findPeople(to, session),
      name,
      made_by: formatPrincipal(by),
      created_at: this.runtime.clock.now(),
    })
    return this.#get(name)
  }

  /** Lists all topics, by name. */
  async list(_by: Principal): Promise<Topic[]> {
    return this.#toTopics(await this.ports.topics.list())
  }

  /** Returns a topic with what waits, for whom, and why. @throws SvcError `not_found` */
  async show(_by: Principal, name: string): Promise<TopicState> {
    const found = await this.#find(name)
    const looked = await this.#look(found.people)
    const { connected, runs, waitOf } = looked
    const userOf = new Map(found.people.map(({ id, user_id }) => [id, user_id]))
    const notices = (await this.ports.topics.listWaiting(name, mostShown)).map(
      ({ id, member, priority, state, ...one }) => {
        const isOnItsWay = state === 'sending' && runs
        return {
          id: one.shared_id,
          user_id: userOf.get(member) ?? '',
          name: one.name,
          priority,
          count: one.count,
          ...(one.resolved && { resolved: true }),
          received_at: one.received_at,
          expires_at: one.expires_at,
          status: isOnItsWay || state === 'unknown' ? state : ('waiting' as const),
          ...(state !== 'unknown' && !isOnItsWay && waitOf(id)),
        } satisfies ShownNotice
      },
    )
    const topic = (await this.#toTopics([found], looked))[0]!
    const people = topic.people.map(one => ({ ...one, connected: connected.has(one.user_id) }))
    return { ...topic, people, notices }
  }

  /** @throws SvcError `not_found`, `invalid_arguments`, those of `add` */
  async change(_by: Principal, { topic, add, remove, user, ...change }: TopicChangeInput): Promise<Topic> {
    const { topics } = this.ports
    const found = await this.#find(topic)
    const leaving = (remove ?? []).map(who => findMember(found, who, 'remove').user_id)
    const joining = await this.#findPeople(add ?? [], undefined)
    const left = found.people.map(({ user_id }) => user_id).filter(id => !leaving.includes(id))
    const people = new Set([...left, ...joining.map(({ user_id }) => user_id)])
    if (people.size > mostMembers) throw badArgument('add', `a topic has at most ${mostMembers} people`)
    if (people.size === 0)
      throw badArgument('remove', 'a topic has at least one person', { hint: 'Remove the topic instead.' })
    const settings = user === undefined ? changedBy(found, change) : undefined
    const own = user === undefined ? undefined : changedOwn(findMember(found, user, 'user'), change)
    // Who leaves makes room for who joins.
    if (leaving.length > 0) await topics.leave({ name: topic, users: leaving })
    if (joining.length > 0) await topics.join(topic, joining)
    if (settings && Object.keys(change).length > 0) await topics.change(topic, settings)
    if (own) await topics.changeOwn(topic, own.user_id, own.settings)
    return this.#get(topic)
  }

  /** Removes a topic with what waits. @throws SvcError `not_found` */
  async remove(_by: Principal, name: string): Promise<Topic> {
    const topic = await this.#get(name)
    await this.ports.topics.remove(name)
    return topic
  }

  async #findPeople(names: readonly string[], session: string | undefined): Promise<TopicPerson[]> {
    const people: TopicPerson[] = []
    for (const name of names) {
      const found = await this.ports.findChat(name, session)
      if (!people.some(({ user_id }) => user_id === found.user_id)) people.push(found)
    }
    return people
  }

  async #find(name: string, by?: Principal): Promise<StoredTopic> {
    const found = namesTopic(by, name) && (await this.ports.topics.find(normalizeTopicName(name)))
    if (!found) throw await this.#unknown(by)
    return found
  }

  /** Names the topics that the caller may notify. A topic that a key does not name does not exist for it. */
  async #unknown(by?: Principal): Promise<SvcError> {
    const own = by?.grant?.topics
    const names = own ?? (await this.ports.topics.list()).map(({ name }) => name)
    const some = `${names.slice(0, mostNamed).join(', ')}${names.length > mostNamed ? ' …' : ''}`
    return new SvcError('not_found', 'There is no topic of this name', {
      hint: some
        ? `${own ? 'This key is for' : 'The topics are'}: ${some}.`
        : 'Make it with svc topic add <name> --to <person>.',
    })
  }

  async #get(name: string): Promise<Topic> {
    return (await this.#toTopics([await this.#find(name)]))[0]!
  }

  /** @param looked at their people; by default, those for whom something waits are looked at */
  async #toTopics(all: readonly StoredTopic[], looked?: Looked): Promise<Topic[]> {
    const waiting = await this.ports.topics.countWaiting()
    const people = all.flatMap(({ people }) => people).filter(({ id }) => waiting.has(id))
    const { heldOf, now } = looked ?? (await this.#look(people))
    return all.map(topic => toTopic(topic, waiting, heldOf, now))
  }

  /** Looks why what waits for people waits. */
  async #look(people: readonly TopicMember[]): Promise<Looked> {
    const { findRight, isRunning, topics } = this.ports
    const [now, runs] = [this.runtime.clock.now(), await isRunning()]
    const waits = new Map<number, Wait>()
    const waitOf = (id: number): Wait =>
      runs ? (waits.get(id) ?? { why: 'sending' }) : { why: 'not_running' }
    const connected = new Set<string>()
    const waiting: BriefNotice[] = []
    for (const [person] of Map.groupBy(people, keyOf).values()) {
      const [known, right] = [await topics.read(person!), await findRight(person!)]
      if (right) connected.add(person!.user_id)
      for (const { id, ...wait } of planBulletin(planFactsOf(known, right, now)).waits) waits.set(id, wait)
      waiting.push(...known.notices.filter(({ state }) => state === 'waiting'))
    }
    const noticesOf = Map.groupBy(waiting, ({ member }) => member)
    const heldOf = (member: number) => mostOf((noticesOf.get(member) ?? []).map(({ id }) => waitOf(id)))
    return { connected, heldOf, now, runs, waitOf }
  }
}

type ShownNotice = TopicState['notices'][number]
type Wait = Pick<ShownNotice, 'why' | 'until'>
/** What a look at people found: why a notice waits, and why most notices of a member wait. */
interface Looked {
  readonly connected: ReadonlySet<string>
  readonly now: number
  readonly runs: boolean
  waitOf(notice: number): Wait
  heldOf(member: number): Wait | undefined
}

/** Returns the reason that most of them have, and when the first of these goes. */
function mostOf(waits: readonly Wait[]): Wait | undefined {
  const groups = [...Map.groupBy(waits, ({ why }) => why).values()]
  const [most = []] = groups.sort((one, other) => other.length - one.length)
  return most.toSorted((one, other) => (one.until ?? Infinity) - (other.until ?? Infinity))[0]
}

/** Returns one of the people of a topic, also one whose account is logged out. @throws SvcError `invalid_arguments` */
function findMember({ people }: StoredTopic, who: string, field: string): TopicMember {
  const key = nameKeyOf(who)
  const found = people.filter(({ name, user_id }) => user_id === who || (name && nameKeyOf(name) === key))
  if (found.length === 1) return found[0]!
  throw badArgument(field, 'expected one of the people of the topic, by user id or name')
}

/** Whether the caller's key names a topic; a caller without a grant has all. */
const namesTopic = (by: Principal | undefined, topic: string): boolean =>
  by?.grant?.topics?.includes(normalizeTopicName(topic)) !== false

function requireContent(notice: Notice): void {
  const isEnd = notice.resolved === true && notice.fingerprint !== undefined
  if (!isEnd && !saysSomething(notice)) throw badArgument('text', 'expected a text, a title or a file')
}

type SettingsInput = Omit<TopicChangeInput, 'topic' | 'add' | 'remove' | 'user'>

/** @throws SvcError `invalid_arguments` */
function changedBy(before: TopicSettings, { keep_seconds, ...change }: SettingsInput): TopicSettings {
  const { quiet, secret, time_zone: zone } = change
  if (secret && secret.length < 16)
    throw badArgument('secret', 'expected at least 16 characters: who guesses it can send to the topic')
  if (zone !== undefined) requireZone(zone)
  else if (quiet && before.time_zone === undefined) localZone()
  const given = { ...change, ...(keep_seconds !== undefined && { keep_ms: keep_seconds * 1000 }) }
  return withoutEmpty({ ...before, ...withoutUndefined(given) })
}

/** Empty settings are none. */
const withoutEmpty = <T extends object>(settings: T): T =>
  Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== '' && value !== 0)) as T

function requireZone(zone: string): void {
  try {
    timeIn(zone, 0)
  } catch {
    throw badArgument('time_zone', 'expected a time zone, such as Asia/Shanghai')
  }
}

/** @throws SvcError `invalid_arguments` */
function changedOwn({ own, user_id }: TopicMember, { answers, quiet, time_zone, ...others }: SettingsInput) {
  const [other] = Object.keys(others)
  if (other !== undefined)
    throw badArgument(other, 'expected without a user: it is the same for all people of the topic')
  if (time_zone) requireZone(time_zone)
  const given = withoutUndefined({ answers, quiet, time_zone })
  const settings: OwnSettings = withoutEmpty({ ...own, ...given })
  return { user_id, settings }
}

function toTopic(
  { keep_ms, paused_until = 0, people, secret, ...topic }: StoredTopic,
  waiting: ReadonlyMap<number, number>,
  heldOf: Looked['heldOf'],
  now: number,
): Topic {
  const { answers, attach_private, created_at, digest, expired, made_by, max_priority, min_priority } = topic
  const { name, priorities, quiet, sent, template, unread, time_zone } = topic
  const shown = people.map(({ id, name, own, session, user_id }) =>
    withoutUndefined({ user_id, name, session, ...own, waiting: waiting.get(id) ?? 0, ...heldOf(id) }),
  )
  return withoutUndefined({
    name,
    people: shown,
    min_priority,
    max_priority,
    quiet,
    time_zone,
    digest,
    answers,
    keep_seconds: Math.round(keep_ms / 1000),
    paused_until: paused_until > now ? paused_until : undefined,
    template,
    priorities: priorities && { ...priorities },
    attach_private,
    signed: secret !== undefined,
    created_at,
    made_by,
    waiting: shown.reduce((sum, one) => sum + one.waiting, 0),
    sent,
    expired,
    template_missed: unread.template || undefined,
    unknown_severities: isEmpty(unread.severities) ? undefined : { ...unread.severities },
  })
}

function textFileOf({ text, title }: Notice): MediaContent {
  const { bytes, name } = fileOfText(title, text)
  return { kind: 'file', data: Buffer.from(bytes).toString('base64'), file_name: name }
}

const isEmpty = (counts: NameCounts = {}): boolean => Object.keys(counts).length === 0
