/**
 * Both engines take the same random steps, and must show the same after each one: `SVC_TEST_RUNS=50 SVC_TEST_SEED=7` has
 * more of them taken, and others.
 */
import { describe, test } from 'bun:test'
import { isPostgresThere } from '../support/postgres.ts'
import { compareAgents } from './differ/agents.ts'
import { compareEvents } from './differ/events.ts'
import { compareHistory } from './differ/history.ts'
import { compareKeys } from './differ/keys.ts'
import { compareMedia } from './differ/media.ts'
import { compareOutbox } from './differ/outbox.ts'
import { comparePeople } from './differ/people.ts'
import { compareReaders } from './differ/readers.ts'
import { compareState } from './differ/state.ts'
import { compareUpkeep } from './differ/upkeep.ts'
import { compareWebhooks } from './differ/webhooks.ts'

/** A difference is shrunk by repeating its steps, and more may be asked for. */
const withinMs = 3_600_000

describe.skipIf(!isPostgresThere())('both engines show the same after any steps', () => {
  test('of the outbox', compareOutbox, withinMs)
  test('of readers of the log', compareReaders, withinMs)
  test('of the event log', compareEvents, withinMs)
  test('of webhooks', compareWebhooks, withinMs)
  test('of keys, the audit log and backups', compareKeys, withinMs)
  test('of agents', compareAgents, withinMs)
  test('of the log: stored, found, imported', compareHistory, withinMs)
  test('of sessions, contexts, logins and sign-ins', compareState, withinMs)
  test('of retention and inspection', compareUpkeep, withinMs)
  test('of files', compareMedia, withinMs)
  test('of people, names and conversations', comparePeople, withinMs)
})
