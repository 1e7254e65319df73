/** Turns and conversations of agents, on PostgreSQL. */
import { isTurnOpen } from '../../model/agent.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/postgres.ts'
import type {
  AgentStore,
  ConversationKey,
  ConversationState,
  NewTurn,
  StoredConversation,
  StoredTurn,
  TurnChange,
  TurnFilter,
} from '../agents.ts'
import { isOpen, isUnanswered, PgAgentQuestions } from './agent-questions.ts'
import { ensureKey, keyOfName, keysOfName } from './part.ts'

const leaseMs = 60_000
/** Maximum number of turns removed in one step. */
const pruneStep = 300

const turnColumns =
  constantSql(`SELECT t.id, c.agent, s.name AS session, c.peer AS user_id, t.state, t.source, t.messages,
  t.prompt, t.fresh, t.created_at, t.started_at, t.ended_at, t.answer, t.parts, t.parts_sent, t.error, t.stopping
  FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation JOIN session s ON s.key = c.session`)

export class PgAgents extends PgAgentQuestions implements AgentStore {
  /** Rows that this process has claimed, by the names under which it did. */
  readonly #claimed = new Map<string, number>()

  async addTurn({ source, messages, prompt, isFresh = false, ...key }: NewTurn): Promise<StoredTurn> {
    const [first] = messages
    // The key of the messages' session, also if it was renamed.
    const ofFirst = sql`(SELECT key FROM session WHERE name_key = (SELECT s.name_key FROM message m
      JOIN session s ON s.key = m.session WHERE m.id = ${first}::bigint) ORDER BY named DESC, key DESC LIMIT 1)`
    const known = await this.db.one<{ key?: number }>(
      sql`SELECT coalesce(${ofFirst}, ${keyOfName(key.session)}) AS key`,
    )
    const session = known.key ?? (await ensureKey(this.db, key.session))
    const found = sql`SELECT id FROM agent_conversation
      WHERE agent = ${key.agent} AND session = ${session} AND peer = ${key.user}`
    const results = await this.durably(() =>
      this.db.script([
        sql`INSERT INTO agent_conversation (agent, session, peer) VALUES (${key.agent}, ${session}, ${key.user})
          ON CONFLICT DO NOTHING`,
        // One process after another: each sees the turns that the ones before it have added.
        sql`${found} FOR UPDATE`,
        sql`WITH given AS (SELECT one, nth FROM unnest(${messages}::bigint[]) WITH ORDINALITY AS m(one, nth)),
          known AS (SELECT value::bigint AS message, recent.id FROM (SELECT id, messages FROM agent_turn
              WHERE conversation = (${found}) AND first <= ${messages.at(-1)}::bigint ORDER BY first DESC LIMIT 100) recent,
            jsonb_array_elements_text(recent.messages::jsonb) AS value
            WHERE value::bigint = ANY (${messages}::bigint[])),
          rest AS (SELECT one, nth FROM given WHERE one NOT IN (SELECT message FROM known)),
          added AS (INSERT INTO agent_turn (conversation, state, source, first, messages, prompt, fresh, created_at)
            SELECT (${found}), 'waiting', ${source}, (SELECT one FROM rest ORDER BY nth LIMIT 1),
              coalesce((SELECT jsonb_agg(one ORDER BY nth) FROM rest), '[]')::text, ${prompt}, ${Number(isFresh)},
              ${this.clock.now()}
            WHERE EXISTS (SELECT 1 FROM rest) OR NOT EXISTS (SELECT 1 FROM given) RETURNING id)
          SELECT coalesce((SELECT id FROM added), (SELECT id FROM known ORDER BY message LIMIT 1)) AS id`,
      ]),
    )
    return (await this.getTurn(results[2]?.[0]?.id as number))!
  }

  listWork(agent: string): Promise<ConversationKey[]> {
    return this.db.all<ConversationKey>(sql`SELECT c.agent, s.name AS session, c.peer AS user
      FROM (SELECT DISTINCT conversation FROM agent_turn WHERE ${isOpen}) work
      JOIN agent_conversation c ON c.id = work.conversation JOIN session s ON s.key = c.session
      WHERE c.agent = ${agent} AND ${this.#mayTake()}`)
  }

  async claimAgent(agent: string): Promise<boolean> {
    // The row of the agent itself has session 0 and no user.
    return (await this.#take({ agent, session: '', user: '' }, sql`0::bigint`)) !== undefined
  }

  async listRunning(): Promise<string[]> {
    const rows = await this.db.all<{ agent: string }>(sql`SELECT c.agent FROM agent_conversation c
      WHERE c.session = 0 AND c.owner IS NOT NULL AND (c.owner = ${this.owner} OR NOT ${this.#mayTake()}) ORDER BY c.agent`)
    return rows.map(({ agent }) => agent)
  }

  async releaseAgent(agent: string): Promise<void> {
    for (const name of [...this.#claimed.keys()])
      if (JSON.parse(name)[0] === agent) this.#claimed.delete(name)
    await this.db.run(sql`UPDATE agent_conversation SET owner = NULL, lease_until = 0
      WHERE agent = ${agent} AND owner = ${this.owner}`)
  }

  async claim(key: ConversationKey): Promise<{ turns: StoredTurn[]; state: ConversationState } | undefined> {
    const row = await this.#take(key, keyOfName(key.session))
    if (!row) return undefined
    const turns = await this.#readTurns(sql`WHERE t.conversation = ${row.id} AND t.${isOpen} ORDER BY t.id`)
    return { turns, state: stateOf(row) }
  }

  async renew(): Promise<void> {
    const ids = [...this.#claimed.values()]
    if (ids.length === 0) return
    await this.db.run(sql`UPDATE agent_conversation SET lease_until = ${this.clock.now() + leaseMs}
      WHERE id = ANY (${ids}::bigint[]) AND owner = ${this.owner}`)
  }

  async release(key: ConversationKey): Promise<void> {
    const id = this.#claimed.get(nameOf(key))
    this.#claimed.delete(nameOf(key))
    if (id === undefined) return
    await this.db.run(sql`UPDATE agent_conversation SET owner = NULL, lease_until = 0
      WHERE id = ${id} AND owner = ${this.owner}`)
  }

  changeTurn(id: number, change: TurnChange): Promise<boolean> {
    const { answer, ended_at, error, parts_sent, started_at, state } = change
    return this.#changed(sql`WITH own AS (SELECT c.id FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation
        WHERE t.id = ${id} AND c.owner = ${this.owner} FOR SHARE OF c),
      changed AS (UPDATE agent_turn t SET state = coalesce(${state}, state),
        started_at = coalesce(${started_at}, started_at), ended_at = coalesce(${ended_at}, ended_at),
        answer = coalesce(${answer && JSON.stringify(answer)}, answer),
        parts = coalesce(${answer?.parts.length}, parts), parts_sent = coalesce(${parts_sent}, parts_sent),
        error = coalesce(${error}, error) FROM own WHERE t.id = ${id} AND t.conversation = own.id RETURNING t.id),
      closed AS (UPDATE agent_question SET expires_at = least(expires_at, ${this.clock.now()})
        WHERE turn IN (SELECT id FROM changed) AND answer IS NULL AND drafts IS NULL AND ${state !== undefined})
      SELECT id FROM changed`)
  }

  saveState(key: ConversationKey, { agent_session, folder }: ConversationState): Promise<boolean> {
    return this.#changed(sql`UPDATE agent_conversation SET agent_session = ${agent_session}, folder = ${folder}
      WHERE id = ${this.#idOf(key)} AND owner = ${this.owner} RETURNING id`)
  }

  stopTurn(id: number): Promise<boolean> {
    const idle = sql`c.owner IS DISTINCT FROM ${this.owner} AND ${this.#mayTake()}`
    // Locks the conversation first: no process claims it before the turn has changed.
    return this.#changed(sql`WITH own AS (SELECT c.id, ${idle} AS idle FROM agent_turn t
        JOIN agent_conversation c ON c.id = t.conversation WHERE t.id = ${id} FOR SHARE OF c)
      UPDATE agent_turn t SET stopping = 1,
        -- Nothing has begun, and no process is about to.
        state = CASE WHEN state = 'waiting' AND own.idle THEN 'stopped' ELSE state END,
        ended_at = CASE WHEN state = 'waiting' AND own.idle THEN ${this.clock.now()} ELSE ended_at END,
        error = CASE WHEN state = 'waiting' AND own.idle THEN 'stopped before it began' ELSE error END
      FROM own WHERE t.id = ${id} AND t.${isOpen} RETURNING t.id`)
  }

  async getTurn(id: number): Promise<StoredTurn | undefined> {
    return (await this.#readTurns(sql`WHERE t.id = ${id}`))[0]
  }

  listTurns({ before = Number.MAX_SAFE_INTEGER, limit, ...filter }: TurnFilter): Promise<StoredTurn[]> {
    // Ids first: the rows are large.
    return this.#readTurns(sql`WHERE t.id IN (SELECT t.id FROM agent_conversation c JOIN agent_turn t ON t.conversation = c.id
      WHERE t.id < ${before}${isSelected(filter)} ORDER BY t.id DESC LIMIT ${limit}) ORDER BY t.id DESC`)
  }

  async findMore(key: ConversationKey): Promise<StoredTurn | undefined> {
    const turns = await this.#readTurns(sql`WHERE t.conversation = ${this.#idOf(key)} AND t.state = 'more'
      ORDER BY t.id DESC LIMIT 1`)
    return turns[0]
  }

  async listConversations({ limit, ...filter }: Omit<TurnFilter, 'before'>): Promise<StoredConversation[]> {
    const listed = sql`SELECT c.*, t.id AS turn, t.created_at AS last_turn_at, t.error AS last_error
      FROM agent_conversation c
      LEFT JOIN LATERAL (SELECT id, created_at, error FROM agent_turn WHERE conversation = c.id
        ORDER BY id DESC LIMIT 1) t ON true
      WHERE c.session <> 0${isSelected(filter)} ORDER BY t.id DESC NULLS LAST, c.id DESC LIMIT ${limit}`
    return this.db.all<StoredConversation>(sql`SELECT c.agent, s.name AS session, c.peer AS user, n.name AS user_name,
      c.agent_session, c.folder, (SELECT count(*) FROM agent_turn WHERE conversation = c.id) AS turns, c.last_turn_at,
      c.last_error,
      -- In the order of the alphabet, answering and running come before waiting.
      (SELECT min(state) FROM agent_turn WHERE conversation = c.id AND ${isOpen}) AS open,
      EXISTS (SELECT 1 FROM agent_question q JOIN agent_turn own ON own.id = q.turn
        WHERE own.conversation = c.id AND ${isUnanswered(this.clock.now())}) AS "isAsking"
      FROM (${listed}) c JOIN session s ON s.key = c.session
      LEFT JOIN user_name n ON n.session = c.session AND n.peer = c.peer
      ORDER BY c.turn DESC NULLS LAST, c.id DESC`)
  }

  async isWorkedOn(user: string): Promise<boolean> {
    const found =
      await this.db.get(sql`SELECT FROM agent_conversation c WHERE c.peer = ${user} AND c.owner IS NOT NULL
      AND (c.owner = ${this.owner} OR NOT ${this.#mayTake()}) LIMIT 1`)
    return found !== undefined
  }

  async countTurns(agent: string, since: number): Promise<number> {
    const { n } = await this.db.one<{ n: number }>(sql`SELECT count(*) AS n FROM agent_turn t
      JOIN agent_conversation c ON c.id = t.conversation WHERE t.started_at >= ${since} AND c.agent = ${agent}`)
    return n
  }

  async prune(before: number): Promise<boolean> {
    const removed = await this.db.run(sql`WITH doomed AS (SELECT id FROM agent_turn
        WHERE ended_at < ${before} AND state <> 'more' ORDER BY ended_at LIMIT ${pruneStep}),
      questions AS (DELETE FROM agent_question WHERE turn IN (SELECT id FROM doomed))
      DELETE FROM agent_turn WHERE id IN (SELECT id FROM doomed)`)
    return removed === pruneStep
  }

  /** Runs a statement that returns the rows that it changed. @returns whether there was one */
  #changed(statement: Sql): Promise<boolean> {
    return this.durably(async () => (await this.db.all(statement)).length > 0)
  }

  /** The row of a conversation, also under the name under which it was claimed; NULL if there is none. */
  #idOf(key: ConversationKey): Sql {
    const claimed = this.#claimed.get(nameOf(key))
    if (claimed !== undefined) return sql`${claimed}::bigint`
    return sql`(SELECT id FROM agent_conversation WHERE agent = ${key.agent}
      AND session = ${keyOfName(key.session)} AND peer = ${key.user})`
  }

  /**
   * Claims a row under a name, and adds it if it is not there.
   *
   * @param session its session; NULL: there is nothing to claim
   * @returns undefined if another process has it, or this one has it under another name
   */
  async #take(key: ConversationKey, session: Sql): Promise<ClaimedRow | undefined> {
    const name = nameOf(key)
    const claimed = this.#claimed.get(name)
    const until = this.clock.now() + leaseMs
    const row = await this.db.get<ClaimedRow>(
      claimed === undefined
        ? sql`INSERT INTO agent_conversation AS c (agent, session, peer, owner, lease_until)
            SELECT ${key.agent}, session, ${key.user}, ${this.owner}, ${until} FROM (SELECT ${session} AS session) s
            WHERE session IS NOT NULL
            ON CONFLICT (agent, session, peer) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
            WHERE ${this.#mayTake()} RETURNING c.id, c.agent_session, c.folder`
        : sql`UPDATE agent_conversation c SET owner = ${this.owner}, lease_until = ${until}
            WHERE id = ${claimed} AND ${this.#mayTake()} RETURNING c.id, c.agent_session, c.folder`,
    )
    if (row === undefined) this.#claimed.delete(name)
    if (row === undefined || [...this.#claimed].some(([other, id]) => id === row.id && other !== name))
      return undefined
    this.#claimed.set(name, row.id)
    return row
  }

  /** Whether this process may take the conversation `c`. Far more than a whole lease is left if the clock was set back. */
  #mayTake(): Sql {
    const now = this.clock.now()
    return sql`(c.owner IS NULL OR c.owner = ${this.owner} OR c.lease_until <= ${now}
      OR c.lease_until > ${now + 2 * leaseMs} OR NOT lives(c.owner))`
  }

  async #readTurns(where: Sql): Promise<StoredTurn[]> {
    return (await this.db.all<TurnRow>(sql`${turnColumns} ${where}`)).map(turnOf)
  }
}

/** Continues a WHERE about the conversation `c`. */
const isSelected = ({ agent, session, user }: Omit<TurnFilter, 'limit' | 'before'>): Sql => sql`
  ${agent === undefined ? noSql : sql` AND c.agent = ${agent}`}
  ${session === undefined ? noSql : sql` AND c.session = ANY (${keysOfName(session)})`}
  ${user === undefined ? noSql : sql` AND c.peer = ${user}`}`

type ClaimedRow = ConversationState & { id: number }

type TurnRow = Omit<StoredTurn, 'messages' | 'answer' | 'isFresh' | 'stopping'> & {
  messages: string
  answer?: string
  fresh: number
  stopping: number
}

const nameOf = ({ agent, session, user }: ConversationKey): string => JSON.stringify([agent, session, user])

const stateOf = ({ agent_session, folder }: ConversationState): ConversationState => ({
  ...(agent_session !== undefined && { agent_session }),
  ...(folder !== undefined && { folder }),
})

function turnOf({ answer, fresh, messages, stopping, ...row }: TurnRow): StoredTurn {
  return {
    ...row,
    messages: JSON.parse(messages),
    isFresh: fresh === 1,
    ...(answer !== undefined && { answer: JSON.parse(answer) }),
    ...(stopping === 1 && isTurnOpen(row.state) && { stopping: true }),
  }
}
