import { expect, test } from 'bun:test'
import { readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { configFromValues } from '../../src/config.ts'
import { openGateway } from '../../src/gateway/gateway.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { openLock } from '../../src/platform/lock.ts'
import { inspectLock } from '../../src/platform/lock-look.ts'
import { silentLog } from '../../src/platform/log.ts'
import { processState } from '../../src/platform/other-process.ts'
import { inspectPolling } from '../../src/storage/sqlite/inspection.ts'
import { testClock } from '../support/clock.ts'
import { forFile } from '../support/folder.ts'
import { logIn, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { hurriedClock, idle, stateOf, withWard } from './support.ts'

const ward = forFile(await withWard())
const path = join(ward.dir, '.poll.lock')
/** The right to poll, in this process, whose last beat is so long ago. */
async function held(ms = 0): Promise<AsyncDisposable> {
  const lock = await openLock(path)
  expect(await lock.tryLock()).toBe(true)
  const at = new Date(Date.now() - ms)
  utimesSync(path, at, at)
  return { [Symbol.asyncDispose]: () => lock.close() }
}

test('a poller is named with its process, and looking does not disturb it', async () => {
  await using gateway = await ward.open()
  const before = readFileSync(path, 'utf8')
  const look = await ward.look()
  expect(look.troubles).toEqual([])
  expect(look.of('locks/poller')).toMatchObject([
    { severity: 'ok', what: expect.stringContaining(`process ${process.pid} polls since `) },
  ])
  expect(readFileSync(path, 'utf8')).toBe(before)
  expect((await gateway.gateway.health()).role).toBe('poller')
})

test('two that look at once do not take each other for holders', async () => {
  const looks = await Promise.all(Array.from({ length: 20 }, () => inspectLock(path)))
  expect(looks.map(look => look?.held)).toEqual(looks.map(() => false))
})

test('a stopped service is an error, and the fix wakes it', async () => {
  await using service = await startService()
  await logIn(service, 'work')
  process.kill(service.pid, 'SIGSTOP')
  await until('it stands', 30_000, async () => (await processState(service.pid)) === 'stopped')
  const values = { basePath: service.dir, upstreamUrl: undefined, cdnUrl: undefined }
  const look = await ward.look(values, { deadlineMs: 500 })
  expect(look.of('locks/poller')).toMatchObject([
    {
      severity: 'error',
      what: expect.stringContaining('has been stopped'),
      fix: `kill -CONT ${service.pid}`,
    },
  ])
  expect(look.ok).toBe(false)
  Bun.spawnSync(['sh', '-c', look.of('locks/poller')[0]!.fix!])
  expect((await ward.look(values)).of('locks/poller')).toMatchObject([{ severity: 'ok' }])
})

test('a holder that shows no life is an error; the clock is not believed, its next beat is', async () => {
  await using _lock = await held(3600_000)
  const look = await ward.look({}, { clock: hurriedClock() })
  expect(look.of('locks/poller')).toMatchObject([
    { severity: 'error', what: expect.stringContaining('has shown no life since 1 hour') },
  ])
  const beating = ward.look()
  const beats = setInterval(() => utimesSync(path, new Date(), new Date()), 50)
  expect((await beating).of('locks/poller')).toMatchObject([{ severity: 'ok' }])
  clearInterval(beats)
})

test('a machine that stands still while a holder is watched says nothing about him', async () => {
  await using _lock = await held(3600_000)
  const clock = testClock()
  let looks = 0
  const looking = inspectPolling(ward.dir, {
    ...clock,
    async sleep(ms, signal) {
      looks += 1
      await clock.sleep(ms, signal)
    },
  })
  await until('he is watched', 30_000, () => looks > 1)
  clock.advance(60_000)
  // Who wakes has not beaten yet.
  const since = looks
  await until('he is watched on', 30_000, () => looks > since + 2)
  utimesSync(path, new Date(), new Date())
  expect(await looking).toMatchObject({ held: true, stalled: false })
})

test('a holder whose process is not here runs elsewhere', async () => {
  await using _lock = await held()
  const child = Bun.spawnSync(['sh', '-c', 'echo $$'])
  const gone = child.stdout.toString().trim()
  writeFileSync(path, readFileSync(path, 'utf8').replace(/process \d+/, `process ${gone}`))
  expect((await ward.look()).of('locks/poller')).toMatchObject([
    { severity: 'ok', what: expect.stringContaining('in another container or on another machine') },
  ])
})

test('a program that keeps the data lock is an error while it does', async () => {
  const data = join(ward.dir, '.data.lock')
  const lock = await openLock(data)
  expect(await lock.tryLock()).toBe(true)
  expect((await ward.look()).of('locks/held')).toMatchObject([
    { severity: 'error', fix: expect.stringContaining(data) },
  ])
  await lock.close()
  expect((await ward.look()).of('locks/held')).toEqual([])
})

test('a kind of lock that is not known, and two kinds, are errors; nothing is changed', async () => {
  const kept = readFileSync(path, 'utf8')
  writeFileSync(path, 'telepathy\n', { mode: 0o600 })
  const before = stateOf(ward.dir)
  expect((await ward.look()).of('locks/kind')).toMatchObject([{ severity: 'error' }])
  expect(stateOf(ward.dir)).toEqual(before)
  rmSync(join(ward.dir, '.data.lock'))
  expect((await ward.look()).of('locks/kind')).toMatchObject([{ severity: 'error' }])
  rmSync(path)
  expect((await ward.look()).troubles).toEqual([idle])
  writeFileSync(path, kept, { mode: 0o600 })
})

test('locks of the second kind are seen held and free', async () => {
  const dir = join(ward.dir, '..')
  const file = join(dir, 'second.lock')
  const lock = await openLock(file, { kind: 'lockfile' })
  try {
    expect((await inspectLock(file))?.held).toBe(false)
    expect(await lock.tryLock()).toBe(true)
    expect(await inspectLock(file)).toMatchObject({ kind: 'lockfile', held: true, pid: process.pid })
    await lock.unlock()
    expect((await inspectLock(file))?.held).toBe(false)
  } finally {
    await lock.close()
  }
})

test('a recv that polls by itself shows life too, however long it waits', async () => {
  const clock = testClock()
  const config = configFromValues({
    basePath: ward.dir,
    upstreamUrl: ward.sandbox.url,
    cdnUrl: ward.sandbox.cdnUrl,
  })
  await using gateway = await openGateway({ config, clock, version: '0', log: silentLog, oneShot: true })
  const call = createDirectCall()
  const waiting = gateway.inbox.recv({ timeout: 100_000, limit: 1, consumer: 'other' }, call)
  try {
    await until('it polls', 30_000, async () => (await inspectLock(path))?.held)
    const look = ward.look({}, { clock: { ...systemClock, now: () => Date.now() + 3600_000 } })
    const beats = setInterval(() => clock.advance(4000), 50)
    expect((await look).of('locks/poller')).toMatchObject([{ severity: 'ok' }])
    clearInterval(beats)
  } finally {
    await gateway.close()
    await waiting.then(() => call.done(true)).catch(() => {})
  }
})
