/** Turns and conversations of agents. */
import { consumerOf, isTurnOpen, type TurnPart, turnPartLength } from '../../model/agent.ts'
import { withoutUndefined } from '../../platform/fields.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import type {
  AgentChoice,
  AgentEntry,
  AgentStore,
  ConversationKey,
  ConversationState,
  KnownAgent,
  MissedMessage,
  NewTurn,
  StoredConversation,
  StoredTurn,
  TurnChange,
  TurnFilter,
} from '../agents.ts'
import { erasedSession } from '../log-rows.ts'
import {
  type ClaimRow,
  changes,
  type Modes,
  mayTake,
  type NounContext,
  NounVerbs,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  readFirst,
  readHeld,
  type Verbs,
  write,
} from '../routine.ts'
import { createAgentQuestions, isOpen, isUnanswered, type QuestionVerbs } from './agent-questions.ts'
import { createAgentTimes, type TimeVerbs } from './agent-times.ts'

const leaseMs = 60_000
/** Newest turns of a conversation in which messages are looked for that come again. */
const recentTurns = 100
/** Choices of a person that are kept. */
const keptChoices = 50
/** An agent that has not run for so long is not known any more. */
const knownMs = 30 * 24 * 60 * 60_000
/** How often an agent that runs notes when it did. */
const seenEveryMs = 60 * 60_000

const turnColumns =
  constantSql(`SELECT t.id, c.agent, s.name AS session, c.peer AS user_id, t.status, t.source, t.messages,
  t.prompt, t.fresh, t.created_at, t.started_at, t.ended_at, t.answer, t.parts, t.parts_sent, t.error, t.stopping
  FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation JOIN session s ON s.key = c.session`)

function* readTurns(where: Sql): Routine<StoredTurn[]> {
  return (yield* readAll<TurnRow>(sql`${turnColumns} ${where}`)).map(turnOf)
}

type ConversationRow = ClaimRow & StateRow & { id: number }

/** `kept` of the row of an agent itself. */
type KeptEntry = AgentEntry & Pick<KnownAgent, 'since'> & { seen: number }

/** A user of a session. */
type Person = Omit<ConversationKey, 'agent'>

/** They have nouns of their own. */
type OtherVerb = keyof QuestionVerbs | keyof TimeVerbs

class AgentVerbs extends NounVerbs implements Verbs<Omit<AgentStore, OtherVerb>> {
  readonly #owner: string
  /** Columns of a `ClaimRow` of a conversation `c`. */
  readonly #claimColumns: Sql
  /** Rows that this process has claimed, by the names under which it did. */
  readonly #claimed = new Map<string, number>()
  readonly #isFree = (row: ClaimRow) => mayTake(this.context, row, leaseMs)

  constructor(context: NounContext) {
    super(context)
    const { dead, owner } = context.claims
    this.#owner = owner
    this.#claimColumns = sql`c.owner, c.lease_until, ${dead('c')} AS dead`
  }

  #until(): number {
    return this.clock.now() + leaseMs
  }

  /** SQL for the row of a conversation, also under the name under which it was claimed; NULL if there is none. */
  #idOf(key: ConversationKey): Sql {
    const id = this.#claimed.get(nameOf(key))
    if (id !== undefined) return constantSql(String(id))
    return sql`(SELECT id FROM agent_conversation WHERE agent = ${key.agent}
      AND session = ${this.context.sessionKey(key.session)} AND peer = ${key.user})`
  }

  /** Returns the row of a conversation; adds it if it is not there. @param session its key */
  *ensure({ agent, user }: Omit<ConversationKey, 'session'>, session: number): Routine<number> {
    yield* this.context.rejectErased(user)
    const found = sql`SELECT id FROM agent_conversation
      WHERE agent = ${agent} AND session = ${session} AND peer = ${user}`
    const known = yield* readFirst<{ id: number }>(found)
    if (known) return known.id
    const [added] = yield* write<{ id: number }>(
      sql`INSERT INTO agent_conversation (agent, session, peer) VALUES (${agent}, ${session}, ${user})
        ON CONFLICT DO NOTHING`,
      found,
    )
    return added!.id
  }

  /** Claims a row under a name. @returns undefined if another process has it, or this one has it under another name */
  *#take(name: string, id: number): Routine<ConversationRow | undefined> {
    const row =
      yield* readFirst<ConversationRow>(sql`SELECT c.id, c.agent_session, c.folder, c.kept, ${this.#claimColumns}
      FROM agent_conversation c WHERE c.id = ${id}`)
    // Another process may take it at the same time.
    const isTaken =
      row !== undefined &&
      this.#isFree(row) &&
      (yield* changes(sql`UPDATE agent_conversation SET owner = ${this.#owner}, lease_until = ${this.#until()}
        WHERE id = ${id} AND owner IS NOT DISTINCT FROM ${row.owner} AND lease_until = ${row.lease_until} RETURNING id`))
    if (!isTaken) this.#claimed.delete(name)
    if (!isTaken || [...this.#claimed].some(([other, taken]) => taken === id && other !== name))
      return undefined
    this.#claimed.set(name, id)
    return row
  }

  /**
   * Returns the turns that contain some of these messages, by the message, among the newest turns of conversations.
   *
   * @param own a conversation whose turns count also if they failed before they began
   */
  *#findTurns(
    conversations: readonly number[],
    own: number,
    messages: readonly number[],
  ): Routine<Map<number, number>> {
    const rows: { id: number; messages: string }[] = []
    for (const conversation of messages.length > 0 ? conversations : []) {
      const counts = conversation === own ? noSql : sql` AND NOT (status = 'failed' AND started_at IS NULL)`
      rows.push(
        ...(yield* readAll<(typeof rows)[number]>(sql`SELECT id, messages FROM agent_turn
          WHERE conversation = ${conversation} AND first <= ${messages.at(-1)}${counts}
          ORDER BY first DESC LIMIT ${recentTurns}`)),
      )
    }
    const turns = new Map(
      rows.flatMap(row => (JSON.parse(row.messages) as number[]).map(message => [message, row.id] as const)),
    )
    return new Map(messages.flatMap(id => (turns.has(id) ? [[id, turns.get(id)!]] : [])))
  }

  /** Returns the key of a session under which the first message of a turn is stored now; or that of the name. */
  *#sessionOf(first: number | undefined, name: string): Routine<number> {
    const found =
      first === undefined
        ? undefined
        : yield* readFirst<{
            name: string
          }>(sql`SELECT s.name FROM message m JOIN session s ON s.key = m.session
            WHERE m.id = ${first}`)
    return yield* this.context.ensureSession(found?.name ?? name)
  }

  /** SQL for how far a consumer has read the session of the message `m`. */
  #reached(consumer: string): Sql {
    const own = constantSql(consumer)
    const ahead = sql`SELECT position FROM consumer_ahead a WHERE a.consumer = ${own}.name AND a.session = m.session`
    return sql`${this.dialect.greatest}(${own}.position, coalesce((${ahead}), 0))`
  }

  /** Continues a WHERE about the conversation `c`. */
  #isSelected({ agent, session, user }: Omit<TurnFilter, 'limit' | 'before'>): Sql {
    return sql`
    ${agent === undefined ? noSql : sql` AND c.agent = ${agent}`}
    ${session === undefined ? noSql : sql` AND c.session IN ${this.context.sessionKeys(session)}`}
    ${user === undefined ? noSql : sql` AND c.peer = ${user}`}`
  }

  *addTurn({ source, messages, prompt, isFresh = false, ...key }: NewTurn): Routine<StoredTurn> {
    const session = yield* this.#sessionOf(messages[0], key.session)
    const conversation = yield* this.ensure(key, session)
    const ofUser = sql`FROM agent_conversation WHERE session = ${session} AND peer = ${key.user}`
    const all = yield* readHeld<{ id: number }>(sql`SELECT id ${ofUser} ORDER BY id`)
    const newestOf = sql`(SELECT coalesce(max((SELECT max(id) FROM agent_turn
      WHERE conversation = agent_conversation.id)), 0) ${ofUser})`
    const newest = yield* readFirst<{ id: number }>(sql`SELECT ${newestOf} AS id`)
    const ids = all.map(({ id }) => id)
    const known = yield* this.#findTurns(ids, conversation, messages)
    const rest = messages.filter(id => !known.has(id))
    const [turn] = known.values()
    if (turn !== undefined && rest.length === 0) return (yield* readTurns(sql`WHERE t.id = ${turn}`))[0]!
    const [added] = yield* write<{ id: number }>(
      ...this.dialect.lock(sql`SELECT ${ofUser} ORDER BY id`),
      ...this.dialect.expect(sql`${newestOf} = ${newest!.id}`),
      sql`INSERT INTO agent_turn (conversation, status, source, first, messages, prompt, fresh, created_at)
        VALUES (${conversation}, 'waiting', ${source}, ${rest[0]}, ${JSON.stringify(rest)}, ${prompt},
          ${Number(isFresh)}, ${this.clock.now()}) RETURNING id`,
    )
    return (yield* readTurns(sql`WHERE t.id = ${added!.id}`))[0]!
  }

  *listWork(agent: string): Routine<ConversationKey[]> {
    const rows = yield* readAll<
      ConversationKey & ClaimRow
    >(sql`SELECT c.agent, s.name AS session, c.peer AS user,
        ${this.#claimColumns} FROM (SELECT DISTINCT conversation FROM agent_turn${this.dialect.by('agent_turn_open')}
          WHERE ${isOpen}) work
        JOIN agent_conversation c ON c.id = work.conversation JOIN session s ON s.key = c.session
        WHERE c.agent = ${agent}`)
    return rows.filter(this.#isFree).map(({ agent, session, user }) => ({ agent, session, user }))
  }

  *claimAgent(agent: string, session?: string, entry?: AgentEntry): Routine<boolean> {
    // The row of the agent itself has session 0 and no user. What it answers in is the key of its only session.
    const id = yield* this.ensure({ agent, user: '' }, 0)
    const row = yield* this.#take(nameOf({ agent }), id)
    if (!row) return false
    const key = session === undefined ? undefined : `${yield* this.context.ensureSession(session)}`
    const kept = entry ? yield* this.#describe(agent, entry, row.kept) : row.kept
    if (key !== row.agent_session || kept !== row.kept)
      yield* write(sql`UPDATE agent_conversation SET agent_session = ${key}, kept = ${kept} WHERE id = ${id}`)
    return true
  }

  /** Returns what is kept of an agent, without users who were erased. @param before what was */
  *#describe(agent: string, entry: AgentEntry, before: string | undefined): Routine<string | undefined> {
    const { allow, besides, operator, users } = entry
    const lists = [allow === 'everyone' ? [] : allow, users ?? [], besides?.users ?? []]
    const named = [...lists.flat(), ...(operator ? [operator] : [])]
    const erased = named.length > 0 ? yield* this.context.erasedOf(named) : []
    const isThere = (user: string) => !erased.includes(user)
    const earlier = before === undefined ? undefined : (JSON.parse(before) as KeptEntry)
    const consumer = yield* readFirst<{ position: number }>(
      sql`SELECT position FROM consumer WHERE name = ${consumerOf(agent)}`,
    )
    const since = earlier?.since ?? consumer?.position
    if (since === undefined) return before
    const now = this.clock.now()
    const isRecent = earlier !== undefined && Math.abs(now - earlier.seen) < seenEveryMs
    const kept: KeptEntry = {
      ...entry,
      allow: allow === 'everyone' ? allow : allow.filter(isThere),
      users: users?.filter(isThere),
      besides: besides && { ...besides, users: besides.users.filter(isThere) },
      ...(operator !== undefined && { operator: isThere(operator) ? operator : '' }),
      since,
      seen: isRecent ? earlier.seen : now,
    }
    return JSON.stringify(kept)
  }

  *listAgents(): Routine<KnownAgent[]> {
    const rows = yield* readAll<ClaimRow & { name: string; key?: string; session?: string; kept: string }>(
      sql`SELECT c.agent AS name, c.agent_session AS key, s.name AS session, c.kept, ${this.#claimColumns}
        FROM agent_conversation c LEFT JOIN session s ON CAST(s.key AS text) = c.agent_session
        WHERE c.session = 0 AND c.kept IS NOT NULL ORDER BY c.id`,
    )
    return rows.flatMap(({ kept, key, name, session, ...row }) => {
      const { seen, ...entry } = JSON.parse(kept) as KeptEntry
      const isRunning = row.owner !== undefined && (row.owner === this.#owner || !this.#isFree(row))
      const isGone = (!isRunning && seen < this.clock.now() - knownMs) || (key && session === undefined)
      return isGone ? [] : [{ name, ...entry, ...(session !== undefined && { session }), isRunning }]
    })
  }

  *chooseAgent({ session, user }: Person, choice: AgentChoice): Routine<boolean> {
    const id = yield* this.ensure({ agent: '', user }, yield* this.#sessionOf(choice.message, session))
    const [{ kept } = {}] = yield* readHeld<{ kept?: string }>(
      sql`SELECT kept FROM agent_conversation WHERE id = ${id}`,
    )
    const choices = choicesOf(kept)
    const all = [...choices, choice].sort((a, b) => a.message - b.message).slice(-keptChoices)
    if (choices.some(({ message }) => message === choice.message) || !all.includes(choice)) return false
    yield* write(
      ...this.dialect.expect(sql`(SELECT kept IS NOT DISTINCT FROM ${kept} FROM agent_conversation c
        WHERE id = ${id}${this.dialect.holding('c')})`),
      sql`UPDATE agent_conversation SET kept = ${JSON.stringify({ choices: all })} WHERE id = ${id}`,
    )
    return true
  }

  *listChoices({ session, user }: Person): Routine<readonly AgentChoice[]> {
    const row = yield* readFirst<{ kept?: string }>(
      sql`SELECT kept FROM agent_conversation WHERE id = ${this.#idOf({ agent: '', session, user })}`,
    )
    return choicesOf(row?.kept)
  }

  *listRunning(session?: string): Routine<string[]> {
    const isIn =
      session === undefined
        ? noSql
        : sql` AND (c.agent_session IS NULL OR EXISTS (SELECT 1 FROM session s
            WHERE CAST(s.key AS text) = c.agent_session AND s.key IN ${this.context.sessionKeys(session)}))`
    const rows = yield* readAll<ClaimRow & { agent: string }>(sql`SELECT c.agent, ${this.#claimColumns}
      FROM agent_conversation c WHERE c.session = 0 AND c.owner IS NOT NULL${isIn} ORDER BY c.agent`)
    return rows.filter(row => row.owner === this.#owner || !this.#isFree(row)).map(({ agent }) => agent)
  }

  /** In one statement: a message that an agent gets meanwhile, or gives back, is unread all the time. */
  *listMissed(agent: string, among?: readonly number[], user?: string): Routine<MissedMessage[]> {
    const consumer = consumerOf(agent)
    const open = sql`SELECT one.value FROM lease l ${this.dialect.rowIds(sql`l.ids`)} WHERE l.consumer = ${consumer}`
    const first = sql`coalesce((SELECT min(value) - 1 FROM (${open}) o), r.position)`
    const isAmong = sql`${among === undefined ? noSql : sql` AND ${this.dialect.isOneOf(sql`m.id`, [0, ...among])}`}
      ${user === undefined ? noSql : sql` AND m.peer = ${user}`}`
    return yield* readAll<MissedMessage>(
      sql`SELECT m.id, s.name AS session, m.peer AS user
        FROM consumer r ${this.dialect.inOrderJoin} message m ON m.id > ${this.dialect.least}(r.position, ${first})
        JOIN session s ON s.key = m.session
        WHERE r.name = ${consumer} AND m.sent = 0
          AND (m.id > ${this.#reached('r')} OR m.id IN (${open}))${isAmong} ORDER BY m.id`,
    )
  }

  *releaseAgent(agent: string): Routine<void> {
    for (const name of [...this.#claimed.keys()])
      if (JSON.parse(name)[0] === agent) this.#claimed.delete(name)
    yield* write(sql`UPDATE agent_conversation SET owner = NULL, lease_until = 0
      WHERE agent = ${agent} AND owner = ${this.#owner}`)
  }

  *claim(key: ConversationKey): Routine<{ turns: StoredTurn[]; state: ConversationState } | undefined> {
    const name = nameOf(key)
    let id = this.#claimed.get(name)
    if (id === undefined) {
      const session = yield* readFirst<{ key?: number }>(
        sql`SELECT ${this.context.sessionKey(key.session)} AS key`,
      )
      if (session?.key === undefined) return undefined
      id = yield* this.ensure(key, session.key)
    }
    const row = yield* this.#take(name, id)
    if (!row) return undefined
    const turns = yield* readTurns(sql`WHERE t.conversation = ${id} AND t.${isOpen} ORDER BY t.id`)
    return { turns, state: stateOf(row) }
  }

  *renew(): Routine<void> {
    const ids = [...this.#claimed.values()]
    if (ids.length > 0)
      yield* write(sql`UPDATE agent_conversation SET lease_until = ${this.#until()}
        WHERE ${this.dialect.isOneOf(sql`id`, ids)} AND owner = ${this.#owner}`)
  }

  *release(key: ConversationKey): Routine<void> {
    const id = this.#claimed.get(nameOf(key))
    this.#claimed.delete(nameOf(key))
    if (id !== undefined)
      yield* write(sql`UPDATE agent_conversation SET owner = NULL, lease_until = 0
        WHERE id = ${id} AND owner = ${this.#owner}`)
  }

  *changeTurn(
    id: number,
    { answer, ended_at, error, parts_sent, started_at, status }: TurnChange,
  ): Routine<boolean> {
    const isOwn = sql`SELECT c.id FROM agent_conversation c JOIN agent_turn own ON own.conversation = c.id
      WHERE own.id = ${id} AND c.owner = ${this.#owner}${this.dialect.holding('c')}`
    const change = sql`UPDATE agent_turn SET status = coalesce(${status}, status),
      started_at = coalesce(${started_at}, started_at), ended_at = coalesce(${ended_at}, ended_at),
      answer = coalesce(${answer && JSON.stringify(answer)}, answer),
      parts = coalesce(${answer?.parts.length}, parts), parts_sent = coalesce(${parts_sent}, parts_sent),
      error = coalesce(${error}, error) WHERE id = ${id} AND conversation = (${isOwn}) RETURNING id`
    if (status === undefined) return yield* changes(change)
    return yield* changes(
      sql`UPDATE agent_question SET expires_at = ${this.clock.now()} WHERE turn = ${id} AND answer IS NULL
        AND drafts IS NULL AND expires_at > ${this.clock.now()} AND EXISTS (${isOwn})`,
      change,
    )
  }

  *joinTurns(ids: readonly number[]): Routine<void> {
    const isJoined = sql`${this.dialect.isOneOf(sql`t.id`, ids)} AND t.status = 'waiting' AND t.stopping = 0
      AND t.source = 'message' AND c.owner = ${this.#owner}
      AND t.conversation = (SELECT conversation FROM agent_turn WHERE id = ${ids[0]})`
    const [first, ...others] = yield* readTurns(sql`WHERE ${isJoined} ORDER BY t.id`)
    if (!first || others.length === 0) return
    const messages = [first, ...others].flatMap(turn => turn.messages)
    const held = sql`SELECT t.id FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation
      WHERE ${isJoined}${this.dialect.holding('c')}`
    yield* write(
      ...this.dialect.expect(sql`(SELECT count(*) FROM (${held}) held) = ${others.length + 1}`),
      sql`DELETE FROM agent_turn WHERE ${this.dialect.isOneOf(
        sql`id`,
        others.map(({ id }) => id),
      )}`,
      sql`UPDATE agent_turn SET messages = ${JSON.stringify(messages)} WHERE id = ${first.id}`,
    )
  }

  saveState(key: ConversationKey, { agent_session, folder, ...kept }: ConversationState): Routine<boolean> {
    return changes(sql`UPDATE agent_conversation SET agent_session = ${agent_session}, folder = ${folder},
      kept = ${JSON.stringify(kept)} WHERE id = ${this.#idOf(key)} AND owner = ${this.#owner} RETURNING id`)
  }

  *stopTurn(id: number): Routine<boolean> {
    const row = yield* readFirst<
      ClaimRow & { conversation: number }
    >(sql`SELECT t.conversation, ${this.#claimColumns}
      FROM agent_turn t JOIN agent_conversation c ON c.id = t.conversation WHERE t.id = ${id}`)
    if (!row) return false
    // Nothing has begun, and no process is about to.
    const isIdle = row.owner !== this.#owner && this.#isFree(row)
    const stopped = sql`status = 'waiting' AND ${Number(isIdle)} = 1`
    return yield* changes(
      // No process claims it before the turn has changed.
      ...this.dialect.expect(sql`(SELECT owner IS NOT DISTINCT FROM ${row.owner} FROM agent_conversation c
        WHERE id = ${row.conversation}${this.dialect.holding('c')})`),
      sql`UPDATE agent_turn SET stopping = 1, status = CASE WHEN ${stopped} THEN 'stopped' ELSE status END,
        ended_at = CASE WHEN ${stopped} THEN ${this.clock.now()} ELSE ended_at END,
        error = CASE WHEN ${stopped} THEN 'stopped before it began' ELSE error END
        WHERE id = ${id} AND ${isOpen} RETURNING id`,
    )
  }

  *getTurn(id: number): Routine<StoredTurn | undefined> {
    return (yield* readTurns(sql`WHERE t.id = ${id}`))[0]
  }

  listTurns({ before = Number.MAX_SAFE_INTEGER, limit, ...filter }: TurnFilter): Routine<StoredTurn[]> {
    // Ids first: the rows are large.
    return readTurns(sql`WHERE t.id IN (SELECT t.id FROM agent_conversation c
      ${this.dialect.inOrderJoin} agent_turn t ON t.conversation = c.id
      WHERE t.id < ${before}${this.#isSelected(filter)} ORDER BY t.id DESC LIMIT ${limit}) ORDER BY t.id DESC`)
  }

  *readAsked(messages: readonly number[]): Routine<Map<number, TurnPart>> {
    if (messages.length === 0) return new Map()
    const rows = yield* readAll<TurnPart & { id: number }>(sql`SELECT id, msg_type AS kind,
      substr(text, 1, CAST(${turnPartLength + 1} AS integer)) AS text FROM message
      WHERE ${this.dialect.isOneOf(sql`id`, messages)} AND session <> ${erasedSession}`)
    return new Map(rows.map(({ id, ...part }) => [id, part]))
  }

  *findMore(key: ConversationKey): Routine<StoredTurn | undefined> {
    const turns = yield* readTurns(sql`WHERE t.conversation = ${this.#idOf(key)} AND t.status = 'more'
      ORDER BY t.id DESC LIMIT 1`)
    return turns[0]
  }

  *listConversations({ limit, ...filter }: Omit<TurnFilter, 'before'>): Routine<StoredConversation[]> {
    const rows =
      yield* readAll<ListedRow>(sql`SELECT c.agent, s.name AS session, c.peer AS user, n.name AS user_name,
        c.agent_session, c.folder, c.kept, p.kept AS choices,
        (SELECT count(*) FROM agent_turn WHERE conversation = c.id) AS turns,
        t.created_at AS last_turn_at, t.error AS last_error,
        -- In the order of the alphabet, answering and running come before waiting.
        (SELECT min(status) FROM agent_turn WHERE conversation = c.id AND ${isOpen}) AS open,
        EXISTS (SELECT 1 FROM agent_question q JOIN agent_turn own ON own.id = q.turn
          WHERE own.conversation = c.id AND ${isUnanswered(this.clock.now())}) AS asking
        FROM agent_conversation c JOIN session s ON s.key = c.session
        LEFT JOIN user_name n ON n.session = c.session AND n.peer = c.peer
        LEFT JOIN agent_conversation p ON p.agent = '' AND p.session = c.session AND p.peer = c.peer
        LEFT JOIN agent_turn t ON t.id = (SELECT max(id) FROM agent_turn WHERE conversation = c.id)
        WHERE c.session <> 0 AND c.agent <> ''${this.#isSelected(filter)} ORDER BY t.id DESC NULLS LAST, c.id DESC LIMIT ${limit}`)
    return rows.map(({ agent_session, asking, choices, folder, kept, ...row }) => {
      const { sessions: _, shown: _shown, ...state } = stateOf({ agent_session, folder, kept })
      const isChosen = choicesOf(choices).at(-1)?.agent === row.agent
      return { ...row, ...state, isAsking: Boolean(asking), isChosen }
    })
  }

  *isWorkedOn(user: string): Routine<boolean> {
    const rows = yield* readAll<ClaimRow>(sql`SELECT ${this.#claimColumns} FROM agent_conversation c
      WHERE c.peer = ${user} AND c.owner IS NOT NULL`)
    return rows.some(row => row.owner === this.#owner || !this.#isFree(row))
  }

  *countTurns(agent: string, since: number, user?: string): Routine<number> {
    const counted = yield* readFirst<{ n: number }>(sql`SELECT count(*) AS n
      FROM agent_turn t${this.dialect.by('agent_turn_started')}
      ${this.dialect.inOrderJoin} agent_conversation c ON c.id = t.conversation
      WHERE t.started_at >= ${since} AND c.agent = ${agent} ${user === undefined ? noSql : sql`AND c.peer = ${user}`}`)
    return counted!.n
  }
}

const modes: Modes<Omit<AgentStore, OtherVerb>> = {
  addTurn: 'write',
  changeTurn: 'write',
  joinTurns: 'write',
  saveState: 'write',
  stopTurn: 'write',
  claimAgent: 'light',
  chooseAgent: 'write',
  releaseAgent: 'light',
  claim: 'light',
  renew: 'light',
  release: 'light',
  listWork: 'plain',
  listRunning: 'plain',
  listAgents: 'plain',
  listChoices: 'plain',
  listMissed: 'plain',
  getTurn: 'plain',
  listTurns: 'plain',
  readAsked: 'plain',
  findMore: 'plain',
  listConversations: 'plain',
  isWorkedOn: 'plain',
  countTurns: 'plain',
}

export function openAgents(context: NounContext, run: Runner): AgentStore {
  const verbs = new AgentVerbs(context)
  return {
    ...openNoun({ verbs, modes }, run),
    ...openNoun(createAgentQuestions(context), run),
    ...openNoun(createAgentTimes(context, verbs), run),
  }
}

type StateRow = Pick<ConversationState, 'agent_session' | 'folder'> & { kept?: string | undefined }

type ListedRow = Omit<StoredConversation, 'isAsking' | 'isChosen' | keyof ConversationState> &
  StateRow & { asking: unknown; choices?: string }

type TurnRow = Omit<StoredTurn, 'messages' | 'answer' | 'isFresh' | 'stopping'> & {
  messages: string
  answer?: string
  fresh: number
  stopping: number
}

const nameOf = ({ agent, session = '', user = '' }: Partial<ConversationKey>): string =>
  JSON.stringify([agent, session, user])

/** @param kept of the row of a person */
const choicesOf = (kept: string | undefined): readonly AgentChoice[] =>
  kept === undefined ? [] : (JSON.parse(kept) as { choices: readonly AgentChoice[] }).choices

const stateOf = ({ agent_session, folder, kept }: StateRow): ConversationState =>
  withoutUndefined({ agent_session, folder, ...(kept !== undefined && JSON.parse(kept)) })

function turnOf({ answer, fresh, messages, stopping, ...row }: TurnRow): StoredTurn {
  return {
    ...row,
    messages: JSON.parse(messages),
    isFresh: fresh === 1,
    ...(answer !== undefined && { answer: JSON.parse(answer) }),
    ...(stopping === 1 && isTurnOpen(row.status) && { stopping: true }),
  }
}
