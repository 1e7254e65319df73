/** How long turns of agents are kept. */
import { expect, test } from 'bun:test'
import { withGateway } from '../support/gateway.ts'

const dayMs = 24 * 60 * 60_000

test('turns are kept for 30 days after their end, and while their rest waits', async () => {
  await using t = await withGateway({ start: false })
  const { agents } = t.gateway
  const key = { agent: 'home', session: 'default', user: 'u@im.wechat' }
  const add = async () => (await agents.addTurn({ ...key, source: 'inject', messages: [], prompt: 'go' })).id
  const [old, young, more, open] = [await add(), await add(), await add(), await add()]
  await agents.claim(key)
  const ended_at = t.clock.now() - 31 * dayMs
  await agents.changeTurn(old, { state: 'answered', ended_at })
  await agents.changeTurn(young, { state: 'answered', ended_at: ended_at + 2 * dayMs })
  await agents.changeTurn(more, { state: 'more', ended_at })
  await t.gateway.start()
  const list = async () => (await agents.listTurns({ limit: 9 })).map(({ id }) => id)
  await t.soon('the old turn removed', async () => !(await list()).includes(old))
  expect(await list()).toEqual([open, more, young])
})
