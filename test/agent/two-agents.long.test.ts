/** Two agents of one person, in one process and in two, which are killed again and again. */
import { expect, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { type Storm, steerWhileKilled } from './two-agents.ts'

const kills = Number(process.env.SVC_TEST_RUNS ?? 50)
const seed = Number(process.env.SVC_TEST_SEED) || Math.floor(Math.random() * 1e9)

for (const engine of ['sqlite', 'postgres'] as const)
  for (const processes of [1, 2] as const)
    test.skipIf(engine === 'postgres' && !isPostgresThere())(
      `${engine}, ${processes === 1 ? 'one process' : 'two processes'}: after ${kills} kills each message was answered by the right agent, once, each time came once, or the person knows why not`,
      async () => {
        const storm: Storm = { engine, processes, kills, seed }
        console.log(`SVC_TEST_SEED=${seed}`, engine, processes)
        const outcome = await steerWhileKilled(storm)
        console.log(JSON.stringify(outcome))
        expect(outcome.wrong).toEqual([])
        expect(outcome.counts.answered).toBeGreaterThan((outcome.messages + outcome.times) / 2)
      },
      1_800_000,
    )
