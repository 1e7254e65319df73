/** What earlier releases left: this build opens it, finds everything, and goes on with it, however old it is. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/platform/clock.ts'
import { ended } from '../support/ended.ts'
import { failure } from '../support/failure.ts'
import { newFolder } from '../support/folder.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { svcProgram } from '../support/svc-program.ts'
import { fixtures, type Kind, kinds, makeFiles, unpacked } from './fixtures.ts'
import { callbackOf, clockBehind, openHere, openProgram } from './home.ts'
import { stillAll, stillRestored } from './life.ts'
import { talk } from './talk.ts'

const within = 120_000
/** The age of what this build leaves for itself, beyond every time that svc keeps something. */
const ageMs = 400 * 24 * 3_600_000
let made = ''

beforeAll(async () => {
  made = await mkdtemp(join(tmpdir(), 'svc-left-'))
  const clock = clockBehind(ageMs)
  await makeFiles(made, (dir, options) => openHere(dir, clock, options))
  const then = `@${Math.floor(clock.now() / 1000)}`
  await ended(['find', made, '-exec', 'touch', '-h', '-d', then, '{}', '+'], { cwd: made, env: {} })
}, within)
afterAll(() => rm(made, { recursive: true, force: true }))

const cases: (readonly [string, Kind])[] = [
  ...fixtures.filter(([, kind]) => kind !== 'database' || isPostgresThere()),
  ...kinds.filter(kind => kind !== 'database').map(kind => ['this build', kind] as const),
]
const fromOf = (version: string, kind: Kind) => (version === 'this build' ? join(made, kind) : undefined)

describe.each(cases)('what %s left as %s', (version, kind) => {
  test(
    'is all there, and goes on',
    async () => {
      await using fixture = await unpacked(version, kind, fromOf(version, kind))
      const home = await fixture.open()
      await (kind === 'backup' ? stillRestored : stillAll)(home, fixture.left)
      await home.end()
    },
    within,
  )

  test.skipIf(kind !== 'encrypted')('is refused without its key', async () => {
    await using fixture = await unpacked(version, kind, fromOf(version, kind))
    expect((await failure(fixture.open({ withoutKey: true }))).message).toContain('secret')
    await (await fixture.open()).end()
  })
})

test('the comparison finds what is missing', async () => {
  await using fixture = await unpacked('', 'directory', join(made, 'directory'))
  const { left } = fixture
  const home = await fixture.open()
  const [newest, ...others] = left.messages
  const fewer = stillAll(home, { ...left, messages: others })
  expect((await failure(fewer)).message).toContain('is not as expected')
  const other = { ...newest, text: 'something else' }
  const changed = stillAll(home, { ...left, messages: [other, ...others] })
  expect((await failure(changed)).message).toContain('0.text is not as expected')
  const line = { ...left.audit.at(-1), operation: 'something_else' }
  const audited = stillAll(home, { ...left, audit: [...left.audit.slice(0, -1), line] })
  expect((await failure(audited)).message).toContain('operation is not as expected')
  const account = { ...left.accounts[0], name: 'another' }
  const renamed = stillAll(home, { ...left, accounts: [account, ...left.accounts.slice(1)] })
  expect((await failure(renamed)).message).toContain('0.name is not as expected')
})

test(
  'what this build leaves after kill -9, it finds as well',
  async () => {
    using folder = newFolder()
    const dir = join(folder.path, 'data')
    await mkdir(dir, { mode: 0o700 })
    using callback = callbackOf()
    let left: unknown
    {
      await using program = await openProgram(dir, svcProgram, { callback })
      left = await talk.live(program)
      // Disposing kills it.
    }
    await using home = await openHere(dir, systemClock, { callback })
    await talk.still(home, left)
  },
  within,
)
