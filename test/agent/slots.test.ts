/** Many messages within the pace of sending: an answer that waits says when it comes, and commands find a slot. */
import { expect, test } from 'bun:test'
import type { AgentConfig } from '../../src/agent/config.ts'
import { PaceSlots } from '../../src/agent/slots.ts'
import type { Message, Svc } from '../../src/index.ts'
import { testClock } from '../support/clock.ts'
import { PlayedBackend, withAgents } from './support.ts'

const pace = { perSecond: Number.POSITIVE_INFINITY, perWindow: 10, windowMs: 300_000 }
const chat = { session: 's', user_id: 'u' }

test('slots are counted from what was sent: joined texts once, what waits too, refused ones and drafts not', async () => {
  const now = 1_767_225_600_000
  const clock = { ...testClock(), now: () => now }
  const sent = (agoMs: number, more: Partial<Message> = {}) =>
    ({ status: 'accepted', timestamp: now - agoMs, ...more }) as Message
  const messages = [
    sent(1000, { status: 'queued' }),
    sent(0, { status: 'queued', reason_code: 'approval' }),
    sent(2000, { status: 'unknown' }),
    sent(2000, { sent_with: 'x' }),
    sent(3000, { status: 'refused' }),
    sent(100_000),
    sent(200_000),
    sent(400_000),
  ]
  const svc = { history: async () => ({ messages }) } as unknown as Pick<Svc, 'history'>
  const look = (perWindow: number) => new PaceSlots({ svc, clock, pace: { ...pace, perWindow } }).look(chat)
  const slots = await look(10)
  expect(slots.free).toBe(6)
  expect(slots.freeAt(6)).toBe(now)
  expect([7, 8, 9].map(count => slots.freeAt(count) - now)).toEqual([100_000, 200_000, 298_000])
  const few = await look(3)
  expect(few.free).toBe(-1)
  expect(few.freeAt(1) - now).toBe(200_000)
  expect((await new PaceSlots({ svc, clock }).look(chat)).free).toBe(Number.POSITIVE_INFINITY)
})

async function withPace(config: Partial<AgentConfig> = {}) {
  const agents = await withAgents()
  const backend = new PlayedBackend(({ text }) => `to ${text}`)
  await agents.start(backend, config, { pace }, { pace: '100/s,10/5m' })
  return { agents, backend }
}

test('13 messages and commands: nothing is silent for minutes, and all answers come', async () => {
  const { agents, backend } = await withPace()
  await using _ = agents
  const { clock } = agents.library
  for (let nth = 1; nth <= 13; nth++) {
    await agents.say(`message ${nth}`)
    await agents.until('it was read', async () => (await agents.turns()).length === nth)
  }
  // Seven answers, and the word about the eighth.
  await agents.gets(8)
  expect(backend.runs.length).toBe(7)
  await agents.say('/status')
  const [, status] = (await agents.gets(9)).slice(7)
  expect(status).toMatch(/\d/)
  await agents.say('/help')
  await agents.gets(10)
  // No slot is free: an answer to a command waits, and the next one takes its place.
  await agents.say('/status')
  await agents.until('it waits', () => agents.count("outbox_part WHERE status = 'queued'") === 1)
  await agents.say('/help')
  await agents.until('only that waits', () => agents.count("outbox_part WHERE status = 'refused'") === 1)
  const texts = await agents.got()
  expect(texts.slice(0, 7)).toEqual(Array.from({ length: 7 }, (_, nth) => `to message ${nth + 1}`))
  for (let passed = 0; (await agents.turns()).some(({ ended_at }) => !ended_at); passed++) {
    if (passed > 300) throw new Error(JSON.stringify(await agents.got()))
    clock.advance(10_000)
    // A message on its way may not take ten seconds.
    await agents.until(
      'it looks',
      () => clock.sleeps(1, 1000) && agents.count("outbox_part WHERE status = 'sending'") === 0,
    )
  }
  // The messages that would have waited for one another's slots are one turn.
  expect(backend.runs.length).toBe(8)
  const rest = Array.from({ length: 6 }, (_, nth) => `message ${nth + 8}`).join('\n')
  expect((await agents.got()).at(-1)).toBe(`to ${rest}`)
  expect((await agents.turns()).map(({ messages }) => messages.length)).toEqual([1, 1, 1, 1, 1, 1, 1, 6])
})

test('an interruption does not end a message that has not begun', async () => {
  const { agents, backend } = await withPace({ interrupt: true })
  await using _ = agents
  for (let nth = 1; nth <= 9; nth++) {
    await agents.say(`message ${nth}`)
    await agents.until('it was read', async () => (await agents.turns()).length === nth)
    if (nth < 8) await agents.gets(nth)
  }
  await agents.gets(8)
  agents.library.clock.advance(pace.windowMs)
  await agents.gets(9)
  expect(backend.runs.at(-1)!.prompt.text).toBe('message 8\nmessage 9')
})

test('a long answer takes all slots but one; /more says when the rest can come, and sends it then', async () => {
  await using agents = await withAgents()
  const { clock } = agents.library
  const long = Array.from({ length: 60 }, (_, nth) => `paragraph ${nth} ${'word '.repeat(200)}`).join('\n\n')
  await agents.start(new PlayedBackend(() => long), { long: 'split' }, { pace }, { pace: '100/s,10/5m' })
  await agents.say('tell me everything')
  await agents.become('more')
  expect(await agents.got()).toHaveLength(9)
  await agents.say('/more')
  expect((await agents.gets(10))[9]).toMatch(/\d min/)
  expect((await agents.turns())[0]).toMatchObject({ status: 'more', parts_sent: 9 })
  clock.advance(pace.windowMs)
  await agents.say('/more')
  await agents.gets(12)
  expect((await agents.turns())[0]!.parts_sent).toBeGreaterThan(9)
})

test('/stop ends messages that wait for a slot before they begin', async () => {
  const { agents, backend } = await withPace()
  await using _ = agents
  for (let nth = 1; nth <= 9; nth++) {
    await agents.say(`message ${nth}`)
    await agents.until('it was read', async () => (await agents.turns()).length === nth)
  }
  await agents.gets(8)
  await agents.say('/stop')
  await agents.gets(9)
  await agents.become(...Array(7).fill('answered'), 'stopped', 'stopped')
  expect(backend.runs.length).toBe(7)
})

test('/stop ends an answer that waits for a slot, since others took them; /more brings it', async () => {
  const agents = await withAgents()
  await using _ = agents
  const { clock } = agents.library
  const backend = new PlayedBackend()
  const { svc } = await agents.start(backend, {}, { pace }, { pace: '100/s,10/5m' })
  await agents.say('message')
  await agents.until('it runs', () => backend.runs.length === 1)
  for (let nth = 1; nth <= 7; nth++) await svc.send({ to: agents.owner, text: `notice ${nth}` })
  backend.runs[0]!.answer('the answer')
  await agents.gets(8)
  await agents.say('/stop')
  await agents.gets(9)
  await agents.become('more')
  clock.advance(pace.windowMs)
  await agents.say('/more')
  expect((await agents.gets(10))[9]).toBe('the answer')
})
