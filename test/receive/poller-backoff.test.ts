import { expect, test } from 'bun:test'
import type { FaultKind } from '../support/faults.ts'
import { withPoller } from '../support/poller.ts'

const kinds: FaultKind[] = ['500', 'reset', 'malformed', 'ret']

for (const kind of kinds) {
  for (const [what, outageMs, recoveryMs] of [
    ['a short outage (20 s) ends within 5 s', 20_000, 5000],
    ['a long one (10 min) within 60 s', 600_000, 60_000],
  ] as const) {
    test(`${kind}: fewer polls than one per second, and ${what} of upstream's recovery`, async () => {
      const askedAt: number[] = []
      await using t = await withPoller({
        fetch: real => (url, init) => {
          if (url.includes('getupdates')) askedAt.push(t.clock.monotonic())
          return real(url, init)
        },
      })
      await t.until('the first poll', () => t.atOnce() === 1)
      await t.sandbox.fail('getupdates', kind, { times: 0, delay_ms: 0, ...(kind === 'ret' && { code: -1 }) })
      const began = t.clock.monotonic()
      // The poll under way was begun before the trouble; its answer ends it.
      await t.sandbox.say('first')
      await t.until('stored', async () => (await t.texts()).length === 1)
      await t.tick(outageMs, 500)
      const failing = askedAt.filter(at => at > began)
      expect(failing.length).toBeGreaterThan(3)
      expect(failing.length).toBeLessThan(outageMs / 1000 / 2)
      // In any stretch, not only on the whole.
      for (const [n, at] of failing.entries()) {
        const later = failing[n + 5]
        if (later !== undefined) expect(later - at).toBeGreaterThan(5000)
      }
      await t.sandbox.say('second')
      await t.sandbox.mend()
      const recoveredMs = await t.tick(recoveryMs, 250, async () => (await t.texts()).length === 2)
      expect(await t.texts()).toEqual(['first', 'second'])
      expect(recoveredMs).toBeLessThan(recoveryMs)
    })
  }
}
