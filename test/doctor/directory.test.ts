import { afterAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { ConfigValues } from '../../src/config.ts'
import { idle, stateOf, type Ward, withWard } from './support.ts'

const ward = await withWard()
afterAll(() => ward[Symbol.asyncDispose]())

const posix = process.platform !== 'win32'
const isRoot = process.getuid?.() === 0

/** Does what the fix says, as a shell does. */
function mend(fix: string | undefined): void {
  const { exitCode, stderr } = Bun.spawnSync(['sh', '-c', fix ?? 'false'])
  expect(`${exitCode} ${stderr}`).toBe('0 ')
}

test('a directory at rest: nobody polls, and nothing else is to be said; nothing is changed', async () => {
  const before = stateOf(ward.dir)
  const look = await ward.look()
  expect(look.troubles).toEqual([idle])
  expect(look.ok).toBe(true)
  expect(stateOf(ward.dir)).toEqual(before)
})

describe.skipIf(!posix)('rights', () => {
  test('files that others may read are a warning, and the fix closes them', async () => {
    const names = ['work/token.json', 'messages.db', '.poll.lock', 'work']
    for (const name of names) chmodSync(join(ward.dir, name), name === 'work' ? 0o755 : 0o644)
    const [finding] = (await ward.look()).of('directory/rights')
    expect(finding).toMatchObject({ severity: 'warning' })
    for (const name of names) expect(finding!.fix).toContain(join(ward.dir, name))
    mend(finding!.fix)
    for (const name of names) expect(statSync(join(ward.dir, name)).mode & 0o077).toBe(0)
    expect((await ward.look()).troubles).toEqual([idle])
  })

  test('credentials that others can reach through an open directory are an error', async () => {
    chmodSync(ward.dir, 0o755)
    chmodSync(join(ward.dir, 'work/token.json'), 0o644)
    chmodSync(join(ward.dir, 'work'), 0o755)
    const look = await ward.look()
    expect(look.of('directory/rights')).toMatchObject([{ severity: 'error' }])
    expect(look.ok).toBe(false)
    mend(look.of('directory/rights')[0]!.fix)
    expect((await ward.look()).troubles).toEqual([idle])
  })

  test.skipIf(!isRoot)('files of another user than the directory (needs root)', async () => {
    const path = join(ward.dir, 'work/contexts.json')
    chownSync(path, 65534, 65534)
    const look = await ward.look()
    expect(look.of('directory/owner')).toMatchObject([
      { severity: 'warning', what: expect.stringContaining('work/contexts.json belongs to another user') },
    ])
    chownSync(path, 0, 0)
  })
})

describe('what lies about', () => {
  const lay = (name: string, ageMs = 0) => {
    const path = join(ward.dir, name)
    writeFileSync(path, 'x', { mode: 0o600 })
    const at = new Date(Date.now() - ageMs)
    utimesSync(path, at, at)
    return path
  }

  test('a broken-off write of ten minutes ago is a note, one of now is under way', async () => {
    const now = lay('work/token.json.0123456789ab.tmp')
    expect((await ward.look()).troubles).toEqual([idle])
    const old = lay('work/contexts.json.0123456789ab.tmp', 600_000)
    const look = await ward.look()
    expect(look.of('directory/leftovers')).toMatchObject([{ severity: 'note', fix: `rm ${old}` }])
    mend(look.of('directory/leftovers')[0]!.fix)
    rmSync(now)
    expect((await ward.look()).troubles).toEqual([idle])
  })

  test('a damaged file that was set aside', async () => {
    const path = lay('work/contexts.json.corrupt-1795213886587')
    const look = await ward.look()
    expect(look.of('directory/set_aside')).toMatchObject([
      { severity: 'note', what: expect.stringContaining('work/contexts.json.corrupt-1795213886587') },
    ])
    rmSync(path)
  })

  test('files and folders of others are named, and their rights are their business', async () => {
    const names = ['letter.txt', 'photos', '.cache']
    writeFileSync(join(ward.dir, 'letter.txt'), '', { mode: 0o644 })
    mkdirSync(join(ward.dir, 'photos'))
    mkdirSync(join(ward.dir, '.cache'))
    const look = await ward.look()
    expect(look.troubles).toEqual(['directory/foreign note', idle])
    for (const name of names) expect(look.of('directory/foreign')[0]!.what).toContain(name)
    for (const name of names) rmSync(join(ward.dir, name), { recursive: true })
  })

  test('a fix quotes what a shell would take apart', async () => {
    const name = "work/it's; true.0123456789ab.tmp"
    lay(name, 600_000)
    mend((await ward.look()).of('directory/leftovers')[0]!.fix)
    expect((await ward.look()).troubles).toEqual([idle])
  })
})

describe('a directory that is none', () => {
  const at = async (make: (ward: Ward, path: string) => void, name: string, more: ConfigValues = {}) => {
    const path = join(ward.dir, '..', name)
    make(ward, path)
    const look = await ward.look({ basePath: path, ...more })
    expect(look.findings.every(({ check }) => check !== 'examined')).toBe(true)
    return look
  }

  test('missing: a note, and it is not made', async () => {
    const look = await at(() => {}, 'missing/deep')
    expect(look.of('directory/usable')).toMatchObject([{ severity: 'note' }])
    expect(look.ok).toBe(true)
    expect(() => statSync(join(ward.dir, '../missing'))).toThrow()
  })

  test('a file', async () => {
    const look = await at((_, path) => writeFileSync(path, ''), 'file')
    expect(look.of('directory/usable')).toMatchObject([
      { severity: 'error', what: expect.stringContaining('it is not a folder') },
    ])
  })

  test('a link in a circle', async () => {
    const look = await at((_, path) => symlinkSync(path, path), 'circle')
    expect(look.of('directory/usable')).toMatchObject([{ severity: 'error' }])
  })

  test('somebody’s folder', async () => {
    const look = await at((_, path) => {
      mkdirSync(path)
      writeFileSync(join(path, 'thesis.doc'), '')
    }, 'documents')
    expect(look.of('directory/usable')).toMatchObject([
      { severity: 'warning', what: expect.stringContaining('thesis.doc') },
    ])
  })

  test('real sessions under --sandbox', async () => {
    expect(
      (await ward.look({ sandbox: true, upstreamUrl: undefined, cdnUrl: undefined })).of('directory/kind'),
    ).toMatchObject([{ severity: 'error', what: expect.stringContaining('holds real sessions') }])
  })

  test('one that was used without --sandbox, under it', async () => {
    const look = await at(
      (_, path) => {
        mkdirSync(path, { mode: 0o700 })
        writeFileSync(join(path, '.poll.lock'), '')
      },
      'used',
      { sandbox: true, upstreamUrl: undefined, cdnUrl: undefined },
    )
    expect(look.of('directory/kind')).toMatchObject([
      { severity: 'error', what: expect.stringContaining('was used without --sandbox') },
    ])
  })
})
