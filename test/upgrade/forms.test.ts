/** Tables that change get another form, so that an older svc refuses them in words, and does not fail while it works. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { steps as databaseSteps, newestForm } from '../../src/storage/postgres/schema.ts'
import { newestSchemaVersion, steps } from '../../src/storage/sqlite/migrations.ts'

/** SQL without its comments, and without how it is broken into lines. */
const fingerprintOf = (text: string) =>
  createHash('sha256').update(text.replace(/--.*$/gm, '').replace(/\s+/g, ' ')).digest('hex').slice(0, 16)

/**
 * The forms: 0.9.0 has 103 in both engines, whose tables are their first step. PostgreSQL got 104 for leases, both got the next for
 * what steers agents, and the next for programs of the relay. A step that was released stays as it is:
 * whoever changes the tables adds a step, and writes the new form here.
 */
const known = {
  ...{ form: 105, sqlite: '6531c4ae86915a2a' },
  ...{ newestForm: 106, postgres: '5d4c5f748ab42728' },
}

test('the tables and functions of both engines are those of their form', () => {
  const postgres = fingerprintOf(databaseSteps.join(''))
  const sqlite = fingerprintOf(steps.join(''))
  expect({ form: newestSchemaVersion, sqlite, newestForm, postgres }).toEqual(known)
})
