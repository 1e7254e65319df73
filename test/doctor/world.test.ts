/** What the doctor says of the pretend WeChat's own store: a real one, made by a sandbox and damaged since. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import {
  closeSync,
  copyFileSync,
  openSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { configOf } from '../../src/config.ts'
import { examine } from '../../src/doctor/examine.ts'
import { openWorldFile } from '../../src/sandbox/persistence.ts'
import { stateOf } from './support.ts'

let parent = ''
let dir = ''
let path = ''
let kept = ''

beforeAll(async () => {
  parent = await realpath(await mkdtemp(join(tmpdir(), 'svc-doctor-')))
  dir = join(parent, 'data')
  path = join(dir, 'sandbox', 'world.db')
  kept = join(parent, 'kept.db')
  const db = await openWorldFile(join(dir, 'sandbox'))
  db.transaction(() => {
    const add = db.prepare('INSERT INTO user (id, name, created_at) VALUES (?, ?, 0)')
    for (let nth = 0; nth < 500; nth++) add.run(`user-${nth}`, 'x'.repeat(200))
  })
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  db.close()
  copyFileSync(path, kept)
})
afterEach(() => {
  for (const suffix of ['', '-wal', '-shm']) rmSync(path + suffix, { force: true })
  copyFileSync(kept, path)
})
afterAll(() => rm(parent, { recursive: true, force: true }))

async function look(): Promise<{ severity: string; what: string; fix?: string }[]> {
  const config = configOf({ basePath: dir, sandbox: true, port: 0 })
  const { findings } = await examine({ config, version: '1.2.3', deadlineMs: 500 })
  return findings.filter(({ subject, check }) => subject === 'store' && check === 'world')
}

const whole = [{ severity: 'ok', what: 'the sandbox’s world.db is whole' }]

test('a whole one, idle or in use; no side files appear', async () => {
  const before = stateOf(dir)
  expect(await look()).toMatchObject(whole)
  expect(stateOf(dir)).toEqual(before)
  const db = await openWorldFile(join(dir, 'sandbox'))
  try {
    db.exec("UPDATE user SET name = 'changed since'")
    expect(await look()).toMatchObject(whole)
  } finally {
    db.close()
  }
})

test('where there is none, nothing is said', async () => {
  rmSync(path)
  expect(await look()).toEqual([])
})

describe('damage', () => {
  const overwrite = (at: number, bytes: number) => {
    const file = openSync(path, 'r+')
    writeSync(file, new Uint8Array(bytes).fill(0xa5), 0, bytes, at)
    closeSync(file)
  }
  const damages: Record<string, () => void> = {
    'the head overwritten': () => overwrite(0, 100),
    'the schema overwritten': () => overwrite(100, 3000),
    'pages in the middle overwritten': () => overwrite(statSync(path).size / 2, 20_000),
    'cut in half': () => truncateSync(path, Math.floor(statSync(path).size / 2)),
    'something else entirely': () => writeFileSync(path, 'this is no database '.repeat(1000)),
  }
  for (const [name, make] of Object.entries(damages)) {
    test(`${name}: an error, nothing is changed, and its fix makes place for a new world`, async () => {
      make()
      const before = stateOf(dir)
      const [found, ...more] = await look()
      expect(found).toMatchObject({
        severity: 'error',
        what: expect.stringMatching(/world\.db is damaged: \S/),
      })
      expect(more).toEqual([])
      expect(stateOf(dir)).toEqual(before)
      const command = /then: (.*?) \(/.exec(found?.fix ?? '')?.[1] ?? 'false'
      expect(Bun.spawnSync(['sh', '-c', command]).exitCode).toBe(0)
      const anew = await openWorldFile(join(dir, 'sandbox'))
      anew.close()
      expect(await look()).toMatchObject(whole)
    })
  }
})
