/** What is said to be inside svc: the packages, their licences, the bill. */
import { expect, test } from 'bun:test'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Spec, Validation } from '@cyclonedx/cyclonedx-library'
import { createBill } from '../../scripts/releasing/bill.ts'
import { findNeeded, readPart } from '../../scripts/releasing/contents.ts'
import { formatNotices, readNotices } from '../../scripts/releasing/licenses.ts'
import { findVulnerabilities, listVersions } from '../../scripts/releasing/vulnerabilities.ts'
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

test('the bill is CycloneDX, and names each part once', async () => {
  const bill = await createBill('0123abc', 1_700_000_000)
  expect(await new Validation.JsonStrictValidator(Spec.Version.v1dot6).validate(bill)).toBeNull()
  const refs = [...bill.matchAll(/"bom-ref": "(.+)"/g)].map(match => match[1]!)
  expect(refs.length).toBeGreaterThan(250)
  expect(new Set(refs).size).toBe(refs.length)
  const { metadata, dependencies } = JSON.parse(bill)
  expect(metadata.component.properties).toEqual([{ name: 'git:commit', value: '0123abc' }])
  expect(refs).toEqual(expect.arrayContaining(dependencies[0].dependsOn))
})

test('what the registry says of the bill is found, or nothing found, or unknown', async () => {
  const purl = (name: string) => ({ purl: `pkg:npm/${name}` })
  const bill = {
    components: [
      { ...purl('%40a/b@1.0.0'), components: [purl('c@2.0.0')] },
      purl('c@1.0.0'),
      { purl: 'pkg:github/x/y@1' },
    ],
  }
  const versions = { '@a/b': ['1.0.0'], c: ['1.0.0', '2.0.0'] }
  expect(listVersions(bill)).toEqual(versions)

  let answer = () => Response.json({})
  const asked: unknown[] = []
  using registry = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      asked.push([new URL(request.url).pathname, await request.json()])
      return answer()
    },
  })
  const ask = () => findVulnerabilities(JSON.stringify(bill), folder, `${registry.url}npm`)
  expect(await ask()).toEqual({ checked: true, text: expect.stringMatching(/^none found for 2 /) })
  expect(asked).toEqual([['/npm/-/npm/v1/security/advisories/bulk', versions]])
  answer = () => Response.json({ c: [{ severity: 'high', title: 'leaks', url: 'https://example.org/1' }] })
  const found = 'found: c 1.0.0,2.0.0: high, leaks, https://example.org/1'
  expect(await ask()).toEqual({ checked: true, text: found })
  for (const refusal of [new Response('no', { status: 405 }), new Response('<html>'), Response.json(null)]) {
    answer = () => refusal
    expect(await ask()).toEqual({ checked: false, text: expect.stringMatching(/^not checked: /) })
  }
})
