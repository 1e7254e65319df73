import { expect, test } from 'bun:test'
import { withGateway } from '../support/gateway.ts'
import { withSandbox } from '../support/sandbox.ts'

test('a simulated WeChat that ended: what to do is said once', async () => {
  const sandbox = await withSandbox()
  await using t = await withGateway({ sandbox })
  await t.until('a first poll', () => t.requests('getupdates') > 0)
  await sandbox[Symbol.asyncDispose]()
  const failed = () => t.lines.filter(line => / WARNING poller: .* retryInMs=/.test(line))
  await t.until('several tries', () => {
    void t.clock.advance(5000)
    return failed().length >= 4
  })
  for (const line of failed()) expect(line).toMatch(/ error="[^"()]+ \(\w+\)"/)
  const { port } = new URL(sandbox.url)
  const told = t.lines.filter(line => line.includes(`svc sandbox --sandbox-port ${port}`))
  expect(told).toEqual([expect.stringContaining(' WARNING ')])
})
