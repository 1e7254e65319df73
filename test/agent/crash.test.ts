/** The process of an agent dies at some steps of its turns. */
import { expect, test } from 'bun:test'
import { crash } from './crashes.ts'

test('killed at some steps: each part arrives once, or is unknown, or its user is told', async () => {
  const crashes = await crash([4, 9, 13, 17, 21])
  expect(crashes.killed).toBeGreaterThan(0)
  expect(crashes.answered).toBeGreaterThan(0)
}, 120_000)

test('killed around an answer that is a text and a file: both arrive once', async () => {
  const steps = Array.from({ length: 20 }, (_, nth) => nth + 6)
  const crashes = await crash(steps, { long: 'file' })
  expect(crashes.killed).toBeGreaterThan(10)
  expect(crashes.answered).toBeGreaterThan(0)
}, 120_000)
