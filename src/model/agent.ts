/** Agents in front of WeChat, in their public form: conversations, agent turns, and questions to the owner. */
import { type Static, Type } from '@sinclair/typebox'
import { MessageKind } from './message.ts'
import { integer, oneOf, optional, text } from './shapes.ts'

/** Returns the name of the consumer with which an agent reads. */
export const consumerOf = (agent: string): string => `agent-${agent}`

/** The name with which all agents send what only one of them is to say. None can have it. */
export const commonAgent = 'svc.agents'

/** Names of agents. */
export const agentNameForm: RegExp = /^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$/
export const agentNameRule = '1 to 50 letters (a-z), digits, "_" or "-"'

/**
 * waiting: not started yet. running: the agent works on it. answering: the answer is stored and is being sent.
 * answered: all of the answer was sent or is in the outbox. more: the rest waits until the user asks for it.
 * stopped: a person stopped it. interrupted: its process died, and nothing shows what the agent did. failed: the agent
 * failed, or reached a limit.
 */
export const turnStatuses = [
  'waiting',
  'running',
  'answering',
  'answered',
  'more',
  'stopped',
  'interrupted',
  'failed',
] as const
export type TurnStatus = (typeof turnStatuses)[number]

/** Whether a turn with this status needs work. */
export const isTurnOpen = (status: TurnStatus): boolean =>
  status === 'waiting' || status === 'running' || status === 'answering'

/** Longest text of a `TurnPart`, in characters. */
export const turnPartLength = 500

const TurnPart = Type.Object({
  kind: MessageKind,
  text: text(
    `At most ${turnPartLength} characters of the text, or the name of a file; "" if there is neither.`,
  ),
})
export type TurnPart = Static<typeof TurnPart>

/** Times that a person may have. */
export const mostTimes = 50

const seenWithHistory = 'Only for callers with the right history, from the list of turns.'

export const AgentTurn = Type.Object(
  {
    id: integer('Id of the turn.'),
    agent: text('Name of the agent.'),
    session: text('Name of the session.'),
    user_id: text('The user who talks with the agent.'),
    status: oneOf(turnStatuses, 'How far it is.'),
    source: oneOf(
      ['message', 'inject', 'time'],
      'What started it: messages of the user, svc agent inject, or a time that was set.',
    ),
    messages: Type.Array(Type.Integer(), { description: 'Row ids of the messages that it is about.' }),
    created_at: integer('Unix milliseconds.'),
    started_at: optional.integer('When the agent began.'),
    ended_at: optional.integer('When it ended.'),
    parts: optional.integer('Number of messages that the answer needs.'),
    parts_sent: optional.integer('Number of them that were handed over for sending.'),
    approval: optional.oneOf(
      ['waits', 'declined'],
      'The answer is sent only when a person approves it. waits: nobody has decided. declined: a person declined it, or nobody approved it in time.',
    ),
    error: optional.text('Why it failed, or was stopped.'),
    stopping: optional.flag('A person asked to stop it.'),
    prompt: optional(Type.Array(TurnPart, { description: `What the agent was asked. ${seenWithHistory}` })),
    answer: optional(Type.Array(TurnPart, { description: `What it answered. ${seenWithHistory}` })),
  },
  { description: 'One turn of an agent: messages of a user, and the answer.' },
)
export type AgentTurn = Static<typeof AgentTurn>

export const AgentConversation = Type.Object(
  {
    agent: text('Name of the agent.'),
    session: text('Name of the session.'),
    user_id: text('The user.'),
    user_name: optional.text('Name that people gave to the user.'),
    status: oneOf(
      ['idle', 'waiting', 'running', 'asking'],
      'What the agent does now. asking: it waits for the answer to a question.',
    ),
    chosen: optional.flag('The user chose this agent, so it gets what is for no other one.'),
    agent_session: optional.text("The agent's own id of the conversation, with which it continues."),
    folder: optional.text('Folder in which the agent works.'),
    place: optional.text('Name of that folder, if the owner named it and a person chose it.'),
    model: optional.text('Model that a person chose, by the name that the agent has for it.'),
    mode: optional.text('Mode that a person chose, by the name that the agent has for it.'),
    title: optional.text('Title of the conversation. Only for callers with the right history.'),
    turns: integer('Number of turns so far.'),
    last_turn_at: optional.integer('When the newest turn was added, Unix milliseconds.'),
    last_error: optional.text('Why the newest turn failed.'),
  },
  { description: 'The conversation of a user with an agent.' },
)
export type AgentConversation = Static<typeof AgentConversation>

export const AgentTime = Type.Object(
  {
    id: integer('Id of the time.'),
    agent: optional.text('The agent. Absent: the one that the user has chosen then.'),
    session: text('Name of the session.'),
    user_id: text('The user for whom it is done.'),
    when: text('The time or the series, as add_agent_time takes it.'),
    zone: text('The time zone of `when`.'),
    next_at: optional.integer('When it is due next, Unix milliseconds.'),
    paused: optional.oneOf(
      ['answer', 'copy'],
      'Why nothing happens. answer: the last answer still waits for the user; times are skipped until it was sent. copy: the store was restored from a backup; add the same time again to go on.',
    ),
    prompt: optional.text('What the agent is asked. Only for callers with the right history.'),
    created_at: integer('Unix milliseconds.'),
    made_by: text('The principal that added it.'),
  },
  { description: 'When an agent is to do something for a user, once or again and again.' },
)
export type AgentTime = Static<typeof AgentTime>

const QuestionOption = Type.Object({
  id: text("The agent's id of the option."),
  name: text('What people see.'),
  kind: oneOf(['allow_once', 'allow_always', 'reject_once', 'reject_always', 'other'], 'What it does.'),
})
export type QuestionOption = Static<typeof QuestionOption>

export const AgentQuestion = Type.Object(
  {
    id: integer('Id of the question.'),
    turn: integer('Id of its turn.'),
    agent: text('Name of the agent.'),
    session: text('Name of the session.'),
    user_id: text('The user in whose turn the agent asks.'),
    text: text('What the agent wants to do. It comes from the agent, which may have been talked into it.'),
    options: Type.Array(QuestionOption),
    asked_at: integer('Unix milliseconds.'),
    expires_at: integer('Without an answer until then, the option that rejects is taken.'),
    answer: optional.text('Id of the chosen option.'),
    answered_by: optional.text(
      'The principal that answered; absent while it is open, and if nobody answered in time.',
    ),
  },
  { description: 'What an agent asks its owner before it does something.' },
)
export type AgentQuestion = Static<typeof AgentQuestion>
