/** Sessions that are renamed, or logged in, while an agent runs. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { runAgent } from '../../src/agent/agent.ts'
import { defaultAgent } from '../../src/agent/config.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { withLibrary } from '../support/library.ts'
import { PlayedBackend, textOf, withAgents } from './support.ts'

test('a session that is renamed in the middle of a turn: the turn ends, and what comes is answered', async () => {
  await using t = await withAgents()
  const backend = new PlayedBackend()
  const agent = await t.start(backend)
  const { clock } = t.library
  /** Waits for that turn, while time passes. */
  const runs = (count: number) =>
    t.until(`turn ${count}`, () => {
      clock.advance(100)
      return backend.runs.length === count
    })
  await t.say('one')
  await runs(1)
  await agent.svc.renameSession({ old_name: 'default', new_name: 'shop' })
  await t.say('two')
  backend.runs[0]!.answer({ text: 'first', agentSession: 'a' })
  await runs(2)
  expect(backend.runs[1]!.context.agentSession).toBe('a')
  backend.runs[1]!.answer('second')
  await t.say('three')
  await runs(3)
  backend.runs[2]!.answer('third')
  await t.until('all answers', async () => {
    clock.advance(100)
    return (await t.got()).length === 3
  })
  expect(await t.got()).toEqual(['first', 'second', 'third'])
  expect(backend.prompts).toEqual(['one', 'two', 'three'])
  expect(await t.become('answered', 'answered', 'answered')).toMatchObject([
    { session: 'shop' },
    { session: 'shop' },
    { session: 'shop' },
  ])
})

for (const operator of [undefined, 'owner'])
  test(`an agent of one session follows it when another process renames it and gives away its name${operator ? ', with an operator' : ''}`, async () => {
    await using t = await withLibrary({ sessions: ['work', 'home'] })
    const { clock, dir, sandbox } = t
    const [work, home] = [...t.bots.values()]
    const [svc, other] = [await t.open({ store: true }), await t.open({ store: true })]
    const agent = {
      ...defaultAgent,
      gatherMs: 20,
      // In another spelling, as the rest of svc takes it.
      session: 'WORK',
      ...(operator && { operator: home!.user_id }),
      backend: { kind: 'command', command: ['none'] } as const,
    }
    const backend = new PlayedBackend(({ text }) => `You said: ${text}`)
    const stop = new AbortController()
    const folders = join(dir, 'folders')
    const ports = {
      agents: [agent],
      clock,
      log: silentLog,
      dataFolder: dir,
      folders,
      tasks: new Tasks(clock),
    }
    const running = runAgent(svc, backend, agent, ports, stop.signal)
    try {
      const say = (text: string, { user_id, bot_id }: typeof work & {}) =>
        sandbox.say(text, { from: user_id, to: bot_id })
      const isAnswered = (text: string) =>
        t.until(`the answer to ${text}`, async () => {
          clock.advance(100)
          const got = await sandbox.messages({ user: work!.user_id, from: 'bot', limit: 1000 })
          return got.map(textOf).includes(`You said: ${text}`)
        })
      await t.until('the agent polls', () => t.requests('getupdates') >= 2)
      await say('one', work!)
      await isAnswered('one')
      await other.renameSession({ old_name: 'work', new_name: 'shop' })
      await other.renameSession({ old_name: 'home', new_name: 'work' })
      await say('not for it', home!)
      await say('two', work!)
      await isAnswered('two')
      expect(backend.prompts).toEqual(['one', 'two'])
    } finally {
      stop.abort()
      await running
    }
  })
