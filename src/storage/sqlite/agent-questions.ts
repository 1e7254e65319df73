/** Questions of agents to their owners, in SQLite. */
import type { QuestionOption } from '../../model/agent.ts'
import { badArgument } from '../../model/error.ts'
import type { NewQuestion, QuestionChange, StoredQuestion } from '../agents.ts'
import { EnginePart } from './engine-part.ts'

/** The condition of the index of open turns. */
export const isOpen = `state IN ('waiting', 'running', 'answering')`

const isCurrent = 'q.answer IS NULL AND q.expires_at > ?1'

/**
 * The condition of an open question of an agent: unanswered, not expired (the time is `?1`), and its turn needs the
 * answer.
 */
export const isUnanswered = `${isCurrent} AND q.drafts IS NULL
  AND EXISTS (SELECT 1 FROM agent_turn WHERE id = q.turn AND ${isOpen})`

const questionColumns = `SELECT q.id, q.turn, c.agent, s.name AS session, c.peer AS user_id, q.text, q.options, q.code, q.asked_at,
  q.expires_at, q.answer, q.answered_by, q.entry, q.message_id, q.sent_at, q.drafts FROM agent_question q JOIN agent_turn t ON t.id = q.turn
  JOIN agent_conversation c ON c.id = t.conversation JOIN session s ON s.key = c.session`

export class SqliteAgentQuestions extends EnginePart {
  ask({ turn, text, options, code, drafts, expires_at }: NewQuestion): number {
    return this.db.transaction(() => {
      if ([...this.listQuestions(), ...this.listDrafts()].some(open => open.code === code))
        throw badArgument('code', 'another open question has it')
      return this.db.run`INSERT INTO agent_question (turn, text, options, code, asked_at, expires_at, drafts)
        VALUES (${turn}, ${text}, ${JSON.stringify(options)}, ${code}, ${this.clock.now()}, ${expires_at},
          ${drafts && JSON.stringify(drafts)})`.lastInsertRowid
    })
  }

  answer(id: number, option: string, by: string): boolean {
    const { changes } = this.db.run(
      `UPDATE agent_question AS q SET answer = ?2, answered_by = ?3 WHERE id = ?4 AND ${isUnanswered}
         AND EXISTS (SELECT 1 FROM json_each(options) WHERE value ->> '$.id' = ?2)`,
      this.clock.now(),
      option,
      by,
      id,
    )
    return changes > 0
  }

  closeQuestion(id: number, option: string): boolean {
    const { changes } = this.db
      .run`UPDATE agent_question SET answer = ${option} WHERE id = ${id} AND answer IS NULL`
    return changes > 0
  }

  changeQuestion(id: number, { entry, expires_at, message_id, sent_at }: QuestionChange): boolean {
    const { changes } = this.db.run`UPDATE agent_question SET entry = coalesce(${entry}, entry),
      message_id = coalesce(${message_id}, message_id), sent_at = coalesce(${sent_at}, sent_at),
      expires_at = coalesce(${expires_at}, expires_at) WHERE id = ${id} AND answer IS NULL`
    return changes > 0
  }

  getQuestion(id: number): StoredQuestion | undefined {
    return this.#readQuestions('WHERE q.id = ?', id)[0]
  }

  listQuestions(agent?: string): StoredQuestion[] {
    return this.#readQuestions(
      `WHERE ${isUnanswered} AND c.agent = coalesce(?2, c.agent) ORDER BY q.id`,
      this.clock.now(),
      agent,
    )
  }

  listDrafts(): StoredQuestion[] {
    return this.#readQuestions(`WHERE ${isCurrent} AND q.drafts IS NOT NULL ORDER BY q.id`, this.clock.now())
  }

  #readQuestions(where: string, ...params: (string | number | undefined)[]): StoredQuestion[] {
    return this.db
      .all<QuestionRow>(`${questionColumns} ${where}`, ...params)
      .map(({ drafts, options, ...row }) => ({
        ...row,
        options: JSON.parse(options) as QuestionOption[],
        ...(drafts !== undefined && { drafts: JSON.parse(drafts) as number[] }),
      }))
  }
}

type QuestionRow = Omit<StoredQuestion, 'options' | 'drafts'> & { options: string; drafts?: string }
