/** Topics, notices and bulletins. Each write of the notices of a topic raises its revision, on which others rest. */
import { badArgument } from '../../model/error.ts'
import { shares } from '../../model/shares.ts'
import type { Notice, Priority } from '../../model/topic.ts'
import { changeApart, doneApart, type RowFailure, settingAside } from '../../platform/apart.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import {
  type ClaimRow,
  changes,
  mayTake,
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
  noneMissed,
  priorityOf,
  rememberedUntil,
  withoutMissed,
} from '../rules/notices.ts'
import { changeSecrets, storeTables } from '../table-list.ts'
import {
  type BriefNotice,
  bulletinLeaseMs,
  type MissedNotices,
  mostWaiting,
  mostWaitingBytes,
  type NameCounts,
  type NewBulletin,
  type NewTopic,
  type StoredBulletin,
  type StoredNotice,
  type StoredTopic,
  sameTextMs,
  type TopicPerson,
  type TopicSettings,
  type TopicStore,
  type UnreadWords,
} from '../topics.ts'
import { findExceeded, refuseRevoked } from './keys.ts'
import { createRemoveOld, keptBulletinMs } from './old-rows.ts'

const expiredAtOnce = 1000
/** Notices of a topic that ended before they were sent. Beyond these, the earlier ones are forgotten. */
const mostEnds = 2000

const table = storeTables.find(({ name }) => name === 'topic')!
const topicColumns =
  constantSql(`t.id, t.name, s.name AS session, t.peer, t.min_priority, t.max_priority, t.quiet,
  t.zone, t.digest, t.answers, t.keep_ms, t.template, t.secret, t.priorities, t.attach_private, t.missed, t.unread, t.sent,
  t.expired, t.revision, t.made_by, t.created_at`)
const briefColumns =
  constantSql(`n.id, n.topic, n.name, n.priority, n.count, n.reported, n.received_at, n.last_at,
  n.expires_at, n.resolved, n.media, n.state`)
const noticeColumns =
  constantSql(`name, title, text, priority, tags, click, media, size, count, reported, received_at,
  last_at, expires_at, state, resolved, bulletin`)

type TopicRow = Omit<
  StoredTopic,
  | 'user_id'
  | 'min_priority'
  | 'max_priority'
  | 'digest'
  | 'attach_private'
  | 'missed'
  | 'unread'
  | 'priorities'
> & {
  peer: string
  min_priority: number
  max_priority: number
  digest: number
  attach_private: number
  missed: string
  unread: string
  priorities?: string
}
type BriefRow = Omit<BriefNotice, 'priority' | 'resolved' | 'has_media' | 'lost_media'> & {
  priority: number
  resolved: number
  media?: string
}

const briefOf = ({ media, priority, resolved, ...row }: BriefRow): BriefNotice => ({
  ...row,
  priority: priorityOf(priority),
  resolved: resolved === 1,
  has_media: media !== undefined && media !== '{}',
  lost_media: media === '{}',
})

const settingColumns = ({ sealer }: Pick<NounContext, 'sealer'>, name: string, settings: TopicSettings) => {
  const { answers, attach_private, digest, keep_ms, max_priority, min_priority, priorities, quiet } = settings
  const { secret, template, zone } = settings
  return {
    quiet,
    zone,
    answers,
    keep_ms,
    template,
    secret: changeSecrets(table, { name, secret }, sealer.seal).secret,
    min_priority: levelOf(min_priority),
    max_priority: levelOf(max_priority),
    digest: Number(digest),
    attach_private: Number(attach_private),
    priorities: priorities && JSON.stringify(priorities),
  }
}

/** Returns the statement that adds a topic, unless there is one of this name. @param session SQL for its key */
export function insertTopic(
  context: Pick<NounContext, 'sealer'>,
  { created_at, made_by, name, user_id, ...settings }: NewTopic,
  session: Sql,
): Sql {
  const row = settingColumns(context, name, settings)
  return sql`INSERT INTO topic (name, session, peer, min_priority, max_priority, quiet, zone, digest, answers, keep_ms,
      template, secret, priorities, attach_private, missed, made_by, created_at)
    VALUES (${name}, ${session}, ${user_id}, ${row.min_priority}, ${row.max_priority}, ${row.quiet}, ${row.zone},
      ${row.digest}, ${row.answers}, ${row.keep_ms}, ${row.template}, ${row.secret}, ${row.priorities},
      ${row.attach_private}, ${JSON.stringify(noneMissed)}, ${made_by}, ${created_at})
    ON CONFLICT (name) DO NOTHING`
}

type Media = Partial<NonNullable<Notice['media']>>

/** The verbs of `expire` and `takeOver`, each for rows that have something to do with each other. */
interface Steps {
  /** Some notices that wait and whose time is over, by their topics. */
  listOver(): Promise<ReadonlyMap<number, readonly number[]>>
  expireIn(topic: number, notices: readonly number[]): Promise<void>
  /** Ids of bulletins that nobody seems to send, and of own ones. */
  listSending(own: readonly string[]): Promise<string[]>
  /** Renews an own one. @returns one that is taken over */
  take(id: string, isOwn: boolean): Promise<StoredBulletin | undefined>
}

export function openTopics(context: NounContext, run: Runner): TopicStore {
  const { expireIn, listOver, listSending, take, ...topics } = openNoun(createTopics(context), run)
  const removeOld = createRemoveOld(context, run)
  return {
    ...topics,
    async expire() {
      const failures: RowFailure[] = []
      for (const [topic, ids] of await listOver())
        failures.push(
          ...(await changeApart(
            ids,
            id => `notice ${id}`,
            some => expireIn(topic, some),
          )),
        )
      const setAside = (...some: readonly RowFailure[]) => void failures.push(...some)
      for (const kind of ['notice', 'bulletin'] as const)
        await settingAside(setAside, removeOld(kind, context.clock.now()))
      doneApart(failures, undefined)
    },
    async takeOver(own) {
      const taken: StoredBulletin[] = []
      const failures: RowFailure[] = []
      const takeOne = async ([id = '']: readonly string[]) => {
        const one = await take(id, own.includes(id))
        if (one) taken.push(one)
      }
      for (const id of await listSending(own))
        failures.push(...(await changeApart([id], id => `bulletin ${id}`, takeOne)))
      return doneApart(failures, taken)
    },
  }
}

const createTopics = (context: NounContext): Noun<Omit<TopicStore, 'expire' | 'takeOver'> & Steps> => {
  const { claims, clock, dialect, sealer } = context
  const { owner } = claims

  const topicOf = (row: TopicRow): StoredTopic => {
    const { attach_private, digest, max_priority, min_priority, missed, peer, priorities, unread, ...rest } =
      changeSecrets(table, row, sealer.open)
    return {
      ...rest,
      user_id: peer,
      min_priority: priorityOf(min_priority),
      max_priority: priorityOf(max_priority),
      digest: digest === 1,
      attach_private: attach_private === 1,
      missed: JSON.parse(missed) as MissedNotices,
      unread: JSON.parse(unread) as UnreadWords,
      ...(priorities !== undefined && { priorities: JSON.parse(priorities) as Record<string, Priority> }),
    }
  }

  function* selectTopics(rest: Sql): Routine<StoredTopic[]> {
    const rows = yield* readAll<TopicRow>(
      sql`SELECT ${topicColumns} FROM topic t JOIN session s ON s.key = t.session ${rest}`,
    )
    return rows.map(topicOf)
  }

  const isPersons = ({ session, user_id }: TopicPerson, alias: Sql): Sql =>
    sql`${alias}.peer = ${user_id} AND ${alias}.session IN ${context.sessionKeys(session)}`
  const ofTopic = (person: TopicPerson): Sql => isPersons(person, constantSql('t'))
  const ofBulletin = (person: TopicPerson): Sql => isPersons(person, constantSql('b'))

  /** Statements that begin a write of the notices of a topic, unless another one came first. */
  const raised = (id: number, revision: number): readonly Sql[] => [
    ...dialect.lock(sql`SELECT FROM topic WHERE id = ${id}`),
    ...dialect.expect(sql`(SELECT revision FROM topic WHERE id = ${id}) = ${revision}`),
    sql`UPDATE topic SET revision = revision + 1 WHERE id = ${id}`,
  ]

  /** Returns the statement that stores a notice after it came. */
  const save = (topic: number, peer: string, mark: string, row: NoticeRow, id: number | undefined): Sql => {
    const { bulletin, click, count, expires_at, last_at, media, name, priority, received_at, reported } = row
    const { resolved, size, state, tags, text, title } = row
    const until = state === 'over' ? rememberedUntil(mark, expires_at, clock.now()) : expires_at
    return id === undefined
      ? sql`INSERT INTO notice (topic, peer, mark, name, title, text, priority, tags, click, media, size, count, reported,
            received_at, last_at, expires_at, state, resolved)
          VALUES (${topic}, ${peer}, ${mark}, ${name}, ${title}, ${text}, ${priority}, ${tags}, ${click}, ${media},
            ${size}, ${count}, ${reported}, ${received_at}, ${last_at}, ${until}, ${state}, ${resolved})`
      : sql`UPDATE notice SET name = ${name}, title = ${title}, text = ${text}, priority = ${priority}, tags = ${tags},
          click = ${click}, media = ${media}, size = ${size}, count = ${count}, reported = ${reported},
          received_at = ${received_at}, last_at = ${last_at}, expires_at = ${until}, state = ${state},
          resolved = ${resolved}, bulletin = ${bulletin} WHERE id = ${id}`
  }

  /**
   * Returns the statement that forgets what ended before it was sent, if that is too much.
   *
   * @param marks those of the notices that come, which stay
   */
  function* forgetEnds(topic: number, marks: readonly string[]): Routine<Sql[]> {
    const ends = sql`FROM notice WHERE topic = ${topic} AND state = 'over'`
    const found = yield* readFirst<{ count: number }>(sql`SELECT count(*) AS count ${ends}`)
    const isMuch = Number(found!.count) >= mostEnds
    return isMuch ? [sql`DELETE ${ends} AND NOT ${dialect.isOneOf(sql`mark`, marks)}`] : []
  }

  function* take(
    topic: StoredTopic,
    notices: readonly Notice[],
  ): Routine<{ id: number; expires_at: number }[]> {
    const now = clock.now()
    const marks = notices.map(markOf)
    const known = yield* readAll<
      NoticeRow & { id: number; mark: string }
    >(sql`SELECT id, mark, ${noticeColumns}
      FROM notice WHERE topic = ${topic.id} AND ${dialect.isOneOf(sql`mark`, marks)}`)
    const before = new Map(known.map(({ id, mark, ...row }) => [mark, { id, row: row as NoticeRow }]))
    const held = yield* readFirst<{ waiting: number; bytes: number }>(sql`SELECT count(*) AS waiting,
      coalesce(sum(size), 0) AS bytes FROM notice WHERE topic = ${topic.id} AND state = 'waiting'`)
    let [waiting, bytes] = [Number(held!.waiting), Number(held!.bytes)]
    const rows = new Map<string, NoticeRow>()
    let more: NameCounts = {}
    const allowed = { keep_ms: topic.keep_ms, max: levelOf(topic.max_priority), now }
    for (const [nth, notice] of notices.entries()) {
      const mark = marks[nth]!
      const was = rows.get(mark) ?? before.get(mark)?.row
      const row = mergeNotice(was, notice, allowed)
      const isNew = row.state === 'waiting' && was?.state !== 'waiting'
      const growth = row.size - (was?.state === 'waiting' ? was.size : 0)
      const isTooMuch = growth > 0 && bytes + growth > mostWaitingBytes
      if (row.state === 'waiting' && (isTooMuch || (isNew && waiting >= mostWaiting))) {
        more = addNames(more, { [nameOf(notice)]: 1 })
        continue
      }
      if (isNew) waiting += 1
      bytes += growth
      rows.set(mark, row)
    }
    const missed = { ...topic.missed, more: addNames(topic.missed.more, more) }
    const unread = notices.reduce(addUnread, topic.unread)
    const isEnd = [...rows.values()].some(({ state }) => state === 'over')
    yield* write(
      ...raised(topic.id, topic.revision),
      ...(isEnd ? yield* forgetEnds(topic.id, marks) : []),
      ...[...rows].map(([mark, row]) => save(topic.id, topic.user_id, mark, row, before.get(mark)?.id)),
      sql`UPDATE topic SET missed = ${JSON.stringify(missed)}, unread = ${JSON.stringify(unread)} WHERE id = ${topic.id}`,
    )
    const stored = yield* readAll<{
      id: number
      mark: string
      expires_at: number
    }>(sql`SELECT id, mark, expires_at
      FROM notice WHERE topic = ${topic.id} AND ${dialect.isOneOf(sql`mark`, [...rows.keys(), ''])}`)
    const byMark = new Map(stored.map(({ mark, ...row }) => [mark, row]))
    return marks.map(mark => byMark.get(mark) ?? { id: 0, expires_at: now })
  }

  function* readBulletins(person: TopicPerson) {
    const rows = yield* readAll<{
      id: string
      state: string
      created_at: number
      answers: number
      priority: number
      names: string
      named_in?: string
    }>(
      sql`SELECT id, state, created_at, answers, priority, names, named_in FROM bulletin b
        WHERE ${ofBulletin(person)} AND created_at > ${clock.now() - keptBulletinMs} ORDER BY created_at, id`,
    )
    return {
      isSending: rows.some(({ state }) => state === 'sending'),
      bulletins: rows
        .filter(({ state }) => state !== 'sending')
        .map(({ answers, created_at, priority }) => ({
          answers,
          created_at,
          priority: priorityOf(priority),
        })),
      doubts: rows
        .filter(({ named_in, state }) => state === 'unknown' && named_in === undefined)
        .map(({ id, names }) => ({ id, names: JSON.parse(names) as NameCounts })),
    }
  }

  const revisionsOf = (person: TopicPerson): Sql =>
    sql`(SELECT coalesce(sum(revision), 0) FROM topic t WHERE ${ofTopic(person)})`

  /** Counts what ran out of time in a topic, and removes it. */
  const isOver = () => sql`expires_at <= ${clock.now()}`

  function* expireIn(id: number, notices: readonly number[]): Routine<void> {
    const [topic] = yield* selectTopics(sql`WHERE t.id = ${id}`)
    if (!topic) return
    const rows = yield* readAll<{
      id: number
      name: string
      count: number
    }>(sql`SELECT id, name, count FROM notice
      WHERE topic = ${id} AND state = 'waiting' AND ${isOver()} AND ${dialect.isOneOf(sql`id`, notices)} ORDER BY id`)
    let { expired } = topic.missed
    for (const { count, name } of rows) expired = addNames(expired, { [name]: count })
    const ids = rows.map(({ id }) => id)
    if (ids.length === 0) return
    yield* write(
      ...raised(topic.id, topic.revision),
      sql`DELETE FROM notice WHERE ${dialect.isOneOf(sql`id`, ids)}`,
      sql`UPDATE topic SET expired = expired + ${ids.length}, missed = ${JSON.stringify({ ...topic.missed, expired })}
        WHERE id = ${topic.id}`,
    )
  }

  return {
    verbs: {
      list: () => selectTopics(sql`ORDER BY t.name`),

      *find(name) {
        return (yield* selectTopics(sql`WHERE t.name = ${name}`))[0]
      },

      *add(topic) {
        const held = yield* refuseRevoked(dialect, topic.made_by)
        yield* context.rejectErased(topic.user_id)
        const session = yield* context.ensureSession(topic.session)
        const all = yield* readAll<{ made_by: string }>(sql`SELECT made_by FROM topic`)
        const most = yield* findExceeded(shares.topics, all, topic.made_by)
        if (most !== undefined)
          throw badArgument('name', `there are ${most} topics already, which is the maximum`)
        const added = yield* changes(
          ...held,
          sql`${insertTopic(context, topic, sql`${session}`)} RETURNING id`,
        )
        if (!added) throw badArgument('name', 'there is a topic of this name already')
      },

      change(name, settings) {
        const row = settingColumns(context, name, settings)
        return changes(sql`UPDATE topic SET min_priority = ${row.min_priority}, max_priority = ${row.max_priority},
          quiet = ${row.quiet}, zone = ${row.zone}, digest = ${row.digest}, answers = ${row.answers},
          keep_ms = ${row.keep_ms}, template = ${row.template}, secret = ${row.secret},
          priorities = ${row.priorities}, attach_private = ${row.attach_private}, unread = '{}',
          revision = revision + 1
          WHERE name = ${name} RETURNING id`)
      },

      remove(which) {
        const those =
          'name' in which ? sql`name = ${which.name}` : sql`session IN ${context.sessionKeys(which.session)}`
        return changes(
          ...dialect.lock(sql`SELECT FROM topic WHERE ${those} ORDER BY id`),
          sql`DELETE FROM notice WHERE topic IN (SELECT id FROM topic WHERE ${those})`,
          sql`DELETE FROM topic WHERE ${those} RETURNING id`,
        )
      },

      *accept(name, notices) {
        const [row] = yield* readHeld<{ peer: string }>(sql`SELECT peer FROM topic WHERE name = ${name}`)
        const [topic] = row ? yield* selectTopics(sql`WHERE t.name = ${name}`) : []
        if (!topic) return undefined
        yield* context.rejectErased(topic.user_id)
        return yield* take(topic, notices)
      },

      *listPersons() {
        const rows = yield* readAll<{
          session: string
          peer: string
          version: number
        }>(sql`SELECT s.name AS session,
          t.peer, sum(t.revision) AS version FROM topic t JOIN session s ON s.key = t.session GROUP BY s.name, t.peer
          HAVING max(CASE WHEN t.missed <> ${JSON.stringify(noneMissed)} OR EXISTS (SELECT 1 FROM notice n
            WHERE n.topic = t.id AND n.state = 'waiting') THEN 1 ELSE 0 END) = 1`)
        return rows.map(({ peer, session, version }) => ({
          session,
          user_id: peer,
          version: Number(version),
        }))
      },

      *read(person) {
        const topics = yield* selectTopics(sql`WHERE ${ofTopic(person)} ORDER BY t.name`)
        const notices =
          yield* readAll<BriefRow>(sql`SELECT ${briefColumns} FROM notice n JOIN topic t ON t.id = n.topic
          WHERE ${ofTopic(person)} AND (n.state = 'waiting' AND n.expires_at > ${clock.now()}
            OR n.state IN ('sent', 'unknown') AND n.count > n.reported)
          ORDER BY n.last_at DESC, n.id DESC`)
        return { topics, notices: notices.map(briefOf), ...(yield* readBulletins(person)) }
      },

      *readNotices(ids) {
        const rows = yield* readAll<BriefRow & Pick<NoticeRow, 'title' | 'text' | 'tags' | 'click'>>(
          sql`SELECT ${briefColumns}, n.title, n.text, n.tags, n.click FROM notice n
            WHERE ${dialect.isOneOf(sql`n.id`, [0, ...ids])} ORDER BY n.last_at DESC, n.id DESC`,
        )
        return rows.map(
          ({ click, tags, text, title, ...row }): StoredNotice => ({
            ...briefOf(row),
            text,
            ...(title !== undefined && { title }),
            ...(click !== undefined && { click }),
            ...(tags !== undefined && { tags: JSON.parse(tags) as string[] }),
            ...(row.media !== undefined &&
              row.media !== '{}' && { media: JSON.parse(row.media) as NonNullable<Notice['media']> }),
          }),
        )
      },

      *listWaiting(name, limit) {
        const rows =
          yield* readAll<BriefRow>(sql`SELECT ${briefColumns} FROM notice n JOIN topic t ON t.id = n.topic
          WHERE t.name = ${name} AND n.state IN ('waiting', 'sending', 'unknown')
          ORDER BY n.last_at DESC, n.id DESC LIMIT ${limit}`)
        return rows.map(briefOf)
      },

      *countWaiting() {
        const rows = yield* readAll<{
          name: string
          count: number
        }>(sql`SELECT t.name, count(*) AS count FROM notice n
          JOIN topic t ON t.id = n.topic WHERE n.state IN ('waiting', 'sending') GROUP BY t.name`)
        return Object.fromEntries(rows.map(({ count, name }) => [name, Number(count)]))
      },

      *listFiles() {
        const rows = yield* readAll<{ media: string }>(sql`SELECT media FROM notice WHERE media IS NOT NULL
          UNION ALL SELECT media FROM bulletin WHERE state = 'sending'`)
        const all = rows.flatMap(({ media }) => [JSON.parse(media) as Media | Media[]].flat())
        return new Set(all.flatMap(({ upload_id }) => upload_id ?? []))
      },

      *claim(bulletin: NewBulletin, version) {
        const { answers, doubts, id, media, missed, names, notices, priority, text, user_id } = bulletin
        const isFree = sql`NOT EXISTS (SELECT 1 FROM bulletin b WHERE ${ofBulletin(bulletin)} AND b.state = 'sending')`
        const isSame = sql`${revisionsOf(bulletin)} = ${version} AND ${isFree}`
        const [found] = yield* readAll<{ free: unknown }>(sql`SELECT 1 AS free WHERE ${isSame}`)
        if (!found) return false
        yield* context.rejectErased(user_id)
        const now = clock.now()
        const session = yield* context.ensureSession(bulletin.session)
        yield* write(
          ...dialect.lock(sql`SELECT FROM topic t WHERE ${ofTopic(bulletin)} ORDER BY t.id`),
          ...dialect.expect(isSame),
          sql`INSERT INTO bulletin (id, session, peer, text, media, answers, priority, missed, names, state, created_at, owner,
              lease_until)
            VALUES (${id}, ${session}, ${user_id}, ${text}, ${JSON.stringify(media)}, ${answers}, ${levelOf(priority)},
              ${JSON.stringify(missed)}, ${JSON.stringify(names)}, 'sending', ${now}, ${owner}, ${now + bulletinLeaseMs})`,
          sql`UPDATE notice SET state = 'sending', bulletin = ${id}, telling = count
            WHERE ${dialect.isOneOf(sql`id`, [0, ...notices])}`,
          ...(doubts.length === 0
            ? []
            : [sql`UPDATE bulletin SET named_in = ${id} WHERE ${dialect.isOneOf(sql`id`, doubts)}`]),
          sql`UPDATE topic SET revision = revision + 1 WHERE id IN (SELECT t.id FROM topic t WHERE ${ofTopic(bulletin)})`,
        )
        return true
      },

      *listSending(own) {
        const rows = yield* readAll<ClaimRow & { id: string }>(sql`SELECT b.id, b.owner, b.lease_until,
          ${claims.dead('b')} AS dead FROM bulletin b WHERE b.state = 'sending' ORDER BY b.created_at, b.id`)
        const endsSoon = ({ lease_until }: ClaimRow) => lease_until - clock.now() <= bulletinLeaseMs / 2
        return rows.flatMap(row =>
          (own.includes(row.id) ? endsSoon(row) : mayTake(context, row, bulletinLeaseMs)) ? row.id : [],
        )
      },

      *take(id, isOwn) {
        const row = yield* readFirst<
          ClaimRow & { session: string; peer: string; text: string; media: string; created_at: number }
        >(sql`SELECT s.name AS session, b.peer, b.text, b.media, b.created_at, b.owner, b.lease_until,
          ${claims.dead('b')} AS dead FROM bulletin b JOIN session s ON s.key = b.session
          WHERE b.state = 'sending' AND b.id = ${id}`)
        if (!row || !(isOwn || mayTake(context, row, bulletinLeaseMs))) return undefined
        const { created_at, peer, session, text } = row
        const media = JSON.parse(row.media) as StoredBulletin['media']
        const got = yield* changes(sql`UPDATE bulletin SET owner = ${owner},
          lease_until = ${clock.now() + bulletinLeaseMs} WHERE id = ${id}
            AND owner IS NOT DISTINCT FROM ${row.owner} AND lease_until = ${row.lease_until} RETURNING id`)
        return got && !isOwn ? { id, session, user_id: peer, text, media, created_at } : undefined
      },

      *settle(id, outcome, withoutMedia = false) {
        const [row] = yield* readHeld<{ missed: string; peer: string }>(
          sql`SELECT missed, peer FROM bulletin WHERE id = ${id} AND state = 'sending'`,
        )
        if (!row) return
        const missed = JSON.parse(row.missed) as Record<number, MissedNotices>
        const topics = yield* selectTopics(
          sql`WHERE t.id IN (SELECT topic FROM notice WHERE bulletin = ${id})
            OR ${dialect.isOneOf(sql`t.id`, [0, ...Object.keys(missed).map(Number)])} ORDER BY t.id`,
        )
        const now = clock.now()
        const isIts = sql`bulletin = ${id} AND state = 'sending'`
        const undone = [
          sql`UPDATE bulletin SET named_in = NULL WHERE named_in = ${id}`,
          sql`UPDATE notice SET state = CASE WHEN reported > 0 AND resolved = 0 THEN 'sent' ELSE 'waiting' END,
            bulletin = NULL${constantSql(withoutMedia ? `, media = CASE WHEN media IS NOT NULL THEN '{}' END` : '')} WHERE ${isIts}`,
          sql`DELETE FROM bulletin WHERE id = ${id}`,
        ]
        const ended = [
          ...topics.map(topic => {
            const left = withoutMissed(topic.missed, missed[topic.id])
            return sql`UPDATE topic SET missed = ${JSON.stringify(left)}, sent = sent + (SELECT count(*) FROM notice
              WHERE topic = ${topic.id} AND ${isIts} AND reported = 0) WHERE id = ${topic.id}`
          }),
          sql`UPDATE notice SET reported = telling, title = NULL, text = '', tags = NULL, click = NULL, media = NULL,
            size = 0, bulletin = ${outcome === 'unknown' ? id : undefined},
            state = CASE WHEN resolved = 1 THEN 'over' ELSE ${outcome} END,
            expires_at = CASE WHEN mark LIKE 't%' THEN ${dialect.least}(expires_at, ${now + sameTextMs})
              ELSE expires_at END WHERE ${isIts}`,
          sql`UPDATE bulletin SET state = ${outcome}, text = '', media = '[]', owner = NULL, lease_until = 0
            WHERE id = ${id}`,
        ]
        yield* write(
          ...topics.flatMap(({ id, revision }) => raised(id, revision)),
          ...dialect.expect(sql`(SELECT state FROM bulletin WHERE id = ${id}) = 'sending'`),
          ...(outcome === 'undone' ? undone : ended),
        )
      },

      expireIn,

      *listOver() {
        const waiting = yield* readAll<{ id: number; topic: number }>(sql`SELECT id, topic FROM notice
          WHERE state = 'waiting' AND ${isOver()} ORDER BY id LIMIT ${expiredAtOnce}`)
        const ofTopics = new Map<number, number[]>()
        for (const { id, topic } of waiting) ofTopics.set(topic, [...(ofTopics.get(topic) ?? []), id])
        return ofTopics
      },
    },
    modes: {
      list: 'plain',
      find: 'plain',
      add: 'write',
      change: 'write',
      remove: 'write',
      accept: 'write',
      listPersons: 'plain',
      read: 'plain',
      readNotices: 'plain',
      listWaiting: 'plain',
      countWaiting: 'plain',
      listFiles: 'plain',
      claim: 'write',
      listSending: 'plain',
      take: 'relaxed',
      settle: 'write',
      listOver: 'plain',
      expireIn: 'light',
    },
  }
}
