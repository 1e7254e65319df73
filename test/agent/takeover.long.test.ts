/** An agent on a store that nodes share: it runs on one of them, and on another one after that died. */
import { expect, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { takeOver } from './takeovers.ts'

test.skipIf(!isPostgresThere())(
  'the node that runs an agent dies: another one goes on',
  async () => {
    const { answered, took, twice } = await takeOver([0])
    expect(twice).toEqual([])
    expect(answered).toBeGreaterThan(1)
    expect(Math.max(...took)).toBeLessThan(10_000)
  },
  120_000,
)
