/** Files below a folder in which another program writes: links, pipes, names that change. */
import { expect, test } from 'bun:test'
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { findFile, writeToOutbox } from '../../src/agent/answer-files.ts'
import { openFileBelow, openFolderBelow, readBelow } from '../../src/platform/below.ts'
import { errorCodeOf } from '../../src/platform/files.ts'
import { codeOf } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { stopwatch } from '../support/stopwatch.ts'

/** Elsewhere there are no handles of folders. */
const onLinux = test.skipIf(process.platform !== 'linux')

/** A folder `work` of an agent, and a folder `outside` with a secret. */
function world() {
  const top = folderOfTest()
  const [work, outside] = [join(top, 'work'), join(top, 'outside')]
  for (const folder of [work, outside]) mkdirSync(folder)
  writeFileSync(join(outside, 'secret'), 'secret')
  return { top, work, outside }
}

const isRefused = (opening: Promise<unknown>) =>
  opening.then(
    () => false,
    error => errorCodeOf(error) !== undefined,
  )
const read = async (work: string, path: string, most = 100) => {
  const found = await readBelow(work, path, most)
  return found?.bytes?.toString()
}

test('files and folders are found by relative and absolute paths, also if the folder itself is named by a link', async () => {
  const { top, work } = world()
  symlinkSync(work, join(top, 'named'))
  mkdirSync(join(work, 'a/b'), { recursive: true })
  writeFileSync(join(work, 'a/b/c'), 'text')
  for (const path of ['a/b/c', './a/../a/b/c', join(work, 'a/b/c')])
    for (const root of [work, join(top, 'named')]) {
      const { handle, path: named } = await openFileBelow(root, path)
      expect([named, await handle.readFile('utf8')]).toEqual([join(root, 'a/b/c'), 'text'])
      await handle.close()
    }
})

test('a name is found in another Unicode form', async () => {
  const { work } = world()
  mkdirSync(join(work, 'Cafe\u0301'))
  writeFileSync(join(work, 'Cafe\u0301', 'menu\u00e9'), 'text')
  expect(await read(work, 'Caf\u00e9/menue\u0301')).toBe('text')
})

test('what lies outside is refused', async () => {
  const { outside, work } = world()
  for (const path of ['..', '../outside/secret', join(outside, 'secret'), '/', 'a/../../outside/secret']) {
    expect(await codeOf(openFileBelow(work, path))).toBe('forbidden')
    expect(await codeOf(openFolderBelow(work, path, { create: true }))).toBe('forbidden')
    expect(await read(work, path)).toBeUndefined()
  }
})

test('no link is followed, at no step, and nothing is made behind one', async () => {
  const { outside, work } = world()
  mkdirSync(join(work, 'deep/er'), { recursive: true })
  mkdirSync(join(outside, 'full'))
  writeFileSync(join(work, 'own'), 'own')
  for (const [at, to] of [
    ['out', outside],
    ['deep/er/out', outside],
    ['file', join(outside, 'secret')],
    ['dangling', join(outside, 'new')],
    ['proc', '/proc/self/fd'],
    ['inside', join(work, 'deep')],
    ['own-link', join(work, 'own')],
  ] as const)
    symlinkSync(to, join(work, at))
  for (const path of ['file', 'out/secret', 'deep/er/out/secret', 'own-link', 'proc/0', 'inside/er'])
    expect(await isRefused(openFileBelow(work, path))).toBe(true)
  for (const path of [
    'out',
    'out/full',
    'out/new',
    'deep/er/out/new',
    'dangling',
    'dangling/new',
    'inside/new',
  ])
    expect(await isRefused(openFolderBelow(work, path, { create: true }))).toBe(true)
  expect(readdirSync(outside).sort()).toEqual(['full', 'secret'])
  expect(readdirSync(join(work, 'deep'))).toEqual(['er'])
})

test('a pipe, a socket, a folder and a device are no files, and none of them keeps anyone waiting', async () => {
  const { work } = world()
  mkdirSync(join(work, 'folder'))
  Bun.spawnSync(['mkfifo', join(work, 'pipe')])
  using server = Bun.serve({ unix: join(work, 'socket'), fetch: () => new Response() })
  expect(server.url).toBeDefined()
  for (const path of ['pipe', 'socket', 'folder', '.', 'none'])
    expect(await isRefused(openFileBelow(work, path))).toBe(true)
  for (const path of ['pipe', 'socket']) expect(await isRefused(openFolderBelow(work, path))).toBe(true)
  expect(await isRefused(openFileBelow('/dev', 'zero'))).toBe(true)
})

test('no more is read than was asked for', async () => {
  const { work } = world()
  writeFileSync(join(work, 'a'), 'four')
  expect(await readBelow(work, 'a', 3)).toEqual({ size: 4 })
  expect(await read(work, 'a', 4)).toBe('four')
})

onLinux('a folder that is held stays the same one when its name leads elsewhere', async () => {
  const { outside, work } = world()
  mkdirSync(join(work, 'inbox'))
  {
    await using held = await openFolderBelow(work, 'inbox')
    renameSync(join(work, 'inbox'), join(work, 'moved'))
    symlinkSync(outside, join(work, 'inbox'))
    writeFileSync(join(held.path, 'file'), 'text')
  }
  expect(readFileSync(join(work, 'moved/file'), 'utf8')).toBe('text')
  expect(readdirSync(outside)).toEqual(['secret'])
})

test('new files replace nothing: neither links nor hard links of the same name', async () => {
  const { outside, work } = world()
  mkdirSync(join(work, 'outbox'), { mode: 0o755 })
  symlinkSync(join(outside, 'secret'), join(work, 'outbox/code.py'))
  symlinkSync(join(outside, 'new'), join(work, 'outbox/code (1).py'))
  linkSync(join(outside, 'secret'), join(work, 'outbox/code (2).py'))
  expect(await writeToOutbox(work, 'code.py', 'text')).toMatchObject({
    name: 'code (3).py',
    path: join(work, 'outbox/code (3).py'),
  })
  expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('secret')
  expect(existsSync(join(outside, 'new'))).toBe(false)
  expect(statSync(join(work, 'outbox/code (3).py')).mode & 0o777).toBe(0o600)
})

/** Puts a link in the place of a folder and of a file, and theirs again, as fast as it can. */
const attacker = `
  const { mkdirSync, renameSync, symlinkSync, unlinkSync, writeFileSync } = require('node:fs')
  const [work, outside] = process.argv.slice(1)
  process.chdir(work)
  const attempt = (call, ...args) => { try { call(...args) } catch {} }
  console.log('begins')
  // Ends by itself, if nobody ends it.
  for (let nth = 0; nth < 30_000; nth++) {
    for (const name of ['outbox', 'deep']) {
      attempt(renameSync, name, '.old' + name + nth)
      attempt(symlinkSync, outside, name)
      attempt(unlinkSync, name)
    }
    attempt(mkdirSync, 'next')
    attempt(writeFileSync, 'next/a.txt', 'own')
    attempt(renameSync, 'next', 'deep')
    attempt(symlinkSync, outside + '/a.txt', 'link')
    attempt(renameSync, 'link', 'a.txt')
    attempt(writeFileSync, 'next.txt', 'own')
    attempt(renameSync, 'next.txt', 'a.txt')
  }`

onLinux(
  'an agent that swaps folders and files for links, while svc writes and reads, leads nothing outside',
  async () => {
    const { outside, work } = world()
    writeFileSync(join(outside, 'a.txt'), 'secret')
    await using swapping = Bun.spawn([process.execPath, '-e', attacker, work, outside], { stdout: 'pipe' })
    await swapping.stdout.getReader().read()
    const seen = { written: 0, read: 0, refused: 0 }
    const wrong: unknown[] = []
    const watch = stopwatch()
    for (let tries = 0; watch.ms < 20_000 && Math.min(...Object.values(seen)) < 100; tries++) {
      const written = await writeToOutbox(work, `code${tries}.py`, 'text').catch(() => undefined)
      if (written) seen.written += 1
      else seen.refused += 1
      for (const path of ['a.txt', 'deep/a.txt']) {
        const text = await read(work, path)
        if (text !== undefined) seen.read += 1
        if (text !== undefined && text !== 'own') wrong.push(text)
        await findFile(path, work)
      }
    }
    swapping.kill('SIGKILL')
    await swapping.exited
    expect(wrong).toEqual([])
    expect(readdirSync(outside).sort()).toEqual(['a.txt', 'secret'])
    expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(0)
  },
)
