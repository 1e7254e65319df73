import { describe, expect, test } from 'bun:test'
import { chmodSync, chownSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigValues } from '../../src/config.ts'
import { forFile } from '../support/folder.ts'
import { idle, stateOf, type Ward, withWard } from './support.ts'

const ward = forFile(await withWard())

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

test('a restore that was interrupted is an error', async () => {
  writeFileSync(join(ward.dir, '.restoring'), '[]', { mode: 0o600 })
  const found = (await ward.look()).of('directory/usable')
  rmSync(join(ward.dir, '.restoring'))
  expect(found).toMatchObject([
    { severity: 'error', fix: expect.stringContaining('svc restore') },
    { severity: 'ok' },
  ])
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
      { severity: 'warning', what: expect.stringContaining('work/contexts.json') },
    ])
    chownSync(path, 0, 0)
  })
})

describe('what lies about', () => {
  const lay = (name: string) => {
    const path = join(ward.dir, name)
    writeFileSync(path, 'x', { mode: 0o600 })
    return path
  }

  test('a damaged file that was set aside', async () => {
    const path = lay('work/contexts.json.corrupt-1795213886587')
    const look = await ward.look()
    expect(look.of('directory/set_aside')).toMatchObject([
      { severity: 'note', what: expect.stringContaining('work/contexts.json.corrupt-1795213886587') },
    ])
    rmSync(path)
  })

  test('files and folders of others are their business, and so are their rights', async () => {
    writeFileSync(join(ward.dir, 'letter.txt'), '', { mode: 0o644 })
    for (const name of ['photos', '.cache']) mkdirSync(join(ward.dir, name))
    expect((await ward.look()).troubles).toEqual([idle])
    for (const name of ['letter.txt', 'photos', '.cache']) rmSync(join(ward.dir, name), { recursive: true })
  })

  test('a fix quotes what a shell would take apart', async () => {
    const path = lay("work/it's; true.json")
    chmodSync(path, 0o644)
    mend((await ward.look()).of('directory/rights')[0]!.fix)
    rmSync(path)
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
