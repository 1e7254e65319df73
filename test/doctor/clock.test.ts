import { expect, test } from 'bun:test'
import { forFile } from '../support/folder.ts'
import { withWard } from './support.ts'

const ward = forFile(await withWard())
const hour = 60 * 60_000

/** A server whose clock is off. */
const skewed = (byMs: number) =>
  Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => new Response('', { headers: { date: new Date(Date.now() + byMs).toUTCString() } }),
  })

for (const { byMs, severity, what } of [
  { byMs: 2000, severity: 'ok', what: 'agree' },
  { byMs: 5 * 60_000, severity: 'warning', what: 'this clock is 5 minutes behind upstream’s' },
  { byMs: -10 * 60_000, severity: 'warning', what: 'this clock is 10 minutes ahead of upstream’s' },
  { byMs: 26 * hour, severity: 'error', what: 'this clock is 1 day behind upstream’s' },
]) {
  test(`upstream's clock is ${byMs / 1000} s ahead: ${severity}`, async () => {
    using server = skewed(byMs)
    const look = await ward.look({ upstreamUrl: server.url.origin })
    expect(look.of('clock/upstream')).toMatchObject([{ severity, what: expect.stringContaining(what) }])
  })
}
