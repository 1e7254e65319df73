/** A user that an install made, and its failure: programs of ours are asked in the place of those that make users. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SvcError } from '../../src/model/error.ts'
import { accountFor, isOwnUserMade, madeAccount } from '../../src/service/account.ts'
import { newTo, undone } from '../../src/service/made.ts'
import type { Account } from '../../src/service/plan.ts'

const path = process.env.PATH
let home = ''
let dataDir = ''
let media = ''
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'svc-made-'))
  dataDir = join(home, 'da ta')
  media = join(home, 'media')
  await mkdir(join(home, 'bin'))
  // Of the users this machine has, one is seen here: the one that is made.
  await program('getent', `[ -f passwd ] && cat passwd || exit 2`)
  await program('useradd', `echo 'svc:x:499:499:svc service:/var/lib/svc:/usr/sbin/nologin' > passwd`)
  await program('userdel', `[ -f in-use ] || rm passwd`)
  await program('groupdel', `:`)
  process.env.PATH = `${join(home, 'bin')}:${path}`
})
afterEach(async () => {
  process.env.PATH = path
  await rm(home, { recursive: true, force: true })
})

const program = (name: string, text: string) =>
  writeFile(join(home, 'bin', name), `#!/bin/sh\ncd '${home}' && echo "${name} $*" >> calls\n${text}\n`, {
    mode: 0o755,
  })
const calls = async () => (await readFile(join(home, 'calls'), 'utf8')).match(/^(user|group).*$/gm)
const failure = new SvcError('internal', 'the service does not start', { hint: 'Nothing was installed.' })
const said = (promise: Promise<never>) =>
  promise.then(
    () => '',
    error => `${error.message}: ${error.hint}`,
  )

/** As an install goes: what is new is noted, the user is made, and his folders. */
async function installed() {
  const account: Account = await accountFor(undefined, '/var/lib/svc', true)
  const made = await newTo({ account, dataDir, folders: [media] })
  expect(await madeAccount(account)).toMatchObject({ name: 'svc', uid: 499 })
  expect(await isOwnUserMade()).toBe(true)
  for (const folder of [dataDir, media]) await mkdir(folder, { recursive: true })
  return made
}

test('goes again with what the failed start left in his new folders', async () => {
  const made = await installed()
  await mkdir(join(dataDir, 'media'))
  await writeFile(join(dataDir, '.data.lock'), 'flock\n')
  expect(await said(undone(made, failure))).toBe('the service does not start: Nothing was installed.')
  expect([dataDir, media, join(home, 'passwd')].filter(one => existsSync(one))).toEqual([])
  expect(await calls()).toEqual([
    expect.stringMatching(/^useradd .* svc$/),
    ...['userdel svc', 'groupdel svc'],
  ])
})

test('stays where something is his by then, or he cannot go, and that is said', async () => {
  const made = await installed()
  await mkdir(join(dataDir, 'work'))
  await writeFile(join(dataDir, 'work', 'token.json'), '{}')
  await writeFile(join(media, 'picture.png'), '')
  expect(await said(undone(made, failure))).toBe(
    `the service does not start: Nothing was installed. The user svc, made for it, stays, for ${dataDir}, ${media}; once that is gone: sudo userdel svc.`,
  )
  expect(existsSync(join(dataDir, 'work', 'token.json'))).toBe(true)
  await rm(dataDir, { recursive: true })
  await rm(media, { recursive: true })
  await writeFile(join(home, 'in-use'), '')
  expect(await said(undone(made, failure))).toEndWith(' The user svc, made for it, stays: sudo userdel svc.')
})

test('who was there before is left alone, with his folders, and so is a folder that was', async () => {
  await mkdir(dataDir)
  await writeFile(join(dataDir, 'messages.db'), '')
  const made = await installed()
  expect(made).toEqual({ account: made!.account, folders: [media] })
  await undone(made, failure).catch(() => {})
  expect(existsSync(join(dataDir, 'messages.db'))).toBe(true)
  expect(existsSync(join(home, 'passwd'))).toBe(false)

  await writeFile(join(home, 'passwd'), 'svc:x:499:499:The system’s own:/srv:/bin/false\n')
  expect(await isOwnUserMade()).toBe(false)
  const theirs = await accountFor(undefined, '/var/lib/svc', true)
  expect(await newTo({ account: theirs, dataDir: join(home, 'new'), folders: [] })).toBeUndefined()
  expect(await said(undone(undefined, failure))).toBe('the service does not start: Nothing was installed.')
  expect(existsSync(join(home, 'passwd'))).toBe(true)
})
