/** Drills with real processes: the loss of the machine, a kill, and full disks. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { canMount, smallDisk } from '../faults/support/mounts.ts'
import { end, family } from '../support/family.ts'
import { folderOfTest } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'
import { backUp, drill, lived, passphrase, run, user, usual } from './drill.ts'

test('backs up under load, and the copy goes on with the conversation', () => drill(usual), 120_000)

test('a killed backup leaves neither a backup nor, after the next one, anything else', async () => {
  const folder = folderOfTest()
  const dir = join(folder, 'data')
  mkdirSync(dir, { mode: 0o700 })
  await using service = await lived(usual, dir)
  writeFileSync(join(folder, 'phrase'), passphrase, { mode: 0o600 })
  const listed = () =>
    readdirSync(dir)
      .filter(name => !name.startsWith('.backup.lock'))
      .sort()
  const before = listed()
  const args = ['backup', 'svc.tar', '-d', dir, '--passphrase-file', 'phrase']
  const child = Bun.spawn([...svcProgram, ...args], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', HOME: folder },
  })
  await until('it has begun', 30_000, () => readdirSync(dir).includes('.backup.lock'))
  for (const pid of family(child.pid)) end(pid, 'SIGKILL')
  await child.exited
  expect(readdirSync(folder)).not.toContain('svc.tar')
  writeFileSync(join(dir, 'messages.db.0123456789ab.tmp'), 'left by a killed backup')
  await backUp(usual, folder, ['svc.tar', '-d', dir])
  expect(listed()).toEqual(before)
  expect((await service.call('send', { to: user, text: 'still sends' })).body).toMatchObject({
    status: 'accepted',
  })
})

test.skipIf(!canMount)('a full disk ends a backup without remains, and harms nothing', async () => {
  const folder = folderOfTest()
  const disk = smallDisk('32m')
  const target = smallDisk('1m')
  try {
    await using service = await lived(usual, disk.dir)
    for (let n = 0; n < 20; n++) {
      await service.phone('say', { from: user, text: `${n}` })
      await service.call('send', {
        to: user,
        text: createHash('sha256').update(`${n}`).digest('hex').repeat(400),
      })
    }
    writeFileSync(join(folder, 'phrase'), passphrase, { mode: 0o600 })
    const remains = () =>
      [...readdirSync(disk.dir), ...readdirSync(target.dir)].filter(name => /tar|\.tmp$/.test(name))
    const attempt = async (file: string, ...more: string[]) => {
      const { status, stdout } = await run(usual, ['backup', file, '-d', disk.dir, ...more], folder)
      expect({ status, stdout, remains: remains() }).toEqual({ status: 1, stdout: '', remains: [] })
    }
    // The usual reserve is larger than this disk.
    await attempt(join(folder, 'svc.tar'))
    for (const more of [[], ['--passphrase-file', 'phrase']])
      await attempt(join(target.dir, 'svc.tar'), '--keep-free', '0', ...more)
    const { bavail, bsize } = statfsSync(disk.dir)
    writeFileSync(join(disk.dir, 'filler'), Buffer.alloc(bavail * bsize - 300_000))
    await attempt(join(folder, 'svc.tar'), '--keep-free', '0')
    rmSync(join(disk.dir, 'filler'))
    expect((await service.call('send', { to: user, text: 'still sends' })).body).toMatchObject({
      status: 'accepted',
    })
    await backUp(usual, folder, ['svc.tar', '-d', disk.dir, '--keep-free', '0'])
  } finally {
    disk.unmount()
    target.unmount()
  }
})

test('a backup of encrypted secrets is restored without the key, and opened with it alone', async () => {
  const folder = folderOfTest()
  const [dir, copy] = [join(folder, 'data'), join(folder, 'copy')]
  mkdirSync(dir, { mode: 0o700 })
  {
    await using service = await lived(usual, dir)
    await service.phone('users', { id: 'late@im.wechat', name: 'Late' })
    const send = { to: 'late@im.wechat', text: 'later', when_closed: 'queue' }
    expect((await service.call('send', send)).body).toMatchObject({ status: 'queued' })
    await service.kill('SIGTERM')
  }
  const key = ['--secret-key-file', join(folder, 'key')]
  const at = (where: string) => ['-d', where, '--sandbox']
  const done = async (args: readonly string[]) => {
    const { status, stdout, stderr } = await run(usual, args, folder)
    expect([status, stderr]).toEqual([0, expect.any(String)])
    return stdout
  }
  await done(['secrets', 'on', ...key, ...at(dir)])
  await backUp(usual, folder, ['svc.tar', '-d', dir])
  const { secret_key, waiting_sends } = JSON.parse(await done(['restore', 'svc.tar', ...at(copy), '--json']))
  expect({ secret_key, waiting_sends }).toEqual({
    secret_key: expect.stringMatching(/^[0-9a-f]{16}$/),
    waiting_sends: 1,
  })
  expect(readFileSync(join(copy, '.data.lock'), 'utf8')).toMatch(/^\w+\+secrets\n/)
  const closed = await run(usual, ['approvals', ...at(copy)], folder)
  expect([closed.status, closed.stderr]).toEqual([1, expect.stringContaining(secret_key)])
  expect(await done(['approvals', ...at(copy), ...key])).toContain('later')
})
