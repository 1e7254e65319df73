/** `svc forget` over REST, and killed at any moment. */
import { expect, test } from 'bun:test'
import { cp, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { svcProcess } from '../support/command.ts'
import { folderOfTest } from '../support/folder.ts'
import { canTrace, killAtChanges } from '../support/tracing.ts'
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

const title = 'killed at any step, a second run erases the rest (skipped without strace)'
test.skipIf(!canTrace)(
  title,
  async () => {
    const snapshot = folderOfTest()
    {
      await using world = await startWorld()
      await world.service.kill('SIGTERM')
      await cp(world.dir, snapshot, { recursive: true })
    }
    const home = folderOfTest()
    const dir = join(home, 'data')
    const words = ['forget', gone, '--yes', '-d', dir, '--sandbox']
    const killed = await killAtChanges({ home, dense: 8 }, async (run, at) => {
      await rm(dir, { recursive: true, force: true })
      await mkdir(dir, { mode: 0o700 })
      await cp(snapshot, dir, { recursive: true })
      await run(words)
      const again = await svcProcess(words, { home })
      expect([at, again.status, again.stderr]).toEqual([at, 0, ''])
      expect([at, await findTraces(dir)]).toEqual([at, []])
      const kept = await svcProcess(['history', '--user', stays, '--json', '-d', dir, '--sandbox'], { home })
      expect(JSON.parse(kept.stdout).total).toBe(14)
    })
    console.log(`svc forget was killed at ${killed} steps`)
    expect(killed).toBeGreaterThan(20)
  },
  600_000,
)
