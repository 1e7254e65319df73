import { expect, test } from 'bun:test'
import { eventSource, restOf } from '../support/event-source.ts'
import { withGateway } from '../support/gateway.ts'
import { cutAndResume, writer } from './cut-streams.ts'

test('a stream that is cut and resumed 1,000 times has no gap and no repeat', async () => {
  const result = await cutAndResume(1000)
  console.log(JSON.stringify(result))
  expect(result).toMatchObject({ cuts: 1000, missing: 0, repeated: 0, inOrder: true })
}, 300_000)

test('without anything new a comment comes, and the place of what was filtered away', async () => {
  await using t = await withGateway({ start: false })
  await using rest = await restOf(t.gateway)
  await using log = await writer(t)
  await using stream = await eventSource(`${rest.url}/events?types=session.status`)
  const reading = stream.next()
  await log.say('filtered away')
  const head = await t.gateway.events.head()
  await t.until('the place moves', () => stream.lastId === head)
  expect(stream.comments).toBeGreaterThan(1)
  await log.store.events.append([{ type: 'session.status', session: 's', data: { name: 's' } }])
  expect((await reading)?.data.type).toBe('session.status')
})
