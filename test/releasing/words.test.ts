/** The words of a release: its version, what the changelog says, the notes. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pkg from '../../package.json' with { type: 'json' }
import { findNotes } from '../../scripts/releasing/changelog.ts'
import { notesOf } from '../../scripts/releasing/notes.ts'
import { readStatedVersion, versionOf, withVersion } from '../../scripts/releasing/version.ts'
import { changes } from '../support/repository.ts'

const root = join(import.meta.dir, '../..')

test('a version is one of semver, or the next one of a kind', () => {
  const cases: [wanted: string, present: string, version: string | undefined][] = [
    ['0.2.0', '0.1.0', '0.2.0'],
    ['1.0.0-rc.1', '0.9.9', '1.0.0-rc.1'],
    ['patch', '0.1.9', '0.1.10'],
    ['minor', '0.1.9', '0.2.0'],
    ['major', '0.1.9', '1.0.0'],
    ['minor', '1.0.0-rc.1', undefined],
    ['v0.2.0', '0.1.0', undefined],
    ['0.2', '0.1.0', undefined],
    ['01.2.0', '0.1.0', undefined],
    ['0.2.0+build', '0.1.0', undefined],
    ['', '0.1.0', undefined],
  ]
  for (const [wanted, present, version] of cases) {
    if (version === undefined) expect(() => versionOf(wanted, present)).toThrow('give')
    else expect(versionOf(wanted, present)).toBe(version)
  }
})

test('of package.json the line of its own version changes, and nothing else', () => {
  const text = readFileSync(join(root, 'package.json'), 'utf8')
  expect(readStatedVersion(text)).toBe(pkg.version)
  const changed = withVersion(text, '7.8.9-rc.1')
  expect(JSON.parse(changed)).toEqual({ ...pkg, version: '7.8.9-rc.1' })
  expect(withVersion(changed, pkg.version)).toBe(text)
})

test('the changelog speaks of a version under Unreleased or under its own name, on top and in one place', () => {
  const day = '2026-01-31'
  expect(findNotes(changes, '0.2.0', day)).toEqual({
    notes: '- pigeons carry messages too',
    changelog: changes.replace('## Unreleased', '## 0.2.0 – 2026-01-31'),
  })
  const named = '# Changes\n\n## 0.2.0\n\nall `$&` of it\n'
  expect(findNotes(named, '0.2.0', day)).toEqual({
    notes: 'all `$&` of it',
    changelog: '# Changes\n\n## 0.2.0 – 2026-01-31\n\nall `$&` of it\n',
  })
  const again = findNotes(changes, '0.2.0', day).changelog
  expect(findNotes(again, '0.2.0', day).changelog).toBe(again)

  expect(() => findNotes(named, '0.3.0', day)).toThrow('says nothing about 0.3.0')
  expect(() => findNotes('# Changes\n\n## Unreleased\n\n## 0.1.0\n\n- an egg\n', '0.2.0', day)).toThrow(
    'write under',
  )
  expect(() => findNotes(`${changes}\n## 0.2.0\n\n- a nest\n`, '0.2.0', day)).toThrow(
    'both "Unreleased" and "0.2.0"',
  )
  expect(() =>
    findNotes('# Changes\n\n## 0.3.0\n\n- a nest\n\n## 0.2.0\n\n- a twig\n', '0.2.0', day),
  ).toThrow('move it to the top')
})

test('this changelog has what a release asks for', () => {
  const changelog = readFileSync(join(root, 'CHANGELOG.md'), 'utf8')
  const [, first = ''] = /^## +(.+)$/m.exec(changelog) ?? []
  expect(first).toMatch(/^(Unreleased|\d+\.\d+\.\d+ – \d{4}-\d\d-\d\d)$/)
})

test('notes tell what changed, how to have it, what the files are, and what nobody has tried', () => {
  const files = ['install.sh', 'svc-0.2.0.tgz', 'svc-linux-x64', 'svc-windows-x64.exe', 'svc.mjs'].map(
    name => ({
      name,
      bytes: name === 'install.sh' ? 4321 : 123_456_789,
      sha256: createHash('sha256').update(name).digest('hex'),
    }),
  )
  const options = {
    ...{ version: '0.2.0', changes: '- pigeons carry messages too', files },
    tried: [
      { what: 'svc-linux-x64', how: 'a whole conversation', ran: true },
      { what: 'svc-windows-x64.exe', how: 'needs another machine', ran: false },
    ],
  }
  const notes = notesOf({ ...options, url: 'https://example.org/svc/' })
  expect(notes).toStartWith('svc 0.2.0\n\n- pigeons carry messages too\n\n## Install\n')
  for (const line of [
    'curl -fsSL https://example.org/svc/install.sh | sh',
    'deno run -A https://example.org/svc/svc.mjs openapi --sandbox',
    'bun add https://example.org/svc/svc-0.2.0.tgz',
    `| svc-linux-x64 | 123.5 MB | \`${files[2]!.sha256}\` |`,
    `| install.sh | 4.3 kB | \`${files[0]!.sha256}\` |`,
    '- svc-linux-x64: a whole conversation',
  ]) {
    expect(notes.split('\n')).toContain(line)
  }
  expect(notes).toContain('`https://example.org/svc/svc-windows-x64.exe`')
  expect(notes).toEndWith('\nNot run:\n\n- svc-windows-x64.exe: needs another machine\n')

  const local = notesOf(options).split('\n')
  expect(local).toContain('sh install.sh')
  expect(local).toContain('bun add ./svc-0.2.0.tgz')
  expect(notesOf({ ...options, files: [], tried: [] })).toEndWith('Not run:\n\n- nothing\n')
})
