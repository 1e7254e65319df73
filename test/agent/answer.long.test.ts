import { expect, test } from 'bun:test'
import process from 'node:process'
import { toAnswer } from '../../src/agent/answer.ts'
import { hostileTexts } from './answers.ts'

/** Returns the milliseconds of the processor that the work takes: the time of a busy machine does not count. */
async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const began = process.cpuUsage()
  await work()
  const { system, user } = process.cpuUsage(began)
  return (system + user) / 1000
}

for (const [name, make] of hostileTexts)
  test(`twice the text takes about twice the work: ${name}`, async () => {
    const texts = [make(24_000), make(48_000)].map(text => text.slice(0, 60_000))
    const times: number[] = []
    for (const text of texts) times.push(await cpuOf(() => toAnswer(text, { folder: '/nowhere' })))
    const [once = 0, twice = 0] = times
    // Collecting garbage takes its time too, so short runs say nothing.
    expect(twice).toBeLessThan(300 + 3.2 * once)
    expect(twice).toBeLessThan(8000)
  })
