/** What senders said to topics, for each of their people, until it is sent or over. */
import type { MediaContent } from '../../model/message.ts'
import { shares, takesTooMuch } from '../../model/shares.ts'
import type { Notice } from '../../model/topic.ts'
import { changeApart, doneApart, type RowFailure, settingAside } from '../../platform/apart.ts'
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { changedColumns, constantSql, insertedColumns, type Sql, sql } from '../../platform/sql.ts'
import {
  type Noun,
  type NounContext,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  readFirst,
  readHeld,
  write,
} from '../routine.ts'
import {
  addNames,
  addUnread,
  levelOf,
  markOf,
  mergeNotice,
  type NoticeRow,
  nameOf,
  priorityOf,
  rememberedUntil,
} from '../rules/notices.ts'
import type {
  BriefNotice,
  MissedNotices,
  NameCounts,
  NoticeSender,
  StoredTopic,
  TopicMember,
  TopicStore,
} from '../topics.ts'
import { createRemoveOld } from './old-rows.ts'
import { membersOf, raise, readTopics } from './topic-rows.ts'

const expiredAtOnce = 1000
/** Notices for a person that ended before they were sent. Beyond these, the earlier ones are forgotten. */
const mostEnds = 2000

export const briefColumns: Sql =
  constantSql(`n.id, n.member, n.mark, n.sender, n.name, n.priority, n.count, n.reported,
  n.received_at, n.last_at, n.expires_at, n.resolved, n.media, n.state, n.raised`)
const noticeColumns =
  constantSql(`name, title, text, priority, tags, click, media, size, count, reported, received_at,
  last_at, expires_at, state, resolved, bulletin, said, raised`)

export type BriefRow = Omit<
  BriefNotice,
  'priority' | 'resolved' | 'is_repeat' | 'has_media' | 'lost_file' | 'shared_id'
> &
  Keys & {
    priority: number
    resolved: number
    raised: number
    media?: string
  }

/** What makes a notice the same: what it says, and who says it. */
interface Keys {
  readonly mark: string
  readonly sender: string
}

/** What waits for a person, and what of it is of one sender with those that share its room. */
interface Waiting {
  count: number
  bytes: number
  own_count: number
  own_bytes: number
}

/** A row of a person, and its id once it is stored. */
type Known = Keys & { readonly id?: number; row: NoticeRow }

export function briefOf({ mark, media, priority, raised, resolved, sender, ...row }: BriefRow): BriefNotice {
  const { file_name = '', isLost = false } = media === undefined ? {} : fileIn(media)
  return {
    ...row,
    shared_id: sharedIdOf({ mark, sender }),
    priority: priorityOf(priority),
    resolved: resolved === 1,
    is_repeat: resolved === 0 && raised === 0 && row.reported > 0 && row.count > row.reported,
    has_media: media !== undefined && !isLost,
    lost_file: isLost ? file_name : undefined,
  }
}

/** Reads what a notice keeps of its file: the name alone, once that is given up. */
export function fileIn(media: string) {
  const { file_name, kind } = JSON.parse(media) as Partial<MediaContent>
  return { file_name, isLost: kind === undefined }
}

const hashOf = (text: string, length: number): string =>
  nodeCrypto().hash('sha256', text, 'hex').slice(0, length)
/** Begins the sender of rows, so that those of a family are found. */
const familyKeyOf = ({ family }: NoticeSender): string => (family === undefined ? '' : hashOf(family, 8))
const senderKeyOf = (sender: NoticeSender): string =>
  `${familyKeyOf(sender)}${sender.id === undefined ? '' : hashOf(sender.id, 16)}`
const sharedIdOf = ({ mark, sender }: Keys): string => hashOf(`${sender} ${mark}`, 16)

/** The verbs of `expire`, each for rows that have something to do with each other. */
interface Steps {
  /** Some notices that wait and whose time is over, by their members. */
  listOver(): Promise<ReadonlyMap<number, readonly number[]>>
  expireFor(member: number, notices: readonly number[]): Promise<void>
}

export type NoticeVerbs = Pick<TopicStore, 'accept' | 'listWaiting' | 'countWaiting' | 'expire'>

export function openNotices(context: NounContext, run: Runner): NoticeVerbs {
  const { expireFor, listOver, ...verbs } = openNoun(createNotices(context), run)
  const removeOld = createRemoveOld(context, run)
  return {
    ...verbs,
    async expire() {
      const failures: RowFailure[] = []
      const expire = (member: number) => (some: readonly number[]) => expireFor(member, some)
      for (const [member, ids] of await listOver())
        failures.push(...(await changeApart(ids, id => `notice ${id}`, expire(member))))
      const setAside = (...some: readonly RowFailure[]) => void failures.push(...some)
      for (const kind of ['notice', 'bulletin'] as const)
        await settingAside(setAside, removeOld(kind, context.clock.now()))
      doneApart(failures, undefined)
    },
  }
}

const createNotices = (context: NounContext): Noun<Omit<NoticeVerbs, 'expire'> & Steps> => {
  const { clock, dialect } = context

  /** Returns the statement that stores a notice after it came. */
  const save = ({ id: member, user_id: peer }: TopicMember, { id, mark, row, sender }: Known): Sql => {
    const { expires_at, state } = row
    const until = state === 'over' ? rememberedUntil(mark, expires_at, clock.now()) : expires_at
    const columns = { ...row, expires_at: until }
    return id === undefined
      ? sql`INSERT INTO notice ${insertedColumns({ member, peer, mark, sender, ...columns })}`
      : sql`UPDATE notice SET ${changedColumns(columns)} WHERE id = ${id}`
  }

  /**
   * Returns the statement that forgets what ended before it was sent, if that is too much.
   *
   * @param marks those of the notices that come, which stay
   */
  function* forgetEnds(member: number, marks: readonly string[]): Routine<Sql[]> {
    const ends = sql`FROM notice WHERE member = ${member} AND state = 'over'`
    const found = yield* readFirst<{ count: number }>(sql`SELECT count(*) AS count ${ends}`)
    const isMuch = Number(found!.count) >= mostEnds
    return isMuch ? [sql`DELETE ${ends} AND NOT ${dialect.isOneOf(sql`mark`, marks)}`] : []
  }

  /** Decides what becomes of notices for one person. @param known by their marks */
  function mergeAll(
    topic: StoredTopic,
    { id, missed }: TopicMember,
    notices: readonly Notice[],
    sender: NoticeSender,
    before: readonly (NoticeRow & Keys & { id: number })[],
    held: Waiting,
  ) {
    const now = clock.now()
    const known = Map.groupBy<string, Known>(
      before.map(({ id, mark, sender, ...row }) => ({ id, mark, sender, row })),
      ({ mark }) => mark,
    )
    const changed = new Set<Known>()
    const allowed = { keep_ms: topic.keep_ms, max: levelOf(topic.max_priority), now }
    let { bytes, count, own_bytes: ownBytes, own_count: ownCount } = held
    const isOwner = sender.family === undefined
    let more: NameCounts = {}
    const merge = (notice: Notice, one: Known | undefined, fresh: Keys): Known | undefined => {
      const was = one?.row
      const row = mergeNotice(was, notice, allowed)
      const isNew = row.state === 'waiting' && was?.state !== 'waiting'
      const growth = row.size - (was?.state === 'waiting' ? was.size : 0)
      const isTooMuch =
        growth > 0 && takesTooMuch(shares.noticeBytes, bytes, isOwner ? undefined : ownBytes, growth)
      const isOneTooMany = isNew && takesTooMuch(shares.notices, count, isOwner ? undefined : ownCount)
      if (row.state === 'waiting' && (isTooMuch || isOneTooMany)) return undefined
      count += Number(isNew)
      ownCount += Number(isNew)
      bytes += growth
      ownBytes += growth
      const merged = one ?? { ...fresh, row }
      merged.row = row
      changed.add(merged)
      return merged
    }
    const results = notices.map(notice => {
      const fresh = { mark: markOf(notice), sender: senderKeyOf(sender) }
      const same = known.get(fresh.mark) ?? []
      const own = same.filter(one => sender.id === undefined || one.sender === fresh.sender)
      const first = own.find(({ row }) => row.state !== 'over') ?? own[0]
      const about = notice.resolved === true && own.length > 0 ? own : [first]
      const [merged] = about.flatMap(one => merge(notice, one, fresh) ?? [])
      if (!merged) more = addNames(more, { [nameOf(notice)]: 1 })
      else if (!same.includes(merged)) known.set(fresh.mark, [...same, merged])
      return merged
    })
    return { id, changed: [...changed], results, missed: { ...missed, more: addNames(missed.more, more) } }
  }

  function* take(
    topic: StoredTopic,
    people: readonly TopicMember[],
    notices: readonly Notice[],
    sender: NoticeSender,
  ): Routine<{ id: string; expires_at: number }[]> {
    const marks = notices.map(markOf)
    const isIts = sql`member IN ${membersOf(sql`(${topic.id})`)}`
    const known = yield* readAll<NoticeRow & Keys & { id: number; member: number }>(
      sql`SELECT id, member, mark, sender, ${noticeColumns} FROM notice
        WHERE ${isIts} AND ${dialect.isOneOf(sql`mark`, marks)} ORDER BY last_at DESC, id DESC`,
    )
    const isOwn = sql`substr(sender, 1, 8) = ${familyKeyOf(sender)}`
    const waiting = yield* readAll<Waiting & { member: number }>(
      sql`SELECT member, count(*) AS count, sum(size) AS bytes,
          count(CASE WHEN ${isOwn} THEN 1 END) AS own_count, coalesce(sum(CASE WHEN ${isOwn} THEN size END), 0) AS own_bytes
        FROM notice WHERE ${isIts} AND state = 'waiting' GROUP BY member`,
    )
    const statements: Sql[] = []
    const results = new Map<number, Known[]>()
    for (const member of people) {
      const held = waiting.find(one => one.member === member.id)
      const merged = mergeAll(
        topic,
        member,
        notices,
        sender,
        known.filter(one => one.member === member.id).map(({ member: _, ...row }) => row),
        {
          count: Number(held?.count ?? 0),
          bytes: Number(held?.bytes ?? 0),
          own_count: Number(held?.own_count ?? 0),
          own_bytes: Number(held?.own_bytes ?? 0),
        },
      )
      const isEnd = merged.changed.some(({ row }) => row.state === 'over')
      statements.push(
        ...(isEnd ? yield* forgetEnds(member.id, marks) : []),
        ...merged.changed.map(one => save(member, one)),
        sql`UPDATE topic_member SET missed = ${JSON.stringify(merged.missed)} WHERE id = ${member.id}`,
      )
      for (const [nth, one] of merged.results.entries())
        if (one) results.set(nth, [...(results.get(nth) ?? []), one])
    }
    const revisions = topic.people.reduce((sum, { revision }) => sum + revision, 0)
    const unread = JSON.stringify(notices.reduce(addUnread, topic.unread))
    yield* write(
      ...dialect.lock(sql`SELECT FROM topic WHERE id = ${topic.id}`),
      ...raise(context, sql`topic = ${topic.id}`, [
        sql`(SELECT revision FROM topic WHERE id = ${topic.id}) = ${topic.revision}`,
        sql`(SELECT sum(revision) FROM topic_member WHERE topic = ${topic.id}) = ${revisions}`,
      ]),
      ...statements,
      sql`UPDATE topic SET unread = ${unread} WHERE id = ${topic.id}`,
    )
    return notices.map((_, nth) => {
      const [first, ...others] = results.get(nth) ?? []
      if (!first) return { id: '0', expires_at: clock.now() }
      const ends = [first, ...others].map(({ row }) => row.expires_at)
      return { id: sharedIdOf(first), expires_at: Math.max(...ends) }
    })
  }

  const isOver = () => sql`expires_at <= ${clock.now()}`

  return {
    verbs: {
      *accept(name, notices, sender) {
        const [row] = yield* readHeld<{ id: number }>(sql`SELECT id FROM topic WHERE name = ${name}`)
        const [topic] = row ? yield* readTopics(context, sql`id = ${row.id}`) : []
        const all = topic?.people ?? []
        const erased = yield* context.erasedOf(all.map(({ user_id }) => user_id))
        const people = all.filter(({ user_id }) => !erased.includes(user_id))
        return topic && people.length > 0 ? yield* take(topic, people, notices, sender) : undefined
      },

      *listWaiting(name, limit) {
        const rows = yield* readAll<BriefRow>(sql`SELECT ${briefColumns} FROM notice n
          WHERE n.member IN ${membersOf(sql`(SELECT id FROM topic WHERE name = ${name})`)}
            AND n.state IN ('waiting', 'sending', 'unknown')
          ORDER BY n.last_at DESC, n.id DESC LIMIT ${limit}`)
        return rows.map(briefOf)
      },

      *countWaiting() {
        const rows = yield* readAll<{ member: number; count: number }>(
          sql`SELECT member, count(*) AS count FROM notice WHERE state IN ('waiting', 'sending') GROUP BY member`,
        )
        return new Map(rows.map(({ count, member }) => [member, Number(count)]))
      },

      *expireFor(id, notices) {
        const [member] = yield* readAll<{ topic: number; missed: string; revision: number }>(
          sql`SELECT topic, missed, revision FROM topic_member WHERE id = ${id}`,
        )
        const rows = yield* readAll<{ id: number; name: string; count: number }>(
          sql`SELECT id, name, count - reported AS count FROM notice
            WHERE member = ${id} AND state = 'waiting' AND ${isOver()} AND ${dialect.isOneOf(sql`id`, notices)} ORDER BY id`,
        )
        if (!member || rows.length === 0) return
        const missed = JSON.parse(member.missed) as MissedNotices
        const expired = rows.reduce(
          (sum, { count, name }) => addNames(sum, { [name]: Math.max(1, count) }),
          missed.expired,
        )
        yield* write(
          ...dialect.lock(sql`SELECT FROM topic WHERE id = ${member.topic}`),
          ...raise(context, sql`id = ${id}`, [
            sql`(SELECT revision FROM topic_member WHERE id = ${id}) = ${member.revision}`,
          ]),
          sql`DELETE FROM notice WHERE ${dialect.isOneOf(
            sql`id`,
            rows.map(one => one.id),
          )}`,
          sql`UPDATE topic SET expired = expired + ${rows.length} WHERE id = ${member.topic}`,
          sql`UPDATE topic_member SET missed = ${JSON.stringify({ ...missed, expired })} WHERE id = ${id}`,
        )
      },

      *listOver() {
        const waiting = yield* readAll<{ id: number; member: number }>(sql`SELECT id, member FROM notice
          WHERE state = 'waiting' AND ${isOver()} ORDER BY id LIMIT ${expiredAtOnce}`)
        const ofMembers = new Map<number, number[]>()
        for (const { id, member } of waiting) ofMembers.set(member, [...(ofMembers.get(member) ?? []), id])
        return ofMembers
      },
    },
    modes: {
      accept: 'write',
      listWaiting: 'plain',
      countWaiting: 'plain',
      listOver: 'plain',
      expireFor: 'light',
    },
  }
}
