/** How the tests are run: what is forgiven, what is not, and what is said of it. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ended } from './support/ended.ts'

const tests = join(import.meta.dir, '../scripts/tests.ts')

const dirs: string[] = []
afterAll(() => {
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true })
})

const head = `import { expect, test } from 'bun:test'\nimport { existsSync, writeFileSync } from 'node:fs'\n`
const good = `test('good', () => {})\ntest.skip('skipped', () => {})\n`
const bad = `test('bad', () => expect({ a: 'b' }).toEqual({ a: 'c' }))\n`
/** Fails the first time. */
const shaky = `test('shaky', () => {
  const again = existsSync('been')
  writeFileSync('been', '')
  expect(again).toBe(true)
})\n`

/** What comes of a folder with these test files. */
async function run(files: Record<string, string>, args: readonly string[] = ['0']) {
  const dir = mkdtempSync(join(tmpdir(), 'svc-test-run-'))
  dirs.push(dir)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, `${name}.test.ts`), head + text)
  const { status, stdout, stderr } = await ended([process.execPath, tests, ...args], {
    cwd: dir,
    env: { PATH: process.env.PATH ?? '' },
  })
  return {
    status,
    last: stdout.trimEnd().split('\n').at(-1),
    stdout,
    again: /^Once more, by itself: (.*)$/m.exec(stderr)?.[1],
  }
}

test('all passes: counted without what was skipped, and nothing runs twice', async () => {
  const { again, ...rest } = await run({ a: good, b: good })
  expect(rest).toMatchObject({ status: 0, last: '2 passed, 0 failed' })
  expect(again).toBeUndefined()
})

test('what fails once is told with its reason, and does not fail the run', async () => {
  const { status, stdout, last, again } = await run({ a: good, b: good + shaky })
  expect([status, last, again]).toEqual([0, '3 passed, 0 failed', 'b.test.ts'])
  expect(stdout).toContain('Failed at the first try and passed at the second')
  expect(stdout).toMatch(/^b\.test\.ts: shaky \(\d+\.\d s\)\n[\s\S]*Expected: true\n +Received: false$/m)
})

test('what fails twice fails the run, and so do checks that failed before', async () => {
  const failed = await run({ a: good, b: bad + shaky })
  expect(failed).toMatchObject({ status: 1, last: '2 passed, 1 failed' })
  expect(failed.stdout).toMatch(/^Failed:\n\nb\.test\.ts: bad [\s\S]*"b"/m)
  expect(await run({ a: good }, ['2'])).toMatchObject({ status: 1, last: '1 passed, 2 failed' })
})

test('a file that does not load, a process that dies and many failures are not forgiven', async () => {
  const notLoading = await run({ a: shaky, b: 'absent()\n' })
  expect(notLoading).toMatchObject({ status: 1, last: '0 passed, 2 failed' })
  const dying = await run({ a: good, b: `test('dies', () => process.kill(process.pid, 'SIGKILL'))\n` })
  expect(dying).toMatchObject({ status: 1, last: '1 passed, 1 failed' })
  const many = await run({ a: bad, b: bad, c: bad, d: shaky })
  expect(many).toMatchObject({ status: 1, last: '0 passed, 4 failed' })
  for (const { again } of [notLoading, dying, many]) expect(again).toBeUndefined()
})

test('no test at all is a failure', async () => {
  expect(await run({ a: good }, ['0', 'nothing-of-that-name'])).toMatchObject({
    status: 1,
    last: '0 passed, 1 failed',
  })
})
