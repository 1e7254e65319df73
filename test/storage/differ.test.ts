/**
 * Both engines take the same random steps, and must show the same after each one: `SVC_TEST_RUNS=50 SVC_TEST_SEED=7` has
 * more of them taken, and others.
 */
import { describe, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { compareOutbox } from './differ/outbox.ts'

/** A difference is shrunk by repeating its steps, and more may be asked for. */
const withinMs = 3_600_000

describe.skipIf(!isPostgresThere())('both engines show the same after any steps', () => {
  test('of the outbox', compareOutbox, withinMs)
})
