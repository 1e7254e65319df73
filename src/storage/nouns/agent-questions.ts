/** Questions of agents to their owners. */
import type { QuestionOption } from '../../model/agent.ts'
import { badArgument } from '../../model/error.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type { AgentStore, StoredQuestion } from '../agents.ts'
import { changes, type Noun, type NounContext, type Routine, readAll, write } from '../routine.ts'

/** The condition of the index of open turns. */
export const isOpen: Sql = constantSql(`status IN ('waiting', 'running', 'answering')`)

const isCurrent = (now: number): Sql => sql`q.answer IS NULL AND q.expires_at > ${now}`

/** The condition of an open question of an agent: unanswered, not expired, and its turn needs the answer. */
export const isUnanswered = (now: number): Sql => sql`${isCurrent(now)} AND q.drafts IS NULL
  AND EXISTS (SELECT 1 FROM agent_turn WHERE id = q.turn AND ${isOpen})`

/** Held while a question is added: two open ones never have the same code. Only svc takes this lock. */
export const codesLock = 0x737668

/** The condition that an open question has this code: of an agent, about drafts, or of a caller. */
export const isCodeTaken = (code: string, now: number): Sql => sql`q.code = ${code}
  AND (${isUnanswered(now)} OR ${isCurrent(now)} AND (q.drafts IS NOT NULL OR q.turn IS NULL))`

const questionColumns =
  constantSql(`SELECT q.id, q.turn, c.agent, s.name AS session, c.peer AS user_id, q.text, q.options,
  q.code, q.asked_at, q.expires_at, q.answer, q.answered_by, q.entry, q.message_id, q.sent_at, q.drafts
  FROM agent_question q JOIN agent_turn t ON t.id = q.turn JOIN agent_conversation c ON c.id = t.conversation
  JOIN session s ON s.key = c.session`)

function* readQuestions(where: Sql): Routine<StoredQuestion[]> {
  const rows = yield* readAll<QuestionRow>(sql`${questionColumns} ${where}`)
  return rows.map(({ drafts, options, ...row }) => ({
    ...row,
    options: JSON.parse(options) as QuestionOption[],
    ...(drafts !== undefined && { drafts: JSON.parse(drafts) as number[] }),
  }))
}

type QuestionRow = Omit<StoredQuestion, 'options' | 'drafts'> & { options: string; drafts?: string }

export type QuestionVerbs = Pick<
  AgentStore,
  | 'ask'
  | 'answer'
  | 'changeQuestion'
  | 'closeQuestion'
  | 'findAsker'
  | 'getQuestion'
  | 'listDrafts'
  | 'listQuestions'
  | 'noteAnswer'
>

export const createAgentQuestions = ({ clock, dialect }: NounContext): Noun<QuestionVerbs> => ({
  verbs: {
    *ask({ turn, text, options, code, drafts, expires_at }) {
      const now = clock.now()
      const [added] = yield* write<{ id: number }>(
        ...dialect.oneAtATime(codesLock),
        sql`INSERT INTO agent_question (turn, text, options, code, asked_at, expires_at, drafts)
          SELECT ${turn}, ${text}, ${JSON.stringify(options)}, ${code}, ${now}, ${expires_at},
            ${drafts && JSON.stringify(drafts)}
          WHERE NOT EXISTS (SELECT 1 FROM agent_question q WHERE ${isCodeTaken(code, now)})
          RETURNING id`,
      )
      if (!added) throw badArgument('code', 'another open question has it')
      return added.id
    },

    *answer(id, option, by) {
      const [question] = yield* readQuestions(sql`WHERE q.id = ${id}`)
      if (!question?.options.some(one => one.id === option)) return false
      return yield* changes(sql`UPDATE agent_question AS q SET answer = ${option}, answered_by = ${by}, answered_at = ${clock.now()}
        WHERE q.id = ${id} AND ${isUnanswered(clock.now())} RETURNING id`)
    },

    closeQuestion: (id, option) =>
      changes(
        sql`UPDATE agent_question SET answer = ${option}, answered_at = ${clock.now()}
          WHERE id = ${id} AND answer IS NULL RETURNING id`,
      ),

    *noteAnswer(id, message) {
      yield* write(sql`UPDATE agent_question SET answered_in = ${message} WHERE id = ${id}`)
    },

    *findAsker(message) {
      return (yield* readQuestions(sql`WHERE q.answered_in = ${message}`))[0]?.agent
    },

    changeQuestion: (id, { entry, expires_at, message_id, sent_at }) =>
      changes(sql`UPDATE agent_question SET entry = coalesce(${entry}, entry),
        message_id = coalesce(${message_id}, message_id), sent_at = coalesce(${sent_at}, sent_at),
        expires_at = coalesce(${expires_at}, expires_at) WHERE id = ${id} AND answer IS NULL RETURNING id`),

    *getQuestion(id) {
      return (yield* readQuestions(sql`WHERE q.id = ${id}`))[0]
    },

    listQuestions(agent) {
      const ofAgent = agent === undefined ? noSql : sql` AND c.agent = ${agent}`
      return readQuestions(sql`WHERE ${isUnanswered(clock.now())}${ofAgent} ORDER BY q.id`)
    },

    listDrafts(turns) {
      const which = turns ? dialect.isOneOf(sql`q.turn`, turns) : isCurrent(clock.now())
      return readQuestions(sql`WHERE ${which} AND q.drafts IS NOT NULL ORDER BY q.id`)
    },
  },
  modes: {
    ask: 'write',
    answer: 'write',
    closeQuestion: 'write',
    changeQuestion: 'write',
    noteAnswer: 'write',
    findAsker: 'plain',
    getQuestion: 'plain',
    listQuestions: 'plain',
    listDrafts: 'plain',
  },
})
