import { expect } from 'bun:test'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { given } from '../../../support/given.ts'
import { knownUsers } from '../../../support/known-users.ts'
import { bot } from '../../support.ts'
import { openTestState } from './support.ts'

const batch = (more: object = {}) => ({
  session: 's',
  token: bot('b').token,
  cursorFrom: 'c0',
  cursorTo: 'c1',
  inbound: [{ user_id: 'u', token: 't', received_at: 1000 }],
  ...more,
})

const start = async () => {
  const t = await openTestState()
  await t.sessions.save('s', bot('b', { cursor: 'c0' }))
  return t
}
const it = given(start)

it('a second try completes one that was interrupted between the two files', async t => {
  await t.commitBatch(batch())
  const counted = await readFile(join(t.dir, 's', 'contexts.json'), 'utf8')
  await writeFile(join(t.dir, 's', 'contexts.json'), counted.replace('"used": 0', '"used": 2'))
  const path = join(t.dir, 's', 'token.json')
  const fields = JSON.parse(await readFile(path, 'utf8'))
  await writeFile(path, JSON.stringify({ ...fields, cursor: 'c0' }))
  expect(await t.commitBatch(batch())).toBe('moved')
  expect((await t.sessions.get('s'))?.bot?.cursor).toBe('c1')
  expect((await t.contexts.find('s', 'u'))?.used).toBe(2)
  // And after one that was complete but not heard of.
  expect(await t.commitBatch(batch())).toBe('moved')
})

it('token.json is not rewritten when the cursor stays', async t => {
  const path = join(t.dir, 's', 'token.json')
  const before = await stat(path, { bigint: true })
  expect(await t.commitBatch(batch({ cursorTo: 'c0' }))).toBe('moved')
  expect((await stat(path, { bigint: true })).ino).toBe(before.ino)
  expect((await knownUsers(t.contexts, 's')).size).toBe(1)
})

it('marks and cursor are one write; unchanged marks cause no write', async t => {
  const path = join(t.dir, 's', 'token.json')
  await t.sessions.mark('s', bot('b').token, { check_at: 3 })
  const idle = { inbound: [], marks: { idle_at: 7, check_at: undefined } }
  expect(await t.commitBatch(batch(idle))).toBe('moved')
  expect(JSON.parse(await readFile(path, 'utf8'))).toMatchObject({ cursor: 'c1', idle_at: 7 })
  expect((await t.sessions.get('s'))?.bot).not.toHaveProperty('check_at')
  const before = await stat(path, { bigint: true })
  expect(await t.commitBatch(batch({ ...idle, cursorFrom: 'c1' }))).toBe('moved')
  expect((await stat(path, { bigint: true })).ino).toBe(before.ino)
})

it('if the lock is lost, every waiting batch is rejected', async t => {
  await t.lock.close()
  const both = await Promise.allSettled([t.commitBatch(batch()), t.commitBatch(batch())])
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
})
