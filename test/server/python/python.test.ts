import { expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { operations } from '../../../src/operations/operations.ts'
import { ended } from '../../support/ended.ts'
import { root } from '../../support/repository.ts'
import { startService } from '../../support/service.ts'

const source = await readFile(join(root, 'src/server/svc.py'), 'utf8')
const python = Bun.which('python3')

test('the client for Python has at most 350 lines, and calls only routes that there are', () => {
  expect(source.split('\n').length - 1).toBeLessThanOrEqual(350)
  const plain = (route: string) => route.replace(/\{.*?\}/g, '{}')
  const known = new Set(operations.flatMap(({ rest }) => (rest ? [plain(rest.route)] : [])))
  const leases = 'POST /consumers/{}/leases'
  const calls = [
    ...[...source.matchAll(/"(GET|POST|DELETE)", f?"(\/[^"?]*)/g)].map(
      ([, method, path]) => `${method} ${path}`,
    ),
    ...[...source.matchAll(/route = f?"(\/[^"?]*)(\?)?/g)].map(
      ([, path, query]) => `${query === undefined ? 'GET' : 'POST'} ${path}`,
    ),
    ...[leases, `${leases}/renew`, `${leases}/settle`],
  ].map(plain)
  // The tools have one route, and the leases one beginning.
  const called = calls.filter(route => !route.includes('/tools/default/'))
  expect(called.length).toBeGreaterThan(8)
  expect(called.filter(route => !known.has(route))).toEqual([])
})

test.skipIf(python === null)(
  'a script gets it from the service without a token, and uses all of it',
  async () => {
    await using service = await startService({ args: ['--pace', 'off'] })
    const folder = await mkdtemp(join(tmpdir(), 'svc-python-'))
    try {
      const answer = await fetch(`${service.url}/svc.py`, { headers: { host: new URL(service.url).host } })
      expect([answer.status, await answer.text()]).toEqual([200, source])
      await writeFile(join(folder, 'svc.py'), source)
      const { status, stdout, stderr } = await ended(
        [python!, join(import.meta.dir, 'talk.py'), folder, service.url, service.phoneUrl, folder],
        { cwd: folder, env: { PATH: process.env.PATH ?? '' } },
      )
      expect([status, stderr]).toEqual([0, ''])
      expect(JSON.parse(stdout)).toEqual({
        login: ['waiting', 'confirmed'],
        sessions: ['connected'],
        messages: [
          ['a', false],
          ['b', false],
          ['b', true],
          ['c', false],
        ],
        left: [],
        sent: ['accepted', 'accepted'],
        files: [
          ['name.bin', 'name-1.bin'],
          [true, true],
        ],
        followed: ['x', 'y', 'z'],
        events: ['a', 'b', 'c', 'x', 'y', 'z'],
        asked: 'no',
        notified: 'home',
        renamed: true,
        default: true,
        received: ['a', 'b'],
        errors: [
          ['not_found', 404],
          ['invalid_arguments', 422],
          ['invalid_arguments', 422],
          ['unreachable', 0],
          ['invalid_arguments', 0],
          ['invalid_arguments', 422],
        ],
        after: [],
      })
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
  120_000,
)
