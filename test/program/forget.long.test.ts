/** `svc forget` over REST, and killed at any moment. */
import { expect, test } from 'bun:test'
import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { svcProcess } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { svcProgram } from '../support/svc-program.ts'
import { findTraces, gone, startWorld, stays } from './forget-world.ts'

test('over REST another process rewrites the file, and the service goes on', async () => {
  await using world = await startWorld()
  const { dir, service } = world
  const answer = fetch(`${service.url}/forget`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ user: 'Zacharias Ütz' }),
  })
  while ((await Promise.race([answer, 'not yet'])) === 'not yet')
    expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
  const done = await answer
  expect([done.status, await done.json()]).toEqual([200, expect.objectContaining({ messages: 16, sends: 2 })])
  expect(await findTraces(dir)).toEqual([])
}, 120_000)

test('killed at any moment, a second run erases the rest', async () => {
  const snapshot = folderOfTest()
  {
    await using world = await startWorld()
    await world.service.kill('SIGTERM')
    await cp(world.dir, snapshot, { recursive: true })
  }
  const home = folderOfTest()
  let killed = 0
  for (let delay = 150; delay < 1400; delay += 50) {
    const dir = join(home, String(delay))
    await mkdir(dir, { mode: 0o700 })
    await cp(snapshot, dir, { recursive: true })
    const words = ['forget', gone, '--yes', '-d', dir, '--sandbox']
    const first = Bun.spawn([...svcProgram, ...words], {
      env: { PATH: process.env.PATH ?? '', HOME: home },
      stdout: 'ignore',
      stderr: 'ignore',
    })
    await Promise.race([first.exited, Bun.sleep(delay)])
    if (first.exitCode === null) killed++
    first.kill('SIGKILL')
    await first.exited
    const again = await svcProcess(words, { home })
    expect([again.status, again.stderr]).toEqual([0, ''])
    expect(await findTraces(dir)).toEqual([])
    const kept = await svcProcess(['history', '--user', stays, '--json', '-d', dir, '--sandbox'], { home })
    expect(JSON.parse(kept.stdout).total).toBe(14)
  }
  expect(killed).toBeGreaterThan(3)
}, 300_000)
