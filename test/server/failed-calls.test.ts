/** Calls without the right token in the audit log. */
import { expect, test } from 'bun:test'
import { withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'

test('calls without the right token are counted, with one line a minute for each address', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway, { token: 'a-long-enough-token' })
  const lines = () => t.gateway.audit.list({ limit: 100, after: 0 })
  const call = async (headers: Record<string, string>) =>
    (await fetch(`${rest.url}/tools`, { headers })).status
  for (let nth = 0; nth < 3; nth++) expect(await call({ authorization: 'Bearer wrong' })).toBe(401)
  expect(await call({})).toBe(401)
  expect(await call({ authorization: 'Bearer a-long-enough-token' })).toBe(200)
  expect(await lines()).toEqual([])
  await t.soon('counted', async () => (await lines()).length > 0)
  const line = { principal: 'open', operation: 'authenticate', outcome: 'unauthorized' }
  expect(await lines()).toMatchObject([{ ...line, count: 4, address: '127.0.0.1' }])
  await call({})
  rest.app.beginShutdown()
  await t.until('counted as it stops', async () => (await lines()).length > 1)
  expect((await lines())[1]).toMatchObject({ ...line, count: 1 })
})
