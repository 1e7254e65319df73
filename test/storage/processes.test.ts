/** What an engine owes to several processes that work at once, each on the same things. */
import { expect, test } from 'bun:test'
import { onEachShared } from './engines.ts'
import { insert, message, open, outgoing } from './support.ts'

const textOf = (child: { stdout: ReadableStream<Uint8Array> }) => new Response(child.stdout).text()

onEachShared(newPlace => {
  test('concurrent claims never get the same row, and together get all rows', async () => {
    const place = newPlace()
    await using storage = await place.open()
    await insert(
      { storage },
      Array.from({ length: 600 }, (_, nth) => message(`${nth}`)),
    )
    const body = `
      for (let none = 0; none < 3; ) {
        const claim = await store.consumers.claim('default', { limit: 7 })
        if (!claim) { none++; continue }
        console.log(claim.rows.map(row => row.id).join(' '))
        await store.consumers.ack(claim.lease)
      }
      await storage.close()`
    const told = await Promise.all([1, 2, 3].map(() => textOf(place.start(body))))
    const got = told.join('\n').split(/\s+/).filter(Boolean).map(Number)
    expect(got.sort((a, b) => a - b)).toEqual(Array.from({ length: 600 }, (_, i) => i + 1))
  })

  test('of several concurrent claims of a lane one succeeds', async () => {
    const place = newPlace()
    await using storage = await place.open()
    const parts = [{ kind: 'text', waiting: { message: outgoing('a') } }] as const
    const entry = { session: 's', bot_id: 'b', user: 'u', mode: 'queue', made_by: 'owner', parts } as const
    const added = await storage.store.outbox.enqueue(entry, open)
    const lane = added.state === 'new' ? added.lane : 0
    const body = `console.log((await store.outbox.claim(${lane})) !== undefined)
      process.stdin.resume()`
    const others = Array.from({ length: 4 }, () => place.start(body))
    const said = await Promise.all(
      others.map(async ({ stdout }) =>
        new TextDecoder().decode((await stdout.getReader().read()).value).trim(),
      ),
    )
    expect(said.sort()).toEqual(['false', 'false', 'false', 'true'])
  })

  test('concurrent senders keep one pace', async () => {
    const place = newPlace()
    await using _storage = await place.open()
    const pace = { perSecond: 1 / 20, perWindow: 1000, windowMs: 3_600_000 }
    const rules = JSON.stringify({ ...open, pace })
    const others = Array.from({ length: 3 }, (_, n) =>
      place.start(
        `const got = []
         for (let n = 0; n < 20; n++) {
           const message = { client_id: '${n}.' + n, to_user: 'u', msg_type: 'TEXT', text: '', timestamp: 1, raw: '{}' }
           const entry = { session: 's', bot_id: 'b', user: 'u', mode: 'fail', parts: [{ kind: 'text' }] }
           const { state, begun } = await store.outbox.enqueue(entry, ${rules}, message)
           got.push(begun ? 'went' : state)
         }
         await storage.close()
         console.log(JSON.stringify(got))`,
      ),
    )
    const got = (await Promise.all(others.map(textOf))).map(text => JSON.parse(text) as string[])
    expect(got.flat().filter(one => one === 'went')).toHaveLength(1)
  })
})
