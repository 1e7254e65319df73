/** What a bridge to an agent needs of the library: several open messages, parts with a grant, and turns. */
import { expect, test } from 'bun:test'
import type { OpenMessage, Svc } from '../../src/index.ts'
import { failure } from '../support/failure.ts'
import { withLibrary } from '../support/library.ts'
import { until } from '../support/until.ts'

/** Opens the next messages of a consumer, and leaves the loop. */
async function openNext(svc: Svc, count: number, consumer = 'bridge'): Promise<OpenMessage[]> {
  const opened: OpenMessage[] = []
  for await (const open of svc.openMessages({ consumer })) {
    opened.push(open)
    if (opened.length === count) break
  }
  return opened
}
const textsOf = (opened: readonly OpenMessage[]) =>
  opened.map(({ message: { redelivered = false, text } }) => `${text}${redelivered ? ' again' : ''}`)

test('several messages are open at once, and settled in any order', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  for (const text of ['a', 'b', 'c', 'd']) await t.sandbox.say(text)
  const opened = await openNext(svc, 4)
  expect(textsOf(opened)).toEqual(['a', 'b', 'c', 'd'])
  const [a, b, c, d] = opened as [OpenMessage, OpenMessage, OpenMessage, OpenMessage]
  await d.settle(true)
  await b.settle(false)
  await a.settle(true)
  // Twice is once.
  await a.settle(true)
  expect(textsOf(await openNext(svc, 1))).toEqual(['b again'])
  await c.settle(false)
  const [again] = await openNext(svc, 1)
  expect(textsOf([again!])).toEqual(['c again'])
  await again!.settle(true)
  // Another consumer has its own position.
  await t.sandbox.say('e')
  expect(textsOf(await openNext(svc, 1))).toEqual(['e'])
})

test('what is open when the program ends comes again in the next one', async () => {
  await using t = await withLibrary()
  const first = await t.open({ store: true })
  for (const text of ['a', 'b', 'c']) await t.sandbox.say(text)
  const [, b] = await openNext(first, 3)
  await b!.settle(true)
  await first.close()
  const second = await t.open({ store: true })
  // The process of the first one lives, so what it had is free when its time is over.
  t.clock.advance(31_000)
  const again = await openNext(second, 2)
  expect(textsOf(again)).toEqual(['a again', 'c again'])
})

test('a new reader gets what comes between its start and its first claim', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const start = svc.runBackground.bind(svc)
  svc.runBackground = async () => {
    await start()
    await until('the message is stored', 10_000, async () => (await svc.history()).messages.length === 1)
  }
  await t.sandbox.say('a')
  expect(textsOf(await openNext(svc, 1))).toEqual(['a'])
})

test('the iteration ends with its signal, and what is open then can be settled', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  await t.sandbox.say('a')
  const stop = new AbortController()
  const opened: OpenMessage[] = []
  for await (const open of svc.openMessages({ consumer: 'bridge', signal: stop.signal })) {
    opened.push(open)
    stop.abort()
  }
  await opened[0]!.settle(true)
  await t.sandbox.say('b')
  expect(textsOf(await openNext(svc, 1))).toEqual(['b'])
  const wrong = svc.openMessages({ consumer: 'not a name' }).next()
  expect(await failure(wrong)).toMatchObject({ code: 'invalid_arguments' })
})

test('a part does what its grant allows, with its users, and is named for it', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true, pace: 'off' })
  const { bot_id: to, user_id: anna } = t.bots.get('default')!
  const bert = await t.sandbox.addUser('Bert')
  await t.sandbox.say('secret', { from: bert, to })
  await t.sandbox.say('hello')
  for (const open of await openNext(svc, 2)) await open.settle(true)
  const part = svc.as({ name: 'home', can: ['reply', 'typing'], users: [anna] })
  expect(await part.send({ to: anna, text: 'Hi' })).toMatchObject({ success: true })
  await part.showTyping(anna)
  expect((await part.users()).map(({ user_id }) => user_id)).toEqual([anna])
  const { messages } = await part.history()
  expect(messages.map(({ text }) => text)).toEqual(['Hi', 'hello'])
  const ofPart = { principal: 'agent:home', operation: 'send' }
  expect(await svc.audit({ operation: 'send' })).toMatchObject([ofPart])
  // What it may not see is not there.
  const stranger = await failure(part.send({ to: bert, text: 'Hi' }))
  const nobody = await failure(part.send({ to: 'nobody@im.wechat', text: 'Hi' }))
  const { code } = stranger as { code?: string }
  expect({ code }).toEqual({ code: (nobody as { code?: string }).code })
  expect((await part.history({ user_id: bert })).messages).toEqual([])
  const reader = svc.as({ name: 'reader', can: ['history'] })
  expect(await failure(reader.send({ to: anna, text: 'Hi' }))).toMatchObject({ code: 'forbidden' })
  expect(await failure(reader.showTyping(anna))).toMatchObject({ code: 'forbidden' })
  expect((await reader.history()).messages).toHaveLength(3)
  // The denied calls of a part are lines, too.
  const denied = { principal: 'agent:reader', outcome: 'denied' }
  expect(await svc.audit({ principal: 'agent:reader' })).toMatchObject([denied, denied])
  // A draft of a part waits for a person.
  const drafter = svc.as({ name: 'drafter', can: ['draft'] })
  expect(await drafter.send({ to: anna, text: 'May I?' })).toMatchObject({ waits_for: 'approval' })
})

test('a part with wrong words, and a queue without a store, are errors', async () => {
  await using t = await withLibrary()
  const svc = await t.open()
  const wrong = [
    { name: '../x', can: ['reply'] },
    { name: '', can: ['reply'] },
    { name: 'home', can: ['reply', 'everything'] },
    { name: 'home', can: ['agents'], users: ['a@b'] },
    { name: 'home', can: ['approve', 'send'] },
  ] as unknown as Parameters<Svc['as']>[0][]
  for (const grant of wrong)
    expect(await failure(Promise.try(() => svc.as(grant)))).toMatchObject({ code: 'invalid_arguments' })
  const part = svc.as({ name: 'home', can: ['reply'] })
  const queued = part.send({ to: 'a@b', text: 'x', when_closed: 'queue' })
  expect(await failure(queued)).toMatchObject({ code: 'invalid_arguments' })
  await svc.close()
  expect(await failure(part.history())).toMatchObject({ code: 'shutting_down' })
})

test('times are added, listed and cancelled, with the words for callers who may read', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const { user_id: anna } = t.bots.get('default')!
  await t.sandbox.say('hello')
  await openNext(svc, 1)
  await svc.nameUser(anna, 'Anna')
  const { addTime, cancelTime, times } = svc.agents
  const zone = 'Asia/Shanghai'
  const time = await addTime('Anna', '每个工作日8点', 'What is new?', { zone })
  expect(time).toEqual({
    ...{ id: time.id, session: 'default', user_id: anna, zone, prompt: 'What is new?', made_by: 'owner' },
    ...{
      when: 'every weekday 08:00',
      next_at: expect.any(Number),
      created_at: expect.any(Number),
    },
  })
  expect(await addTime('Anna', time.when, 'What is new?', { zone })).toEqual(time)
  const soon = await addTime(anna, 'in 2h', 'Water', { agent: 'home' })
  expect(soon).toMatchObject({ agent: 'home', zone: expect.any(String) })
  expect((await times()).map(({ id }) => id)).toEqual(
    [time, soon].sort((a, b) => a.next_at! - b.next_at!).map(({ id }) => id),
  )
  expect((await times({ user: 'Anna', agent: 'home' })).map(({ id }) => id)).toEqual([soon.id])
  const work = await svc.workAsAgent()
  await work.passTime(
    { ...time, due_at: time.next_at, rule: { minutes: 1 } },
    { due_at: 7, turn: { agent: 'home', prompt: 'x' } },
  )
  expect((await times()).find(({ id }) => id === time.id)).toMatchObject({ next_at: 7, paused: 'answer' })
  for (const [when, more, field] of [
    ['soon', {}, 'when'],
    ['8:00 and words', {}, 'when'],
    ['every 5 min', {}, 'when'],
    ['2020-01-01 8:00', {}, 'when'],
    ['8:00', { zone: 'Mars/Olympus' }, 'zone'],
    ['8:00', { zone: '+08:00' }, 'zone'],
  ] as const)
    expect(await failure(addTime('Anna', when, 'x', more))).toMatchObject({
      code: 'invalid_arguments',
      details: { errors: [{ field }] },
    })
  expect(await failure(addTime('nobody@im.wechat', '8:00', 'x'))).toMatchObject({ code: 'not_found' })
  expect(await cancelTime(soon.id)).toMatchObject({ id: soon.id })
  expect(await failure(cancelTime(soon.id))).toMatchObject({ code: 'not_found' })
  const audit = (await svc.audit({ limit: 20 })).map(({ operation, subject }) => [operation, subject])
  expect(audit).toContainEqual(['cancel_agent_time', `${soon.id}`])
  expect(audit).toContainEqual(['add_agent_time', expect.stringContaining(anna)])
})

test('turns are kept for the process of an agent, and shown to everybody', async () => {
  await using t = await withLibrary()
  const svc = await t.open({ store: true })
  const { user_id: anna } = t.bots.get('default')!
  await t.sandbox.say('hello')
  const [open] = await openNext(svc, 1)
  await svc.nameUser(anna, 'Anna')
  const key = { agent: 'home', session: 'default', user: anna }
  const work = await svc.workAsAgent()
  const turn = await work.addTurn({ ...key, source: 'message', messages: [open!.message.id] })
  await open!.settle(true)
  const other = await t.open({ store: true })
  const injected = await other.agents.inject('Anna', 'What is new?', { agent: 'home', fresh: true })
  expect(injected).toMatchObject({ status: 'waiting', source: 'inject', user_id: anna, session: 'default' })
  expect(injected).not.toHaveProperty('prompt')
  expect(await work.listWork('home')).toEqual([key])
  expect((await work.claim(key))?.turns).toMatchObject([
    { id: turn.id },
    { id: injected.id, prompt: 'What is new?', isFresh: true },
  ])
  await work.changeTurn(turn.id, { status: 'running', started_at: 1 })
  expect(await other.agents.conversations()).toMatchObject([
    { user_name: 'Anna', status: 'running', turns: 2 },
  ])
  expect(await other.agents.stop(turn.id)).toMatchObject({ status: 'running', stopping: true })
  const question = await work.ask({
    ...{ turn: turn.id, text: 'May I?', code: 'K7QX', expires_at: t.clock.now() + 60_000 },
    options: [{ id: 'yes', name: 'Yes', kind: 'allow_once' }],
  })
  const [asked] = await other.agents.questions({ agent: 'home' })
  expect(asked).toMatchObject({ id: question, turn: turn.id, user_id: anna, options: [{ id: 'yes' }] })
  // The code is for the owner's chat alone.
  expect(asked).not.toHaveProperty('code')
  const wrong = await failure(other.agents.answer(question, 'no'))
  expect(wrong).toMatchObject({ code: 'invalid_arguments', details: { errors: [{ field: 'option' }] } })
  expect(await other.agents.answer(question, 'yes')).toMatchObject({ answer: 'yes', answered_by: 'owner' })
  expect(await failure(other.agents.answer(question, 'yes'))).toMatchObject({ code: 'not_found' })
  expect(await failure(other.agents.answer(99, 'yes'))).toMatchObject({ code: 'not_found' })
  expect(await failure(other.agents.stop(99))).toMatchObject({ code: 'not_found' })
  expect(await work.getQuestion(question)).toMatchObject({ answer: 'yes' })
  const audit = (await svc.audit({ limit: 20 })).map(({ operation, subject }) => [operation, subject])
  expect(audit).toContainEqual(['answer_agent_question', `${question} yes`])
  expect(audit).toContainEqual(['stop_agent_turn', `${turn.id}`])
  // The name that was given is resolved: the line has the id.
  expect(audit).toContainEqual(['inject_agent_turn', expect.stringMatching(/^\d+ \S+ \S+@im\.wechat$/)])
  const nobody = other.agents.inject('nobody@im.wechat', 'x')
  expect(await failure(nobody)).toMatchObject({ code: 'not_found' })
  expect(await failure(other.agents.conversations({ session: 'nope' }))).toMatchObject({
    code: 'session_not_found',
  })
})
