/** Questions of callers to people. They share a table and the codes with those of agents. */
import type { QuestionOption } from '../../model/agent.ts'
import { constantSql, type Sql, sql } from '../../platform/sql.ts'
import type { AskStore, StoredAsk } from '../asks.ts'
import { changes, type Noun, type NounContext, type Routine, readAll, readFirst, write } from '../routine.ts'
import { codesLock, isCodeTaken } from './agent-questions.ts'

/** Questions of a chat that are looked at. */
const listed = 100

const columns =
  constantSql(`SELECT q.id, s.name AS session, q.peer AS user_id, q.text, q.options, q.code, q.asked_by,
  q.asked_key, q.lasts_ms, q.grants, q.asked_at, q.expires_at, q.answer, q.answered_by, q.answered_at, q.answered_in,
  q.entry, q.message_id, q.sent_at FROM agent_question q JOIN session s ON s.key = q.session`)

type AskRow = Omit<StoredAsk, 'options' | 'grants'> & { options: string; grants: number }

function* readAsks(where: Sql): Routine<StoredAsk[]> {
  const rows = yield* readAll<AskRow>(sql`${columns} ${where}`)
  return rows.map(({ grants, options, ...row }) => ({
    ...row,
    options: JSON.parse(options) as QuestionOption[],
    grants: grants === 1,
  }))
}

/** The person may still answer, or the question may still be sent. */
const isOpen = (id: number): Sql => sql`id = ${id} AND asked_by IS NOT NULL AND answer IS NULL`

export const createAsks = ({
  clock,
  dialect,
  ensureSession,
  rejectErased,
  sessionKeys,
}: NounContext): Noun<AskStore> => ({
  verbs: {
    *add({ asked_by, asked_key, code, grants, lasts_ms, options, session, text, user_id }) {
      yield* rejectErased(user_id)
      const key = yield* ensureSession(session)
      const now = clock.now()
      const known = sql`q.asked_key = ${asked_key}`
      const [added] = yield* write<{ id: number }>(
        ...dialect.oneAtATime(codesLock),
        sql`INSERT INTO agent_question (session, peer, asked_by, asked_key, lasts_ms, grants, text, options, code, asked_at,
            expires_at)
          SELECT ${key}, ${user_id}, ${asked_by}, ${asked_key}, ${lasts_ms}, ${grants ? 1 : 0}, ${text},
            ${JSON.stringify(options)}, ${code}, ${now}, ${now + lasts_ms}
          WHERE NOT EXISTS (SELECT 1 FROM agent_question q WHERE ${known} OR ${isCodeTaken(code, now)}) RETURNING id`,
      )
      const [ask] = yield* readAsks(added ? sql`WHERE q.id = ${added.id}` : sql`WHERE ${known}`)
      return ask
    },

    *get(id) {
      return (yield* readAsks(sql`WHERE q.id = ${id} AND q.asked_by IS NOT NULL`))[0]
    },

    listIn: ({ session, user_id }) =>
      readAsks(sql`WHERE q.peer = ${user_id} AND q.session IN ${sessionKeys(session)}
        ORDER BY q.id DESC LIMIT ${listed}`),

    change: (id, { entry, expires_at, message_id, sent_at }) =>
      changes(sql`UPDATE agent_question SET entry = coalesce(${entry}, entry),
        message_id = coalesce(${message_id}, message_id), sent_at = coalesce(${sent_at}, sent_at),
        expires_at = coalesce(${expires_at}, expires_at) WHERE ${isOpen(id)} RETURNING id`),

    end: (id, { answer, answered_at, answered_by, answered_in }) =>
      changes(sql`UPDATE agent_question SET answer = ${answer}, answered_at = ${answered_at},
        answered_by = ${answered_by}, answered_in = ${answered_in} WHERE ${isOpen(id)} RETURNING id`),

    *remove(id) {
      yield* write(sql`DELETE FROM agent_question WHERE ${isOpen(id)} AND sent_at IS NULL`)
    },

    *wasOnlyOne(id, at) {
      const own = sql`(SELECT session, peer FROM agent_question WHERE id = ${id})`
      const isHere = sql`(q.session, q.peer) IN ${own} OR (c.session, c.peer) IN ${own}
        OR EXISTS (SELECT 1 FROM message m WHERE m.message_id = q.message_id AND (m.session, m.peer) IN ${own})`
      const other = yield* readFirst(sql`SELECT 1 AS found FROM agent_question q
        LEFT JOIN agent_turn t ON t.id = q.turn LEFT JOIN agent_conversation c ON c.id = t.conversation
        WHERE q.id <> ${id} AND q.asked_at <= ${at} AND q.expires_at > ${at}
          AND (q.answer IS NULL OR q.answered_at >= ${at}) AND (${isHere}) LIMIT 1`)
      return other === undefined
    },
  },
  modes: {
    add: 'write',
    get: 'plain',
    listIn: 'plain',
    change: 'write',
    end: 'write',
    remove: 'write',
    wasOnlyOne: 'plain',
  },
})
