/** What may be kept of webhooks, and what it costs to look one up. */
import { expect, test } from 'bun:test'
import { Webhooks } from '../../src/push/webhooks.ts'
import { memoryWebhooks } from '../storage/memory-events.ts'
import { Tables } from '../storage/memory-tables.ts'
import { testClock } from '../support/clock.ts'
import { failure, fieldsOf } from '../support/failure.ts'

function room() {
  const clock = testClock({ runs: false })
  const webhooks = memoryWebhooks(new Tables())
  const ports = {
    ...{ webhooks, clock, meant: async () => ({}), message: async () => undefined },
    events: { head: async () => 's-0', after: async () => ({ events: [], cursor: 's-0' }) },
  }
  return { ports, webhooks: new Webhooks(ports) }
}
const url = 'https://1.1.1.1/hook'
const headers = (count: number, name: string, value: string) =>
  Object.fromEntries(Array.from({ length: count }, (_, nth) => [`${name}${nth}`, value]))

test('an address counts as it is stored: letters that are encoded take nine times their place', async () => {
  const { webhooks } = room()
  for (const path of ['啊'.repeat(1900), '啊'.repeat(230), '"'.repeat(700), '\u{1f600}'.repeat(170)])
    expect(fieldsOf(await failure(webhooks.add({ url: `${url}/${path}` })))).toEqual(['url'])
  expect((await webhooks.add({ url: `${url}/${'啊'.repeat(200)}` })).url.length).toBeLessThan(2000)
})

test('headers of one webhook are bounded by their names too, and so are all of them together', async () => {
  const { webhooks } = room()
  for (const given of [
    headers(1, 'x'.repeat(900_000), ''),
    headers(1, 'x'.repeat(101), 'v'),
    headers(5, 'x', 'v'.repeat(4000)),
    headers(20, 'x'.repeat(90), 'v'.repeat(750)),
    headers(21, 'x', 'v'),
  ])
    expect(fieldsOf(await failure(webhooks.add({ url, headers: given })))).toEqual(['headers'])
  // Together, also of those who ask at the same time.
  const large = Array.from({ length: 60 }, () =>
    webhooks.add({ url, headers: headers(4, 'x', 'v'.repeat(4000)) }),
  )
  const kept = (await Promise.allSettled(large)).filter(({ status }) => status === 'fulfilled').length
  expect(kept).toBe(32)
  expect(JSON.stringify(await webhooks.list()).length).toBeLessThan(100_000)
  const small = Array.from({ length: 200 }, () => webhooks.add({ url }))
  expect((await Promise.allSettled(small)).filter(({ status }) => status === 'fulfilled').length).toBe(68)
})

test('a link of a delivery is judged by its own webhook: the others are not read', async () => {
  const { ports } = room()
  const webhooks = new Webhooks({
    ...ports,
    webhooks: {
      ...ports.webhooks,
      list: () => {
        throw new Error('read them all')
      },
    },
  })
  const to = { webhook: 'wh_1', message_id: '1', item: 'message' }
  expect(await webhooks.opens(to, '99999999999', 'wrong')).toBe(false)
  expect(await failure(webhooks.get('wh_1'))).toMatchObject({ code: 'not_found' })
})
