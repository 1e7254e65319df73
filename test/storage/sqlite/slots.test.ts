/** The pace in SQLite: several processes keep it together. */
import { expect } from 'bun:test'
import { given } from '../../support/given.ts'
import { openSqlite, startOnDirectory } from './support.ts'

const it = given(openSqlite)

it('processes that send at once keep one pace', async t => {
  t.clock.at = Date.now()
  const others = Array.from({ length: 3 }, (_, n) =>
    startOnDirectory(
      t.dir,
      `const rules = { quota: 1e9, windowMs: 1e15, pace: { perSecond: 1 / 20, perWindow: 1000, windowMs: 3_600_000 }, patienceMs: 30_000 }
       const got = []
       for (let n = 0; n < 20; n++) {
         const message = { client_id: '${n}.' + n, to_user: 'u', msg_type: 'TEXT', text: '', timestamp: 1, raw: '{}' }
         const entry = { session: 's', bot_id: 'b', user: 'u', mode: 'fail', parts: [{ kind: 'text' }] }
         const { state, begun } = await store.outbox.enqueue(entry, { context: { used: 0 }, rules }, message)
         got.push(begun ? 'went' : state)
       }
       await storage.close()
       console.log(JSON.stringify(got))`,
    ),
  )
  const got = (await Promise.all(others.map(child => new Response(child.stdout).json()))) as string[][]
  expect(got.flat().filter(one => one === 'went')).toHaveLength(1)
})
