/** Webhooks while processes die and receivers fail: each event at least once, in order per conversation, repeats by id only. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import process from 'node:process'
import { Svc } from '../../src/library/svc.ts'
import { receiver } from '../push/receiver.ts'
import { until } from './support/program.ts'
import { openSite } from './support/upstream.ts'

/** More of them by hand: SVC_WEBHOOK_ROUNDS=200. */
const rounds = Number(process.env.SVC_WEBHOOK_ROUNDS ?? 6)
const users = 5
const perRound = 20

test('three processes, the one that delivers killed again and again, receivers that fail at random', async () => {
  await using site = await openSite()
  const from = [site.user]
  while (from.length < users) from.push(await site.sandbox.addUser())
  /** By the id, its conversation and place in it, in the order of what was taken. */
  const taken: { id: string; user: string; text: number }[] = []
  let tries = 0
  const failed = new Set<string>()
  let inRow = 0
  using r = receiver(({ id, body }) => {
    tries += 1
    // An event that fails twice waits for 5 minutes, and an endpoint of which three tries in a row fail for 30 s.
    const fails = !failed.has(id) && inRow < 2 && Math.random() < 0.1
    inRow = fails ? inRow + 1 : 0
    if (fails) failed.add(id)
    if (fails && Math.random() < 0.5) return 500
    taken.push({ id, user: String(body.data.from_user), text: Number(body.data.text) })
    // What was taken, and not known to be: it comes again.
    return fails ? 503 : 200
  })
  {
    await using svc = await Svc.open({ basePath: site.dir, store: true, upstreamUrl: site.sandbox.url })
    await svc.webhooks.add({ url: r.url, types: ['message.received'], allow_private: true })
  }
  const programs = [await site.start(), await site.start(), await site.start()]
  let said = 0
  for (let round = 0; round < rounds; round++) {
    const before = tries
    for (let nth = 0; nth < perRound; nth++, said++)
      await site.sandbox.say(String(said), { from: from[said % users]! })
    // In the middle of it.
    await until('something is tried', 60_000, () => tries > before + perRound / 4)
    const [victim] = programs.splice(round % programs.length, 1)
    await victim!.kill('SIGKILL')
    programs.push(await site.start())
  }
  const unique = () => new Set(taken.map(({ id }) => id)).size
  const lanes = () => {
    using db = new Database(join(site.dir, 'messages.db'), { readonly: true })
    return JSON.stringify({ said, taken: unique(), lanes: db.query('SELECT * FROM webhook_lane').all() })
  }
  await until('all of it', 120_000 + rounds * 10_000, () => unique() === said, lanes)
  for (const user of from) {
    const own = taken.filter(one => one.user === user)
    const first = [...new Map(own.map(one => [one.id, one.text])).values()]
    expect(first).toEqual([...first].sort((a, b) => a - b))
    expect(first).toHaveLength(said / users)
    // A repeat goes on in order from there: nothing is passed over.
    for (const [nth, { text }] of own.entries()) {
      const next = own[nth + 1]
      if (next) expect(next.text).toBeLessThanOrEqual(text + users)
    }
  }
  if (process.env.SVC_WEBHOOK_ROUNDS)
    console.log({ rounds, events: said, tries, repeats: taken.length - said })
})
