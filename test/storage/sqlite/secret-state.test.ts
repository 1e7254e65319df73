import { expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openLock } from '../../../src/platform/lock.ts'
import { inspectLock } from '../../../src/platform/lock-look.ts'
import { createSealer } from '../../../src/platform/sealing.ts'
import {
  keepLocksMarked,
  openSealer,
  readSecretState,
  rejectChangedState,
  writeSecretState,
} from '../../../src/storage/sqlite/secret-state.ts'
import { codeOf } from '../../support/failure.ts'
import { folderOfFile } from '../../support/folder.ts'

const folder = folderOfFile()
const newDir = () => mkdtempSync(join(folder, 'dir-'))
const lockNames = ['.data.lock', '.poll.lock']
const linesOf = (dir: string) =>
  lockNames.map(name => readFileSync(join(dir, name), 'utf8').split('\n', 1)[0])

const secret = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'
const key = createSealer(secret).keyId ?? ''
const other = createSealer(`${secret}x`).keyId ?? ''

test('a state is read as it was written, and the locks are marked meanwhile', async () => {
  const dir = newDir()
  expect(await readSecretState(dir)).toEqual({ key: null })
  const states = [{ from: null, to: key }, { key }, { from: key, to: other }, { from: other, to: null }]
  for (const state of states) {
    await writeSecretState(dir, state)
    expect(await readSecretState(dir)).toEqual(state)
    expect(linesOf(dir)).toEqual(['flock+secrets', 'flock+secrets'])
  }
  await writeSecretState(dir, { key: null })
  expect(existsSync(join(dir, '.secrets'))).toBe(false)
  expect(await readSecretState(dir)).toEqual({ key: null })
  expect(linesOf(dir)).toEqual(['flock', 'flock'])
})

test('a file that is no state is refused', async () => {
  const dir = newDir()
  for (const text of ['', 'null', '[]', '{}', '{"key":"x"}', '{"key":null}', '{"from":null,"to":null}']) {
    writeFileSync(join(dir, '.secrets'), text)
    expect(await codeOf(readSecretState(dir))).toBe('store_unavailable')
    expect(await codeOf(openSealer(dir, secret))).toBe('store_unavailable')
  }
})

test('only the right key opens, and none where nothing is encrypted', async () => {
  const dir = newDir()
  const warnings: string[] = []
  const log = { warn: (text: string) => void warnings.push(text) }
  expect((await openSealer(dir, undefined, log)).keyId).toBeUndefined()
  expect(warnings).toEqual([])
  expect((await openSealer(dir, secret, log)).keyId).toBeUndefined()
  expect(warnings).toHaveLength(1)

  await writeSecretState(dir, { key })
  const sealer = await openSealer(dir, secret, log)
  expect(sealer.keyId).toBe(key)
  for (const given of [undefined, `${secret}x`])
    expect(await codeOf(openSealer(dir, given, log))).toBe('store_unavailable')
  await rejectChangedState(dir, sealer)

  await writeSecretState(dir, { from: key, to: other })
  for (const given of [undefined, secret, `${secret}x`])
    expect(await codeOf(openSealer(dir, given, log))).toBe('store_unavailable')
  expect(await codeOf(rejectChangedState(dir, sealer))).toBe('store_unavailable')
  await writeSecretState(dir, { key: other })
  expect(await codeOf(rejectChangedState(dir, sealer))).toBe('store_unavailable')
  expect(warnings).toHaveLength(1)
})

test('a held lock stays held and marked, whoever takes it next', async () => {
  const dir = newDir()
  const path = join(dir, '.data.lock')
  await using lock = await openLock(path)
  await using waiting = await openLock(path)
  await lock.lock()
  await writeSecretState(dir, { key })
  expect(lock.isReallyHeld).toBe(true)
  expect(await waiting.tryLock()).toBe(false)
  await lock.unlock()
  expect(await waiting.tryLock()).toBe(true)
  expect(linesOf(dir)[0]).toBe('flock+secrets')
  expect(await inspectLock(path)).toMatchObject({ kind: 'flock', held: true, pid: process.pid })
  await writeSecretState(dir, { key: null })
  expect(linesOf(dir)[0]).toBe('flock')
})

test('locks that were removed are marked again', async () => {
  const dir = newDir()
  await writeSecretState(dir, { key })
  for (const name of lockNames) unlinkSync(join(dir, name))
  await keepLocksMarked(dir, await openSealer(dir, secret))
  expect(linesOf(dir)).toEqual(['flock+secrets', 'flock+secrets'])
})
