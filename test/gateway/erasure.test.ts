/** What readers hold in memory while a person is erased. */
import { expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import { exportMessages } from '../../src/operations/export.ts'
import { invoke } from '../../src/operations/gate.ts'
import { getMedia } from '../../src/operations/media.ts'
import { silentLog } from '../../src/platform/log.ts'
import { withGateway } from '../support/gateway.ts'

/** A gateway with messages of a person who is erased, each followed by one of a person who stays. */
async function talked(pairs: number, text = '') {
  const t = await withGateway()
  const stays = t.bots.get('default')!.user_id
  const gone = await t.sandbox.addUser('o-gone')
  for (let nth = 0; nth < pairs; nth++)
    for (const from of [gone, stays]) await t.sandbox.say(`${nth} of ${from} ${text}`, { from })
  await t.until('all are stored', async () => (await t.gateway.inbox.getHead()) === 2 * pairs)
  return { t, gone, stays }
}

test('readers that read before a person was erased get the others alone afterwards', async () => {
  const { t, gone, stays } = await talked(3)
  await using _ = t
  const { events, inbox, people } = t.gateway
  const stop = new AbortController()
  const readers = [
    events.follow('0', { types: ['message.received'] }, stop.signal, { toEnd: true }),
    inbox.follow({ from: 0 }, stop.signal),
  ]
  const texts = await Promise.all(
    readers.map(async reader => JSON.stringify((await reader.next()).value).match(/of (o[^ ]+)/)?.[1]),
  )
  expect(texts).toEqual([gone, gone])
  await people.forget(gone)
  for (const reader of readers)
    for (let nth = 0; nth < 3; nth++) {
      const { value } = await reader.next()
      expect(JSON.stringify(value)).toContain(`${nth} of ${stays}`)
    }
  stop.abort()
}, 30_000)

for (const format of ['jsonl', 'html'] as const)
  test(`an export that is being read (${format}) ends when a person is erased`, async () => {
    const { t, gone } = await talked(30, 'x'.repeat(2000))
    await using _ = t
    const call = createDirectCall({ by: owner })
    const { stream } = await invoke(exportMessages, t.gateway, { format }, call, silentLog)
    const reader = stream.getReader()
    await reader.read()
    await t.gateway.people.forget(gone)
    expect(await reader.read().catch(error => error.code)).toBe('store_unavailable')
    const again = await invoke(exportMessages, t.gateway, { format }, call, silentLog)
    const text = await new Response(again.stream).text()
    expect(text.length).toBeGreaterThan(60_000)
    expect(text.includes(gone)).toBe(false)
  }, 30_000)

test('a file that is being read ends when the person who sent it is erased', async () => {
  await using t = await withGateway()
  await t.sandbox.media('file', 'x'.repeat(4 * 1024 * 1024), { name: 'large.txt' })
  const [{ from_user, message_id } = { from_user: '', message_id: '' }] = await t.receive(1)
  const call = createDirectCall({ by: owner })
  const { media } = await invoke(getMedia, t.gateway, { message_id, item: 0 }, call, silentLog)
  const reader = media.stream.getReader()
  expect((await reader.read()).value!.length).toBeGreaterThan(0)
  await t.gateway.people.forget(from_user)
  expect(await reader.read().catch(error => error.code)).toBe('store_unavailable')
}, 30_000)

test('the answer names the agents without an owner, and what svc does not reach', async () => {
  const { t, gone, stays } = await talked(1)
  await using _ = t
  const { agents, people, webhooks } = t.gateway
  for (const user of [gone, stays])
    await agents.addTurn({ agent: 'helper', session: 'default', user, source: 'inject', messages: [] })
  const { id } = await webhooks.add(owner, { url: 'https://1.1.1.1/', types: [] })
  expect(await people.listOwned(gone)).toEqual([])
  expect(await people.listOwned(stays)).toEqual(['helper'])
  const answer = await people.forget(stays)
  expect(answer.agents).toEqual(['helper'])
  expect(answer.remains).toEqual([expect.stringContaining('helper'), expect.stringContaining(id)])
}, 30_000)
