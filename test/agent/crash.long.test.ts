/** The process of an agent dies at every step of its turns. */
import { expect, test } from 'bun:test'
import { crash } from './crashes.ts'

for (const resumeTurns of [false, true])
  test(`200 rounds, ${resumeTurns ? 'turns run again' : 'interrupted turns are told'}`, async () => {
    const steps = Array.from({ length: 200 }, (_, round) => 1 + ((round * 7) % 45))
    const crashes = await crash(steps, { resumeTurns })
    console.log(crashes)
    expect(crashes.killed).toBeGreaterThan(100)
    expect(crashes.answered).toBeGreaterThan(50)
    if (resumeTurns) expect(crashes.interrupted).toBe(0)
  }, 1_800_000)
