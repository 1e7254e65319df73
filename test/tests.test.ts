/** How the tests are run: which, what counts as failed, and what is said of it. */
import { expect, test } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ended } from './support/ended.ts'
import { isRunning } from './support/family.ts'
import { folderOfTest } from './support/folder.ts'
import { until } from './support/until.ts'

const tests = join(import.meta.dir, '../scripts/tests.ts')
const script = join(import.meta.dir, '../scripts/test')

const head = `import { expect, test } from 'bun:test'\nimport { existsSync, readFileSync, writeFileSync } from 'node:fs'\n`
const good = `test('good', () => {})\ntest.skip('skipped', () => {})\n`
const bad = `test('bad', () => expect({ a: 'b' }).toEqual({ a: 'c' }))\n`
/** Fails the first time. */
const shaky = `test('shaky', () => {
  const again = existsSync('been')
  writeFileSync('been', '')
  expect(again).toBe(true)
})\n`

/** What comes of a folder with these test files. */
async function run(files: Record<string, string>, args: readonly string[] = []) {
  const dir = folderOfTest()
  for (const [name, text] of Object.entries(files)) {
    const path = join(dir, `${name}.test.ts`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, head + text)
  }
  const { status, stdout } = await ended([process.execPath, tests, ...args], {
    cwd: dir,
    // No test of these starts svc.
    env: { PATH: process.env.PATH ?? '', SVC_TEST_PROGRAM: 'none' },
  })
  return { status, last: stdout.trimEnd().split('\n').at(-1), stdout, dir }
}

test('all passes: counted without what was skipped', async () => {
  expect(await run({ a: good, b: good })).toMatchObject({ status: 0, last: '2 passed, 0 failed' })
})

test('what fails is told with its reason and fails the run, and nothing is tried twice', async () => {
  const failed = await run({ a: good, b: bad + shaky })
  expect(failed).toMatchObject({ status: 1, last: '1 passed, 2 failed' })
  expect(failed.stdout).toMatch(/^Failed:\n\nb\.test\.ts: bad \(\d+\.\d s\)\n[\s\S]*"b"/m)
  expect(failed.stdout).toMatch(/^b\.test\.ts: shaky [\s\S]*Expected: true\n +Received: false$/m)
})

test('a check that fails counts, and is told with what it said', async () => {
  const checks = ['--check', 'true', '--check', 'cat absent', '--check', 'false']
  const failed = await run({ a: good }, checks)
  expect(failed).toMatchObject({ status: 1, last: '1 passed, 2 failed' })
  expect(failed.stdout).toMatch(/^Failed:\n\ncheck: cat absent [\s\S]*absent/m)
  expect(await run({ a: good }, ['--check', 'true'])).toMatchObject({ status: 0, last: '1 passed, 0 failed' })
})

test('a file that does not load, and a process that dies, fail the run', async () => {
  const notLoading = await run({ a: good, b: 'absent()\n' })
  expect(notLoading).toMatchObject({ status: 1, last: '1 passed, 1 failed' })
  const dying = await run({ a: good, b: `test('dies', () => process.kill(process.pid, 'SIGKILL'))\n` })
  expect(dying).toMatchObject({ status: 1, last: '1 passed, 1 failed' })
})

test('long tests run with --long, alone, or by their name', async () => {
  const files = { a: good, 'b.long': good + good.replaceAll('good', 'better') }
  expect(await run(files)).toMatchObject({ status: 0, last: '1 passed, 0 failed' })
  expect(await run(files, ['--long'])).toMatchObject({ status: 0, last: '2 passed, 0 failed' })
  expect(await run(files, ['b.long'])).toMatchObject({ status: 0, last: '2 passed, 0 failed' })
  const more = { ...files, 'c.long': good }
  expect(await run(more, ['--long', 'c.'])).toMatchObject({ status: 0, last: '1 passed, 0 failed' })
})

test('parts of the long tests are all of them, each names what it left out, and times are noted', async () => {
  const names = ['a', 'b', 'c', 'd', 'e'].map(name => `test/${name}.long`)
  const files = { 'test/a': good, ...Object.fromEntries(names.map(name => [name, good])) }
  const paths = names.map(name => `${name}.test.ts`)
  const left: string[] = []
  for (const part of [1, 2, 3]) {
    const { status, stdout } = await run(files, ['--long', `--shard=${part}/3`])
    expect(status).toBe(0)
    expect(stdout).toMatch(/^Skipped:\n {4}test\/.\.long\.test\.ts: skipped$/m)
    left.push(...paths.filter(path => stdout.split('Skipped:')[0]!.includes(`    ${path}\n`)))
  }
  expect(left.sort()).toEqual(paths.flatMap(path => [path, path]))
  const whole = await run(files, ['--long', '--update-timings'])
  expect(whole.stdout).not.toContain('Left out')
  const timings = JSON.parse(readFileSync(join(whole.dir, 'test/long-timings.json'), 'utf8'))
  expect(Object.keys(timings.files).sort()).toEqual(paths)
})

test('a part that cannot be is an error', async () => {
  const parts = ['0/6', '7/6', 'x', '2', '2/', '/6', '1/2/3', '-1/6', '1/6x', '']
  const calls = parts.map(part => ['--long', '--part', part])
  calls.push(['--long', '--part'], ['--part', '1/6'], ['--long', '--part', '1/6', 'test/agent'])
  calls.push(['--order'], ['--order', 'x'], ['--long', '--order', '1'], ['--order', '1', '--update-timings'])
  for (const args of calls) {
    const { status, stdout, stderr } = await ended([script, ...args], {
      cwd: import.meta.dir,
      env: { PATH: process.env.PATH ?? '' },
    })
    expect([args, status, stdout]).toEqual([args, 2, ''])
    expect(stderr).toContain('./scripts/test --help')
  }
})

test('a file that leaves its process changed fails by its name, and the next one starts as it would alone', async () => {
  const leavers = {
    variable: `test('sets', () => void (process.env.SVC_LEFT = 'yes'))\n`,
    global: `test('sets', () => void ((globalThis as any).left = () => 1))\n`,
    patched: `test('sets', () => void (Date.now = () => 0))\n`,
    handler: `test('sets', () => void process.on('SIGTERM', () => {}))\n`,
    folder: `test('sets', () => process.chdir('/'))\n`,
  }
  for (const [name, text] of Object.entries(leavers)) {
    const failed = await run({ [name]: text })
    expect([name, failed]).toMatchObject([name, { status: 1, last: '1 passed, 1 failed' }])
    expect(failed.stdout).toContain(`${name}.test.ts does not leave as it was`)
  }
  const tidy = `test('sets', () => {\n  process.env.SVC_LEFT = 'yes'\n  delete process.env.SVC_LEFT\n})\n`
  expect(await run({ tidy })).toMatchObject({ status: 0, last: '1 passed, 0 failed' })
})

/** Of the first two files of a run one waits for all others, which thus run one after the other in one process. */
const inTurn = (name: string) => `import { until } from '${join(import.meta.dir, 'support/until.ts')}'
test('in turn', async () => {
  const linesOf = file => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\\n') : [])
  const note = file => writeFileSync(file, '${name}\\n', { flag: 'a' })
  const has = (file, count) => until(file, 60_000, () => linesOf(file).length >= count)
  note('started')
  await has('started', 2)
  if (linesOf('started').slice(0, 2).sort()[0] === '${name}') await has('ran', 11)
  note('ran')
})\n`

test('a run says how many files are done, and in which order: the same for the same number', async () => {
  const names = Array.from({ length: 12 }, (_, nth) => `file${nth}`)
  const files = Object.fromEntries(names.map(name => [name, inTurn(name)]))
  const orders = await Promise.all(
    ['7', '8', '7'].map(async order => {
      const { dir, status, stdout } = await run(files, [`--order=${order}`, '--parallel=2'])
      expect(status).toBe(0)
      expect(stdout).toContain(`Order of files: ${order}`)
      expect(stdout).toContain('0 of 12 files, 0 failed')
      return readFileSync(join(dir, 'ran'), 'utf8').trim().split('\n')
    }),
  )
  const [first, other, again] = orders
  expect(first).toHaveLength(12)
  expect(again).toEqual(first!)
  expect(other).not.toEqual(first!)
})

test.skipIf(process.platform !== 'linux')('an interrupted run ends everything that it started', async () => {
  const dir = folderOfTest()
  const started = `Bun.spawn(['setsid', 'sleep', '1000'], { stdio: ['ignore', 'ignore', 'ignore'] })`
  const waits = `test('waits', async () => {
    const child = ${started}
    writeFileSync('pid', String(child.pid))
    await new Promise(() => {})
  })\n`
  writeFileSync(join(dir, 'a.test.ts'), head + waits)
  const child = Bun.spawn([process.execPath, tests], {
    cwd: dir,
    env: { PATH: process.env.PATH ?? '', SVC_TEST_PROGRAM: 'none', TMPDIR: dir },
    stdio: ['ignore', 'ignore', 'ignore'],
  })
  const pid = await until('it waits', 60_000, () => {
    const path = join(dir, 'pid')
    return existsSync(path) && readFileSync(path, 'utf8')
  })
  child.kill('SIGINT')
  expect(await child.exited).toBe(130)
  expect(isRunning(Number(pid))).toBe(false)
})

test('no test at all is a failure', async () => {
  expect(await run({ a: good }, ['nothing-of-that-name'])).toMatchObject({
    status: 1,
    last: '0 passed, 1 failed',
  })
})
