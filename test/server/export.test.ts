/** `GET /export`: its headers, and what happens when a client leaves, reads slowly, or loses its key. */
import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { owner } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { headAndGet, restOf } from '../support/rest.ts'
import { until } from '../support/until.ts'

/** A service whose log is as long as anybody reads. */
async function endless() {
  const gateway = new MemoryGateway()
  const seen = { pages: 0, ended: 0 }
  const walk = async function* (_filter: unknown, signal: AbortSignal) {
    try {
      const message = gateway.say('x'.repeat(50_000))
      for (; ; seen.pages++) {
        signal.throwIfAborted()
        yield [message]
      }
    } finally {
      seen.ended++
    }
  }
  Object.assign(gateway.history, { walk })
  return { ...(await restOf(gateway)), seen }
}

test('the answer is a file to save, of which a browser runs nothing', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway)
  await t.sandbox.say('hello')
  await t.receive(1)
  for (const [format, type] of [
    ['jsonl', 'application/x-ndjson'],
    ['html', 'text/html; charset=utf-8'],
  ]) {
    const { head, get } = await headAndGet(`${rest.url}/export?format=${format}`)
    expect(head).toEqual(get)
    expect(get).toMatchObject({
      status: 200,
      headers: {
        'content-type': type,
        'content-disposition': expect.stringMatching(
          new RegExp(`^attachment; filename="svc-[\\d-]+\\.${format}"`),
        ),
        'content-security-policy': "sandbox; default-src 'none'",
        'x-content-type-options': 'nosniff',
        'cache-control': 'private, no-store',
      },
    })
    expect(await (await fetch(`${rest.url}/export?format=${format}`)).text()).toContain('hello')
  }
  const wrong = await fetch(`${rest.url}/export?format=pdf`)
  expect([wrong.status, (await wrong.json()).code]).toEqual([422, 'invalid_arguments'])
})

test('a client that leaves ends the work', async () => {
  await using rest = await endless()
  const leave = new AbortController()
  const response = await fetch(`${rest.url}/export`, { signal: leave.signal })
  await response.body!.getReader().read()
  leave.abort()
  await until('the log is closed', 10_000, () => rest.seen.ended === 1)
})

test('a client that reads nothing holds the reading back', async () => {
  await using rest = await endless()
  const socket = connect(rest.server.port, '127.0.0.1')
  socket.pause()
  socket.write('GET /export HTTP/1.1\r\nHost: localhost\r\n\r\n')
  let before = -1
  await until('nothing more is read', 20_000, async () => {
    const isStill = rest.seen.pages > 0 && rest.seen.pages === before
    before = rest.seen.pages
    if (!isStill) for (let turn = 0; turn < 100; turn++) await new Promise(resolve => setTimeout(resolve, 1))
    return isStill
  })
  // What fits into the buffers of the two sockets, of 50 kB each.
  expect(rest.seen.pages).toBeLessThan(400)
  socket.destroy()
  await until('the log is closed', 10_000, () => rest.seen.ended === 1)
})

test('a key without the right is denied, and one that ends gets no more', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway)
  const { keys } = t.gateway
  const reader = await keys.add({ name: 'reader', can: ['read'] }, owner)
  const denied = await fetch(`${rest.url}/export`, { headers: { authorization: `Bearer ${reader.key}` } })
  expect([denied.status, (await denied.json()).details]).toEqual([403, { right: 'export' }])
  const exporter = await keys.add({ name: 'exporter', can: ['export'] }, owner)
  const walk = async function* () {
    for (;;) {
      await new Promise(resolve => setImmediate(resolve))
      yield [{ text: 'x'.repeat(50_000) }]
    }
  }
  Object.assign(t.gateway.history, { walk })
  const response = await fetch(`${rest.url}/export`, { headers: { authorization: `Bearer ${exporter.key}` } })
  const body = response.body!.getReader()
  await body.read()
  await keys.revoke(exporter.id, owner)
  const read = async () => {
    for (let done = false; !done; ) done = (await body.read()).done
  }
  expect(await failure(read())).toBeDefined()
})
