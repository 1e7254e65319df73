/**
 * What agents in front of WeChat need to survive a crash: their turns, the state of their conversations, and their
 * questions. The rules for every method are in `store.ts`.
 */
import type { AgentQuestion, AgentTurn, QuestionOption, TurnPart, TurnStatus } from '../model/agent.ts'
import type { TimeRule } from '../model/time-rule.ts'

/** Names a conversation of a user with an agent. */
export interface ConversationKey {
  agent: string
  /** Name of the session. */
  session: string
  user: string
}

export interface NewTurn extends ConversationKey {
  source: AgentTurn['source']
  /** Row ids of the messages, ascending; empty for a turn without messages. */
  messages: readonly number[]
  /** Prompt of a turn without messages. */
  prompt?: string | undefined
  /** The turn has an agent session of its own. */
  isFresh?: boolean | undefined
}

/** A turn as it is stored. */
export interface StoredTurn extends Omit<AgentTurn, 'prompt' | 'answer'> {
  prompt?: string
  isFresh: boolean
  /** The whole answer; absent until it is known. */
  answer?: StoredAnswer
}

/** The answer of an agent, as it is to be sent. */
export interface StoredAnswer {
  /** Messages in order: texts, and files by their absolute paths. */
  parts: readonly AnswerPart[]
}
export type AnswerPart =
  | { readonly text: string }
  | {
      readonly path: string
      readonly kind: 'image' | 'file' | 'video'
      readonly name?: string
    }

/** Changes of a turn. */
export interface TurnChange {
  status?: TurnStatus
  started_at?: number
  ended_at?: number
  answer?: StoredAnswer
  parts_sent?: number
  error?: string
}

/** A message that waits for an agent. */
export interface MissedMessage {
  /** Row id. */
  readonly id: number
  readonly session: string
  readonly user: string
}

/** What an agent tells the processes of other agents. */
export interface AgentEntry {
  /** What it is, in a few words without secrets. */
  readonly about: string
  /** Ids of users besides the owner who may talk with it; everyone: any user. */
  readonly allow: readonly string[] | 'everyone'
  /** In place of `allow`: only these. */
  readonly users?: readonly string[] | undefined
  /**
   * Users, and sessions whose owners, that other agents of its process name: they may talk with it only if it names them
   * too.
   */
  readonly besides?: { readonly users: readonly string[]; readonly sessions: readonly string[] } | undefined
  /** Id of the person who decides for it, in place of the owner; "" if that is not known. */
  readonly operator?: string | undefined
  /** Whether it obeys commands in the chat. */
  readonly commands: boolean
  /** Its place among the agents of its process, and which of these ran first. */
  readonly place: number
  readonly group: string
}

export interface KnownAgent extends AgentEntry {
  readonly name: string
  /** The only session that it answers in, as it is called now. */
  readonly session?: string | undefined
  /** Whether a living process has it. */
  readonly isRunning: boolean
  /** Row id: it reads what comes after this message. */
  readonly since: number
}

/** The agent that a person chose, with a message. */
export interface AgentChoice {
  /** Row id of the message: what comes after it goes to the agent. */
  readonly message: number
  readonly agent: string
}

/** A session of the agent that a conversation may go on with. */
export interface KeptSession {
  agent_session: string
  title?: string
  folder: string
  /** When it was last used (Unix ms). */
  at: number
}

/** What an agent keeps about a conversation. */
export interface ConversationState {
  /** The agent's own id of its session; absent: the next turn begins a new one. */
  agent_session?: string
  folder?: string
  /** Model and mode that a person chose, by the ids that the agent has for them. */
  model?: string
  mode?: string
  /** Folder that a person chose, by the name that the owner gave it. */
  place?: string
  /** Title of the current session, also of one that has not begun. */
  title?: string
  /** Its newest sessions, the newest first, the current one among them. */
  sessions?: readonly KeptSession[]
  /** The list of sessions that the person saw last: a number means one of these. */
  shown?: readonly KeptSession[]
}

export interface StoredConversation extends ConversationKey, Omit<ConversationState, 'sessions' | 'shown'> {
  /** Number of turns. */
  turns: number
  last_turn_at?: number
  /** Name that people gave to the user. */
  user_name?: string
  /** What its open turns need: `running` or `answering` if one is in work, else `waiting`; absent: none is open. */
  open?: TurnStatus
  /** Why the newest turn failed or was stopped. */
  last_error?: string
  /** Whether a question of it is open. */
  isAsking: boolean
  /** Whether the user chose this agent. */
  isChosen: boolean
}

export interface NewQuestion {
  turn: number
  text: string
  options: readonly QuestionOption[]
  /** What the owner types to answer it in a chat. No two open questions have the same one. */
  code: string
  expires_at: number
  /** Ids of outbox entries that wait for the approval of a person: the question is about sending them. */
  drafts?: readonly number[] | undefined
}

export interface StoredQuestion extends AgentQuestion, Omit<QuestionChange, 'expires_at'> {
  code: string
  drafts?: readonly number[]
}

/** What becomes of the message that shows a question in a chat. */
interface QuestionChange {
  /** Id of its outbox entry, while it waits there. */
  entry?: number
  /** Id of the message; absent if WeChat did not accept it. */
  message_id?: string
  /** When it was sent. */
  sent_at?: number
  expires_at?: number
}

export interface TurnFilter {
  agent?: string | undefined
  session?: string | undefined
  user?: string | undefined
  /** Only turns with a lower id. */
  before?: number | undefined
  limit: number
}

/** When an agent is to do something for a person. */
export interface NewTime {
  session: string
  user_id: string
  /** Absent: the one that the person has chosen then. */
  agent?: string | undefined
  prompt: string
  rule: TimeRule
  zone: string
  /** The next time (Unix ms); absent: it stands still, in a copy of the store. */
  due_at?: number | undefined
  made_by: string
}

export interface StoredTime extends NewTime {
  id: number
  created_at: number
  /** A time that was missed, of which the person was not told yet. */
  missed_at?: number | undefined
  /** Its newest turn has not ended, or the answer waits in the outbox. */
  isWaiting: boolean
}

/**
 * One process at a time runs an agent, and one works on a conversation. It claims them, by a lease of a minute that it
 * renews, and that is free at once, or within ten seconds where several machines share the store, if its process died. A claim
 * under an old name of the session lasts until it is given up: the process goes on with the conversation under that name,
 * and nothing claims it under the new name before. So release a conversation when nothing is left to do.
 */
export interface AgentStore {
  /**
   * Claims an agent for this process. Not durable.
   *
   * @param session the only one that it answers in; absent: all
   * @param entry what others know of it from now on, if its consumer is there; absent: what they knew. Users who were
   *   erased are left out
   * @returns false if another process has it
   */
  claimAgent(agent: string, session?: string, entry?: AgentEntry): Promise<boolean>

  /** Returns the agents that told others of themselves, as they first ran; not those that have not run for 30 days. */
  listAgents(): Promise<KnownAgent[]>

  /**
   * Stores the agent that a person chose with a message, if that message has chosen none yet. The newest fifty choices
   * are kept.
   *
   * @returns whether it was stored
   */
  chooseAgent(person: Omit<ConversationKey, 'agent'>, choice: AgentChoice): Promise<boolean>

  /** Returns the choices of a person, oldest first. */
  listChoices(person: Omit<ConversationKey, 'agent'>): Promise<readonly AgentChoice[]>

  /**
   * Returns the names of the agents that a living process has claimed, this one among them.
   *
   * @param session only those that answer in it
   */
  listRunning(session?: string): Promise<string[]>

  /**
   * Returns the received messages that the consumer of an agent has not read to the end, oldest first.
   *
   * @param among only these, by their row ids
   * @param user only those of this user
   */
  listMissed(agent: string, among?: readonly number[], user?: string): Promise<MissedMessage[]>

  /** Gives up the claim on an agent, and those on its conversations. Not durable. */
  releaseAgent(agent: string): Promise<void>

  /**
   * Adds a turn, waiting. No message is in two turns, of this agent or of others: those that the hundred newest turns of the
   * user contain are left out, and if none is left, returns the turn of the first one, unchanged. What another agent
   * did not begin counts as none of its turns once it failed. The conversation is that of the messages' session, also if
   * it was renamed.
   */
  addTurn(turn: NewTurn): Promise<StoredTurn>

  /** Returns the conversations of an agent that have open turns and belong to no living process, or to this one. */
  listWork(agent: string): Promise<ConversationKey[]>

  /**
   * Claims a conversation. Not durable.
   *
   * @returns its open turns, oldest first, and its state; undefined if another process has it, if this process has it
   *   under another name of its session, or if nothing is known of a session of that name
   */
  claim(key: ConversationKey): Promise<{ turns: StoredTurn[]; state: ConversationState } | undefined>

  /** Renews all claims of this process. Not durable. */
  renew(): Promise<void>

  /** Gives up a claim that was made under this name. Not durable. */
  release(key: ConversationKey): Promise<void>

  /**
   * Changes a turn. With a new status, its questions are no longer open: nobody waits for their answers. Those about
   * drafts stay.
   *
   * @returns false, without a change, if this process does not have the conversation
   */
  changeTurn(id: number, change: TurnChange): Promise<boolean>

  /**
   * Makes one turn of those among these that wait, are about messages, and belong to the conversation of the first: it gets the
   * messages of all. Nothing changes if this process does not have the conversation.
   */
  joinTurns(ids: readonly number[]): Promise<void>

  /** Replaces the state of a conversation. @returns same as `changeTurn` */
  saveState(key: ConversationKey, state: ConversationState): Promise<boolean>

  /**
   * Stops a turn that is open: one that waits for a process ends at once, for another one `stopping` is set.
   *
   * @returns whether it was open
   */
  stopTurn(id: number): Promise<boolean>

  getTurn(id: number): Promise<StoredTurn | undefined>

  /** Returns turns, the newest first. */
  listTurns(filter: TurnFilter): Promise<StoredTurn[]>

  /**
   * Returns what messages say, by their row ids, a little more than `turnPartLength` at most; not those that were
   * removed or erased.
   */
  readAsked(messages: readonly number[]): Promise<Map<number, TurnPart>>

  /** Returns the newest turn of a conversation whose rest waits (`more`). */
  findMore(key: ConversationKey): Promise<StoredTurn | undefined>

  /** Returns the conversations, those with the newest turn first. */
  listConversations(filter: Omit<TurnFilter, 'before'>): Promise<StoredConversation[]>

  /** Whether a living process has claimed a conversation of a user. */
  isWorkedOn(user: string): Promise<boolean>

  /** Counts the turns of an agent that began since then (Unix ms), with a user those of that user. */
  countTurns(agent: string, since: number, user?: string): Promise<number>

  /**
   * Adds an open question.
   *
   * @returns its id
   * @throws SvcError `invalid_arguments` if another open question has the code
   */
  ask(question: NewQuestion): Promise<number>

  /**
   * Answers a question, if it is open and not expired, and the option is one of its options.
   *
   * @returns whether this call answered it
   */
  answer(id: number, option: string, by: string): Promise<boolean>

  /** Ends a question without an answer of a person: `option` is taken. @returns false if it was answered before */
  closeQuestion(id: number, option: string): Promise<boolean>

  /** Notes that a message is about a question, before what it says is done. */
  noteAnswer(id: number, message: number): Promise<void>

  /** Returns the agent whose question a message was about, as `noteAnswer` noted it last. */
  findAsker(message: number): Promise<string | undefined>

  /** Changes a question that nobody has answered. @returns whether it did */
  changeQuestion(id: number, change: QuestionChange): Promise<boolean>

  getQuestion(id: number): Promise<StoredQuestion | undefined>

  /** Returns the open questions, oldest first; not those about drafts. */
  listQuestions(agent?: string): Promise<StoredQuestion[]>

  /**
   * Adds a time. One of the person with the same words and rule stays, and goes on if it stood still.
   *
   * @throws SvcError `invalid_arguments` if the person has `mostTimes`; `window_closed` if the user was erased
   */
  addTime(time: NewTime): Promise<StoredTime>

  /** Returns times, the next one first. due: whose time has come. missed: of whose the person has to be told */
  listTimes(filter: Omit<TurnFilter, 'before' | 'limit'> & { only?: 'due' | 'missed' }): Promise<StoredTime[]>

  /** @returns the time; undefined if there is none with this id */
  removeTime(id: number): Promise<StoredTime | undefined>

  /**
   * Goes on from a time: begins a turn, and keeps when it is due next and what the person has to be told. What is to be done
   * once, and has neither, is removed.
   *
   * @returns false, without a change, if another process did that
   */
  passTime(
    time: Pick<StoredTime, 'id' | 'due_at' | 'rule'>,
    to: Partial<Pick<StoredTime, 'due_at' | 'missed_at'>> & { turn?: { agent: string; prompt: string } },
  ): Promise<boolean>

  /** Returns the questions about drafts, oldest first: the open ones, or all of these turns. */
  listDrafts(turns?: readonly number[]): Promise<StoredQuestion[]>
}
