import { expect, test } from 'bun:test'
import { startRest } from '../support/rest.ts'

test('a waiting call outlives the idle cut of the server', async () => {
  await using rest = await startRest()
  const began = performance.now()
  // Bun cuts a silent connection after 10 s unless told not to.
  const { status, body } = await rest.call('recv', { timeout: 13 })
  expect([status, body]).toEqual([200, []])
  expect(performance.now() - began).toBeGreaterThan(12_900)
})
