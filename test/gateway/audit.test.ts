/** How long lines of the audit log are kept, and how they reach webhooks. */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import { verbs } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { findSystemUser } from '../../src/platform/process.ts'
import { receiver } from '../push/receiver.ts'
import { type TestGatewayOptions, withGateway } from '../support/gateway.ts'

const dayMs = 24 * 60 * 60_000
const line = { principal: 'owner', operation: 'login', outcome: 'done' }

/** Returns the ages in days of the lines that are left soon after the start. */
async function kept(options: TestGatewayOptions) {
  await using t = await withGateway({ ...options, start: false })
  const now = t.clock.now()
  // More than are removed at a time, in the order in which time passes.
  const old = Array.from({ length: 1200 }, () => t.gateway.audit.add({ ...line, at: now - 100 * dayMs }))
  await Promise.all(old)
  for (const days of [91, 89, 3, 0.1]) await t.gateway.audit.add({ ...line, at: now - days * dayMs })
  await t.gateway.start()
  const oldest = () => t.gateway.audit.list({ limit: 1, after: 0 })
  await t.soon('old lines removed', async () => (await oldest()).every(({ at }) => at > now - 90 * dayMs))
  return (await t.gateway.audit.list({ limit: 2000, after: 0 })).map(({ at }) => (now - at) / dayMs)
}

test.each([
  ['90 days by default', {}, [89, 3, 0.1]],
  ['as long as is said', { config: { auditDays: 1 } }, [0.1]],
  ['not at all', { config: { auditDays: 0 } }, []],
  ['not at all without a store', { store: false as const }, []],
] as const)('lines are kept %s', async (_how, options, left) => {
  expect(await kept(options as TestGatewayOptions)).toEqual([...left])
})

test('a service that begins to keep less says so', async () => {
  await using first = await withGateway()
  const noted = () => {
    using db = new Database(join(first.dir, 'messages.db'), { readonly: true })
    return db.query('SELECT retention FROM store_id').get() as { retention: string | null }
  }
  await first.soon('it is noted', () => noted().retention)
  await first.gateway.close()
  const options = { sandbox: first.sandbox, dir: first.dir, sessions: [], clock: first.clock }
  await using next = await withGateway({ ...options, config: { auditDays: 7 } })
  const retention = 'max_age_days=30 max_count=100000 audit_days=7'
  await next.soon('it is noted again', () => noted().retention === retention)
  expect(await next.gateway.audit.list({ limit: 10 })).toMatchObject([
    {
      principal: 'owner',
      operation: 'set_retention',
      subject: retention,
      outcome: 'done',
      address: `service:${findSystemUser()}`,
    },
  ])
})

test('an endpoint that names the type gets each line; one for all types gets none', async () => {
  await using t = await withGateway()
  using all = receiver()
  using own = receiver()
  await t.gateway.webhooks.add(owner, { url: all.url, allow_private: true })
  await t.gateway.webhooks.add(owner, { url: own.url, types: ['audit.line'], allow_private: true })
  const input = { old_name: 'default', new_name: 'work' }
  await invoke(verbs.renameSession, t.gateway, input, createDirectCall(), silentLog)
  await t.soon('delivered', () => own.got.length > 0 && all.got.length > 0)
  expect(own.got.map(({ body }) => [body.type, body.data])).toMatchObject([
    ['audit.line', { principal: 'owner', operation: 'rename_session', subject: 'default', outcome: 'done' }],
  ])
  expect(new Set(all.got.map(({ body }) => body.type))).toEqual(new Set(['session.status']))
})
