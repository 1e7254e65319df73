/** What may be kept of webhooks, and what it costs to look one up. */
import { expect, test } from 'bun:test'
import { owner, type Principal } from '../../src/model/principal.ts'
import { createLog } from '../../src/platform/log.ts'
import { type DispatcherPorts, WebhookDispatcher } from '../../src/push/delivery.ts'
import { createSignedLink } from '../../src/push/signature.ts'
import { Webhooks } from '../../src/push/webhooks.ts'
import { testClock } from '../support/clock.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { quietPorts } from '../support/quiet-ports.ts'
import { runtimeOf } from '../support/runtime.ts'
import { openInMemory } from '../support/store-in-memory.ts'
import { until } from '../support/until.ts'

async function room() {
  const clock = testClock({ runs: false })
  const { webhooks } = await openInMemory()
  const ports = {
    ...quietPorts,
    ...{ webhooks, clock, resolveTarget: async () => ({}), getMessage: async () => undefined },
    isKeyOver: async () => false,
    listKeys: async () => [],
    events: { getHead: async () => 's-0', listAfter: async () => ({ events: [], cursor: 's-0' }) },
  }
  return { ports, webhooks: new Webhooks(ports) }
}
const url = 'https://1.1.1.1/hook'
const headers = (count: number, name: string, value: string) =>
  Object.fromEntries(Array.from({ length: count }, (_, nth) => [`${name}${nth}`, value]))

test('an address counts as it is stored: letters that are encoded take nine times their place', async () => {
  const { webhooks } = await room()
  for (const path of ['啊'.repeat(1900), '啊'.repeat(230), '"'.repeat(700), '\u{1f600}'.repeat(170)])
    expect(fieldsOf(await failure(webhooks.add(owner, { url: `${url}/${path}` })))).toEqual(['url'])
  expect((await webhooks.add(owner, { url: `${url}/${'啊'.repeat(200)}` })).url.length).toBeLessThan(2000)
})

test('headers of one webhook are bounded by their names too, and so are all of them together', async () => {
  const { webhooks } = await room()
  for (const given of [
    headers(1, 'x'.repeat(900_000), ''),
    headers(1, 'x'.repeat(101), 'v'),
    headers(5, 'x', 'v'.repeat(4000)),
    headers(20, 'x'.repeat(90), 'v'.repeat(750)),
    headers(21, 'x', 'v'),
  ])
    expect(fieldsOf(await failure(webhooks.add(owner, { url, headers: given })))).toEqual(['headers'])
  // Together, also of those who ask at the same time.
  const large = Array.from({ length: 60 }, () =>
    webhooks.add(owner, { url, headers: headers(4, 'x', 'v'.repeat(4000)) }),
  )
  const kept = (await Promise.allSettled(large)).filter(({ status }) => status === 'fulfilled').length
  expect(kept).toBe(32)
  expect(JSON.stringify(await webhooks.list(owner)).length).toBeLessThan(100_000)
  const small = Array.from({ length: 200 }, () => webhooks.add(owner, { url }))
  expect((await Promise.allSettled(small)).filter(({ status }) => status === 'fulfilled').length).toBe(68)
})

test('a link of a delivery is judged by its own webhook: the others are not read', async () => {
  const { ports } = await room()
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
  expect(await webhooks.isLinkValid(to, '99999999999', 'wrong')).toBe(false)
  expect(await failure(webhooks.get(owner, 'wh_1'))).toMatchObject({ code: 'not_found' })
})

test('a link of a delivery ends with the key that added the webhook', async () => {
  const { ports } = await room()
  const ended = new Set<string>()
  const webhooks = new Webhooks({ ...ports, isKeyOver: async id => ended.has(id) })
  const by: Principal = { kind: 'key', id: 'k3v9x2ab', grant: { rights: ['webhooks'] } }
  const { id } = await webhooks.add(by, { url })
  const to = { webhook: id, message_id: '1', item: 'message' }
  const link = createSignedLink((await ports.webhooks.get(id))!.link_key, to, ports.clock.now())
  const { expires, signature } = Object.fromEntries(new URL(link, url).searchParams)
  expect(await webhooks.isLinkValid(to, expires!, signature!)).toBe(true)
  ended.add('k3v9x2ab')
  expect(await webhooks.isLinkValid(to, expires!, signature!)).toBe(false)
})

test('where there is no webhook nothing is written for them, and a store that cannot be written is no trouble', async () => {
  const clock = testClock({ runs: false })
  const lines: string[] = []
  const stop = new AbortController()
  let looks = 0
  const kept = (await openInMemory()).webhooks
  const webhooks = {
    ...kept,
    list: async () => {
      looks++
      return []
    },
    progress: {
      ...kept.progress,
      takeOver: async () => {
        throw new Error('the disk is full')
      },
    },
  }
  const log = createLog('DEBUG', line => void lines.push(line))
  const runtime = runtimeOf({ clock, closing: stop.signal, log })
  const delivery = new WebhookDispatcher({ webhooks } as unknown as DispatcherPorts, runtime)
  delivery.start(() => true)
  for (let second = 0; second < 5; second++) {
    const before = looks
    await until('it looked', 10_000, () => {
      if (looks === before) clock.advance(600)
      return looks > before
    })
  }
  stop.abort()
  await delivery.stop()
  expect(lines).toEqual([])
})
