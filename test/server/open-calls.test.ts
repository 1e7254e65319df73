/** What one caller may have open, at all doors together, and that the calls of others go on meanwhile. */
import { expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import type { NewKeyInput } from '../../src/model/key.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { openCallsOf } from '../../src/server/open-calls.ts'
import { withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'
import { until } from '../support/until.ts'

const mostOfKey = 200

const keyCaller = (): Principal => ({ kind: 'key', id: 'k3v9x2ab', grant: { rights: [] } })

test('of each caller a few calls begin in a round of the event loop, and each of them in the end', async () => {
  const [one, other] = [openCallsOf(keyCaller()), openCallsOf(keyCaller())]
  const begun: string[] = []
  const call = (calls: typeof one, name: string) =>
    calls.answer(() => {
      begun.push(name)
      return Promise.resolve(new Response())
    })
  const answers = Array.from({ length: 50 }, () => call(one, 'one'))
  const first = begun.length
  expect(first).toBeGreaterThan(0)
  expect(first).toBeLessThan(20)
  void call(other, 'other')
  expect(begun.at(-1)).toBe('other')
  await new Promise(resolve => setImmediate(resolve))
  expect(begun.length).toBeLessThanOrEqual(2 * first + 1)
  await Promise.all(answers)
  expect(begun.length).toBe(51)
})

test('an address counts for callers without a key, and is forgotten', async () => {
  const open: Principal = { kind: 'open' }
  const at = (address: string) => openCallsOf(open, () => address)
  const release = Array.from({ length: mostOfKey }, () => at('192.0.2.1').hold())
  expect(at('192.0.2.1').error?.code).toBe('rate_limited')
  expect(at('192.0.2.2').error).toBeUndefined()
  for (const end of release) end()
  expect(at('192.0.2.1').error).toBeUndefined()
})

/** A service with keys, and connections that send text and go on. */
async function startWithKeys() {
  const t = await withGateway()
  const rest = await restOf(t.gateway)
  const sockets: Socket[] = []
  const { keys } = t.gateway
  /** @param maker a key that makes it */
  const addKey = async (input: Partial<NewKeyInput> = {}, maker?: string) => {
    const by = (maker && (await keys.authenticate(maker))) || owner
    return (await keys.add({ name: crypto.randomUUID(), can: ['all'], ...input }, by)).key
  }
  /** @returns what comes on the connection */
  const send = (key: string, line: string, more = '\r\n') => {
    const socket = connect(rest.server.port, '127.0.0.1')
    sockets.push(socket)
    const seen = { text: '', isClosed: false }
    socket.on('data', data => {
      seen.text += data
    })
    socket.on('close', () => {
      seen.isClosed = true
    })
    socket.on('error', () => {})
    socket.write(`${line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key}\r\n${more}`)
    return seen
  }
  const statusOf = async (key: string) =>
    (await fetch(`${rest.url}/me`, { headers: { authorization: `Bearer ${key}` } })).status
  const leave = () => {
    for (const socket of sockets.splice(0)) socket.destroy()
  }
  return {
    ...{ addKey, leave, send, statusOf },
    async [Symbol.asyncDispose]() {
      leave()
      await rest[Symbol.asyncDispose]()
      await t[Symbol.asyncDispose]()
    },
  }
}

const stalled = 'content-type: application/octet-stream\r\ncontent-length: 1000\r\n\r\nab'

test('a key and the keys that it made may have so many calls open; the next is rejected before its body comes', async () => {
  await using t = await startWithKeys()
  const top = await t.addKey()
  const child = await t.addKey({}, top)
  const grandchild = await t.addKey({}, child)
  const other = await t.addKey()
  const family = [top, child, grandchild]
  // No other call of them looks meanwhile, which would take a place itself.
  const calls = Array.from({ length: mostOfKey + 1 }, (_, nth) =>
    t.send(family[nth % 3]!, 'POST /media', stalled),
  )
  await until('the bound is reached', 30_000, () => calls.some(call => call.isClosed))
  expect(calls.filter(call => call.isClosed)).toHaveLength(1)
  const next = t.send(top, 'POST /media', stalled)
  await until('it is rejected', 30_000, () => next.isClosed)
  expect(next.text).toMatch(/^HTTP\/1\.1 429 /)
  expect(next.text).toMatch(/^connection: close\r$/im)
  expect(next.text).toMatch(/^retry-after: 1\r$/im)
  expect(next.text).toContain('"code":"rate_limited"')
  expect(await Promise.all([child, grandchild, other].map(t.statusOf))).toEqual([429, 429, 200])
  t.leave()
  await until('those that left do not count', 30_000, async () => (await t.statusOf(top)) === 200)
})

test('open streams count too; --max-open allows a key more of them', async () => {
  await using t = await startWithKeys()
  const [plain, wide] = [await t.addKey(), await t.addKey({ limits: { open: mostOfKey } })]
  for (const key of [plain, wide]) {
    const streams = Array.from({ length: mostOfKey }, () => t.send(key, 'GET /events'))
    await until('they are open', 30_000, () => streams.every(({ text }) => text.includes('\n: svc\n')))
  }
  expect(await Promise.all([plain, wide].map(t.statusOf))).toEqual([429, 200])
  t.leave()
  await until('those that left do not count', 30_000, async () => (await t.statusOf(plain)) === 200)
})
