/** Topics and their people. */
import { badArgument } from '../../model/error.ts'
import { shares } from '../../model/shares.ts'
import { mostMembers } from '../../model/topic.ts'
import { changedColumns, type Sql, sql } from '../../platform/sql.ts'
import {
  changes,
  type Noun,
  type NounContext,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  write,
} from '../routine.ts'
import type { TopicPerson, TopicStore } from '../topics.ts'
import { type BulletinVerbs, openBulletins } from './bulletins.ts'
import { findExceeded, refuseRevoked } from './keys.ts'
import { type NoticeVerbs, openNotices } from './notices.ts'
import {
  insertMember,
  insertTopic,
  membersOf,
  raise,
  readTopics,
  removeEmptyTopics,
  settingColumns,
} from './topic-rows.ts'

export const openTopics = (context: NounContext, run: Runner): TopicStore => ({
  ...openNoun(createTopics(context), run),
  ...openNotices(context, run),
  ...openBulletins(context, run),
})

type TopicVerbs = Omit<TopicStore, keyof NoticeVerbs | keyof BulletinVerbs>

const createTopics = (context: NounContext): Noun<TopicVerbs> => {
  const { dialect } = context

  function* addPeople(name: string, people: readonly TopicPerson[]): Routine<Sql[]> {
    const statements: Sql[] = []
    for (const { session, user_id } of people) {
      yield* context.rejectErased(user_id)
      statements.push(insertMember(name, user_id, sql`${yield* context.ensureSession(session)}`))
    }
    return statements
  }

  return {
    verbs: {
      list: () => readTopics(context, sql`id > 0`),

      *find(name) {
        return (yield* readTopics(context, sql`name = ${name}`))[0]
      },

      *add(topic) {
        const held = yield* refuseRevoked(dialect, topic.made_by)
        const people = yield* addPeople(topic.name, topic.people)
        const found = yield* readAll<{ name: string; made_by: string }>(sql`SELECT name, made_by FROM topic`)
        const most = yield* findExceeded(shares.topics, found, topic.made_by)
        if (most !== undefined)
          throw badArgument('name', `there are ${most} topics already, which is the maximum`)
        const isNew = sql`NOT EXISTS (SELECT 1 FROM topic WHERE name = ${topic.name})`
        if (found.some(({ name }) => name === topic.name))
          throw badArgument('name', 'there is a topic of this name already')
        yield* write(...held, ...dialect.expect(isNew), insertTopic(context, topic), ...people)
      },

      change(name, settings) {
        const row = { ...settingColumns(context, name, settings), unread: '{}' }
        return changes(
          ...dialect.lock(sql`SELECT FROM topic WHERE name = ${name}`),
          ...raise(context, sql`topic IN (SELECT id FROM topic WHERE name = ${name})`),
          sql`UPDATE topic SET ${changedColumns(row)}, revision = revision + 1 WHERE name = ${name} RETURNING id`,
        )
      },

      changeOwn: (name, user, { answers, quiet, time_zone }) =>
        changes(sql`UPDATE topic_member SET ${changedColumns({ answers, quiet, time_zone })}, revision = revision + 1
          WHERE peer = ${user} AND topic IN (SELECT id FROM topic WHERE name = ${name}) RETURNING id`),

      *join(name, people) {
        const [topic] = yield* readTopics(context, sql`name = ${name}`)
        if (!topic) return false
        const known = new Set([...topic.people, ...people].map(({ user_id }) => user_id))
        if (known.size > mostMembers) throw tooManyPeopleError()
        const added = yield* addPeople(name, people)
        yield* write(
          ...dialect.lock(sql`SELECT FROM topic WHERE id = ${topic.id}`),
          ...dialect.expect(sql`(SELECT revision FROM topic WHERE id = ${topic.id}) = ${topic.revision}`),
          sql`UPDATE topic SET revision = revision + 1 WHERE id = ${topic.id}`,
          ...added,
        )
        return true
      },

      *leave(who) {
        const those =
          'session' in who
            ? sql`session IN ${context.sessionKeys(who.session)}`
            : sql`topic IN (SELECT id FROM topic WHERE name = ${who.name}) AND ${dialect.isOneOf(sql`peer`, who.users)}`
        const topics = sql`id IN (SELECT topic FROM topic_member WHERE ${those})`
        yield* write(
          ...dialect.lock(sql`SELECT FROM topic WHERE ${topics} ORDER BY id`),
          ...dialect.lock(sql`SELECT FROM topic_member WHERE ${those} ORDER BY id`),
          sql`UPDATE topic SET revision = revision + 1 WHERE ${topics}`,
          sql`DELETE FROM notice WHERE member IN (SELECT id FROM topic_member WHERE ${those})`,
          sql`DELETE FROM topic_member WHERE ${those}`,
          removeEmptyTopics,
        )
      },

      remove(name) {
        const members = membersOf(sql`(SELECT id FROM topic WHERE name = ${name})`)
        return changes(
          ...dialect.lock(sql`SELECT FROM topic WHERE name = ${name}`),
          ...dialect.lock(sql`SELECT FROM topic_member WHERE id IN ${members} ORDER BY id`),
          sql`DELETE FROM notice WHERE member IN ${members}`,
          sql`DELETE FROM topic_member WHERE topic IN (SELECT id FROM topic WHERE name = ${name})`,
          sql`DELETE FROM topic WHERE name = ${name} RETURNING id`,
        )
      },
    },
    modes: {
      list: 'plain',
      find: 'plain',
      add: 'write',
      change: 'write',
      changeOwn: 'write',
      join: 'write',
      leave: 'write',
      remove: 'write',
    },
  }
}

const tooManyPeopleError = () => badArgument('to', `a topic has at most ${mostMembers} people`)
