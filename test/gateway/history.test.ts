/** history: who asks may leave. */
import { expect, test } from 'bun:test'
import { directCall } from '../../src/gateway/call.ts'
import { silentLog } from '../../src/platform/log.ts'
import { history } from '../../src/tools/history.ts'
import { invoke } from '../../src/tools/invoke.ts'
import { withGateway } from '../support/gateway.ts'

test('a search ends with the call it is for', async () => {
  await using t = await withGateway()
  await t.sandbox.bulk(2000)
  await t.receive(2000)
  const leave = new AbortController()
  const search = invoke(
    history,
    t.gateway,
    { text_contains: 'nowhere' },
    directCall({ signal: leave.signal }),
    silentLog,
  )
  leave.abort()
  await expect(search).rejects.toMatchObject({ code: 'shutting_down' })
  expect((await t.gateway.history.page({ text_contains: 'nowhere', limit: 1, offset: 0 })).total).toBe(0)
})
