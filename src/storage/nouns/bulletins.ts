/** Bulletins: what waits for a person goes out as one message, which one process at a time sends. */
import type { Notice } from '../../model/topic.ts'
import { changeApart, doneApart, type RowFailure } from '../../platform/apart.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import {
  type ClaimRow,
  changes,
  mayTake,
  type Noun,
  type NounContext,
  openNoun,
  type Runner,
  readAll,
  readFirst,
  readHeld,
  write,
} from '../routine.ts'
import {
  addNames,
  levelOf,
  type NoticeRow,
  nameOf,
  noneMissed,
  priorityOf,
  sizeOf,
  withoutMissed,
} from '../rules/notices.ts'
import {
  bulletinLeaseMs,
  type MissedNotices,
  mostFilesLeft,
  type NameCounts,
  type NewBulletin,
  type PersonTopic,
  type StoredBulletin,
  type StoredNotice,
  sameTextMs,
  type TopicPerson,
  type TopicStore,
} from '../topics.ts'
import { type BriefRow, briefColumns, briefOf, fileIn } from './notices.ts'
import { keptBulletinMs } from './old-rows.ts'
import { isOf, raise } from './topic-rows.ts'

const nameOfFile = (text: string): string => nameOf({ text, priority: 'default' })

type Media = Partial<NonNullable<Notice['media']>>

/** The verbs of `takeOver`. */
interface Steps {
  /** Ids of bulletins that nobody seems to send, and of own ones. */
  listSending(own: readonly string[]): Promise<string[]>
  /** Renews an own one. @returns one that is taken over */
  take(id: string, isOwn: boolean): Promise<StoredBulletin | undefined>
}

export type BulletinVerbs = Pick<
  TopicStore,
  'listPersons' | 'read' | 'readNotices' | 'listFiles' | 'claim' | 'takeOver' | 'settle'
>

export function openBulletins(context: NounContext, run: Runner): BulletinVerbs {
  const { listSending, take, ...verbs } = openNoun(createBulletins(context), run)
  return {
    ...verbs,
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

const createBulletins = (context: NounContext): Noun<Omit<BulletinVerbs, 'takeOver'> & Steps> => {
  const { claims, clock, dialect } = context
  const { owner } = claims
  const ofMember = (person: TopicPerson): Sql => isOf(context, person, constantSql('m'))
  const ofBulletin = (person: TopicPerson): Sql => isOf(context, person, constantSql('b'))
  const revision = constantSql('sum(t.revision + m.revision)')
  const joined = constantSql('topic_member m JOIN topic t ON t.id = m.topic')

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

  return {
    verbs: {
      *listPersons() {
        const rows = yield* readAll<{ session: string; peer: string; version: number }>(
          sql`SELECT s.name AS session, m.peer, ${revision} AS version
            FROM ${joined} JOIN session s ON s.key = m.session GROUP BY s.name, m.peer
            HAVING max(CASE WHEN m.missed <> ${JSON.stringify(noneMissed)} OR EXISTS (SELECT 1 FROM notice n
              WHERE n.member = m.id AND n.state = 'waiting') THEN 1 ELSE 0 END) = 1`,
        )
        return rows.map(({ peer, session, version }) => ({
          session,
          user_id: peer,
          version: Number(version),
        }))
      },

      *read(person) {
        const topics = yield* readAll<
          Omit<PersonTopic, 'min_priority' | 'digest' | 'missed'> & {
            min_priority: number
            digest: number
            missed: string
          }
        >(sql`SELECT m.id, t.name, t.min_priority, t.digest, t.paused_until, m.missed, coalesce(m.answers, t.answers) AS answers,
            coalesce(m.quiet, t.quiet) AS quiet, coalesce(m.time_zone, t.time_zone) AS time_zone
          FROM ${joined} WHERE ${ofMember(person)} ORDER BY t.name`)
        const notices = yield* readAll<BriefRow>(
          sql`SELECT ${briefColumns} FROM notice n JOIN topic_member m ON m.id = n.member
            WHERE ${ofMember(person)} AND (n.state = 'waiting' AND n.expires_at > ${clock.now()}
              OR n.state IN ('sent', 'unknown') AND n.count > n.reported)
            ORDER BY n.last_at DESC, n.id DESC`,
        )
        return {
          topics: topics.map(({ digest, min_priority, missed, ...topic }) => ({
            ...topic,
            min_priority: priorityOf(min_priority),
            digest: digest === 1,
            missed: JSON.parse(missed) as MissedNotices,
          })),
          notices: notices.map(briefOf),
          ...(yield* readBulletins(person)),
        }
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
              !fileIn(row.media).isLost && { media: JSON.parse(row.media) as NonNullable<Notice['media']> }),
          }),
        )
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
        const isSame = sql`(SELECT ${revision} FROM ${joined} WHERE ${ofMember(bulletin)}) = ${version} AND ${isFree}`
        const [found] = yield* readAll<{ free: unknown }>(sql`SELECT 1 AS free WHERE ${isSame}`)
        if (!found) return false
        yield* context.rejectErased(user_id)
        const now = clock.now()
        const session = yield* context.ensureSession(bulletin.session)
        yield* write(
          ...raise(context, isOf(context, bulletin, constantSql('topic_member')), [isSame]),
          sql`INSERT INTO bulletin (id, session, peer, text, media, answers, priority, missed, names, state, created_at, owner,
              lease_until)
            VALUES (${id}, ${session}, ${user_id}, ${text}, ${JSON.stringify(media)}, ${answers}, ${levelOf(priority)},
              ${JSON.stringify(missed)}, ${JSON.stringify(names)}, 'sending', ${now}, ${owner}, ${now + bulletinLeaseMs})`,
          sql`UPDATE notice SET state = 'sending', bulletin = ${id}, telling = count
            WHERE ${dialect.isOneOf(sql`id`, [0, ...notices])}`,
          ...(doubts.length === 0
            ? []
            : [sql`UPDATE bulletin SET named_in = ${id} WHERE ${dialect.isOneOf(sql`id`, doubts)}`]),
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
        const [row] = yield* readHeld<{ media: string; missed: string }>(
          sql`SELECT media, missed FROM bulletin WHERE id = ${id} AND state = 'sending'`,
        )
        if (!row) return
        const missed = JSON.parse(row.missed) as Record<number, MissedNotices>
        const members = yield* readAll<{ id: number; topic: number; missed: string; revision: number }>(
          sql`SELECT id, topic, missed, revision FROM topic_member
            WHERE id IN (SELECT member FROM notice WHERE bulletin = ${id})
              OR ${dialect.isOneOf(sql`id`, [0, ...Object.keys(missed).map(Number)])} ORDER BY id`,
        )
        const now = clock.now()
        const isIts = sql`bulletin = ${id} AND state = 'sending'`
        // It came with another content while the bulletin was on its way.
        const isNewer = sql`bulletin = ${id} AND state = 'waiting'`
        const went = new Set((JSON.parse(row.media) as Media[]).map(one => JSON.stringify(one)))
        const files = (yield* readAll<{ id: number; member: number; media: string; its: unknown }>(
          sql`SELECT id, member, media, CASE WHEN ${isIts} THEN 1 ELSE 0 END AS its FROM notice
            WHERE media IS NOT NULL AND (${isIts} OR state = 'waiting' AND count = reported
              AND ${dialect.isOneOf(sql`member`, [0, ...members.map(one => one.id)])}) ORDER BY id`,
        )).map(one => ({ ...one, ...fileIn(one.media) }))
        const given = withoutMedia ? files.filter(one => one.its && went.has(one.media)) : []
        const alone = files.filter(({ isLost, its, media }) => !isLost && !(its && went.has(media)))
        const kept = new Set(
          members.flatMap(({ id }) => alone.filter(one => one.member === id).slice(-mostFilesLeft)),
        )
        const tooMany = alone.filter(one => !kept.has(one))
        const undone = [
          sql`UPDATE bulletin SET named_in = NULL WHERE named_in = ${id}`,
          ...given.map(
            ({ file_name, id }) =>
              sql`UPDATE notice SET media = ${JSON.stringify({ file_name })} WHERE id = ${id}`,
          ),
          sql`UPDATE notice SET state = CASE WHEN reported > 0 AND resolved = 0 AND size = 0 THEN 'sent'
            ELSE 'waiting' END, bulletin = NULL WHERE ${isIts}`,
          sql`UPDATE notice SET bulletin = NULL WHERE ${isNewer}`,
          sql`DELETE FROM bulletin WHERE id = ${id}`,
        ]
        const ended = [
          ...members.flatMap(one => {
            const left = withoutMissed(JSON.parse(one.missed) as MissedNotices, missed[one.id])
            const more = tooMany
              .filter(({ member }) => member === one.id)
              .reduce((sum, { file_name = '' }) => addNames(sum, { [nameOfFile(file_name)]: 1 }), left.more)
            return [
              sql`UPDATE topic_member SET missed = ${JSON.stringify({ ...left, more })} WHERE id = ${one.id}`,
              sql`UPDATE topic SET sent = sent + (SELECT count(*) FROM notice
                WHERE member = ${one.id} AND ${isIts} AND reported = 0) WHERE id = ${one.topic}`,
            ]
          }),
          sql`UPDATE notice SET state = CASE WHEN resolved = 1 THEN 'over' ELSE 'sent' END, media = NULL, size = 0
            WHERE state = 'waiting' AND ${dialect.isOneOf(sql`id`, [0, ...tooMany.map(one => one.id)])}`,
          ...[...kept]
            .filter(({ its }) => its)
            .map(
              ({
                file_name = '',
                id,
                media,
              }) => sql`UPDATE notice SET state = 'waiting', reported = telling, bulletin = NULL,
              name = ${nameOfFile(file_name)}, title = NULL, text = '', tags = NULL,
              click = NULL, size = ${sizeOf(media)} WHERE id = ${id}`,
            ),
          sql`UPDATE notice SET reported = telling, raised = 0, bulletin = NULL WHERE ${isNewer}`,
          sql`UPDATE notice SET reported = telling, raised = 0, title = NULL, text = '', tags = NULL, click = NULL, media = NULL,
            size = 0, bulletin = ${outcome === 'unknown' ? id : undefined},
            state = CASE WHEN resolved = 1 THEN 'over' ELSE ${outcome} END,
            expires_at = CASE WHEN mark LIKE 't%' THEN ${dialect.least}(expires_at, ${now + sameTextMs})
              ELSE expires_at END WHERE ${isIts}`,
          sql`UPDATE bulletin SET state = ${outcome}, text = '', media = '[]', owner = NULL, lease_until = 0
            WHERE id = ${id}`,
        ]
        const [ids, topics] = [
          [0, ...members.map(one => one.id)],
          [0, ...members.map(({ topic }) => topic)],
        ]
        yield* write(
          ...dialect.lock(sql`SELECT FROM topic WHERE ${dialect.isOneOf(sql`id`, topics)} ORDER BY id`),
          ...raise(
            context,
            dialect.isOneOf(sql`id`, ids),
            members.map(
              one => sql`(SELECT revision FROM topic_member WHERE id = ${one.id}) = ${one.revision}`,
            ),
          ),
          ...dialect.expect(sql`(SELECT state FROM bulletin WHERE id = ${id}) = 'sending'`),
          ...(outcome === 'undone' ? undone : ended),
        )
      },
    },
    modes: {
      listPersons: 'plain',
      read: 'plain',
      readNotices: 'plain',
      listFiles: 'plain',
      claim: 'write',
      listSending: 'plain',
      take: 'relaxed',
      settle: 'write',
    },
  }
}
