/** What operators see of a service: /metrics, the dashboard over it, and the log as JSON. */
import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { forFile } from '../support/folder.ts'
import { type Json, logIn, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const args = ['--metrics-port', '0', '--log-format', 'json', '--pace', 'off']
const service = forFile(await startService({ args }))
const open = /"metrics on ([^"]+)"/.exec(service.stdout())![1]!
await logIn(service)

const metrics = async (url = open) => (await fetch(url)).text()
const sampleIn = (text: string, sample: string) => {
  const line = text.split('\n').find(one => one.startsWith(`${sample} `))
  return line === undefined ? undefined : Number(line.slice(sample.length + 1))
}

test('its own port wants none, and has nothing else', async () => {
  expect(open).not.toContain(new URL(service.url).host)
  const answer = await fetch(open)
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(await answer.text()).toContain('\nsvc_build_info{version="')
  const elsewhere = await fetch(new URL('/tools', open))
  const { hint }: Json = await elsewhere.json()
  expect([elsewhere.status, hint]).toEqual([404, expect.stringContaining('/metrics')])
  expect((await fetch(open, { method: 'POST' })).status).toBe(405)
  expect((await fetch(open, { headers: { host: 'rebound.test' } })).status).toBe(403)
})

test('what happened is counted, what is now is looked up, and nothing names a user', async () => {
  await service.call('recv', { consumer: 'behind', timeout: 0 })
  await service.phone('say', { text: 'a secret word' })
  const leave = new AbortController()
  await fetch(`${service.url}/events?after=0&consumer=left`, { signal: leave.signal })
  leave.abort()
  const { body } = await service.call('recv', { timeout: 30 })
  const user: string = body[0].from_user
  await service.call('send', { to: user, text: 'an answer' })
  await service.call('send', { to: 'nobody@im.wechat', text: 'x', when_closed: 'queue' })
  await fetch(`${service.url}/users/${encodeURIComponent(user)}/name`, { method: 'PUT' })
  await fetch(`${service.url}/no/such/${user}?secret=1`)
  // A message can be read before its batch is finished, and is counted after that.
  const counted = [
    'svc_messages_total{direction="received",kind="TEXT"}',
    'svc_polls_total{outcome="messages"}',
  ]
  const text = await until('the message is counted', 30_000, async () => {
    const now = await metrics()
    return counted.every(name => sampleIn(now, name) !== undefined) && now
  })
  expect(sampleIn(text, 'svc_messages_total{direction="received",kind="TEXT"}')).toBe(1)
  expect(sampleIn(text, 'svc_messages_total{direction="sent",kind="TEXT"}')).toBe(1)
  expect(sampleIn(text, 'svc_message_deliveries_total{outcome="accepted"}')).toBe(1)
  expect(sampleIn(text, 'svc_sends_total{outcome="accepted"}')).toBe(1)
  expect(sampleIn(text, 'svc_polls_total{outcome="messages"}')).toBe(1)
  expect(sampleIn(text, 'svc_session_connected{session="default"}')).toBe(1)
  expect(sampleIn(text, 'svc_session_last_poll_age_seconds{session="default"}')).toBeGreaterThanOrEqual(0)
  expect(sampleIn(text, 'svc_outbox_messages')).toBe(0)
  expect(sampleIn(text, 'svc_outbox_oldest_age_seconds')).toBe(0)
  expect(sampleIn(text, 'svc_consumer_lag_messages{consumer="behind"}')).toBe(1)
  expect(sampleIn(text, 'svc_consumer_lag_messages{consumer="default"}')).toBe(0)
  expect(sampleIn(text, 'svc_event_reader_lag_events{consumer="left"}')).toBeGreaterThan(1)
  expect(sampleIn(text, 'process_resident_memory_bytes')).toBeGreaterThan(1e6)
  const route = (name: string) => `svc_http_request_duration_seconds_count{method=${name}`
  expect(sampleIn(text, route('"POST",route="/tools/default/recv",status="200"}'))).toBe(2)
  expect(sampleIn(text, route('"GET",route="none",status="404"}'))).toBe(1)
  expect(text).toContain('route="/users/:user_id/name"')
  for (const word of [user, 'secret', 'an answer']) expect(text).not.toContain(word)
})

test('each call is a line of the log with method, path, status and time, and nothing that it said', async () => {
  const lines = async () =>
    service
      .log()
      .split('\n')
      .filter(Boolean)
      .map((line): Json => JSON.parse(line))
      .filter(line => line.event === 'answered')
  await until('the line', 20_000, async () =>
    (await lines()).some(({ path }) => path.startsWith('/no/such/')),
  )
  const sent = (await lines()).find(({ path }) => path === '/tools/default/send')
  expect(sent).toMatchObject({ level: 'INFO', room: 'rest', method: 'POST', status: 200 })
  expect(sent.ms).toBeGreaterThan(0)
  expect((await lines()).map(({ path }) => path)).toContain('/users/:user_id/name')
  for (const word of ['a secret word', 'an answer', 'secret=1']) expect(service.log()).not.toContain(word)
})

test('every metric that the dashboard names exists', async () => {
  const path = join(import.meta.dir, '../../scripts/grafana-dashboard.json')
  const dashboard: Json = JSON.parse(await readFile(path, 'utf8'))
  const queries: string[] = dashboard.panels.flatMap((panel: Json) =>
    panel.targets.map(({ expr }: Json) => expr),
  )
  const named = new Set(queries.flatMap(query => query.match(/\b(svc|process)_\w+/g) ?? []))
  expect(named.size).toBeGreaterThan(10)
  const text = await metrics()
  const families = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
  const known = families.flatMap(([, name, type]) =>
    type === 'histogram' ? ['_bucket', '_sum', '_count'].map(suffix => name + suffix) : [name!],
  )
  // This service has no certificate, and is no node.
  const sources = await readFile(join(import.meta.dir, '../../src/gateway/metrics.ts'), 'utf8')
  const declared = [...sources.matchAll(/'(svc_\w+)'/g)].map(([, name]) => name!)
  for (const name of named) expect([...known, ...declared]).toContain(name)
  // And every one of ours is shown.
  for (const name of [...families.map(([, name]) => name!), ...declared])
    expect(queries.join(' ')).toContain(name)
})
