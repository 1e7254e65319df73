/** Releases, made in repositories of their own that hold what lies here. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { appendFile, link, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import pkg from '../../package.json' with { type: 'json' }
import { findTarget } from '../../scripts/build/targets.ts'
import { findStatedElsewhere, planRelease } from '../../scripts/releasing/checks.ts'
import { findOwnTarget, inspectBinary } from '../../scripts/releasing/trials.ts'
import { canBuild } from '../support/binary.ts'
import { ended } from '../support/ended.ts'
import { failure } from '../support/failure.ts'
import { type Repositories, repositories, root } from '../support/repository.ts'
import { makeKey } from '../support/signing-key.ts'
import { until } from '../support/until.ts'

const target = findOwnTarget()
/** The part that this machine can run. */
const own = target?.name.slice('bun-'.length) ?? 'deno'
const here = Bun.which('git') !== null && target !== undefined && (await canBuild([target]))

describe.skipIf(!here)('a release (skipped without git, or without the runtime)', () => {
  let of: Repositories
  beforeAll(async () => {
    of = await repositories()
  })
  // Several sets of installed packages: tens of thousands of files.
  afterAll(() => of?.remove(), 60_000)

  test('the version stands in package.json alone, and a second place is found', async () => {
    const { path, commit } = await of.fresh('stated')
    expect(await findStatedElsewhere(path, pkg.version)).toEqual([])
    // And that one may go out, as long as it has not.
    expect(await planRelease(path, pkg.version, '2026-01-31')).toMatchObject({
      version: pkg.version,
      notes: '- pigeons carry messages too',
    })
    await commit('biome.json', `{ "version": "${pkg.version}" }\n`)
    await commit('LICENSE', `svc v${pkg.version}.\nversion ${pkg.version}0\n`)
    expect((await findStatedElsewhere(path, pkg.version)).map(line => line.split(':').slice(0, 2))).toEqual([
      ['LICENSE', '1'],
      ['biome.json', '1'],
    ])
  })

  test('everything that stands in the way is said at once, with what to do, and nothing is changed', async () => {
    const { path, git: inside, commit, release, state } = await of.fresh('refused')
    await commit('CHANGELOG.md', '# Changes\n\n## Unreleased\n\n## 0.0.1\n\n- an egg\n')
    await commit('LICENSE', `svc ${pkg.version}\n`)
    await inside('switch', '--quiet', '--create', 'work')
    await appendFile(join(path, 'README.md'), 'more\n')
    await writeFile(join(path, 'left.txt'), '')
    const before = await state()

    const lower = await release('0.0.2')
    expect([lower.status, lower.stdout]).toEqual([1, ''])
    const reasons = lower.stderr.split('\n').filter(line => line.startsWith('  - '))
    const named = [
      ['work', 'git switch main'],
      ['README.md', 'left.txt', 'git stash -u'],
      ['0.0.2', pkg.version, 'package.json'],
      ['CHANGELOG.md', '0.0.2', '## Unreleased'],
      [`LICENSE:1:svc ${pkg.version}`, 'package.json'],
    ]
    expect(reasons.length).toBe(named.length)
    for (const [index, facts] of named.entries())
      for (const fact of facts) expect(reasons[index]).toContain(fact)
    expect((await release('next')).stderr).toMatch(/^error: .*\bnext\b.*\d\.\d\.\d/s)
    await inside('tag', 'v9.0.0')
    expect((await release('9.0.0')).stderr).toContain('v9.0.0')
    await inside('tag', '--delete', 'v9.0.0')
    expect(await state()).toEqual(before)
  })

  test('what makes no sense is wrong usage', async () => {
    const { release, state } = await of.fresh('usage')
    const before = await state()
    for (const [args, said] of [
      [[], 'major'],
      [['1.0.0', '2.0.0'], 'major'],
      [['1.0.0', '--skip-tests'], '--skip-tests'],
      [['1.0.0', '--only', 'linux-x64,toaster'], ' toaster'],
      [['1.0.0', '--url', "https://example.org/'"], "https://example.org/'"],
      [['1.0.0', '--url', 'http://example.org/svc'], 'http://example.org/svc'],
      [['1.0.0', '--sing'], '--sing'],
      [['1.0.0', '--rebuild', 'x'], '--rebuild'],
      [['--rebuild', 'x', '--only', 'deno'], '--rebuild'],
      [['1.0.0', '--unsigned'], '--unsigned'],
    ] as const) {
      const { status, stderr } = await release(...args)
      expect([status, stderr]).toEqual([2, expect.stringContaining(said)])
    }
    const { status, stdout } = await ended([join(root, 'scripts/release'), '--help'], {
      cwd: tmpdir(),
      env: of.env,
    })
    expect([status, stdout]).toEqual([0, expect.stringContaining('--dry-run')])
    expect(await state()).toEqual(before)
  })

  for (const [what, part, file, broken, said] of [
    [
      'test',
      'deno',
      'scripts/test',
      () => '#!/bin/sh\necho "3 passed, 1 failed"\nexit 1\n',
      '3 passed, 1 failed',
    ],
    ['build', own, 'src/main.ts', (text: string) => `${text}\nimport './absent.ts'\n`, 'absent.ts'],
    // It starts, and says that it is another.
    ['conversation', 'deno', 'src/version.ts', () => `export const version: string = '0.0.7'\n`, '0.0.7'],
  ] as const) {
    test(`a ${what} that fails leaves everything as it was`, async () => {
      const { path, commit, release, state } = await of.fresh(`failing-${what}`)
      await commit(file, broken(await readFile(join(path, file), 'utf8')))
      const before = await state()
      const failed = await release('77.2.0', '--only', part)
      expect([failed.status, failed.stderr]).toEqual([1, expect.stringContaining(said)])
      expect(failed.stderr).toMatch(/^hint: .+\n$/m)
      expect(await state()).toEqual(before)
    }, 300_000)
  }

  test('one that is killed, or told to stop, leaves everything as it was, and the next tidies up after it', async () => {
    const { path, commit, state } = await of.fresh('killed')
    const untouched = await state()
    const begin = () =>
      Bun.spawn([process.execPath, 'scripts/release.ts', '77.2.0', '--only', 'deno'], {
        cwd: path,
        env: of.env,
        stdout: 'ignore',
        stderr: 'ignore',
        // A group of its own, so that all of it can be killed as when the power goes.
        detached: true,
      })
    const workshopOf = (child: Bun.Subprocess) => join(path, 'dist', `.release-${child.pid}`)
    const written = async (child: Bun.Subprocess) => {
      const file = join(workshopOf(child), 'package.json')
      await until('the version is written', 60_000, async () => {
        const text = await readFile(file, 'utf8').catch(() => '')
        return text.includes('"version": "77.2.0"')
      })
    }

    const killed = begin()
    await written(killed)
    process.kill(-killed.pid, 'SIGKILL')
    await killed.exited
    const left = { worktrees: expect.stringContaining(workshopOf(killed)), dist: [`.release-${killed.pid}`] }
    expect(await state()).toEqual({ ...untouched, ...left })

    const diary = join(path, '..', 'diary')
    // The signal may come at any moment, also to a sleep that has not begun: nobody waits for that one.
    const asleep = `(trap 'echo ended >>${diary}; exit' TERM
      sleep 60 >/dev/null 2>&1 & echo begun >>${diary}; wait) &\nwait\n`
    await commit('scripts/test', `#!/bin/sh\n${asleep}`)
    const { head, refs } = await state()
    const read = () => readFile(diary, 'utf8').catch(() => '')
    const told = begin()
    await until('the tests run', 60_000, async () => (await read()) === 'begun\n')
    expect(existsSync(workshopOf(killed))).toBe(false)
    told.kill('SIGTERM')
    expect(await told.exited).toBe(1)
    await until('what it has started ends with it', 30_000, async () => (await read()) === 'begun\nended\n')
    expect(await state()).toEqual({ ...untouched, head, refs })
  }, 300_000)

  test('a release: the version everywhere, files with their sums and notes, a commit and a tag', async () => {
    if (!target) throw new Error('there is no binary for this machine')
    const { file } = target
    const { path, git: inside, commit, release } = await of.fresh('released')
    const key = await makeKey(join(path, '..'), 'release')
    const unknown = await release('77.2.0', '--only', own, '--sign', key.path)
    expect([unknown.status, unknown.stderr]).toEqual([
      1,
      expect.stringContaining('scripts/releasing/signers'),
    ])
    await commit('scripts/releasing/signers', `${key.signer}\n`)
    const base = await inside('rev-parse', 'HEAD')

    const options = ['--only', own, '--url', 'https://example.org/svc', '--sign', key.path]
    const done = await release('77.2.0', ...options)
    expect(done.status === 0 ? 0 : done.stderr).toBe(0)
    expect(done.stdout).toContain('git push --follow-tags')

    const out = join(path, 'dist/release')
    expect(readdirSync(join(path, 'dist'))).toEqual(['release'])
    const made = ['THIRD_PARTY_NOTICES.txt', 'provenance.intoto.json', 'svc.cdx.json']
    const summed = [...made, 'install.sh', file, `${file}.gz`].sort()
    expect(readdirSync(out).sort()).toEqual(['NOTES.md', 'SHA256SUMS', 'SHA256SUMS.sig', ...summed].sort())
    const sums = await readFile(join(out, 'SHA256SUMS'), 'utf8')
    const sumOf = (name: string) =>
      new Bun.CryptoHasher('sha256').update(readFileSync(join(out, name))).digest('hex')
    expect(sums).toBe(summed.map(name => `${sumOf(name)}  ${name}\n`).join(''))
    const { metadata } = JSON.parse(await readFile(join(out, 'svc.cdx.json'), 'utf8'))
    expect(metadata.component).toMatchObject({
      version: '77.2.0',
      properties: [{ name: 'git:commit', value: await inside('rev-parse', 'main') }],
    })
    expect((await ended([join(out, file), '--version'], { cwd: tmpdir(), env: of.env })).stdout).toContain(
      '77.2.0',
    )
    // What is said of those that only other machines can start.
    expect(await inspectBinary(target, out, '77.2.0')).toContain('svc 77.2.0')
    expect((await failure(inspectBinary(target, out, '77.3.0'))).message).toContain('svc 77.3.0')
    await link(join(out, file), join(path, 'dist/svc-windows-x64.exe'))
    const windows = findTarget('bun-windows-x64')
    expect((await failure(inspectBinary(windows, join(path, 'dist'), '77.2.0'))).message).toMatch(
      /svc-windows-x64\.exe .*\bELF\b/,
    )

    expect(await inside('status', '--porcelain')).toBe('')
    expect(await inside('log', '--format=%s', `${base}..main`)).toBe('release 77.2.0')
    expect((await inside('diff', '--name-only', base)).split('\n')).toEqual(['CHANGELOG.md', 'package.json'])
    expect(JSON.parse(await readFile(join(path, 'package.json'), 'utf8'))).toEqual({
      ...pkg,
      version: '77.2.0',
    })
    expect(await readFile(join(path, 'CHANGELOG.md'), 'utf8')).toMatch(
      /^# Changes\n\n## 77\.2\.0 – \d{4}-\d\d-\d\d\n\n- pigeons/,
    )

    const notes = await readFile(join(out, 'NOTES.md'), 'utf8')
    expect(notes.split('\n')).toContain('curl -fsSL https://example.org/svc/install.sh | sh')
    for (const line of [
      '.*: 7 passed, 0 failed$',
      'needs the moon: ',
      'known vulnerabilities: (none found|found|not checked)',
      '.*, deno, package: ',
      `${file}: .* \\d\\d .*\\bon ${own}\\b`,
    ])
      expect(notes).toMatch(new RegExp(`^- ${line}`, 'm'))
    expect(await inside('cat-file', '-t', 'v77.2.0')).toBe('tag')
    expect(await inside('rev-parse', 'v77.2.0^{commit}')).toBe(await inside('rev-parse', 'main'))
    expect(await inside('tag', '--list', '--format=%(contents)', 'v77.2.0')).toBe(notes.trim())

    // Its installer knows the key, and another clone at another path makes the same.
    expect(readFileSync(join(out, 'install.sh'), 'utf8')).toContain(`\nsigners='${key.signer}'\n`)
    const clone = join(path, '..', 'a clone elsewhere')
    await inside('clone', '--quiet', path, clone)
    await symlink(join(root, '.bun'), join(clone, '.bun'))
    const rebuild = () =>
      ended([process.execPath, 'scripts/release.ts', '--rebuild', out], {
        cwd: clone,
        env: of.env,
        withinMs: 100_000,
      })
    const rebuilt = await rebuild()
    expect([rebuilt.status, rebuilt.stderr.includes('error')]).toEqual([0, false])
    for (const name of ['SHA256SUMS', ...summed])
      expect(
        readFileSync(join(clone, 'dist/release-rebuilt', name)).equals(readFileSync(join(out, name))),
      ).toBe(true)
    await appendFile(join(out, 'SHA256SUMS'), `${'0'.repeat(64)}  svc.mjs\n`)
    expect([await rebuild()]).toMatchObject([{ status: 1, stderr: expect.stringContaining('SHA256SUMS') }])

    const again = await release('77.2.0')
    expect([again.status, again.stderr]).toEqual([1, expect.stringContaining('v77.2.0')])
  }, 300_000)
})
