/** Random steps of agents in front of WeChat: their turns, conversations and questions (`src/storage/agents.ts`). */
import fc from 'fast-check'
import { turnStatuses } from '../../../src/model/agent.ts'
import type {
  AgentStore,
  ConversationKey,
  StoredQuestion,
  StoredTime,
  StoredTurn,
} from '../../../src/storage/agents.ts'
import { insert } from '../support.ts'
import {
  compare,
  filled,
  idle,
  maybe,
  namesUser,
  rarely,
  received,
  renames,
  type Side,
  sorted,
  storeOf,
  timePasses,
  type Verb,
  verbsOf,
} from './compare.ts'

interface Notes {
  turns: number[]
  questions: number[]
  times: number[]
  rows: number[]
  count: number
}
type Here = Side<Notes>
const verb = verbsOf<Notes>()

const agent = fc.constantFrom('home', 'work')
const session = fc.constantFrom('s', 't')
const user = fc.constantFrom('u', 'v')
const key = fc.record({ agent, session: fc.constantFrom('s', 's', 't'), user })
const person = fc.record({ session, user })
const entry = fc.record({
  about: fc.constantFrom('codex exec', 'a model'),
  allow: fc.constantFrom('everyone' as const, [], ['u', 'v']),
  users: maybe(fc.constant(['v'])),
  besides: maybe(fc.constant({ users: ['u'], sessions: ['s'] })),
  operator: maybe(fc.constantFrom('', 'u')),
  commands: fc.boolean(),
  place: fc.constantFrom(0, 1),
  group: fc.constant('home'),
})
const nth = fc.nat(4)
const limit = fc.integer({ min: 1, max: 4 })
const filter = { agent: maybe(agent), session: maybe(fc.constantFrom('s', 'T')), user: maybe(user), limit }
const isOther = rarely

const turnOf = ({ notes: { turns } }: Here, nth: number) => turns.at(-1 - nth) ?? 0
const questionOf = ({ notes: { questions } }: Here, nth: number) => questions.at(-1 - nth) ?? 0

const timeOf = ({ notes: { times } }: Here, nth: number) => times.at(-1 - nth) ?? 0

/** Numbers of turns, questions and times may have gaps. */
const shown = ({ notes }: Here, turn: StoredTurn | undefined) =>
  turn && { ...turn, id: notes.turns.indexOf(turn.id) }
const shownQuestion = ({ notes }: Here, question: StoredQuestion | undefined) =>
  question && {
    ...question,
    id: notes.questions.indexOf(question.id),
    turn: notes.turns.indexOf(question.turn),
  }
const shownTime = ({ notes }: Here, time: StoredTime | undefined) =>
  time && { ...time, id: notes.times.indexOf(time.id) }
/** Keys may have more fields. */
const shownKey = ({ agent, session, user }: ConversationKey) => `${agent} ${session} ${user}`

/** Where agents began to read differs: only one engine has gaps. */
const shownAgents = async ({ notes }: Here, store: Here['store']) =>
  (await store.agents.listAgents()).map(({ since, ...one }) => ({
    ...one,
    begins: notes.rows.findIndex(row => row > since),
  }))

const addTurn = async (side: Here, isOther: boolean, ...turn: Parameters<AgentStore['addTurn']>) => {
  const added = await storeOf(side, isOther).agents.addTurn(...turn)
  if (!side.notes.turns.includes(added.id)) side.notes.turns.push(added.id)
  return shown(side, added)
}

const agents = {
  claimAgent: verb(
    { agent, isOther, only: maybe(session), entry: maybe(entry) },
    (side, { agent, isOther, only, entry }) =>
      storeOf(side, isOther).agents.claimAgent(agent, only, entry && filled(entry)),
    2,
  ),
  listAgents: verb({ isOther }, async (side, { isOther }) => shownAgents(side, storeOf(side, isOther))),
  chooseAgent: verb(
    { person, nth, agent, isOther },
    async (side, { person, nth, agent, isOther }) => {
      const message = side.notes.rows.at(-1 - nth)
      return message === undefined
        ? idle
        : storeOf(side, isOther).agents.chooseAgent(person, { message, agent })
    },
    3,
  ),
  listChoices: verb({ person }, async (side, { person }) =>
    (await side.store.agents.listChoices(person)).map(({ agent, message }) => [
      agent,
      side.notes.rows.indexOf(message),
    ]),
  ),
  listRunning: verb({ isOther, only: maybe(session) }, async (side, { isOther, only }) =>
    sorted(await storeOf(side, isOther).agents.listRunning(only)),
  ),
  listMissed: verb({ agent, isOther, nth: maybe(nth), of: maybe(user) }, async (side, input) => {
    const { agent, isOther, nth, of } = input
    const among = nth === undefined ? undefined : side.notes.rows.slice(-1 - nth)
    return (await storeOf(side, isOther).agents.listMissed(agent, among, of)).map(
      ({ id: _, ...missed }) => missed,
    )
  }),
  releaseAgent: verb({ agent, isOther }, (side, { agent, isOther }) =>
    storeOf(side, isOther).agents.releaseAgent(agent),
  ),
  addTurn: verb(
    {
      key,
      rows: fc.uniqueArray(nth, { maxLength: 3 }),
      prompt: maybe(fc.constant('go')),
      isFresh: maybe(fc.boolean()),
      isOther,
    },
    (side, { key, rows, isOther, ...more }) => {
      const messages = rows
        .flatMap(nth => side.notes.rows.at(-1 - nth) ?? [])
        .sort((one, other) => one - other)
      const source = messages.length > 0 ? 'message' : 'inject'
      return addTurn(side, isOther, filled({ ...key, source, messages, ...more } as const))
    },
    4,
  ),
  listWork: verb({ agent, isOther }, async (side, { agent, isOther }) =>
    (await storeOf(side, isOther).agents.listWork(agent)).map(shownKey).sort(),
  ),
  claim: verb(
    { key, isOther },
    async (side, { key, isOther }) => {
      const claimed = await storeOf(side, isOther).agents.claim(key)
      return claimed && { ...claimed, turns: claimed.turns.map(turn => shown(side, turn)) }
    },
    5,
  ),
  renew: verb({ isOther }, (side, { isOther }) => storeOf(side, isOther).agents.renew()),
  release: verb({ key, isOther }, (side, { key, isOther }) => storeOf(side, isOther).agents.release(key)),
  changeTurn: verb(
    {
      nth,
      isOther,
      change: fc.record({
        ...{
          status: maybe(fc.constantFrom(...turnStatuses)),
          started_at: maybe(nth),
          ended_at: maybe(nth),
          parts_sent: maybe(nth),
        },
        ...{
          error: maybe(fc.constant('failed')),
          answer: maybe(fc.constant({ parts: [{ text: 'a' }, { text: 'b' }] })),
        },
      }),
    },
    (side, { nth, isOther, change }) =>
      storeOf(side, isOther).agents.changeTurn(turnOf(side, nth), filled(change)),
    6,
  ),
  saveState: verb(
    {
      key,
      isOther,
      agent_session: maybe(fc.constant('x1')),
      folder: maybe(fc.constant('/f')),
      model: maybe(fc.constant('large')),
      shown: maybe(fc.constant([{ agent_session: 'x1', folder: '/f', at: 1 }])),
    },
    (side, { key, isOther, ...state }) => storeOf(side, isOther).agents.saveState(key, filled(state)),
    2,
  ),
  joinTurns: verb(
    { nths: fc.array(nth, { minLength: 1, maxLength: 4 }), isOther },
    (side, { nths, isOther }) =>
      storeOf(side, isOther).agents.joinTurns([...new Set(nths.map(nth => turnOf(side, nth)))]),
  ),
  stopTurn: verb({ nth, isOther }, (side, { nth, isOther }) =>
    storeOf(side, isOther).agents.stopTurn(turnOf(side, nth)),
  ),
  getTurn: verb({ nth }, async (side, { nth }) =>
    shown(side, await side.store.agents.getTurn(turnOf(side, nth))),
  ),
  listTurns: verb({ ...filter, before: maybe(nth) }, async (side, { before, ...filter }) => {
    const wanted = { ...filter, before: before === undefined ? undefined : turnOf(side, before) }
    return (await side.store.agents.listTurns(filled(wanted))).map(turn => shown(side, turn))
  }),
  readAsked: verb({ nth }, async ({ notes, store }, { nth }) => {
    const asked = await store.agents.readAsked(notes.rows.slice(-1 - nth))
    return notes.rows.map(id => asked.get(id))
  }),
  findMore: verb({ key }, async (side, { key }) => shown(side, await side.store.agents.findMore(key))),
  listConversations: verb(filter, ({ store }, filter) => store.agents.listConversations(filled(filter))),
  isWorkedOn: verb({ user }, ({ store }, { user }) => store.agents.isWorkedOn(user)),
  countTurns: verb({ agent, agoMs: fc.constantFrom(0, 1000, 60_000) }, ({ store, clock }, { agent, agoMs }) =>
    store.agents.countTurns(agent, clock.at - agoMs),
  ),
  ask: verb(
    {
      nth,
      code: fc.constantFrom('K7QX', 'AB12', 'CD34'),
      drafts: maybe(fc.constantFrom([1], [2, 3])),
      inMs: fc.constantFrom(500, 30_000),
      isOther,
    },
    async (side, { nth, code, drafts, inMs, isOther }) => {
      const turn = turnOf(side, nth)
      if (turn === 0) return idle
      const options = [
        { id: 'yes', name: 'Yes', kind: 'allow_once' } as const,
        { id: 'no', name: 'No', kind: 'reject_once' } as const,
      ]
      const question = { turn, text: 'May I?', options, code, expires_at: side.clock.at + inMs }
      side.notes.questions.push(await storeOf(side, isOther).agents.ask(filled({ ...question, drafts })))
    },
    3,
  ),
  answer: verb(
    { nth, option: fc.constantFrom('yes', 'no', 'maybe'), isOther },
    (side, { nth, option, isOther }) =>
      storeOf(side, isOther).agents.answer(questionOf(side, nth), option, 'owner'),
  ),
  closeQuestion: verb({ nth, option: fc.constantFrom('no', 'other') }, (side, { nth, option }) =>
    side.store.agents.closeQuestion(questionOf(side, nth), option),
  ),
  changeQuestion: verb(
    {
      nth,
      entry: maybe(nth),
      message_id: maybe(fc.constant('m1')),
      sent_at: maybe(nth),
      inMs: maybe(fc.constantFrom(100, 60_000)),
    },
    (side, { nth, inMs, ...change }) => {
      const expires_at = inMs === undefined ? undefined : side.clock.at + inMs
      return side.store.agents.changeQuestion(questionOf(side, nth), filled({ ...change, expires_at }))
    },
  ),
  noteAnswer: verb({ nth, row: nth }, (side, { nth, row }) =>
    side.store.agents.noteAnswer(questionOf(side, nth), side.notes.rows.at(-1 - row) ?? 0),
  ),
  findAsker: verb({ row: nth }, (side, { row }) =>
    side.store.agents.findAsker(side.notes.rows.at(-1 - row) ?? 0),
  ),
  getQuestion: verb({ nth }, async (side, { nth }) =>
    shownQuestion(side, await side.store.agents.getQuestion(questionOf(side, nth))),
  ),
  listQuestions: verb({ agent: maybe(agent) }, async (side, { agent }) =>
    (await side.store.agents.listQuestions(agent)).map(one => shownQuestion(side, one)),
  ),
  listDrafts: verb({}, async side =>
    (await side.store.agents.listDrafts()).map(one => shownQuestion(side, one)),
  ),
  addTime: verb(
    {
      ...{ session, user_id: user, agent: maybe(agent), prompt: fc.constantFrom('a', 'b'), isOther },
      ...{ rule: fc.constantFrom({ at: 5 }, { minutes: 30 }), inMs: maybe(fc.constantFrom(0, 1000)) },
    },
    async (side, { inMs, isOther, ...time }) => {
      const due_at = inMs === undefined ? undefined : side.clock.at + inMs
      const added = await storeOf(side, isOther).agents.addTime(
        filled({ ...time, zone: 'UTC', due_at, made_by: 'owner' }),
      )
      if (!side.notes.times.includes(added.id)) side.notes.times.push(added.id)
      return shownTime(side, added)
    },
    3,
  ),
  listTimes: verb(
    { agent: maybe(agent), session: maybe(session), only: maybe(fc.constantFrom('due', 'missed')) },
    async (side, filter) =>
      (await side.store.agents.listTimes(filled(filter))).map(time => shownTime(side, time)),
  ),
  removeTime: verb({ nth, isOther }, async (side, { nth, isOther }) =>
    shownTime(side, await storeOf(side, isOther).agents.removeTime(timeOf(side, nth))),
  ),
  passTime: verb(
    { nth, isOther, inMs: maybe(fc.constantFrom(500)), missed_at: maybe(nth), by: maybe(agent) },
    async (side, { nth, by, inMs, isOther, missed_at }) => {
      const { agents } = storeOf(side, isOther)
      const time = (await agents.listTimes({})).find(({ id }) => id === timeOf(side, nth))
      if (!time) return idle
      const next = inMs === undefined ? undefined : side.clock.at + inMs
      const passed = await agents.passTime(time, {
        ...{ due_at: next, missed_at },
        ...(by && { turn: { agent: by, prompt: 'now' } }),
      })
      const [turn] = by && passed ? await agents.listTurns({ agent: by, limit: 1 }) : []
      if (turn) side.notes.turns.push(turn.id)
      return passed
    },
    3,
  ),
  removeOld: verb(
    { kind: fc.constantFrom('turn', 'question'), agoMs: fc.constantFrom(0, 1000) },
    ({ store, clock }, { agoMs, kind }) => store.maintenance.removeOld(kind, clock.at - agoMs),
  ),
} satisfies Record<keyof AgentStore | 'removeOld', Verb<Notes>>

const around = {
  timePasses: timePasses(500, 29_000, 61_000),
  arrive: verb(
    { session, from_user: user },
    async (side, { session, from_user }) => {
      const nth = ++side.notes.count
      const rows = await insert(side, [received(`m${nth}`, nth, { from_user })], session)
      side.notes.rows.push(...rows.map(Number))
    },
    3,
  ),
  name: namesUser(session, user),
  reads: verb({ agent }, ({ store }, { agent }) =>
    store.consumers.register(`agent-${agent}`, { atEnd: true }),
  ),
  rename: renames(),
}

async function state(side: Here) {
  const { agents } = side.store
  const [turns, conversations, questions, drafts, times, running, others, known, ...work] = await Promise.all(
    [
      agents.listTurns({ limit: 500 }),
      agents.listConversations({ limit: 500 }),
      Promise.all(side.notes.questions.map(id => agents.getQuestion(id))),
      agents.listDrafts(),
      agents.listTimes({}),
      agents.listRunning(),
      side.other.store.agents.listRunning(),
      shownAgents(side, side.store),
      ...['home', 'work'].map(agent => agents.listWork(agent)),
    ],
  )
  return {
    turns: turns.map(turn => shown(side, turn)),
    conversations,
    questions: questions.map(one => shownQuestion(side, one)),
    drafts: drafts.map(one => shownQuestion(side, one)),
    times: times.map(one => shownTime(side, one)),
    running: [running.sort(), others.sort()],
    known,
    work: work.map(keys => keys.map(shownKey).sort()),
  }
}

export const compareAgents = () =>
  compare({
    notes: (): Notes => ({ turns: [], questions: [], times: [], rows: [], count: 0 }),
    verbs: { ...around, ...agents },
    state,
  })
