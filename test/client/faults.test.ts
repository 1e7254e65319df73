/** A client whose service is away, frozen, killed, or not svc at all. */
import { expect, test } from 'bun:test'
import { Svc } from '../../src/index.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import { codeOf, failure } from '../support/failure.ts'
import { freePort } from '../support/port.ts'
import { httpServer } from '../support/servers.ts'
import { logIn, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { until } from '../support/until.ts'
import { runThroughKills } from './kills.ts'
import { connected } from './worlds.ts'

const quick = { patience: 0.3, timeout: 1, log: silentLog }

test('a wrong key, a wrong address, and no service', async () => {
  await using t = await connected()
  const wrong = `svc_k3v9x2ab_${'0a1b2c3d'.repeat(8)}`
  expect(await codeOf(Svc.connect(t.url, { ...quick, key: wrong }))).toBe('unauthorized')
  expect(await codeOf(Svc.connect(t.url, quick))).toBe('unauthorized')
  expect(await codeOf(Svc.connect(`http://127.0.0.1:${freePort()}`, quick))).toBe('unreachable')
  expect(await failure(Svc.connect('127.0.0.1:8000', quick))).toMatchObject({ field: 'url' })
  expect(await failure(Svc.connect(t.url, { kye: 'x' } as never))).toMatchObject({ field: 'kye' })
})

test('a proxy whose service is away, and an address where something else answers', async () => {
  let tries = 0
  const page = (status: number) => () => {
    tries++
    return new Response('<html>Bad Gateway</html>', { status, headers: { 'content-type': 'text/html' } })
  }
  await using proxy = await httpServer(page(502))
  expect(await codeOf(Svc.connect(proxy.url, { ...quick, patience: 2 }))).toBe('unreachable')
  expect(tries).toBeGreaterThan(1)
  await using site = await httpServer(page(200))
  expect(await codeOf(Svc.connect(site.url, quick))).toBe('unreachable')
})

test('a write whose answer is lost is made once, a send is repeated with its key', async () => {
  await using t = await connected()
  const keys: unknown[] = []
  let writes = 0
  await using broken = await httpServer(async request => {
    const { pathname } = new URL(request.url)
    if (pathname === '/tools/default/send') {
      keys.push(((await request.json()) as { idempotency_key: string }).idempotency_key)
      if (keys.length < 3) return new Response('', { status: 504 })
      return Response.json({ success: true })
    }
    if (pathname === '/me') return Response.json({ principal: 'owner' })
    writes++
    return new Response('', { status: 504 })
  })
  const svc = await Svc.connect(broken.url, { ...quick, patience: 20 })
  await svc.send({ to: t.bot.user_id, text: 'once' })
  expect(keys).toHaveLength(3)
  expect(new Set(keys).size).toBe(1)
  expect(await codeOf(svc.webhooks.add({ url: 'https://example.com/' }))).toBe('unreachable')
  expect(await codeOf(svc.logout())).toBe('unreachable')
  expect(writes).toBe(2)
  await svc.close()
})

test('a call waits for a service that is not there yet', async () => {
  const url = `http://127.0.0.1:${freePort()}`
  const connecting = Svc.connect(url, { ...quick, patience: 60 })
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: Number(new URL(url).port),
    fetch: () => Response.json({ principal: 'owner' }),
  })
  const svc = await connecting
  await svc.close()
  await server.stop(true)
})

test('a frozen service ends calls in time, and loops go on when it is back', async () => {
  const lines: string[] = []
  await using service = await startService({ args: ['--pace', 'off'] })
  await logIn(service)
  await using svc = await Svc.connect(service.url, {
    ...quick,
    log: createLog('DEBUG', l => void lines.push(l)),
  })
  const found: string[] = []
  const loop = (async () => {
    for await (const { text } of svc.messages({ consumer: 'bot' })) found.push(text)
  })()
  await until('the loop runs', 30_000, async () => {
    await service.phone('say', { text: 'before' })
    return found.length > 0
  })
  process.kill(service.pid, 'SIGSTOP')
  using watch = stopwatch()
  expect(await codeOf(svc.history())).toBe('unreachable')
  expect(await codeOf(svc.renameSession({ old_name: 'a', new_name: 'b' }))).toBe('unreachable')
  expect(watch.ms).toBeLessThan(20_000)
  process.kill(service.pid, 'SIGCONT')
  await service.phone('say', { text: 'after' })
  await until('the loop goes on', 60_000, () => found.includes('after'))
  await svc.close()
  await loop
}, 120_000)

test('a service that is killed and started again: a loop loses no message, and gets none twice', async () => {
  expect(await runThroughKills(10)).toEqual({ lost: [], twice: [] })
}, 240_000)
