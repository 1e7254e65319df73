/** An agent on a store that nodes share: the node that runs it dies 50 times. */
import { expect, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { takeOver } from './takeovers.ts'

test.skipIf(!isPostgresThere())(
  '50 rounds: nothing is answered twice, and none is forgotten',
  async () => {
    const delays = Array.from({ length: 50 }, (_, round) => (round * 37) % 400)
    const { took, twice, ...counts } = await takeOver(delays)
    const sorted = took.toSorted((a, b) => a - b)
    console.log({ ...counts, median: sorted[25], longest: sorted.at(-1) })
    expect(twice).toEqual([])
    expect(sorted.at(-1)).toBeLessThan(10_000)
  },
  1_800_000,
)
