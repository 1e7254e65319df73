/** Turns and conversations of agents, in SQLite. */
import { isTurnOpen } from '../../model/agent.ts'
import type {
  ConversationKey,
  ConversationState,
  NewTurn,
  StoredConversation,
  StoredTurn,
  TurnChange,
  TurnFilter,
} from '../agents.ts'
import { isOpen, isUnanswered } from './agent-questions.ts'
import { EnginePart } from './engine-part.ts'
import { rejectErased } from './erased-users.ts'

const leaseMs = 60_000
/** Maximum number of turns removed in one step. */
const pruneStep = 300

const turnColumns = `SELECT t.id, c.agent, s.name AS session, c.peer AS user_id, t.state, t.source, t.messages, t.prompt, t.fresh,
  t.created_at, t.started_at, t.ended_at, t.answer, t.parts, t.parts_sent, t.error, t.stopping
  FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation JOIN session s ON s.key = c.session`

/** Condition on `c` of a filter, whose values are passed as JSON. A filter without a value selects all. */
const isSelected = `(?1 ->> '$.agent' IS NULL OR c.agent = ?1 ->> '$.agent')
  AND (?1 ->> '$.user' IS NULL OR c.peer = ?1 ->> '$.user')
  AND (?1 ->> '$.keys' IS NULL OR c.session IN (SELECT value FROM json_each(?1, '$.keys')))`

export class SqliteAgents extends EnginePart {
  /** Rows that this process has claimed, by the names under which it did. */
  readonly #claimed = new Map<string, number>()

  get hasClaims(): boolean {
    return this.#claimed.size > 0
  }

  addTurn({ source, messages, prompt, isFresh = false, ...key }: NewTurn): StoredTurn {
    return this.db.transaction(() => {
      const conversation = this.#ensure({ ...key, session: this.#sessionOf(messages[0]) ?? key.session })
      const known = this.#findTurns(conversation, messages)
      const rest = messages.filter(id => !known.has(id))
      const [turn] = known.values()
      if (turn !== undefined && rest.length === 0) return this.getTurn(turn)!
      const { lastInsertRowid: id } = this.db
        .run`INSERT INTO agent_turn (conversation, state, source, first, messages, prompt, fresh, created_at)
        VALUES (${conversation}, 'waiting', ${source}, ${rest[0]}, ${JSON.stringify(rest)}, ${prompt},
          ${Number(isFresh)}, ${this.clock.now()})`
      return this.getTurn(id)!
    })
  }

  listWork(agent: string): ConversationKey[] {
    const rows = this.db.all<ConversationRow>(
      `SELECT c.agent, s.name AS session, c.peer AS user, c.owner, c.lease_until
       FROM (SELECT DISTINCT conversation FROM agent_turn INDEXED BY agent_turn_open WHERE ${isOpen})
       JOIN agent_conversation c ON c.id = conversation JOIN session s ON s.key = c.session WHERE c.agent = ?`,
      agent,
    )
    return rows
      .filter(row => this.#mayTake(row))
      .map(({ agent, session, user }) => ({ agent, session, user }))
  }

  claimAgent(agent: string): boolean {
    return this.db.transaction(
      () => this.#take(nameOf({ agent }), this.#ensureRow(agent, 0, '')) !== undefined,
    )
  }

  listRunning(): string[] {
    const rows = this.db.all<ConversationRow>`SELECT agent, owner, lease_until FROM agent_conversation
      WHERE session = 0 AND owner IS NOT NULL ORDER BY agent`
    return rows.filter(row => this.#isHeld(row)).map(({ agent }) => agent)
  }

  releaseAgent(agent: string): void {
    for (const name of [...this.#claimed.keys()])
      if (JSON.parse(name)[0] === agent) this.#claimed.delete(name)
    this.db.run`UPDATE agent_conversation SET owner = NULL, lease_until = 0
      WHERE agent = ${agent} AND owner = ${this.owner.name}`
  }

  claim(key: ConversationKey): { turns: StoredTurn[]; state: ConversationState } | undefined {
    return this.db.transaction(() => {
      const name = nameOf(key)
      const isKnown = this.#claimed.has(name) || this.messages.findKey(key.session) !== undefined
      const row = isKnown ? this.#take(name, this.#claimed.get(name) ?? this.#ensure(key)) : undefined
      if (!row) return undefined
      const turns = this.#readTurns(`WHERE t.conversation = ? AND t.${isOpen} ORDER BY t.id`, row.id)
      return { turns, state: stateOf(row) }
    })
  }

  renew(): void {
    const ids = JSON.stringify([...this.#claimed.values()])
    this.db.run`UPDATE agent_conversation SET lease_until = ${this.clock.now() + leaseMs}
      WHERE id IN (SELECT value FROM json_each(${ids})) AND owner = ${this.owner.name}`
  }

  release(key: ConversationKey): void {
    const id = this.#claimed.get(nameOf(key))
    this.#claimed.delete(nameOf(key))
    this.db.run`UPDATE agent_conversation SET owner = NULL, lease_until = 0
      WHERE id = ${id} AND owner = ${this.owner.name}`
  }

  changeTurn(id: number, change: TurnChange): boolean {
    const { answer, ended_at, error, parts_sent, started_at, state } = change
    return this.db.transaction(() => {
      const { changes } = this.db.run`UPDATE agent_turn SET state = coalesce(${state}, state),
        started_at = coalesce(${started_at}, started_at), ended_at = coalesce(${ended_at}, ended_at),
        answer = coalesce(${answer && JSON.stringify(answer)}, answer),
        parts = coalesce(${answer?.parts.length}, parts), parts_sent = coalesce(${parts_sent}, parts_sent),
        error = coalesce(${error}, error)
        WHERE id = ${id} AND conversation IN (SELECT id FROM agent_conversation WHERE owner = ${this.owner.name})`
      if (changes > 0 && state !== undefined)
        this.db.run`UPDATE agent_question SET expires_at = min(expires_at, ${this.clock.now()})
          WHERE turn = ${id} AND answer IS NULL AND drafts IS NULL`
      return changes > 0
    })
  }

  saveState(key: ConversationKey, { agent_session, folder }: ConversationState): boolean {
    const { changes } = this.db
      .run`UPDATE agent_conversation SET agent_session = ${agent_session}, folder = ${folder}
      WHERE id = ${this.#find(key)} AND owner = ${this.owner.name}`
    return changes > 0
  }

  stopTurn(id: number): boolean {
    return this.db.transaction(() => {
      const { changes } = this.db.run(`UPDATE agent_turn SET stopping = 1 WHERE id = ? AND ${isOpen}`, id)
      const waiting = this.db.get<Pick<ConversationRow, 'owner' | 'lease_until'>>`SELECT owner, lease_until
        FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation
        WHERE t.id = ${id} AND t.state = 'waiting'`
      // Nothing has begun, and no process is about to.
      if (waiting && waiting.owner !== this.owner.name && this.#mayTake(waiting))
        this.db.run`UPDATE agent_turn SET state = 'stopped', ended_at = ${this.clock.now()},
          error = 'stopped before it began' WHERE id = ${id}`
      return changes > 0
    })
  }

  getTurn(id: number): StoredTurn | undefined {
    return this.#readTurns('WHERE t.id = ?', id)[0]
  }

  listTurns({ before = Number.MAX_SAFE_INTEGER, limit, ...filter }: TurnFilter): StoredTurn[] {
    // Ids first: the rows are large.
    const where = `WHERE t.id IN (SELECT t.id FROM agent_conversation c CROSS JOIN agent_turn t ON t.conversation = c.id
      WHERE ${isSelected} AND t.id < ?2 ORDER BY t.id DESC LIMIT ?3) ORDER BY t.id DESC`
    return this.#readTurns(where, this.#toJson(filter), before, limit)
  }

  findMore(key: ConversationKey): StoredTurn | undefined {
    const where = `WHERE t.conversation = ? AND t.state = 'more' ORDER BY t.id DESC LIMIT 1`
    return this.#readTurns(where, this.#find(key))[0]
  }

  listConversations({ limit, ...filter }: Omit<TurnFilter, 'before'>): StoredConversation[] {
    const rows = this.db.all<ListedRow>(
      `SELECT c.agent, s.name AS session, c.peer AS user, n.name AS user_name, c.agent_session, c.folder,
        (SELECT count(*) FROM agent_turn WHERE conversation = c.id) AS turns, t.created_at AS last_turn_at,
        t.error AS last_error,
        -- In the order of the alphabet, answering and running come before waiting.
        (SELECT min(state) FROM agent_turn WHERE conversation = c.id AND ${isOpen}) AS open,
        EXISTS (SELECT 1 FROM agent_question q JOIN agent_turn own ON own.id = q.turn
          WHERE own.conversation = c.id AND ${isUnanswered.replace('?1', '?3')}) AS asking
       FROM agent_conversation c JOIN session s ON s.key = c.session
       LEFT JOIN user_name n ON n.session = c.session AND n.peer = c.peer
       LEFT JOIN agent_turn t ON t.id = (SELECT max(id) FROM agent_turn WHERE conversation = c.id)
       WHERE ${isSelected} ORDER BY t.id DESC, c.id DESC LIMIT ?2`,
      this.#toJson(filter),
      limit,
      this.clock.now(),
    )
    return rows.map(({ asking, ...row }) => ({ ...row, isAsking: asking === 1 }))
  }

  isWorkedOn(user: string): boolean {
    const rows = this.db.all<ConversationRow>`SELECT owner, lease_until
      FROM agent_conversation WHERE peer = ${user} AND owner IS NOT NULL`
    return rows.some(row => this.#isHeld(row))
  }

  countTurns(agent: string, since: number): number {
    return this.db.one<{ n: number }>`SELECT count(*) AS n FROM agent_turn t INDEXED BY agent_turn_started
      CROSS JOIN agent_conversation c ON c.id = t.conversation
      WHERE t.started_at >= ${since} AND c.agent = ${agent}`.n
  }

  prune(before: number): boolean {
    const ids = this.db.all<{ id: number }>`SELECT id FROM agent_turn INDEXED BY agent_turn_ended
      WHERE ended_at < ${before} AND state <> 'more' LIMIT ${pruneStep}`
    const doomed = JSON.stringify(ids.map(({ id }) => id))
    this.db.run`DELETE FROM agent_question WHERE turn IN (SELECT value FROM json_each(${doomed}))`
    this.db.run`DELETE FROM agent_turn WHERE id IN (SELECT value FROM json_each(${doomed}))`
    return ids.length === pruneStep
  }

  /** Returns the name of the session of a message now; undefined if the message is not stored. */
  #sessionOf(message: number | undefined): string | undefined {
    return this.db.get<{ name: string }>`SELECT s.name FROM message m JOIN session s ON s.key = m.session
      WHERE m.id = ${message}`?.name
  }

  /** Returns those of the messages that newer turns of a conversation contain, each with its turn. */
  #findTurns(conversation: number, messages: readonly number[]): ReadonlyMap<number, number> {
    const rows = this.db.all<{ message: number; turn: number }>`SELECT value AS message, turn
      FROM (SELECT id AS turn, messages FROM agent_turn WHERE conversation = ${conversation} AND first <= ${messages.at(-1)}
        ORDER BY first DESC LIMIT 100), json_each(messages)
      WHERE value IN (SELECT value FROM json_each(${JSON.stringify(messages)})) ORDER BY value`
    return new Map(rows.map(({ message, turn }) => [message, turn]))
  }

  /** Returns the row of a conversation, also under the name under which it was claimed; 0 if there is none. */
  #find(key: ConversationKey): number {
    const session = this.messages.findKey(key.session)
    return this.#claimed.get(nameOf(key)) ?? this.#findRow(key.agent, session, key.user) ?? 0
  }

  #findRow(agent: string, session: number | undefined, user: string): number | undefined {
    return this.db.get<{ id: number }>`SELECT id FROM agent_conversation
      WHERE agent = ${agent} AND session = ${session} AND peer = ${user}`?.id
  }

  #ensure({ agent, session, user }: ConversationKey): number {
    return this.#ensureRow(agent, this.messages.ensureKey(session), user)
  }

  /** The row of the agent itself has session 0 and no user. */
  #ensureRow(agent: string, session: number, user: string): number {
    rejectErased(this.db, user)
    const found = this.#findRow(agent, session, user)
    if (found !== undefined) return found
    return this.db
      .run`INSERT INTO agent_conversation (agent, session, peer) VALUES (${agent}, ${session}, ${user})`
      .lastInsertRowid
  }

  /** Claims a row under a name. @returns undefined if another process has it, or this one has it under another name */
  #take(name: string, id: number): (ConversationRow & ConversationState) | undefined {
    const row = this.db.get<
      ConversationRow & ConversationState
    >`SELECT id, owner, lease_until, agent_session, folder
      FROM agent_conversation WHERE id = ${id}`
    const isFree = row !== undefined && this.#mayTake(row)
    if (!isFree) this.#claimed.delete(name)
    if (!isFree || [...this.#claimed].some(([other, taken]) => taken === id && other !== name))
      return undefined
    this.#claimed.set(name, id)
    this.db.run`UPDATE agent_conversation SET owner = ${this.owner.name},
      lease_until = ${this.clock.now() + leaseMs} WHERE id = ${id}`
    return row
  }

  /** Whether a living process has a row that was claimed. */
  #isHeld(row: Pick<ConversationRow, 'owner' | 'lease_until'>): boolean {
    return row.owner === this.owner.name || !this.#mayTake(row)
  }

  #mayTake({ owner, lease_until }: Pick<ConversationRow, 'owner' | 'lease_until'>): boolean {
    return this.owner.mayTake(owner, lease_until - this.clock.now(), leaseMs)
  }

  #toJson({ agent, session, user }: Omit<TurnFilter, 'limit' | 'before'>): string {
    const keys = session === undefined ? undefined : this.messages.listSessionKeys(session)
    return JSON.stringify({ agent, user, keys })
  }

  #readTurns(where: string, ...params: (string | number)[]): StoredTurn[] {
    return this.db.all<TurnRow>(`${turnColumns} ${where}`, ...params).map(turnOf)
  }
}

interface ConversationRow extends ConversationKey {
  id: number
  owner?: string
  lease_until: number
}

type ListedRow = Omit<StoredConversation, 'isAsking'> & { asking: number }

type TurnRow = Omit<StoredTurn, 'messages' | 'answer' | 'isFresh' | 'stopping'> & {
  messages: string
  answer?: string
  fresh: number
  stopping: number
}

const nameOf = ({ agent, session = '', user = '' }: Partial<ConversationKey>): string =>
  JSON.stringify([agent, session, user])

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
