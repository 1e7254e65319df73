/** How long turns of agents are kept, and who sees what they are about. */
import { expect, test } from 'bun:test'
import { viewFor } from '../../src/gateway/scoped.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import { listAgentConversations, listAgentTurns, workAsAgent } from '../../src/operations/agents.ts'
import { withGateway } from '../support/gateway.ts'

const dayMs = 24 * 60 * 60_000

test('turns are kept for 30 days after their end, also those whose rest waits', async () => {
  await using t = await withGateway({ start: false })
  const { agents } = t.gateway
  const key = { agent: 'home', session: 'default', user: 'u@im.wechat' }
  const add = async () => (await agents.addTurn({ ...key, source: 'inject', messages: [], prompt: 'go' })).id
  const [old, young, more, open] = [await add(), await add(), await add(), await add()]
  await agents.claim(key)
  const ended_at = t.clock.now() - 31 * dayMs
  await agents.changeTurn(old, { status: 'answered', ended_at })
  await agents.changeTurn(young, { status: 'answered', ended_at: ended_at + 2 * dayMs })
  await agents.changeTurn(more, { status: 'more', ended_at })
  await t.gateway.start()
  const list = async () => (await agents.listTurns({ limit: 9 })).map(({ id }) => id)
  await t.soon('the old turn removed', async () => !(await list()).some(id => id === old || id === more))
  expect(await list()).toEqual([open, young])
})

test('what was asked and answered is shown to callers with the right history alone', async () => {
  await using t = await withGateway()
  const { agents, keys } = t.gateway
  const { user_id: user } = t.bots.get('default')!
  await t.sandbox.say('how much is it?')
  await t.until('it is here', async () => (await t.gateway.history.page({ limit: 1, offset: 0 })).total === 1)
  const key = { agent: 'home', session: 'default', user }
  const { id } = await agents.addTurn({ ...key, source: 'message', messages: [1] })
  await agents.addTurn({ ...key, source: 'inject', messages: [], prompt: 'good morning' })
  await agents.claim(key)
  const file = { path: '/f/prices.pdf', folder: '/f', kind: 'file', name: 'prices.pdf' } as const
  await agents.changeTurn(id, { status: 'answered', answer: { parts: [{ text: 'ten' }, file] } })
  const list = async (can: string[]) => {
    const { key: secret } = await keys.add({ name: can.join(), can }, owner)
    const by = await keys.authenticate(secret)
    const turns = await listAgentTurns.run(viewFor(t.gateway, by!), {}, createDirectCall({ by: by! }))
    return turns.map(({ answer, prompt }) => ({ answer, prompt }))
  }
  expect(await list(['agents'])).toEqual([
    { answer: undefined, prompt: undefined },
    { answer: undefined, prompt: undefined },
  ])
  expect(await list(['agents', 'history'])).toEqual([
    { answer: undefined, prompt: [{ kind: 'TEXT', text: 'good morning' }] },
    {
      answer: [
        { kind: 'TEXT', text: 'ten' },
        { kind: 'FILE', text: 'prices.pdf' },
      ],
      prompt: [{ kind: 'TEXT', text: 'how much is it?' }],
    },
  ])
})

test('what people chose is shown, its title to callers with the right history alone, and audited', async () => {
  await using t = await withGateway()
  const { agents, keys } = t.gateway
  const key = { agent: 'home', session: 'default', user: t.bots.get('default')!.user_id! }
  await agents.addTurn({ ...key, source: 'inject', messages: [], prompt: 'go' })
  await agents.claim(key)
  const work = await workAsAgent.run(t.gateway, {}, createDirectCall({ by: owner }))
  const chosen = { model: 'large', mode: 'free', place: 'work' }
  expect(await work.steer(key, { ...chosen, title: 'Taxes', shown: [] })).toBe(true)
  const list = async (can: string[]) => {
    const by = (await keys.authenticate((await keys.add({ name: can.join(), can }, owner)).key))!
    return listAgentConversations.run(viewFor(t.gateway, by), {}, createDirectCall({ by }))
  }
  const [one] = await list(['agents'])
  expect(one).toMatchObject(chosen)
  expect(one).not.toHaveProperty('title')
  expect(one).not.toHaveProperty('shown')
  expect(await list(['agents', 'history'])).toMatchObject([{ ...chosen, title: 'Taxes' }])
  const [line] = await t.gateway.audit.list({ operations: ['steer_agent'], limit: 5 })
  expect(line).toMatchObject({ outcome: 'done', subject: `home ${key.user} default` })
})
