/** Answers that a person approves before they are sent, on the simulated WeChat. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { runAgent } from '../../src/agent/agent.ts'
import type { TurnResult } from '../../src/agent/backend.ts'
import { type AgentConfig, defaultAgent } from '../../src/agent/config.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { svc } from '../support/command.ts'
import { withLibrary } from '../support/library.ts'
import { PlayedBackend, textOf } from './support.ts'

/** An agent that repeats what it hears, on accounts with an owner each, and a guest of the first. */
async function withApprovals(config: Partial<AgentConfig>, sessions = ['work'], pace = 'off') {
  const library = await withLibrary({ sessions })
  const { clock, dir, sandbox } = library
  const bots = [...library.bots.values()]
  const [work] = bots
  const guest = await sandbox.addUser('guest')
  const svc = await library.open({ store: true, pace })
  const agent: AgentConfig = {
    ...defaultAgent,
    gatherMs: 20,
    allow: 'everyone',
    backend: { kind: 'command', command: ['none'] },
    ...config,
  }
  const say = (text: string, from = work!.user_id, to = work!.bot_id) => sandbox.say(text, { from, to })
  const got = async (user = work!.user_id) =>
    (await sandbox.messages({ user, from: 'bot', limit: 1000 })).map(textOf)
  const start = async () => {
    const stop = new AbortController()
    const answer = ({ text }: { text: string }): TurnResult => ({ text: `You said: ${text}` })
    const folders = join(dir, 'folders')
    const ports = {
      agents: [agent],
      clock,
      log: silentLog,
      dataFolder: dir,
      folders,
      tasks: new Tasks(clock),
    }
    const ended = runAgent(svc, new PlayedBackend(answer), agent, ports, stop.signal)
    return async () => {
      stop.abort()
      await ended
    }
  }
  let end = await start()
  await library.until('the agent reads', async () => (await svc.sessions()).length === sessions.length)
  // Everybody has written.
  for (const [nth, bot] of bots.entries()) {
    await say('/status', bot.user_id, bot.bot_id)
    await library.until(
      `owner ${nth} is known`,
      async () => (await svc.users({ user_id: bot.user_id })).length > 0,
    )
  }
  return {
    ...library,
    svc,
    guest,
    bots,
    say,
    got,
    drafts: async () => (await svc.outbox.list()).filter(({ waits_for }) => waits_for === 'approval'),
    /** Waits for so many drafts, and for a message that shows one in a chat. Returns its code. */
    shown: (about: string, user = work!.user_id) =>
      library.until(`a draft about ${about}`, async () => {
        const found = (await got(user)).find(text => text.includes(about) && / 1 = /.test(text))
        return found ? { text: found, code: /^(\w{4}) 1 = /m.exec(found)![1]! } : undefined
      }),
    gets: (text: string, user = work!.user_id) =>
      library.until(`"${text}" arrives`, async () => (await got(user)).some(one => one.includes(text))),
    async restart() {
      await end()
      end = await start()
    },
    async [Symbol.asyncDispose]() {
      await end()
      await library[Symbol.asyncDispose]()
    },
  }
}

test('an answer to others waits for the code of the operator, who sees what it answers', async () => {
  await using t = await withApprovals({ approve: 'others' })
  await t.say('where is my order?', t.guest)
  const { code, text } = await t.shown('where is my order?')
  expect(text).toContain('> where is my order?')
  expect(text).toContain('| You said: where is my order?')
  const [asked] = (await t.svc.history({ user_id: t.guest, direction: 'received' })).messages
  expect(await t.drafts()).toMatchObject([{ to_user: t.guest, made_by: 'agent:agent', answers: [asked!.id] }])
  // Plain words are for the agent, whose answer to the operator needs no approval. The guest's code is a prompt of no use.
  for (const word of ['yes', '1', '好']) {
    await t.say(word)
    await t.gets(`You said: ${word}`)
  }
  await t.say(`${code} 1`, t.guest)
  await t.say(`what is ${code} 1?`)
  await t.gets(`Send ${code} 1`)
  expect(await t.got(t.guest)).toEqual([])
  expect(await t.drafts()).toHaveLength(1)
  await t.say(`${code.toLowerCase()} １。`)
  await t.gets('You said: where is my order?', t.guest)
  await t.gets('Approved')
  await t.say(`${code} 1`)
  await t.gets('No open question')
  expect(await t.got(t.guest)).toHaveLength(1)
})

test('a draft that is not wanted is never sent, and one may be approved in the panel', async () => {
  await using t = await withApprovals({ approve: 'others' })
  await t.say('one', t.guest)
  const { code } = await t.shown('> one')
  await t.say(`${code} no`)
  await t.gets('does not get it')
  expect(await t.drafts()).toEqual([])
  await t.say('two', t.guest)
  const next = await t.shown('> two')
  const [draft] = await t.drafts()
  await t.svc.outbox.approve(draft!.outbox_id)
  await t.gets('You said: two', t.guest)
  await t.say(`${next.code} 1`)
  await t.gets('No open question')
  expect(await t.got(t.guest)).toEqual(['You said: two'])
})

test('a turn tells whether its drafts wait or were declined, in the chat or elsewhere', async () => {
  await using t = await withApprovals({ approve: 'others' })
  const newest = async () => (await t.svc.agents.turns({ user: t.guest }))[0]
  const ask = async (text: string) => {
    await t.say(text, t.guest)
    const { code } = await t.shown(`> ${text}`)
    await t.until('the turn ended', async () => (await newest())?.status === 'answered')
    expect(await newest()).toMatchObject({ approval: 'waits' })
    return { code, draft: (await t.drafts())[0]!.outbox_id }
  }
  await t.say(`${(await ask('one')).code} 2`)
  await t.until('it is declined', async () => (await newest())?.approval === 'declined')
  await t.say(`${(await ask('two')).code} 1`)
  await t.gets('You said: two', t.guest)
  await t.until('it is approved', async () => (await newest())?.approval === undefined)
  const three = await ask('three')
  await t.svc.outbox.cancel(three.draft)
  expect(await newest()).toMatchObject({ approval: 'declined' })
  const four = await ask('four')
  await t.svc.outbox.approve(four.draft)
  expect((await newest())?.approval).toBeUndefined()
  await ask('five')
  // The command line has its own words, so that nobody takes them for answered.
  const { stdout } = await svc(['agent', 'turns', '-d', t.dir], { home: t.dir })
  expect(stdout.match(/\banswered\b/g)).toHaveLength(2)
  t.clock.advance(25 * 60 * 60_000)
  await t.until('it expired', async () => (await newest())?.approval === 'declined')
  expect((await t.svc.agents.turns({ user: t.guest })).map(({ approval }) => approval)).toEqual([
    'declined',
    undefined,
    'declined',
    undefined,
    'declined',
  ])
})

test('with "all" the operator approves the answers to himself too', async () => {
  await using t = await withApprovals({ approve: 'all' })
  await t.say('hello')
  const { code } = await t.shown('> hello')
  await t.say(`${code} yes`)
  await t.gets('Approved')
  await t.until('it arrives', async () => (await t.got()).includes('You said: hello'))
})

test('a long answer has one code, also after a restart in the middle of it', async () => {
  await using t = await withApprovals({ approve: 'others' })
  const words = Array.from({ length: 900 }, (_, nth) => `${nth}. word\n\n`).join('')
  await t.say(words, t.guest)
  const { code } = await t.shown('> 0. word')
  const count = (await t.drafts()).length
  expect(count).toBeGreaterThan(1)
  // As if the process had died before the turn ended.
  await t.until(
    'the turn ended',
    async () => (await t.svc.agents.turns({ user: t.guest }))[0]?.status === 'answered',
  )
  const work = await t.svc.workAsAgent()
  const [turn] = await t.svc.agents.turns({ user: t.guest })
  await t.until('the turn is open again', async () => {
    await work.claim({ agent: 'agent', session: 'work', user: t.guest })
    return work.changeTurn(turn!.id, { status: 'answering', parts_sent: 1 })
  })
  await t.restart()
  await t.until(
    'the turn ended again',
    async () => (await t.svc.agents.turns({ user: t.guest }))[0]?.status === 'answered',
  )
  expect(await t.drafts()).toHaveLength(count)
  expect((await t.got()).filter(text => text.includes('> 0. word'))).toHaveLength(1)
  await t.say(`${code} 1`)
  await t.until('all parts arrive', async () => (await t.got(t.guest)).length === count)
  expect((await t.got(t.guest)).join('\n')).toMatch(/You said: 0\. word[\s\S]*899\. word/)
})

test('the operator has an account of his own; without one, drafts are in the panel alone', async () => {
  const sessions = ['work', 'home']
  await using named = await withApprovals({ approve: 'others', session: 'work' }, sessions)
  const [work, home] = named.bots
  await using t = await withApprovals({ approve: 'others' }, sessions)
  await t.say('who?', t.guest)
  await t.until('it waits', async () => (await t.drafts()).length === 1)
  for (const { user_id } of t.bots) expect((await t.got(user_id)).join()).not.toContain('> who?')
  // One account has its owner.
  await named.say('who?', named.guest)
  await named.shown('> who?', work!.user_id)
  expect((await named.got(home!.user_id)).join()).not.toContain('> who?')
})

test('an operator by name decides from another account, and its own owner does not', async () => {
  await using t = await withApprovals({ approve: 'others', session: 'work', operator: 'Boss' }, [
    'work',
    'home',
  ])
  const [work, home] = t.bots
  await t.svc.nameUser(home!.user_id, 'Boss')
  await t.restart()
  await t.say('mine', work!.user_id)
  const { code } = await t.shown('> mine', home!.user_id)
  await t.say(`${code} 1`, work!.user_id)
  await t.say('next', work!.user_id)
  await t.shown('> next', home!.user_id)
  expect(await t.drafts()).toHaveLength(2)
  await t.say(`${code} 1`, home!.user_id, home!.bot_id)
  await t.gets('Approved', home!.user_id)
  await t.gets('You said: mine', work!.user_id)
})

test('a draft that was decided in the panel is not shown any more where it waits for the pace', async () => {
  await using t = await withApprovals({ approve: 'others' }, ['work'], '1/60s')
  // The answer to the owner takes the only slot.
  await t.until('the owner has an answer', async () => (await t.got()).length === 1)
  await t.say('one', t.guest)
  const work = await t.svc.workAsAgent()
  await t.until('it waits', async () => (await work.listDrafts()).some(({ entry }) => entry !== undefined))
  for (const { outbox_id } of await t.drafts()) await t.svc.outbox.cancel(outbox_id)
  t.clock.advance(15_000)
  await t.until('nothing waits', async () => (await t.svc.outbox.list()).length === 0)
  expect(await work.listDrafts()).toEqual([])
  expect((await t.got()).filter(text => text.includes(' 1 = '))).toEqual([])
})
