/** The metrics as Prometheus' own tool judges them. */
import { expect, test } from 'bun:test'
import { ended } from '../support/ended.ts'
import { logIn, startService } from '../support/service.ts'

const promtool = Bun.which('promtool')
test.skipIf(!promtool)('promtool finds nothing wrong with /metrics (skipped without promtool)', async () => {
  await using service = await startService()
  await logIn(service)
  await service.phone('say', { text: 'hello' })
  const { body } = await service.call('recv', { timeout: 30 })
  await service.call('send', { to: body[0].from_user, text: 'x' })
  const stdin = await (await fetch(`${service.url}/metrics`)).text()
  const options = { cwd: process.cwd(), env: {}, stdin }
  expect(await ended([promtool!, 'check', 'metrics'], options)).toEqual({ status: 0, stdout: '', stderr: '' })
})
