import { expect, test } from 'bun:test'
import { withGateway } from '../support/gateway.ts'
import { withSandbox } from '../support/sandbox.ts'

test('a simulated WeChat that ended is called what it is, and what to do is said once', async () => {
  const sandbox = await withSandbox()
  await using t = await withGateway({ sandbox })
  await t.until('a first poll', () => t.requests('getupdates') > 0)
  await sandbox[Symbol.asyncDispose]()
  const failed = () => t.lines.filter(line => line.includes('poll failed'))
  await t.until('several tries', () => {
    void t.clock.advance(5000)
    return failed().length >= 4
  })
  for (const line of failed()) expect(line).toMatch(/ error="[^"()]*the simulated WeChat[^"()]* \(\w+\)"/)
  const told = t.lines.filter(line => line.includes('is not there'))
  expect(told).toHaveLength(1)
  const port = new URL(sandbox.url).port
  expect(told[0]).toContain(
    'WARNING the simulated WeChat is not there. It ended with the process that ran it',
  )
  expect(told[0]).toContain(`svc sandbox --sandbox-port ${port}`)
})
