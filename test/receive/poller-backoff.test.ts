import { expect, test } from 'bun:test'
import type { FaultKind } from '../support/faults.ts'
import { withPoller } from '../support/poller.ts'

const failing: FaultKind[] = [
  ...(['500', '502', '524', '401', 'reset', 'truncated', 'cut', 'malformed', 'html'] as const),
  ...(['empty_body', 'ret', 'errcode'] as const),
]
/** No failures, but answers without anything in them: each pause is a second longer than the one before, up to ten. */
const bare: FaultKind[] = ['nulls', 'empty']

for (const kind of [...failing, ...bare]) {
  const soonMs = bare.includes(kind) ? 11_000 : 5000
  test(`${kind}: fewer polls than one per second, well again within ${soonMs / 1000} s after a short outage, within 60 s after a long one, nothing lost`, async () => {
    const askedAt: number[] = []
    await using t = await withPoller({
      fetch: real => (url, init) => {
        if (url.includes('getupdates')) askedAt.push(t.clock.monotonic())
        return real(url, init)
      },
    })
    const said: string[] = []
    const say = async (text: string) => {
      said.push(text)
      await t.sandbox.say(text)
    }
    const allStored = async () => (await t.texts()).length === said.length
    // Steps so short that no answer looks slow, which the pace of bare ones goes by.
    for (const [outageMs, stepMs, recoveryMs] of [
      [20_000, 250, soonMs],
      [120_000, 500, 60_000],
    ] as const) {
      await t.until('a held poll', () => t.sandbox.world.core.stats.polls_now === 1)
      await t.sandbox.fail('getupdates', kind, { times: 0, delay_ms: 0 })
      // The poll under way was begun before the trouble; its answer ends it.
      await say(`${outageMs} begins`)
      await t.until('stored', allStored)
      const before = askedAt.length
      // A poll that finds nothing is held, and has no answer that could break.
      await say(`${outageMs} is over`)
      await t.tick(outageMs, stepMs)
      const polls = askedAt.slice(before)
      expect(polls.length).toBeWithin(3, outageMs / 1000)
      // In any stretch, not only on the whole: however short the waits are by chance, five take more than this.
      for (const [n, at] of bare.includes(kind) ? [] : polls.entries()) {
        const later = polls[n + 5]
        if (later !== undefined) expect(later - at).toBeGreaterThan(5000)
      }
      await t.sandbox.mend()
      expect(await t.tick(recoveryMs, stepMs, allStored)).toBeLessThan(recoveryMs)
      expect(await t.texts()).toEqual(said)
    }
  })
}
