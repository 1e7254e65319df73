/** Calls without the right token in the audit log. */
import { expect, test } from 'bun:test'
import { createFailureCounter } from '../../src/operations/failed-calls.ts'
import { silentLog } from '../../src/platform/log.ts'
import { FailedAttempts } from '../../src/server/failed-attempts.ts'
import { testClock } from '../support/clock.ts'
import { withGateway } from '../support/gateway.ts'
import { type Rest, raw, restOf } from '../support/rest.ts'

test('calls without the right token are counted, with one line a minute for each address', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway, { token: 'a-long-enough-token' })
  // From the beginning: else Prometheus would see no increase.
  expect(await t.gateway.metrics.text()).toContain('\nsvc_wrong_tokens_total 0\n')
  const lines = () => t.gateway.audit.list({ limit: 100, after: 0 })
  const call = async (headers: Record<string, string>) =>
    (await fetch(`${rest.url}/tools`, { headers })).status
  for (let nth = 0; nth < 3; nth++) expect(await call({ authorization: 'Bearer wrong' })).toBe(401)
  expect(await call({})).toBe(401)
  expect(await call({ authorization: 'Bearer a-long-enough-token' })).toBe(200)
  expect(await lines()).toEqual([])
  expect(await t.gateway.metrics.text()).toContain('\nsvc_wrong_tokens_total 4\n')
  await t.soon('counted', async () => (await lines()).length > 0)
  const line = { principal: 'open', operation: 'authenticate', outcome: 'unauthorized' }
  expect(await lines()).toMatchObject([{ ...line, count: 4, address: '127.0.0.1' }])
  await call({})
  rest.app.beginShutdown()
  await t.until('counted as it stops', async () => (await lines()).length > 1)
  expect((await lines())[1]).toMatchObject({ ...line, count: 1 })
})

test('a network of IPv6 is one caller, whatever its addresses are', async () => {
  await using t = await withGateway()
  const stop = new AbortController()
  const count = createFailureCounter(t.gateway, silentLog, stop.signal)
  for (let nth = 0; nth < 600; nth++) count(`2001:db8:0:7::${nth.toString(16)}`)
  count('2001:db8:0:8::1')
  count('192.0.2.1', 'sign_in')
  stop.abort()
  const lines = () => t.gateway.audit.list({ limit: 1000, after: 0 })
  await t.until('they are written', async () => (await lines()).length >= 3)
  expect((await lines()).map(({ count }) => count)).toEqual([600, 1, 1])
  expect((await lines())[0]?.address).toBe('2001:db8:0:7::/64')
})

test('callers behind a trusted proxy are counted by their own addresses, and nobody invents one', async () => {
  await using t = await withGateway()
  const guarded = { token: 'a-long-enough-token', allowHosts: ['svc.example.org'] }
  await using behind = await restOf(t.gateway, { ...guarded, trustedProxies: ['127.0.0.1', '10.0.0.0/8'] })
  await using open = await restOf(t.gateway, guarded)
  const call = async (rest: typeof behind, via: string, times = 1) => {
    const statuses = []
    for (let nth = 0; nth < times; nth++)
      statuses.push(
        await statusOfRaw(
          rest,
          `GET /tools HTTP/1.1\r\nHost: svc.example.org\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: ${via}\r\n\r\n`,
        ),
      )
    return statuses
  }
  await call(behind, '192.0.2.1, 10.0.0.2', 3)
  await call(behind, '192.0.2.2', 2)
  await call(open, '192.0.2.3', 1)
  const lines = () => t.gateway.audit.list({ limit: 100, after: 0 })
  await t.soon('counted', async () => (await lines()).length >= 3)
  const counts = (await lines()).map(({ address, count }) => [address, count])
  expect(counts.sort()).toEqual([
    ['127.0.0.1', 1],
    ['192.0.2.1', 3],
    ['192.0.2.2', 2],
  ])
})

test('an IPv6 network is slowed down as one address, whichever of its addresses calls', async () => {
  const clock = testClock({ runs: false })
  const attempts = new FailedAttempts({ log: silentLog, clock })
  const call = (address: string) => attempts.throttle(new Response(null, { status: 401 }), address)
  const delayed = Array.from({ length: 120 }, (_, nth) => call(`2001:db8:1:2:3:4:5:${nth.toString(16)}`))
  expect(delayed.filter(answer => answer instanceof Promise)).toHaveLength(20)
  expect((await call('2001:db8:1:2::1')).status).toBe(429)
  for (const other of ['2001:db8:1:3::1', '::1', '192.0.2.1', ''])
    expect((await call(other)).status).toBe(401)
  clock.advance(1000)
  await Promise.all(delayed)
})

const statusOfRaw = async ({ server }: Rest<unknown>, text: string) =>
  Number((await raw(server, text)).split(' ')[1])
