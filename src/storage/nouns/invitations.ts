/** Invitations, and the max_uses of each. */
import { badArgument } from '../../model/error.ts'
import type { JoinedSession } from '../../model/event.ts'
import { shares } from '../../model/shares.ts'
import { mostMembers } from '../../model/topic.ts'
import { type Sql, sql } from '../../platform/sql.ts'
import {
  type InvitationStore,
  invitationStatusOf,
  type Joining,
  type JoinOutcome,
  type StoredInvitation,
  tooManyInvitationsError,
} from '../invitations.ts'
import { changes, type Noun, type NounContext, type Routine, readAll, readFirst, write } from '../routine.ts'
import { defaultTopicSettings } from '../topics.ts'
import { createAuditLines } from './audit.ts'
import { findExceeded, refuseRevoked } from './keys.ts'
import { insertMember, insertTopic } from './topic-rows.ts'

type InvitationRow = Omit<StoredInvitation, 'trusted'> & { trusted: unknown }

const countUses = sql`(SELECT count(*) FROM invitation_use u WHERE u.invitation = i.id)`

function* select(rest: Sql): Routine<StoredInvitation[]> {
  const rows =
    yield* readAll<InvitationRow>(sql`SELECT id, name, hash, agent, trusted, turns_per_day, max_uses, inviter, topic,
    made_by, created_at, expires_at, revoked_at, ${countUses} AS used FROM invitation i ${rest}`)
  return rows.map(({ trusted, ...row }) => ({ ...row, trusted: Number(trusted) === 1 }))
}

/**
 * Decides about a person who confirmed a login by invitation.
 *
 * @returns what becomes of it, and the statements for the write that stores the credentials
 */
export function* planJoin(
  context: NounContext,
  { at, bot, invitation: id, isKnown, login, session }: Joining,
): Routine<{ outcome: JoinOutcome; statements: readonly Sql[] }> {
  const { addEvent, dialect } = context
  const [found] = yield* select(sql`WHERE id = ${id}`)
  const wasCounted = sql`SELECT login FROM invitation_use WHERE login = ${login}`
  // A process that was killed after this write: another one goes on where it stopped.
  if ((yield* readFirst(wasCounted)) !== undefined) return { outcome: 'joined', statements: [] }
  const status = found && invitationStatusOf(found, at)
  const isOver = status !== 'active' && !(isKnown && status === 'used')
  const outcome = isOver ? 'over' : isKnown ? 'back' : 'joined'
  const { insert, announce } = createAuditLines(context)
  const line = { at, principal: 'open', operation: 'join', outcome: isOver ? 'denied' : 'done' }
  const isUnchanged = sql`EXISTS (SELECT 1 FROM invitation i WHERE id = ${id} AND revoked_at IS NULL
    AND ${countUses} = ${found?.used})`
  const { bot_id, user_id } = bot
  const joined = {
    name: session,
    bot_id,
    user_id,
    invitation: id,
    invitation_name: found?.name,
  } satisfies Partial<JoinedSession>
  const use = sql`INSERT INTO invitation_use (login, invitation, at) VALUES (${login}, ${id}, ${at})`
  const isNew = !isOver && !isKnown && user_id !== undefined
  const topic = isNew && found?.topic !== undefined ? yield* topicOf(found, found.topic, session) : undefined
  const key = topic === undefined ? 0 : yield* context.ensureSession(session)
  const made = { ...defaultTopicSettings, people: [], made_by: found?.made_by ?? '', created_at: at }
  const statements = [
    ...insert({ ...line, subject: `${id} ${session}` }),
    announce(sql`(SELECT max(id) FROM audit)`),
    ...(isOver
      ? []
      : [
          ...dialect.lock(sql`SELECT FROM invitation WHERE id = ${id}`),
          ...dialect.expect(isUnchanged),
          ...(topic === undefined || user_id === undefined
            ? []
            : [
                insertTopic(context, { ...made, name: topic }),
                ...dialect.lock(sql`SELECT FROM topic WHERE name = ${topic}`),
                insertMember(topic, user_id, sql`${key}`),
                sql`UPDATE topic SET revision = revision + 1 WHERE name = ${topic}`,
              ]),
          ...(isKnown
            ? []
            : [use, addEvent({ type: 'session.joined', session }, sql`${JSON.stringify(joined)}`)]),
        ]),
  ]
  return { outcome, statements }
}

/** Returns the topic of a person who joins: the one that there is, else one of their own. @param session the account */
function* topicOf({ name, max_uses }: StoredInvitation, topic: string, session: string): Routine<string> {
  const isNumbered = max_uses > 1 && session.startsWith(`${name}-`)
  if (!isNumbered || (yield* countMembers(topic)) > 0) return topic
  return `${topic}${session.slice(name.length)}`
}

function* countMembers(topic: string): Routine<number> {
  const found = yield* readFirst<{ count: number }>(
    sql`SELECT count(*) AS count FROM topic_member WHERE topic IN (SELECT id FROM topic WHERE name = ${topic})`,
  )
  return Number(found!.count)
}

/** For an engine that stores credentials elsewhere, right after this. */
export const createJoin = (context: NounContext): Noun<{ join(joining: Joining): Promise<JoinOutcome> }> => ({
  verbs: {
    *join(joining) {
      const { outcome, statements } = yield* planJoin(context, joining)
      if (statements.length > 0) yield* write(...statements)
      return outcome
    },
  },
  modes: { join: 'news' },
})

export const createInvitations = ({ clock, dialect }: NounContext): Noun<InvitationStore> => ({
  verbs: {
    list: () => select(sql`ORDER BY created_at, id`),

    *get(id) {
      return (yield* select(sql`WHERE id = ${id}`))[0]
    },

    *findByHash(hash) {
      return (yield* select(sql`WHERE hash = ${hash}`))[0]
    },

    *add(one) {
      const held = yield* refuseRevoked(dialect, one.made_by)
      const now = clock.now()
      const all = yield* select(sql`WHERE revoked_at IS NULL AND expires_at > ${now}`)
      const active = all.filter(other => invitationStatusOf(other, now) === 'active')
      const most = yield* findExceeded(shares.invitations, active, one.made_by)
      if (most !== undefined) throw tooManyInvitationsError(most)
      const people = one.topic === undefined ? 0 : yield* countMembers(one.topic)
      if (people > 0 && people + one.max_uses > mostMembers)
        throw badArgument('max_uses', `the topic has ${people} people, and may have ${mostMembers}`)
      yield* write(
        ...held,
        sql`INSERT INTO invitation (id, name, hash, agent, trusted, turns_per_day, max_uses, inviter, topic, made_by,
            created_at, expires_at)
          VALUES (${one.id}, ${one.name}, ${one.hash}, ${one.agent}, ${Number(one.trusted)}, ${one.turns_per_day},
            ${one.max_uses}, ${one.inviter}, ${one.topic}, ${one.made_by}, ${one.created_at}, ${one.expires_at})`,
      )
    },

    revoke: (id, at) =>
      changes(
        sql`UPDATE invitation SET revoked_at = ${at} WHERE id = ${id} AND revoked_at IS NULL RETURNING id`,
      ),
  },
  modes: {
    list: 'plain',
    get: 'plain',
    findByHash: 'plain',
    add: 'intake',
    revoke: 'intake',
  },
})
