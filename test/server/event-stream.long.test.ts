import { expect, test } from 'bun:test'
import { connect } from 'node:net'
import { eventTypes } from '../../src/model/event.ts'
import { eventSource } from '../support/event-source.ts'
import { withGateway } from '../support/gateway.ts'
import { asyncApi } from '../support/openapi-judges.ts'
import { restOf } from '../support/rest.ts'
import { cutAndResume, writer } from './cut-streams.ts'

test('a stream that is cut and resumed 1,000 times has no gap and no repeat', async () => {
  const result = await cutAndResume(1000)
  console.log(JSON.stringify(result))
  expect(result).toMatchObject({ cuts: 1000, missing: 0, repeated: 0, inOrder: true })
}, 300_000)

test("AsyncAPI's own parser finds nothing to say of /asyncapi.json", async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  const { version, messages, diagnostics } = await asyncApi(
    await (await fetch(`${rest.url}/asyncapi.json`)).text(),
  )
  expect([version, diagnostics]).toEqual(['3.1.0', []])
  expect(messages).toEqual(expect.arrayContaining([...eventTypes]))
})

test('without anything new a comment comes, and the place of what was filtered away', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  await using stream = await eventSource(`${rest.url}/events?types=session.status`)
  const reading = stream.next()
  await log.say('filtered away')
  const head = await t.gateway.events.getHead()
  await t.until('the place moves', () => stream.lastId === head)
  expect(stream.comments).toBeGreaterThan(1)
  await log.store.events.append([{ type: 'session.status', session: 's', data: { name: 's' } }])
  expect((await reading)?.data.type).toBe('session.status')
})

test('a reader that stops reading is cut off while others go on, and reads on when it comes again', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  const after = await t.gateway.events.getHead()
  const { hostname, port } = new URL(rest.url)
  const stuck = connect(Number(port), hostname)
  let cut = false
  stuck.on('close', () => {
    cut = true
  })
  stuck.on('error', () => {})
  stuck.write(`GET /events HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`)
  // Its first bytes: from here on it does not read.
  await new Promise<void>(resolve => stuck.once('data', () => resolve(void stuck.pause())))
  await using other = await eventSource(`${rest.url}/events?after=${after}`)
  const long = 'x'.repeat(15_000)
  let told = 0
  const counting = (async () => {
    while (await other.next()) told++
  })()
  let said = 0
  await t.until('its connection ends', async () => {
    for (let nth = 0; nth < 20; nth++) await log.say(`${said++} ${long}`)
    // A paused socket hears of nothing: what the kernel says counts.
    stuck.resume()
    stuck.pause()
    return cut
  })
  await t.until('the other one has all', () => told === said)
  other.cut()
  await counting
  await using again = await eventSource(`${rest.url}/events?after=${after}`)
  for (let nth = 0; nth < said; nth++)
    expect((await again.next())?.data.data.text.split(' ')[0]).toBe(String(nth))
})
