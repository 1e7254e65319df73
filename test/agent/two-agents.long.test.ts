/** Two agents of one person, each in a process of its own, which is killed again and again. */
import { expect, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { chooseWhileKilled } from './two-agents.ts'

for (const [engine, rounds] of [
  ['sqlite', 60],
  ['postgres', 20],
] as const)
  test.skipIf(engine === 'postgres' && !isPostgresThere())(
    `${engine}: after ${rounds} kills each message was answered by the right agent, once, or its person knows why not`,
    async () => {
      const rounded = Number(process.env.SVC_TEST_RUNS ?? rounds)
      const outcome = await chooseWhileKilled(engine, rounded, Math.random)
      console.log(outcome)
      expect(outcome.wrong).toEqual([])
      expect(outcome.answered).toBeGreaterThan(outcome.messages / 2)
    },
    1_800_000,
  )
