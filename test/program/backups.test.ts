/** Backups by schedule, as a real service has a real process make them. */
import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canMount, smallDisk } from '../faults/support/mounts.ts'
import { end, family } from '../support/family.ts'
import { folderOfTest } from '../support/folder.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { until } from '../support/until.ts'

const passphrase = 'correct horse battery staple'
const secretKey = 'k3y-0123456789-abcdefghijklmnopqrstuvwxyz'

/** A folder for backups beside a data directory. */
function folders(): { dir: string; to: string } {
  const parent = folderOfTest()
  const place = { dir: join(parent, 'data'), to: join(parent, 'backups') }
  mkdirSync(place.dir, { mode: 0o700 })
  mkdirSync(place.to)
  return place
}

const post = async ({ url }: Service): Promise<{ status: number; body: Json }> => {
  const response = await fetch(`${url}/backups`, { method: 'POST' })
  return { status: response.status, body: await response.json() }
}
const statusOf = async ({ url }: Service): Promise<Json> => (await fetch(`${url}/backups`)).json()
const metricsOf = async ({ url }: Service): Promise<string> => (await fetch(`${url}/metrics`)).text()
const firstOf = (service: Service) =>
  until('the first backup', 30_000, async () => (await statusOf(service)).newest, service.log)

const wordsOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return '' // It has ended.
  }
}
/** The process that makes a backup, once there is one. */
const makerOf = (service: Service): Promise<number> =>
  until('a process makes a backup', 30_000, () =>
    family(service.pid).find(pid => wordsOf(pid).includes(' backup ')),
  )
const parentOf = (pid: number): number =>
  Number(/.*\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1])

test('one is made at the start; a call makes more; the schedule keeps two; status and metrics say how old the newest is', async () => {
  const { dir, to } = folders()
  await using service = await startService({ dir, args: ['--backup-to', to, '--backup-keep', '2'] })
  await firstOf(service)
  // The first call may get the backup of the start, if that is not finished.
  const calls = [await post(service), await post(service), await post(service)]
  expect(calls.map(({ status }) => status)).toEqual([200, 200, 200])
  const { body: newest } = calls[2]!
  expect(newest).toEqual({
    path: expect.stringMatching(/svc-\d{8}T\d{6}Z\.tar$/),
    created_at: expect.any(Number),
    size: Bun.file(newest.path).size,
    took_ms: expect.any(Number),
  })
  expect(readdirSync(to).sort()).toEqual(
    calls
      .slice(1)
      .map(({ body }) => body.path.slice(to.length + 1))
      .sort(),
  )
  expect(await statusOf(service)).toEqual({ folder: to, every_ms: 86_400_000, keep: 2, newest })
  const metrics = await metricsOf(service)
  expect(metrics).toMatch(/\nsvc_backup_age_seconds [\d.e-]+\n/)
  expect(metrics).toContain(`\nsvc_backup_size_bytes ${newest.size}\n`)
  expect(metrics).toContain('\nsvc_backup_failed 0\n')
  expect(Buffer.from(readFileSync(newest.path)).includes('svc-backup.json')).toBe(true)
})

test('of three processes the poller makes them, and after it one that takes over', async () => {
  const { dir, to } = folders()
  const args = ['--backup-to', to, '--log-level', 'INFO']
  const made = (service: Service) => service.log().split('backup made').length - 1
  await using first = await startService({ dir, args })
  await until('the first backup', 30_000, () => made(first) > 0)
  await using second = await startService({ dir, args })
  await using third = await startService({ dir, args })
  const others = [second, third]
  // The backup is a year old from now on, so the next one is due.
  {
    using db = new Database(join(dir, 'messages.db'))
    db.run('PRAGMA busy_timeout = 10000')
    db.run('UPDATE backup SET created_at = created_at - 31536000000')
  }
  await first.kill('SIGKILL')
  await until('one takes over', 30_000, () => others.some(one => made(one) > 0))
  expect([made(first), ...others.map(made).sort()]).toEqual([1, 0, 1])
  expect(readdirSync(to)).toHaveLength(2)
})

test.skipIf(process.platform !== 'linux')(
  'passphrase and secret key are on no command line; the process ends with a service that is killed',
  async () => {
    const { dir, to } = folders()
    // A pipe: whoever reads it waits for a writer.
    const pipe = join(dir, '../passphrase')
    await Bun.$`mkfifo ${pipe}`
    const args = ['--backup-to', to, '--passphrase-file', pipe]
    await using service = await startService({ dir, args, env: { SVC_SECRET_KEY: secretKey } })
    const maker = await makerOf(service)
    const lines = family(service.pid).map(wordsOf)
    expect(lines.join('\n')).toContain(`--passphrase-file ${pipe}`)
    expect(lines.join('\n')).not.toContain(secretKey)
    end(parentOf(maker), 'SIGKILL')
    await until('the process has ended', 30_000, () => wordsOf(maker) === '')
    expect(readdirSync(to)).toEqual([])

    await using again = await startService({ dir, args, env: { SVC_SECRET_KEY: secretKey } })
    const next = await makerOf(again)
    writeFileSync(pipe, `${passphrase}\n`)
    const told = [next, parentOf(next)].map(wordsOf).join('\n')
    expect(told).not.toContain(passphrase)
    await firstOf(again)
    const [name] = readdirSync(to)
    expect(name).toEndWith('.tar.age')
    expect(readFileSync(join(to, name!)).toString('latin1')).toStartWith('age-encryption.org/v1\n')
  },
)

test('a service that is stopped while one is made stops in time, and is not said to have failed', async () => {
  const { dir, to } = folders()
  const pipe = join(dir, '../passphrase')
  await Bun.$`mkfifo ${pipe}`
  const service = await startService({ dir, args: ['--backup-to', to, '--passphrase-file', pipe] })
  const maker = await makerOf(service)
  end(parentOf(maker), 'SIGTERM')
  expect(await service.exited).toBe(0)
  await until('the process has ended', 30_000, () => wordsOf(maker) === '')
  await using again = await startService({ dir })
  expect(await statusOf(again)).toEqual({})
})

test('a folder that is missing: recorded and shown, and forgotten with the next backup', async () => {
  const { dir, to } = folders()
  rmSync(to, { recursive: true })
  await using service = await startService({ dir, args: ['--backup-to', to] })
  const { failure } = await until('it fails', 30_000, async () => {
    const status = await statusOf(service)
    return status.failure && status
  })
  expect(failure.error).toContain(to)
  await until('the log says so', 30_000, () => service.log().includes('no backup was made'))
  expect(await metricsOf(service)).toContain('\nsvc_backup_failed 1\n')
  expect(await post(service)).toMatchObject({ status: 503, body: { code: 'store_unavailable' } })
  mkdirSync(to)
  expect((await post(service)).status).toBe(200)
  expect((await statusOf(service)).failure).toBeUndefined()
  expect(await metricsOf(service)).toContain('\nsvc_backup_failed 0\n')
})

test.skipIf(!canMount)(
  'a full disk or a read-only one: said so, nothing half-written stays, and the service goes on',
  async () => {
    const { dir } = folders()
    const disk = smallDisk('1m')
    try {
      const filler = join(disk.dir, 'filler')
      writeFileSync(filler, Buffer.alloc(900_000))
      const args = ['--backup-to', disk.dir, '--keep-free', '0']
      await using service = await startService({ dir, args })
      const { failure } = await until('it fails', 30_000, async () => {
        const status = await statusOf(service)
        return status.failure && status
      })
      expect(failure.error).toMatch(/full|space/)
      expect(readdirSync(disk.dir)).toEqual(['filler'])
      await logIn(service)
      await service.phone('say', { text: 'still there?' })
      expect((await service.call('recv', { timeout: 30 })).body).toHaveLength(1)

      rmSync(filler)
      await Bun.$`mount -o remount,ro ${disk.dir}`
      expect((await post(service)).body).toMatchObject({
        code: 'store_unavailable',
        detail: expect.stringContaining('read-only'),
      })
      await Bun.$`mount -o remount,rw ${disk.dir}`
      expect((await post(service)).status).toBe(200)
      expect((await statusOf(service)).failure).toBeUndefined()
    } finally {
      disk.unmount()
    }
  },
)
