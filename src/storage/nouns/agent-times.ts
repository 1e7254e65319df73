/** Times at which agents are to do something for people. */
import { mostTimes } from '../../model/agent.ts'
import { badArgument } from '../../model/error.ts'
import { readRule } from '../../model/time-rule.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { AgentStore, ConversationKey, StoredTime } from '../agents.ts'
import { changes, type Noun, type NounContext, type Routine, readAll, write } from '../routine.ts'
import { isOpen } from './agent-questions.ts'

/** How long a turn that does not end holds up its series: its agent may be gone. */
const openMs = 24 * 60 * 60_000

/** A session may have several keys. The answer of a turn is queued before the turn ends. */
const isWaiting = (now: number): Sql => sql`EXISTS (SELECT 1 FROM agent_turn own WHERE own.id = t.turn
  AND (own.${isOpen} AND own.created_at > ${now - openMs} OR EXISTS (SELECT 1 FROM outbox_lane l
    JOIN session ls ON ls.key = l.session JOIN outbox o ON o.lane = l.id
    WHERE l.peer = t.peer AND ls.name = s.name AND o.mode = 'queue' AND o.ended_at IS NULL
      AND o.created_at BETWEEN own.started_at AND own.ended_at)))`

type TimeRow = Omit<StoredTime, 'rule' | 'isWaiting'> & { rule: string; waits: unknown }

export type TimeVerbs = Pick<AgentStore, 'addTime' | 'listTimes' | 'passTime' | 'removeTime'>

/** @param conversations `ensure` returns the row of a conversation */
export const createAgentTimes = (
  { clock, dialect, ensureSession, rejectErased, sessionKeys }: NounContext,
  conversations: { ensure(key: Omit<ConversationKey, 'session'>, session: number): Routine<number> },
): Noun<TimeVerbs> => {
  function* readTimes(where: Sql): Routine<StoredTime[]> {
    const rows = yield* readAll<TimeRow>(
      sql`SELECT t.id, s.name AS session, t.peer AS user_id, t.agent, t.prompt, t.rule, t.zone, t.due_at, t.created_at,
        t.made_by, t.missed_at, ${isWaiting(clock.now())} AS waits FROM agent_time t JOIN session s ON s.key = t.session
        WHERE ${where} ORDER BY t.due_at NULLS LAST, t.id`,
    )
    return rows.map(({ rule, waits, ...row }) => ({
      ...row,
      rule: readRule(rule, row.zone),
      isWaiting: Boolean(waits),
    }))
  }
  return {
    verbs: {
      *addTime({ agent, due_at, made_by, prompt, rule, session, user_id, zone }) {
        yield* rejectErased(user_id)
        const key = yield* ensureSession(session)
        const ruled = JSON.stringify(rule)
        const isOwn = sql`t.peer = ${user_id} AND t.session IN ${sessionKeys(session)}`
        const isSame = sql`${isOwn} AND t.prompt = ${prompt} AND t.rule = ${ruled} AND t.zone = ${zone}
        AND t.agent IS NOT DISTINCT FROM ${agent}`
        yield* write(
          ...dialect.lock(sql`SELECT FROM session WHERE key = ${key}`),
          sql`UPDATE agent_time AS t SET due_at = ${due_at} WHERE ${isSame} AND t.due_at IS NULL`,
          sql`INSERT INTO agent_time (session, peer, agent, prompt, rule, zone, due_at, created_at, made_by)
          SELECT ${key}, ${user_id}, ${agent}, ${prompt}, ${ruled}, ${zone}, ${due_at}, ${clock.now()}, ${made_by}
          WHERE NOT EXISTS (SELECT 1 FROM agent_time t WHERE ${isSame})
            AND (SELECT count(*) FROM agent_time t WHERE ${isOwn}) < ${mostTimes}`,
        )
        const [time] = yield* readTimes(isSame)
        if (time) return time
        throw badArgument('user', `expected a person with fewer than ${mostTimes} times`, {
          hint: 'Cancel one of them first.',
        })
      },

      listTimes({ agent, only, session, user }) {
        const is = {
          due: sql`t.due_at <= ${clock.now()}`,
          missed: sql`t.missed_at IS NOT NULL`,
          all: sql`true`,
        }
        return readTimes(sql`${is[only ?? 'all']} ${agent === undefined ? noSql : sql` AND t.agent = ${agent}`}
        ${session === undefined ? noSql : sql` AND t.session IN ${sessionKeys(session)}`}
        ${user === undefined ? noSql : sql` AND t.peer = ${user}`}`)
      },

      *removeTime(id) {
        const [time] = yield* readTimes(sql`t.id = ${id}`)
        return (yield* changes(sql`DELETE FROM agent_time WHERE id = ${id} RETURNING id`)) ? time : undefined
      },

      *passTime({ due_at, id, rule }, { missed_at, due_at: next, turn }) {
        const [time] = yield* readTimes(sql`t.id = ${id} AND t.due_at IS NOT DISTINCT FROM ${due_at}`)
        if (!time) return false
        const [session, user] = [yield* ensureSession(time.session), time.user_id]
        const conversation = turn && (yield* conversations.ensure({ agent: turn.agent, user }, session))
        const added = sql`INSERT INTO agent_turn (conversation, status, source, messages, prompt, fresh, created_at)
        VALUES (${conversation}, 'waiting', 'time', '[]', ${turn?.prompt}, 0, ${clock.now()})`
        const newest = sql`(SELECT max(id) FROM agent_turn WHERE conversation = ${conversation})`
        return yield* changes(
          ...(turn ? dialect.lock(sql`SELECT FROM agent_conversation WHERE id = ${conversation}`) : []),
          ...dialect.lock(sql`SELECT FROM agent_time WHERE id = ${id}`),
          ...dialect.expect(sql`EXISTS (SELECT 1 FROM agent_time
          WHERE id = ${id} AND due_at IS NOT DISTINCT FROM ${due_at})`),
          ...(turn ? [added] : []),
          next === undefined && missed_at === undefined && 'at' in rule
            ? sql`DELETE FROM agent_time WHERE id = ${id} RETURNING id`
            : sql`UPDATE agent_time SET due_at = ${next}, missed_at = ${missed_at},
              turn = ${turn ? newest : constantSql('turn')} WHERE id = ${id} RETURNING id`,
        )
      },
    },
    modes: { addTime: 'write', listTimes: 'plain', removeTime: 'write', passTime: 'write' },
  }
}
