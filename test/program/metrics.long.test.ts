/** The metrics as Prometheus' own tool judges them. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { receiver } from '../push/receiver.ts'
import { ended } from '../support/ended.ts'
import { eventSource } from '../support/event-source.ts'
import { folderOfTest } from '../support/folder.ts'
import { logIn, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const promtool = Bun.which('promtool')
test.skipIf(!promtool)('promtool finds nothing wrong with /metrics (skipped without promtool)', async () => {
  await using service = await startService({ args: ['--pace', '1/5m'] })
  await logIn(service)
  using r = receiver()
  const own = { cwd: service.dir, env: { PATH: process.env.PATH ?? '', HOME: service.dir } }
  for (const args of [
    ['webhook', 'add', r.url, '--allow-private', '--sandbox'],
    ['backup', join(folderOfTest(), 'svc.tar'), '--sandbox'],
  ])
    expect(await ended([...svcProgram, ...args, '-d', service.dir], own)).toMatchObject({ status: 0 })
  await using stream = await eventSource(`${service.url}/events?consumer=dashboard`)
  await service.phone('say', { text: 'hello' })
  const { body } = await service.call('recv', { timeout: 30 })
  const answer = { to: body[0].from_user, text: 'x', when_closed: 'queue' }
  // By the pace the second one waits.
  for (const status of ['accepted', 'queued'])
    expect((await service.call('send', answer)).body.status).toBe(status)
  await stream.next()
  await until('delivered', 30_000, () => r.got.length > 0)
  const metrics = async () => (await fetch(`${service.url}/metrics`)).text()
  await until('the try is counted', 30_000, async () => /^svc_webhook_.* [1-9]/m.test(await metrics()))
  const stdin = await metrics()
  // Each family has a value to be judged by.
  const families = [...stdin.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name!)
  expect(families.filter(name => !new RegExp(`^${name}(_count)?[{ ]`, 'm').test(stdin))).toEqual([])
  expect(stdin).toContain('\nsvc_outbox_messages 1\n')
  const options = { cwd: process.cwd(), env: {}, stdin }
  expect(await ended([promtool!, 'check', 'metrics'], options)).toEqual({ status: 0, stdout: '', stderr: '' })
})
