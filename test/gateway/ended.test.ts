/** What a service removes by itself of keys, invitations and backups that are over. */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import type { Store } from '../../src/storage/store.ts'
import type { TestClock } from '../support/clock.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { isOnPostgres, openSharedStorage } from '../support/shared-store.ts'

const day = 24 * 3_600_000

/** The storage of the service, as another process has it. */
const openBeside = (dir: string, clock: TestClock) =>
  isOnPostgres
    ? openSharedStorage(dir, clock)
    : openStorage({ dir, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 })

/** What happened, by days ago. */
async function prepare(t: TestGateway, { backups, invitations, keys }: Store, folder: string): Promise<void> {
  const ago = (days: number) => t.clock.now() - days * day
  const key = { hash: 'h', grant: { rights: [] }, can: [], made_by: 'owner', created_at: ago(400) }
  for (const [id, days] of [
    ['old', 91],
    ['young', 89],
  ] as const) {
    await keys.add({ ...key, id, name: id })
    await keys.revoke(id, ago(days))
  }
  await keys.add({ ...key, id: 'active', name: 'active' })
  const invitation = { trusted: false, turns_per_day: 1, max_uses: 1, made_by: 'owner', created_at: ago(400) }
  for (const [id, days] of [
    ['left', 91],
    ['guest', 91],
    ['fresh', 89],
  ] as const)
    await invitations.add({ ...invitation, id, name: id, hash: id, expires_at: ago(days) })
  const bot = t.sandbox.bot(await t.sandbox.addUser('guest'))
  await t.other.sessions.save('guest', { ...bot, cursor: '', created_at: ago(400), invitation: 'guest' })
  const there = join(folder, 'there.tar')
  writeFileSync(there, 'copy')
  const paths = { gone: join(folder, 'gone.tar'), there, away: join(folder, 'not-mounted', 'x.tar') }
  for (const path of Object.values(paths))
    await backups.add({ path, created_at: ago(31), size: 1, took_ms: 1 })
  await backups.add({ path: join(folder, 'recent.tar'), created_at: ago(29), size: 1, took_ms: 1 })
  await backups.add({ path: join(folder, 'newest.tar'), created_at: ago(28), size: 1, took_ms: 1 })
}

test('keys and invitations go with their audit lines, backups with their files; what is in use stays', async () => {
  await using t = await withGateway({ start: false })
  const folder = folderOfTest()
  await using opened = new AsyncDisposableStack()
  const { store } = opened.adopt(await openBeside(t.dir, t.clock), storage => storage.close())
  await prepare(t, store, folder)
  await t.gateway.start()
  await t.until('the service has removed', async () => (await store.backups.list()).length < 5)
  expect((await store.keys.list()).map(({ id }) => id)).toEqual(['young', 'active'])
  expect((await store.invitations.list()).map(({ id }) => id).sort()).toEqual(['fresh', 'guest'])
  const left = (await store.backups.list()).map(({ path }) => path.slice(folder.length + 1)).sort()
  expect(left).toEqual(['newest.tar', 'not-mounted/x.tar', 'recent.tar', 'there.tar'])
  expect((await t.gateway.keys.list(owner)).map(({ name }) => name)).toEqual(['young', 'active'])
})
