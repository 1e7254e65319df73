/** Questions of agents to their owners, on PostgreSQL. */
import type { QuestionOption } from '../../model/agent.ts'
import { badArgument } from '../../model/error.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/postgres.ts'
import type { AgentStore, NewQuestion, QuestionChange, StoredQuestion } from '../agents.ts'
import { PgPart } from './part.ts'

/** The condition of the index of open turns. */
export const isOpen: Sql = constantSql(`state IN ('waiting', 'running', 'answering')`)

const isCurrent = (now: number): Sql => sql`q.answer IS NULL AND q.expires_at > ${now}`

/** The condition of an open question of an agent: unanswered, not expired, and its turn needs the answer. */
export const isUnanswered = (now: number): Sql => sql`${isCurrent(now)} AND q.drafts IS NULL
  AND EXISTS (SELECT 1 FROM agent_turn WHERE id = q.turn AND ${isOpen})`

/** Held while a question is added: two open ones never have the same code. Only svc takes this advisory lock. */
const codesLock = 0x737668

const questionColumns =
  constantSql(`SELECT q.id, q.turn, c.agent, s.name AS session, c.peer AS user_id, q.text,
  q.options, q.code, q.asked_at, q.expires_at, q.answer, q.answered_by,
  q.entry, q.message_id, q.sent_at, q.drafts FROM agent_question q JOIN agent_turn t ON t.id = q.turn JOIN agent_conversation c ON c.id = t.conversation
  JOIN session s ON s.key = c.session`)

type Questions = Pick<
  AgentStore,
  'ask' | 'answer' | 'changeQuestion' | 'closeQuestion' | 'getQuestion' | 'listDrafts' | 'listQuestions'
>

/** `PgAgents` adds the rest. */
export abstract class PgAgentQuestions extends PgPart implements Questions {
  async ask({ turn, text, options, code, drafts, expires_at }: NewQuestion): Promise<number> {
    const now = this.clock.now()
    const added = await this.durably(() =>
      this.db.script([
        sql`SELECT pg_advisory_xact_lock(${codesLock})`,
        sql`INSERT INTO agent_question (turn, text, options, code, asked_at, expires_at, drafts)
          SELECT ${turn}, ${text}, ${JSON.stringify(options)}, ${code}, ${now}, ${expires_at},
            ${drafts && JSON.stringify(drafts)}
          WHERE NOT EXISTS (SELECT 1 FROM agent_question q WHERE q.code = ${code}
            AND (${isUnanswered(now)} OR ${isCurrent(now)} AND q.drafts IS NOT NULL))
          RETURNING id`,
      ]),
    )
    const id = added[1]?.[0]?.id
    if (id === undefined) throw badArgument('code', 'another open question has it')
    return id as number
  }

  async answer(id: number, option: string, by: string): Promise<boolean> {
    const options = (await this.getQuestion(id))?.options ?? []
    if (!options.some(one => one.id === option)) return false
    const answered = sql`UPDATE agent_question q SET answer = ${option}, answered_by = ${by}
      WHERE q.id = ${id} AND ${isUnanswered(this.clock.now())}`
    return this.durably(async () => (await this.db.run(answered)) > 0)
  }

  async closeQuestion(id: number, option: string): Promise<boolean> {
    const closed = sql`UPDATE agent_question SET answer = ${option} WHERE id = ${id} AND answer IS NULL`
    return this.durably(async () => (await this.db.run(closed)) > 0)
  }

  async changeQuestion(
    id: number,
    { entry, expires_at, message_id, sent_at }: QuestionChange,
  ): Promise<boolean> {
    const changed = sql`UPDATE agent_question SET entry = coalesce(${entry}, entry),
      message_id = coalesce(${message_id}, message_id), sent_at = coalesce(${sent_at}, sent_at),
      expires_at = coalesce(${expires_at}, expires_at) WHERE id = ${id} AND answer IS NULL`
    return this.durably(async () => (await this.db.run(changed)) > 0)
  }

  async getQuestion(id: number): Promise<StoredQuestion | undefined> {
    return (await this.#read(sql`WHERE q.id = ${id}`))[0]
  }

  listQuestions(agent?: string): Promise<StoredQuestion[]> {
    const ofAgent = agent === undefined ? noSql : sql` AND c.agent = ${agent}`
    return this.#read(sql`WHERE ${isUnanswered(this.clock.now())}${ofAgent} ORDER BY q.id`)
  }

  listDrafts(): Promise<StoredQuestion[]> {
    return this.#read(sql`WHERE ${isCurrent(this.clock.now())} AND q.drafts IS NOT NULL ORDER BY q.id`)
  }

  async #read(where: Sql): Promise<StoredQuestion[]> {
    const rows = await this.db.all<QuestionRow>(sql`${questionColumns} ${where}`)
    return rows.map(({ drafts, options, ...row }) => ({
      ...row,
      options: JSON.parse(options) as QuestionOption[],
      ...(drafts !== undefined && { drafts: JSON.parse(drafts) as number[] }),
    }))
  }
}

type QuestionRow = Omit<StoredQuestion, 'options' | 'drafts'> & { options: string; drafts?: string }
