/** What is said to be inside svc: the packages, their licences, the bill. */
import { expect, test } from 'bun:test'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findNeeded, readPart } from '../../scripts/releasing/contents.ts'
import { formatNotices, readNotices } from '../../scripts/releasing/licenses.ts'
import { svc } from '../support/command.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'

const folder = folderOfFile()
const mit = 'Permission is hereby granted, free of charge …'

test('svc licenses prints what is built in now, with every text once', async () => {
  const text = await readNotices()
  const { status, stdout } = await svc(['licenses'], { home: folder })
  expect([status, stdout === text]).toEqual([0, true])
  for (const name of ['elysia', 'preact', 'silk-wasm', 'vue', 'Bun', '@scalar/api-reference'])
    expect(text).toMatch(new RegExp(`^${name} \\d\\S+ \\(.+\\)$`, 'm'))
  for (const part of [
    'oven-sh/WebKit/tree/',
    'scripts/build.ts',
    'Copyright (c) 2006-2012, Skype',
    'Version 2.1, February 1999',
  ])
    expect(text.split(part).length).toBe(2)
  expect(text).not.toMatch(/^supports-color /m)
})

test('what a package needs is needed; what only it may use, or a tool of the tests needs, is not', () => {
  const entry = (name: string, more: object = {}): [string, string, object, string] => [
    name,
    '',
    more,
    'sha512-',
  ]
  const packages = {
    a: entry('a@1', { dependencies: { b: '1' }, peerDependencies: { c: '1', d: '1' }, optionalPeers: ['d'] }),
    'a/b': entry('b@2', { dependencies: { e: '1' }, optionalDependencies: { 'not-here': '1' } }),
    'a/b/f': entry('f@2'),
    b: entry('b@1'),
    c: entry('c@1'),
    d: entry('d@1'),
    e: entry('e@1', { dependencies: { a: '1', f: '1' } }),
    f: entry('f@1'),
    tool: entry('tool@1', { dependencies: { d: '1' } }),
  }
  expect([...findNeeded({ packages }, ['a'])].sort()).toEqual(['a', 'a/b', 'c', 'e', 'f'])
})

test('the texts of a package are its files, or a section of its page; without one it is refused by name', async () => {
  const unpack = async (name: string, files: Record<string, string>) => {
    const path = join(folder, name)
    await mkdir(path)
    const manifest = JSON.stringify({ name, version: '1.2.3', license: 'MIT' })
    for (const [file, text] of Object.entries({ 'package.json': manifest, ...files }))
      await writeFile(join(path, file), text)
    return path
  }
  const several = await unpack('several', { NOTICE: 'by us\r\n', 'LICENSE.md': `${mit}  \r\n`, 'x.js': '' })
  expect(await readPart(several)).toEqual({
    name: 'several',
    version: '1.2.3',
    license: 'MIT',
    text: `${mit}\n\nby us`,
  })
  const onPage = await unpack('on-page', { 'README.md': `# on-page\n\n## License\n\n(c) me\n\n${mit}\n` })
  expect((await readPart(onPage)).text).toBe(`(c) me\n\n${mit}`)
  const none = await unpack('without', { 'README.md': '# without\n\n## License\n\nMIT\n' })
  expect((await failure(readPart(none))).message).toMatch(/^without .*without\.txt/)
})

test('parts with the same text share it', () => {
  const part = (name: string, text: string) => ({ name, version: '1.0.0', license: 'MIT', text })
  const text = formatNotices([part('a', mit), part('b', 'another'), part('c', mit)])
  expect(text.split(mit).length).toBe(2)
  expect(text).toMatch(/^a 1\.0\.0 \(MIT\)\nc 1\.0\.0 \(MIT\)\n=+\n\nPermission/m)
})
