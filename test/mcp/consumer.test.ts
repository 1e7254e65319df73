/** Whose place recv uses: that of the connection, which two clients of one service do not share. */
import { expect, test } from 'bun:test'
import { tools } from '../../src/operations/tools.ts'
import { withGateway } from '../support/gateway.ts'
import { connectHttp } from '../support/mcp.ts'
import { startDoor } from '../support/mcp-door.ts'
import { withMcpPair } from '../support/mcp-pair.ts'
import { initialize, post } from '../support/mcp-raw.ts'

const textsOf = (messages: { text: string }[]) => messages.map(({ text }) => text)

test('each reader named in the address gets each message once; a call may name another', async () => {
  await using t = await withGateway()
  await using door = await startDoor({ gateway: t.gateway, structured: false })
  await using claude = await connectHttp(`${door.url}?consumer=claude-code`)
  await using codex = await connectHttp(`${door.url}?consumer=codex`)
  for (const client of [claude, codex]) expect(await client.value('recv', { timeout: 0 })).toEqual([])
  await t.sandbox.say('to both')
  for (const client of [claude, codex])
    expect(textsOf(await client.value('recv', { timeout: 30 }))).toEqual(['to both'])
  expect(await codex.value('recv', { timeout: 0 })).toEqual([])
  expect(textsOf(await codex.value('recv', { timeout: 0, consumer: 'default' }))).toEqual(['to both'])
  const [recv] = (await codex.tools()).filter(({ name }: { name: string }) => name === 'recv')
  expect(recv.inputSchema.properties.consumer.default).toBe('codex')
})

test('a new reader begins after what anybody was given, from its connection on', async () => {
  await using pair = await withMcpPair({ context: { tools, consumer: 'first' } })
  const { t } = pair
  const recv = async () => {
    const { structuredContent } = await pair.client.callTool({ name: 'recv', arguments: { timeout: 0 } })
    return textsOf((structuredContent as { result: { text: string }[] }).result)
  }
  const stored = (count: number) =>
    t.until(
      'it is stored',
      async () => (await t.gateway.history.page({ limit: 1, offset: 0 })).total === count,
    )
  await t.sandbox.say('nobody has read it')
  await stored(1)
  // A name that a call gives itself begins after that call.
  expect(await t.recv({ consumer: 'third', timeout: 0 })).toEqual([])
  expect(await recv()).toEqual(['nobody has read it'])
  await t.gateway.inbox.begin('second')
  await t.sandbox.say('after both began')
  await stored(2)
  expect(textsOf(await t.recv({ consumer: 'second' }))).toEqual(['after both began'])
  expect(await recv()).toEqual(['after both began'])
  // It has a place: beginning again moves nothing, and so do reads by row id.
  await t.gateway.inbox.begin('second')
  expect(await t.recv({ consumer: 'second', timeout: 0 })).toEqual([])
})

test('a parameter that is unknown, mistyped or given twice is refused with 400, whatever is asked', async () => {
  await using t = await withGateway({ start: false })
  await using door = await startDoor({ gateway: t.gateway, structured: false })
  for (const query of [
    'tools=read-only',
    'structured=yes',
    'structured=',
    'Structured=1',
    'consumer=',
    'consumer=a%20b',
    `consumer=${'x'.repeat(65)}`,
    'consumer=a&consumer=b',
    'structured=1&token=x',
    '__proto__=1',
    '=',
  ])
    expect([query, (await post(`${door.url}?${query}`, initialize())).status]).toEqual([query, 400])
  for (const query of ['', '?', '?structured=1', '?structured=0&consumer=a.b_c-1'])
    expect([query, (await post(`${door.url}${query}`, initialize())).status]).toEqual([query, 200])
})
