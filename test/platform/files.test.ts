import { expect, test } from 'bun:test'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { isSvcError } from '../../src/model/error.ts'
import {
  createUnique,
  ensurePrivateDir,
  fileExists,
  makePrivate,
  readText,
  removeQuietly,
  resolveInside,
  setAside,
  writeDurably,
  writeDurablyInOrder,
} from '../../src/platform/files.ts'
import { folderOfFile } from '../support/folder.ts'

const root = folderOfFile()
let folders = 0
const folder = () => {
  const path = join(root, String(folders++))
  mkdirSync(path)
  return path
}
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

test('folders and files are private whatever the umask, and existing ones are repaired', async () => {
  const before = process.umask(0)
  try {
    const dir = join(folder(), 'a', 'b')
    await ensurePrivateDir(dir)
    expect(modeOf(dir)).toBe('700')
    chmodSync(dir, 0o755)
    await ensurePrivateDir(dir)
    expect(modeOf(dir)).toBe('700')
    await writeDurably(join(dir, 'x'), 'x')
    expect(modeOf(join(dir, 'x'))).toBe('600')
    const { path, handle } = await createUnique(dir, mark => `y${mark}`)
    await handle.close()
    expect(modeOf(path)).toBe('600')
    chmodSync(path, 0o644)
    await makePrivate(path)
    expect(modeOf(path)).toBe('600')
    await makePrivate(join(dir, 'absent'))
    process.umask(0o777)
    await writeDurably(join(dir, 'z'), 'z')
    expect(modeOf(join(dir, 'z'))).toBe('600')
  } finally {
    process.umask(before)
  }
})

test('a durable write replaces the whole content and leaves nothing beside', async () => {
  const dir = folder()
  const path = join(dir, 'state.json')
  await writeDurably(path, 'long old content')
  await writeDurably(path, 'new 你')
  expect(await readText(path)).toBe('new 你')
  expect(readdirSync(dir)).toEqual(['state.json'])
})

test('a reader during many writes sees whole contents only', async () => {
  const path = join(folder(), 'state.json')
  const contents = ['a', 'b', 'c'].map(letter => letter.repeat(100_000))
  await writeDurably(path, contents[0]!)
  let writing = true
  const writes = (async () => {
    for (let i = 0; i < 30; i++) await writeDurably(path, contents[i % 3]!)
    writing = false
  })()
  let seen = 0
  for (; writing; seen++) expect(contents).toContain((await readText(path))!)
  await writes
  expect(seen).toBeGreaterThan(0)
})

test('files written in order are all there, and one that cannot be written leaves all as they were', async () => {
  const dir = folder()
  const [first, second] = [join(dir, 'contexts.json'), join(dir, 'token.json')]
  await writeDurablyInOrder([
    { path: first, text: '1' },
    { path: second, text: '2' },
  ])
  expect([readFileSync(first, 'utf8'), readFileSync(second, 'utf8')]).toEqual(['1', '2'])

  mkdirSync(join(dir, 'taken'))
  const failed = writeDurablyInOrder([
    { path: first, text: 'later' },
    { path: join(dir, 'taken'), text: 'cannot replace a folder' },
    { path: second, text: 'never' },
  ])
  expect(
    await failed.then(
      () => 'written',
      error => error.code,
    ),
  ).toMatch(/EISDIR|ENOTEMPTY|EEXIST/)
  // In order: what came before the failure stands, what comes after it does not.
  expect([readFileSync(first, 'utf8'), readFileSync(second, 'utf8')]).toEqual(['later', '2'])
  expect(readdirSync(dir).sort()).toEqual(['contexts.json', 'taken', 'token.json'])

  const nameTooLong = join(dir, 'n'.repeat(300))
  const unprepared = writeDurablyInOrder([
    { path: first, text: 'never' },
    { path: nameTooLong, text: 'x' },
  ])
  expect(
    await unprepared.then(
      () => 'written',
      error => error.code,
    ),
  ).toBe('ENAMETOOLONG')
  expect(readFileSync(first, 'utf8')).toBe('later')
  expect(readdirSync(dir).sort()).toEqual(['contexts.json', 'taken', 'token.json'])
})

test('what is absent reads as undefined, other failures are told', async () => {
  const dir = folder()
  expect(await readText(join(dir, 'absent'))).toBeUndefined()
  expect(await fileExists(join(dir, 'absent'))).toBe(false)
  expect(await fileExists(dir)).toBe(true)
  await removeQuietly(join(dir, 'absent'))
  expect(
    await readText(dir).then(
      () => 'read',
      error => error.code,
    ),
  ).toBe('EISDIR')
})

test.skipIf(process.geteuid?.() !== 0)(
  'what root makes in a folder of somebody else is left to him (as root)',
  async () => {
    const theirs = folder()
    chownSync(theirs, 4321, 4322)
    await writeDurably(join(theirs, 'contexts.json'), '{}')
    await ensurePrivateDir(join(theirs, 'media', 'uploads'))
    const { path, handle } = await createUnique(join(theirs, 'media', 'uploads'), () => 'a.txt')
    await handle.close()
    await writeDurably(join(theirs, 'contexts.json'), '{"again":1}')
    for (const made of [join(theirs, 'contexts.json'), join(theirs, 'media'), join(path, '..'), path]) {
      const { uid, gid } = statSync(made)
      expect([made, uid, gid]).toEqual([made, 4321, 4322])
    }
    expect([modeOf(join(theirs, 'contexts.json')), modeOf(path)]).toEqual(['600', '600'])
    // His private folder, in which root made nothing, stays whose it is; and root's own stays root's.
    await writeDurably(join(folder(), 'mine'), '')
    expect(statSync(join(root, String(folders - 1), 'mine')).uid).toBe(0)
  },
)

test('a damaged file is set aside under a name that nothing had', async () => {
  const dir = folder()
  const path = join(dir, 'token.json')
  const names = new Set<string>()
  for (const text of ['one', 'two', 'three']) {
    writeFileSync(path, text)
    const aside = await setAside(path)
    expect(aside).toMatch(/token\.json\.corrupt-\d{13}$/)
    expect(readFileSync(aside, 'utf8')).toBe(text)
    names.add(aside)
  }
  expect(names.size).toBe(3)
  expect(await fileExists(path)).toBe(false)
})

test('a name that is taken gets a number before the extension; nothing is overwritten', async () => {
  const dir = folder()
  const made = []
  for (const text of ['1', '2', '3']) {
    const { path, handle } = await createUnique(dir, mark => `a.tar${mark}.gz`)
    await handle.writeFile(text)
    await handle.close()
    made.push([path.slice(dir.length + 1), readFileSync(path, 'utf8')])
  }
  expect(made).toEqual([
    ['a.tar.gz', '1'],
    ['a.tar (1).gz', '2'],
    ['a.tar (2).gz', '3'],
  ])
  for (let i = 0; i < 120; i++) await (await createUnique(dir, mark => `b${mark}`)).handle.close()
  expect(readdirSync(dir).filter(name => name.startsWith('b')).length).toBe(120)
})

test('parallel takers of one name get one file each', async () => {
  const dir = folder()
  const made = await Promise.all(
    Array.from({ length: 20 }, () => createUnique(dir, mark => `same${mark}.txt`)),
  )
  for (const { handle } of made) await handle.close()
  expect(new Set(made.map(({ path }) => path)).size).toBe(20)
})

test('a link does not lead a new file elsewhere', async () => {
  const dir = folder()
  symlinkSync(join(dir, 'elsewhere'), join(dir, 'a.txt'))
  const { path, handle } = await createUnique(dir, mark => `a${mark}.txt`)
  await handle.close()
  expect(path).toBe(join(dir, 'a (1).txt'))
  expect(await fileExists(join(dir, 'elsewhere'))).toBe(false)
})

test('paths inside the folder are found, whatever their spelling', async () => {
  const dir = folder()
  mkdirSync(join(dir, 'sub'))
  writeFileSync(join(dir, 'sub', 'x'), '')
  symlinkSync(join(dir, 'sub'), join(dir, 'inner'))
  expect(await resolveInside(dir, 'sub/x')).toBe(join(dir, 'sub', 'x'))
  expect(await resolveInside(dir, join(dir, 'sub', '..', 'sub', 'x'))).toBe(join(dir, 'sub', 'x'))
  expect(await resolveInside(dir, 'inner/x')).toBe(join(dir, 'sub', 'x'))
  expect(await resolveInside(dir, 'new/deep/file')).toBe(join(dir, 'new', 'deep', 'file'))
  expect(await resolveInside(dir, 'inner/new')).toBe(join(dir, 'sub', 'new'))
  expect(await resolveInside(dir, '..x')).toBe(join(dir, '..x'))
  expect(await resolveInside(dir, '')).toBe(dir)
  const linked = join(folder(), 'root')
  symlinkSync(dir, linked)
  expect(await resolveInside(linked, join(linked, 'sub', 'x'))).toBe(join(dir, 'sub', 'x'))
})

test('no path leads out of the folder', async () => {
  const dir = folder()
  const outer = folder()
  mkdirSync(`${dir}-sibling`)
  writeFileSync(join(outer, 'secret'), '')
  symlinkSync(outer, join(dir, 'out'))
  symlinkSync(join(outer, 'secret'), join(dir, 'file'))
  symlinkSync(join(outer, 'not-yet'), join(dir, 'dangling'))
  symlinkSync('loop', join(dir, 'loop'))
  const attacks = [
    ['..', '../x', '/etc/passwd', '/', join(outer, 'secret'), `${dir}-sibling`, `${dir}-sibling/new`],
    ['sub/../../x', 'out', 'out/secret', 'out/new', 'out/new/deep', 'file', 'dangling', 'loop', 'x\0y'],
  ].flat()
  for (const path of attacks) {
    const result = await resolveInside(dir, path).catch(error => (isSvcError(error) ? error.code : error))
    expect([path, result]).toEqual([path, 'forbidden'])
  }
})
