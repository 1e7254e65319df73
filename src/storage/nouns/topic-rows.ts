/** Rows of topics and of their people. Who changes both locks topics first, then members, each in the order of their ids. */
import { mostMembers, type Priority } from '../../model/topic.ts'
import { constantSql, insertedColumns, type Sql, sql } from '../../platform/sql.ts'
import { type NounContext, type Routine, readAll } from '../routine.ts'
import { levelOf, noneMissed, priorityOf } from '../rules/notices.ts'
import { changeSecrets, storeTables } from '../table-list.ts'
import type {
  MissedNotices,
  NewTopic,
  OwnSettings,
  StoredTopic,
  TopicMember,
  TopicPerson,
  TopicSettings,
  UnreadWords,
} from '../topics.ts'

const table = storeTables.find(({ name }) => name === 'topic')!
const topicColumns =
  constantSql(`id, name, min_priority, max_priority, quiet, time_zone, digest, answers, keep_ms, paused_until, template, secret,
  priorities, attach_private, unread, sent, expired, revision, made_by, created_at`)

type TopicRow = Omit<
  StoredTopic,
  'people' | 'min_priority' | 'max_priority' | 'digest' | 'attach_private' | 'unread' | 'priorities'
> & {
  min_priority: number
  max_priority: number
  digest: number
  attach_private: number
  unread: string
  priorities?: string
}
type MemberRow = OwnSettings & {
  id: number
  name?: string
  topic: number
  session: string
  peer: string
  missed: string
  revision: number
}

export const settingColumns = (
  { sealer }: Pick<NounContext, 'sealer'>,
  name: string,
  settings: TopicSettings,
) => {
  const { answers, keep_ms, paused_until, priorities, quiet, template, time_zone } = settings
  return {
    quiet,
    time_zone,
    answers,
    keep_ms,
    paused_until,
    template,
    secret: changeSecrets(table, { name, secret: settings.secret }, sealer.seal).secret,
    min_priority: levelOf(settings.min_priority),
    max_priority: levelOf(settings.max_priority),
    digest: Number(settings.digest),
    attach_private: Number(settings.attach_private),
    priorities: priorities && JSON.stringify(priorities),
  }
}

/** Returns the statement that adds a topic without people, unless there is one of this name. */
export function insertTopic(
  context: Pick<NounContext, 'sealer'>,
  { created_at, made_by, name, people: _, ...settings }: NewTopic,
): Sql {
  const row = { name, ...settingColumns(context, name, settings), made_by, created_at }
  return sql`INSERT INTO topic ${insertedColumns(row)} ON CONFLICT (name) DO NOTHING`
}

/** Returns the statement that adds a person to a topic, unless it is full or has the person. @param session SQL for its key */
export const insertMember = (topic: string, user: string, session: Sql): Sql =>
  sql`INSERT INTO topic_member (topic, session, peer, missed)
    SELECT id, ${session}, ${user}, ${JSON.stringify(noneMissed)} FROM topic t WHERE name = ${topic}
      AND (SELECT count(*) FROM topic_member m WHERE m.topic = t.id) < ${mostMembers}
    ON CONFLICT (topic, peer) DO NOTHING RETURNING id`

/** The statement that removes topics without people. */
export const removeEmptyTopics: Sql = sql`DELETE FROM topic WHERE NOT EXISTS (SELECT 1 FROM topic_member m WHERE m.topic = topic.id)`

/** Reads topics with their people. @param which a condition on `topic` */
export function* readTopics({ sealer }: Pick<NounContext, 'sealer'>, which: Sql): Routine<StoredTopic[]> {
  const rows = yield* readAll<TopicRow>(sql`SELECT ${topicColumns} FROM topic WHERE ${which} ORDER BY name`)
  const members =
    yield* readAll<MemberRow>(sql`SELECT m.id, m.topic, s.name AS session, m.peer, m.quiet, m.time_zone, m.answers,
    m.missed, m.revision, u.name FROM topic_member m JOIN session s ON s.key = m.session
    LEFT JOIN user_name u ON u.session = m.session AND u.peer = m.peer
    WHERE m.topic IN (SELECT id FROM topic WHERE ${which}) ORDER BY m.id`)
  const people = Map.groupBy(members, ({ topic }) => topic)
  return rows.map(row => {
    const { attach_private, digest, max_priority, min_priority, priorities, unread, ...rest } = changeSecrets(
      table,
      row,
      sealer.open,
    )
    return {
      ...rest,
      people: (people.get(row.id) ?? []).map(toMember),
      min_priority: priorityOf(min_priority),
      max_priority: priorityOf(max_priority),
      digest: digest === 1,
      attach_private: attach_private === 1,
      unread: JSON.parse(unread) as UnreadWords,
      ...(priorities !== undefined && { priorities: JSON.parse(priorities) as Record<string, Priority> }),
    }
  })
}

const toMember = ({
  id,
  missed,
  name,
  peer,
  revision,
  session,
  topic: _,
  ...own
}: MemberRow): TopicMember => ({
  id,
  session,
  user_id: peer,
  ...(name !== undefined && { name }),
  own,
  missed: JSON.parse(missed) as MissedNotices,
  revision,
})

/** The condition that a row of the table with this name is of a person. */
export const isOf = (context: NounContext, { session, user_id }: TopicPerson, alias: Sql): Sql =>
  sql`${alias}.peer = ${user_id} AND ${alias}.session IN ${context.sessionKeys(session)}`

/** The members of topics. */
export const membersOf = (topics: Sql): Sql => sql`(SELECT id FROM topic_member WHERE topic IN ${topics})`

/**
 * Statements that begin a change of the notices for members.
 *
 * @param which the members, a condition
 * @param expected what must hold once they are locked
 */
export const raise = (
  { dialect }: NounContext,
  which: Sql,
  expected: readonly Sql[] = [],
): readonly Sql[] => [
  ...dialect.lock(sql`SELECT FROM topic_member WHERE ${which} ORDER BY id`),
  ...expected.flatMap(dialect.expect),
  sql`UPDATE topic_member SET revision = revision + 1 WHERE ${which}`,
]
