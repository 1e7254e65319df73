import { expect, spyOn, test } from 'bun:test'
import { connect } from 'node:net'
import { owner } from '../../src/model/principal.ts'
import { withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'
import { until } from '../support/until.ts'

const count = 500

/** Sends a request on a connection of its own: `fetch` of Bun makes only 256 at a time. */
function ask(port: number, head: string, body = '') {
  const socket = connect(port, '127.0.0.1')
  const asked = { text: '', leave: () => socket.destroy() }
  socket.on('data', chunk => {
    asked.text += chunk.toString()
  })
  socket.on('error', () => {})
  socket.write(`${head}\r\nHost: 127.0.0.1\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  return asked
}

test('a key that ends takes a thousand long polls and streams with it, also by another process', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using beside = await t.beside({ start: false })
  const waiting = spyOn(t.gateway.inbox, 'recv')
  for (const gateway of [t.gateway, beside.gateway]) {
    const limits = { open: 2 * count }
    const { id, key } = await t.gateway.keys.add({ name: 'many', can: ['read'], limits }, owner)
    const call = (line: string, body?: string) =>
      ask(
        rest.server.port,
        `${line} HTTP/1.1\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json`,
        body,
      )
    const streams = Array.from({ length: count }, () => call('GET /events'))
    await until('all streams are open', 60_000, () => streams.every(({ text }) => text.includes('id: ')))
    const polls = Array.from({ length: count }, () =>
      call('POST /tools/default/recv', JSON.stringify({ timeout: 200 })),
    )
    await until('all wait', 60_000, () => waiting.mock.calls.length === count)
    waiting.mockClear()
    expect(polls.filter(({ text }) => text !== '')).toEqual([])
    await gateway.keys.revoke(id, owner)
    await t.pass(1000)
    await until('all have ended', 10_000, () =>
      [...streams, ...polls].every(({ text }) => text.endsWith('0\r\n\r\n') || text.includes('401')),
    )
    for (const { leave } of [...streams, ...polls]) leave()
  }
})
