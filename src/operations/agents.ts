/** Operations for agents in front of WeChat: what they work on, and the questions that they ask. */
import { Type } from '@sinclair/typebox'
import { canonicalOf, machineZone } from '../config/time-zone.ts'
import type { Gateway } from '../gateway/gateway-api.ts'
import {
  AgentConversation,
  AgentQuestion,
  AgentTime,
  AgentTurn,
  commonAgent,
  consumerOf,
  mostTimes,
  type TurnPart,
  turnPartLength,
} from '../model/agent.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { Message } from '../model/message.ts'
import { formatPrincipal, owner, type Principal } from '../model/principal.ts'
import type { TakenAsAnswer } from '../model/question.ts'
import { between, bounded, closed, optional } from '../model/shapes.ts'
import { formatRule, readTime } from '../model/spoken-time.ts'
import { leastMinutes } from '../model/time-rule.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type {
  AgentStore,
  ConversationKey,
  StoredConversation,
  StoredQuestion,
  StoredTime,
  StoredTurn,
} from '../storage/agents.ts'
import { defineOperation } from './operation.ts'
import { hasRight } from './rights.ts'
import { RowId } from './schema.ts'

const agent = optional.bounded(64, 'Only of this agent, by its name.', { examples: ['agent'] })
const session = optional.bounded(200, 'Only of this session.', { examples: ['work'] })
const user = optional.bounded(512, 'Only of this user, by id or name.', {
  examples: ['o9cq8example@im.wechat'],
})

/** What a turn without a message needs. */
const forUser = {
  user: bounded(512, 'The user who gets the answer, by id or name.', {
    examples: ['o9cq8example@im.wechat'],
  }),
  prompt: bounded(100_000, 'What the agent is asked.', { examples: ['What is new today?'] }),
  session: optional.bounded(200, 'Session. Default: the one that the user last wrote to.', {
    examples: ['work'],
  }),
}

const ids = { agent: 'agent', session: 'work', user_id: 'o9cq8example@im.wechat' }
const exampleTurn = {
  id: 12,
  ...ids,
  status: 'running',
  source: 'message',
  messages: [41, 42],
  created_at: 1767225600000,
  started_at: 1767225601500,
}
const exampleInjected = {
  id: 13,
  ...ids,
  status: 'waiting',
  source: 'inject',
  messages: [],
  created_at: 1767225600000,
}
const exampleQuestion = {
  id: 3,
  turn: 12,
  ...ids,
  text: 'Run the command: git push',
  options: [
    { id: 'once', name: 'Allow once', kind: 'allow_once' },
    { id: 'no', name: 'Reject', kind: 'reject_once' },
  ],
  asked_at: 1767225605000,
  expires_at: 1767225905000,
}

export const listAgentConversations = defineOperation({
  name: 'list_agent_conversations',
  title: 'List who talks with an agent',
  effect: 'read',
  right: 'agents',
  description:
    'Lists the users who talk with an agent in front of WeChat (`svc agent`), those with the newest turn first, and what each agent does now. A user who may not talk with it is listed too, with the reason as `last_error`.',
  input: closed({
    agent,
    session,
    user,
    limit: optional.between(1, 1000, 'Maximum number of conversations to return.', { default: 100 }),
  }),
  output: Type.Array(AgentConversation, { description: 'Newest first.' }),
  errors: ['session_not_found'],
  examples: [
    {
      summary: 'One user talks with it',
      input: { limit: 10 },
      output: [
        {
          ...ids,
          user_name: 'Anna',
          status: 'running',
          agent_session: '5f1c9c1e',
          folder: '/home/anna/.svc/.agents/agent/0f3a',
          turns: 12,
          last_turn_at: 1767225600000,
        },
      ],
    },
  ],
  rest: { route: 'GET /agents/conversations', tag: 'agents' },
  cli: {
    path: ['agent', 'conversations'],
    short: { limit: 'n' },
    examples: [['svc agent conversations', 'Who talks with an agent, and what it does now']],
  },
  async run(gateway, { limit = 100, ...filter }, { by }) {
    const found = await gateway.agents.listConversations({ ...(await resolve(gateway, filter)), limit })
    const seesTitle = hasRight(by, 'history')
    return found.map(({ title, ...one }) => toConversation({ ...one, ...(seesTitle && { title }) }))
  },
})

export const listAgentTurns = defineOperation({
  name: 'list_agent_turns',
  title: 'List what agents worked on',
  effect: 'read',
  right: 'agents',
  description:
    'Lists turns of agents, the newest first: which messages of which user, in which state, and why one failed. They are kept for 30 days after their end. Callers with the right history also see the beginning of what was asked and answered.',
  input: closed({
    agent,
    session,
    user,
    before: optional(RowId('Only turns before this id.')),
    limit: optional.between(1, 200, 'Maximum number of turns to return.', { default: 50 }),
  }),
  output: Type.Array(AgentTurn, { description: 'Newest first.' }),
  errors: ['session_not_found'],
  examples: [{ summary: 'The newest turn', input: { limit: 1 }, output: [exampleTurn] }],
  rest: { route: 'GET /agents/turns', tag: 'agents' },
  cli: {
    path: ['agent', 'turns'],
    short: { limit: 'n' },
    examples: [
      ['svc agent turns -n 5', 'The newest five turns'],
      ['svc agent turns --user Anna', 'Those of a user'],
    ],
  },
  async run(gateway, { before, limit = 50, ...filter }, { by }) {
    const turns = await gateway.agents.listTurns({ ...(await resolve(gateway, filter)), before, limit })
    const answered = turns.filter(({ status }) => status === 'answered').map(({ id }) => id)
    const questions = answered.length > 0 ? await gateway.agents.listDrafts(answered) : []
    const approvals = new Map<number, AgentTurn['approval']>()
    for (const question of questions)
      if (question.drafts?.length) approvals.set(question.turn, await approvalOf(gateway, question))
    const asked = hasRight(by, 'history')
      ? await gateway.agents.readAsked(turns.flatMap(({ messages }) => messages))
      : undefined
    return turns.map(turn => ({
      ...toTurn(turn),
      ...(asked && textsOf(turn, asked)),
      ...withoutUndefined({ approval: approvals.get(turn.id) }),
    }))
  },
})

export const stopAgentTurn = defineOperation({
  name: 'stop_agent_turn',
  title: 'Stop what an agent works on',
  effect: 'write',
  right: 'agents',
  description:
    'Stops a turn that has not ended, as the user does with /stop. A turn that runs is `stopping` until its agent has stopped, a second later at most. The conversation goes on. A turn that has ended stays as it is.',
  input: closed({ id: between(1, Number.MAX_SAFE_INTEGER, 'Id of the turn.', { examples: [12] }) }),
  output: AgentTurn,
  errors: ['not_found'],
  examples: [
    { summary: 'It is being stopped', input: { id: 12 }, output: { ...exampleTurn, stopping: true } },
  ],
  rest: { route: 'POST /agents/turns/{id}/stop', tag: 'agents' },
  cli: {
    path: ['agent', 'stop'],
    many: { form: /^\d+$/ },
    help: { id: 'Id of the turn, as svc agent turns shows it.' },
    examples: [['svc agent stop 12', 'By the id of the turn']],
  },
  async run({ agents }, { id }) {
    await agents.stopTurn(id)
    const turn = await agents.getTurn(id)
    if (!turn)
      throw new SvcError('not_found', `there is no turn ${id}`, { hint: 'List the turns to see their ids.' })
    return toTurn(turn)
  },
})

export const injectAgentTurn = defineOperation({
  name: 'inject_agent_turn',
  title: 'Give an agent a prompt, such as from cron',
  effect: 'write',
  right: 'agents',
  subject: ['agent', 'user', 'session'],
  description:
    'Gives an agent a prompt that no user wrote, such as from cron. The user gets the answer. The turn waits until `svc agent` runs.',
  input: closed({
    ...forUser,
    agent: optional.bounded(
      64,
      'Name of the agent. Default: the one that runs; of several, the one that the user chose, or talked with last.',
      { examples: ['agent'] },
    ),
    fresh: optional.flag("Use an agent session of its own, not that of the user's conversation."),
  }),
  output: AgentTurn,
  errors: ['not_found', 'session_not_found'],
  examples: [
    {
      summary: 'It waits for its agent',
      input: { user: ids.user_id, prompt: 'What is new today?' },
      output: exampleInjected,
    },
  ],
  rest: { route: 'POST /agents/turns', tag: 'agents' },
  cli: {
    path: ['agent', 'inject'],
    stdin: 'prompt',
    examples: [
      ["svc agent inject Anna 'What is new today?' --fresh", 'Anna gets the answer'],
      ['svc agent inject Anna - < prompt.txt', 'A prompt from a file'],
    ],
  },
  positionals: ['user', 'prompt'],
  async run(gateway, { agent: wanted, fresh = false, prompt, session: named, user: who }) {
    const { session, user_id: user } = await findUser(gateway, named, who)
    const agent = wanted ?? (await findAgent(gateway, session, user))
    const turn = { agent, session, user, source: 'inject', messages: [], prompt } as const
    return toTurn(await gateway.agents.addTurn({ ...turn, isFresh: fresh }))
  },
})

/** Returns the user of an id or a name, in the session or the one that the user last wrote to. @throws SvcError `not_found` */
async function findUser({ events, users }: Gateway, named: string | undefined, who: string) {
  const { session, user = who } = await events.resolveFilter({ session: named, user: who }, 'user')
  const [known] = await users.list({ user_id: user, ...(session !== undefined && { session }) })
  if (known) return known
  throw new SvcError('not_found', `the user ${user} has not written to a session that is there`, {
    next: { action: 'see', what: 'users' },
  })
}

/** Returns the agent that answers a user, if no name is given. @throws SvcError `invalid_arguments` if several may */
async function findAgent({ agents }: Pick<Gateway, 'agents'>, session: string, user: string) {
  const running = await agents.listRunning()
  const chosen = (await agents.listChoices({ session, user })).at(-1)
  const conversations = await agents.listConversations({ session, user, limit: 50 })
  const talked = [...(chosen ? [chosen] : []), ...conversations].map(({ agent }) => agent)
  const found = running.length === 0 ? (talked[0] ?? 'agent') : talked.find(one => running.includes(one))
  if (found !== undefined) return found
  if (running.length === 1) return running[0]!
  throw badArgument('agent', `expected one of those that run: ${running.join(', ')}`)
}

const exampleTime = {
  id: 4,
  session: ids.session,
  user_id: ids.user_id,
  when: 'every weekday 08:00',
  zone: 'Asia/Shanghai',
  next_at: 1767312000000,
  made_by: 'owner',
  created_at: 1767225600000,
  prompt: 'What is new today?',
}

export const listAgentTimes = defineOperation({
  name: 'list_agent_times',
  title: 'List when agents are to do something',
  effect: 'read',
  right: 'agents',
  description:
    'Lists the times that people set with /at, /every and /in, or that were added here, the next one first.',
  input: closed({ agent, session, user }),
  output: Type.Array(AgentTime, { description: 'The next one first.' }),
  errors: ['session_not_found'],
  examples: [{ summary: 'One series', input: {}, output: [exampleTime] }],
  rest: { route: 'GET /agents/times', tag: 'agents' },
  cli: {
    path: ['agent', 'times'],
    alias: 'list',
    examples: [['svc agent times', 'What agents will do, and when']],
  },
  run: async (gateway, filter, { by }) =>
    (await gateway.agents.listTimes(await resolve(gateway, filter))).map(time => toTime(time, by)),
})

const exampleTimes =
  '"tomorrow 7:30", "2026-12-24 18:00", "in 2h", "every weekday 8:00", "every mon,thu 18:30", "every 2h" or "每天8点"'

export const addAgentTime = defineOperation({
  name: 'add_agent_time',
  title: 'Let an agent do something at a time',
  effect: 'write',
  right: 'agents',
  subject: ['agent', 'user', 'session'],
  description: `At its time, the prompt becomes a turn of the agent, and the user gets the answer. A series pauses while an answer of it waits for the user. What is missed by more than an hour is not done later, and the user is told. A user may have ${mostTimes} times. The same once more changes nothing, but starts a time that stood still.`,
  input: closed({
    ...forUser,
    when: bounded(100, `A time or a series: ${exampleTimes}.`, { examples: ['every weekday 8:00'] }),
    agent: optional.bounded(64, 'Name of the agent. Default: the one that the user has chosen then.'),
    zone: optional.bounded(64, 'Time zone. Default: that of this machine.', { examples: ['Asia/Shanghai'] }),
  }),
  output: AgentTime,
  errors: ['not_found', 'session_not_found', 'window_closed'],
  examples: [
    {
      summary: 'On weekdays',
      input: { user: ids.user_id, when: 'every weekday 8:00', prompt: 'What is new today?' },
      output: exampleTime,
    },
  ],
  rest: { route: 'POST /agents/times', tag: 'agents' },
  cli: {
    path: ['agent', 'times', 'add'],
    stdin: 'prompt',
    examples: [["svc agent times add Anna 'every weekday 8:00' 'What is new?'", 'On weekdays at 8']],
  },
  positionals: ['user', 'when', 'prompt'],
  async run(gateway, { agent, prompt, session: named, user, when, zone = machineZone() }, { by }) {
    if (canonicalOf(zone) === undefined) throw badArgument('zone', 'expected one such as Asia/Shanghai')
    const { session, user_id } = await findUser(gateway, named, user)
    const known = (await gateway.agents.listAgents()).map(({ name }) => name)
    if (agent !== undefined && known.length > 0 && !known.includes(agent))
      throw badArgument('agent', `expected one of ${known.join(', ')}`)
    const read = readTime(when, { now: gateway.clock.now(), zone })
    if ('why' in read || read.rest !== '') {
      const meant = 'why' in read && read.as ? formatRule(read.as.rule, zone) : undefined
      const expected = meant
        ? `${meant}, if you mean that`
        : `a time to come, or a series such as ${exampleTimes}`
      throw badArgument(
        'when',
        `expected ${expected}; a series has ${leastMinutes} minutes or more between its times`,
        { details: withoutUndefined({ meant }) },
      )
    }
    const { due: due_at, rule } = read
    const time = { agent, session, user_id, prompt, rule, zone, due_at, made_by: formatPrincipal(by) }
    return toTime(await gateway.agents.addTime(time), by)
  },
})

export const cancelAgentTime = defineOperation({
  name: 'cancel_agent_time',
  title: 'Cancel what an agent is to do',
  effect: 'destroy',
  right: 'agents',
  description: 'Removes a time. A turn that has begun goes on.',
  input: closed({ id: between(1, Number.MAX_SAFE_INTEGER, 'Id of the time.', { examples: [4] }) }),
  output: AgentTime,
  errors: ['not_found'],
  examples: [{ summary: 'Cancelled', input: { id: 4 }, output: exampleTime }],
  rest: { route: 'DELETE /agents/times/{id}', tag: 'agents' },
  cli: {
    path: ['agent', 'times', 'cancel'],
    many: { form: /^\d+$/ },
    help: { id: 'Id of the time, as svc agent times shows it.' },
    examples: [['svc agent times cancel 4', 'By its id']],
  },
  async run({ agents }, { id }, { by }) {
    const time = await agents.removeTime(id)
    if (time) return toTime(time, by)
    throw new SvcError('not_found', `there is no time ${id}`, { hint: 'List the times to see their ids.' })
  },
})

export const listAgentQuestions = defineOperation({
  name: 'list_agent_questions',
  title: 'List what agents ask you',
  effect: 'read',
  right: 'agents',
  description:
    'Lists what agents ask their owner before they go on, oldest first. A question that was answered, or that expired, is not listed.',
  input: closed({ agent }),
  output: Type.Array(AgentQuestion, { description: 'Oldest first.' }),
  examples: [{ summary: 'One waits', output: [exampleQuestion] }],
  rest: { route: 'GET /agents/questions', tag: 'agents' },
  cli: {
    path: ['agent', 'questions'],
    examples: [['svc agent questions', 'Questions that wait for you']],
  },
  run: async ({ agents }, { agent }) => (await agents.listQuestions(agent)).map(toQuestion),
})

export const answerAgentQuestion = defineOperation({
  name: 'answer_agent_question',
  title: 'Answer what an agent asks you',
  effect: 'write',
  right: 'agents',
  // A key with this right alone may be limited to accounts and users. The question is for the owner of all of them.
  furtherRights: () => ['approve'],
  subject: ['id', 'option'],
  description:
    'Answers what an agent asks its owner before it does something. The agent goes on in the same turn. A question is answered once, within five minutes. Needs the rights agents and approve.',
  input: closed({
    id: between(1, Number.MAX_SAFE_INTEGER, 'Id of the question.', { examples: [3] }),
    option: bounded(200, 'Id of the chosen option.', { examples: ['once'] }),
  }),
  output: AgentQuestion,
  errors: ['not_found'],
  examples: [
    {
      summary: 'Allowed once',
      input: { id: 3, option: 'once' },
      output: { ...exampleQuestion, answer: 'once', answered_by: 'panel' },
    },
  ],
  rest: { route: 'POST /agents/questions/{id}/answer', tag: 'agents' },
  cli: {
    path: ['agent', 'answer'],
    help: {
      id: 'Id of the question, as svc agent questions shows it.',
      option: 'Id of the option, as svc agent questions shows it.',
    },
    examples: [['svc agent answer 3 once', 'The option "once" of question 3']],
  },
  positionals: ['id', 'option'],
  async run({ agents }, { id, option }, { by }) {
    const question = await agents.getQuestion(id)
    const notOpen = (problem: string) =>
      new SvcError('not_found', problem, { hint: 'List the questions to see which are open.' })
    if (!question) throw notOpen(`there is no question ${id}`)
    const options = question.options.map(one => one.id)
    if (!options.includes(option)) throw badArgument('option', `expected one of ${options.join(', ')}`)
    if (!(await agents.answer(id, option, formatPrincipal(by))))
      throw notOpen(`question ${id} is not open any more`)
    return toQuestion((await agents.getQuestion(id))!)
  },
})

/** The store as the process of one agent uses it. */
export interface AgentWork
  extends Omit<AgentStore, 'listTurns' | 'readAsked' | 'listConversations' | 'prune'> {
  /** Registers the consumer of an agent, if it is new: it reads what comes from then on. */
  begin(agent: string): Promise<void>
  /** Same as `EventReader.followSession`. */
  followSession(name: string): () => Promise<{ session: string }>
  /** Same as `Asks.takes`. */
  takesAsAnswer(message: Message): Promise<TakenAsAnswer>
  /** Same as `saveState`, for a choice of a person: with a line in the audit log. */
  steer: AgentStore['saveState']
}

export const workAsAgent = defineOperation({
  name: 'work_as_agent',
  title: 'Work on the turns of an agent',
  effect: 'write',
  audited: false,
  right: 'agents',
  description: 'Returns the methods with which the process of an agent keeps its turns.',
  output: Type.Unsafe<AgentWork>({ type: 'object' }),
  run: async ({ agents, asks, audit, clock, events, inbox }) => ({
    ...agents,
    begin: agent => inbox.begin(consumerOf(agent), { atEnd: true }),
    async chooseAgent(person, choice) {
      const isNew = await agents.chooseAgent(person, choice)
      if (isNew) await audit.add(lineOf('choose_agent', { ...person, agent: choice.agent }, clock.now()))
      return isNew
    },
    async steer(key, state) {
      const isSaved = await agents.saveState(key, state)
      if (isSaved) await audit.add(lineOf('steer_agent', key, clock.now()))
      return isSaved
    },
    followSession: name => events.followSession(name),
    takesAsAnswer: message => asks.takes(message),
  }),
})

/** Returns the line of the audit log about what a user chose in the chat. */
const lineOf = (operation: string, { agent, session, user }: ConversationKey, at: number) => ({
  at,
  principal: formatPrincipal({ kind: 'agent', id: commonAgent }),
  operation,
  subject: `${agent} ${user} ${session}`,
  outcome: 'done',
})

/** Resolves the names in a filter to ids. */
async function resolve(
  { events }: Pick<Gateway, 'events'>,
  { agent, ...filter }: { agent?: string; session?: string; user?: string },
) {
  return { agent, ...(await events.resolveFilter(filter, 'user')) }
}

function toConversation({ isAsking, isChosen, open, user, ...rest }: StoredConversation): AgentConversation {
  const works = open === 'waiting' ? 'waiting' : 'running'
  const status = isAsking ? 'asking' : open === undefined ? 'idle' : works
  return withoutUndefined({ ...rest, user_id: user, status, chosen: isChosen || undefined })
}

function toTime(
  { due_at, isWaiting, missed_at: _, prompt, rule, ...time }: StoredTime,
  by: Principal,
): AgentTime {
  return withoutUndefined({
    ...time,
    when: formatRule(rule, time.zone),
    next_at: due_at,
    paused: due_at === undefined ? 'copy' : isWaiting ? 'answer' : undefined,
    prompt: hasRight(by, 'history') ? prompt : undefined,
  })
}

function toTurn({ answer: _, isFresh: _fresh, prompt: _prompt, ...turn }: StoredTurn): AgentTurn {
  return withoutUndefined(turn)
}

/** Returns what a turn is about, as the history has it. @param asked texts of messages */
function textsOf({ answer, messages, prompt }: StoredTurn, asked: ReadonlyMap<number, TurnPart>) {
  const cut = ({ kind = 'TEXT', text }: { kind?: TurnPart['kind']; text: string }): TurnPart => {
    const isLong = text.length > turnPartLength
    return { kind, text: isLong ? `${text.slice(0, turnPartLength - 1).toWellFormed()}…` : text }
  }
  const known = prompt === undefined ? messages.flatMap(id => asked.get(id) ?? []) : [{ text: prompt }]
  const parts = answer?.parts.map(part =>
    'text' in part ? part : { kind: part.kind.toUpperCase() as TurnPart['kind'], text: part.name ?? '' },
  )
  return { ...(known.length > 0 && { prompt: known.map(cut) }), ...(parts && { answer: parts.map(cut) }) }
}

/** Returns what became of the drafts of an answer; undefined if a person approved them. */
async function approvalOf(
  { outbox }: Pick<Gateway, 'outbox'>,
  { answer, drafts = [] }: StoredQuestion,
): Promise<AgentTurn['approval']> {
  if (answer === 'send' || answer === 'discard') return answer === 'send' ? undefined : 'declined'
  // The outbox knows what was decided outside the chat. The caller may see the turn, but perhaps not the outbox.
  const entries = await Promise.all(drafts.map(id => outbox.get(owner, String(id)).catch(() => undefined)))
  if (entries.some(entry => entry?.waits_for === 'approval')) return 'waits'
  const parts = entries.flatMap(entry => entry?.parts ?? [])
  return parts.length > 0 && parts.every(({ status }) => status === 'refused') ? 'declined' : undefined
}

function toQuestion({ code: _, drafts: _drafts, entry, message_id, sent_at, ...question }: StoredQuestion) {
  return withoutUndefined<AgentQuestion>(question)
}
