/** The packed client on the runtimes of its users, beside a real service; and large files both ways. */
import { beforeAll, expect, test } from 'bun:test'
import { cp, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { installed } from '../support/agents.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile } from '../support/folder.ts'
import { overhear } from '../support/overheard.ts'
import { pack } from '../support/package.ts'
import { logIn, startService } from '../support/service.ts'
import { until } from '../support/until.ts'
import { runThroughKills } from './kills.ts'

const root = join(import.meta.dirname, '../..')
const folder = folderOfFile()
const project = join(folder, 'project')
const nodes = await Promise.all(
  ['18', '20', '24'].map(async version => [version, await installed(`node@${version}`, 'node')] as const),
)
const runtimes: [name: string, command: string[] | undefined][] = [
  ['Bun', [process.execPath]],
  ['Deno', [join(root, 'node_modules/.bin/deno'), 'run', '-A', '--quiet']],
  ...nodes.map(([version, had]): [string, string[] | undefined] => [
    `Node ${version}`,
    'why' in had ? undefined : [join(had.folder, 'node_modules/.bin/node')],
  ]),
]

const env = { HOME: folder, PATH: process.env.PATH ?? '' }

// The client needs no other package, so only svc itself is unpacked into the project.
beforeAll(async () => {
  const tarball = await pack(join(folder, 'sources'))
  await mkdir(join(project, 'node_modules'), { recursive: true })
  await ended(['tar', '-xzf', tarball, '-C', join(project, 'node_modules')], { cwd: project, env })
  await cp(join(project, 'node_modules/package'), join(project, 'node_modules/svc'), { recursive: true })
  await rm(join(project, 'node_modules/package'), { recursive: true })
  for (const name of ['program.mjs', 'large-files.mjs'])
    await cp(join(import.meta.dirname, name), join(project, name))
  await writeFile(join(project, 'package.json'), '{"type": "module"}')
}, 300_000)

async function serviceWithKey() {
  const service = await startService({ args: ['--pace', 'off'] })
  await logIn(service)
  const answer = await fetch(`${service.url}/keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'program', can: ['all'] }),
  })
  return { service, key: ((await answer.json()) as { key: string }).key }
}

for (const [name, command] of runtimes)
  test.skipIf(!command || !Bun.which('npm'))(
    `on ${name} it answers, sends and saves files, and ends (skipped where it cannot be had)`,
    async () => {
      const { service, key } = await serviceWithKey()
      await using _service = service
      const own = join(folder, name)
      await mkdir(own)
      const child = Bun.spawn([...command!, join(project, 'program.mjs'), service.url, key, own], {
        cwd: project,
        env,
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
      })
      const said = overhear(child)
      let saidAt = Number.NEGATIVE_INFINITY
      const all = () => said.stdout + said.stderr
      await until('it runs', 60_000, () => said.stdout.includes('ready'), all)
      await until(
        'an answer',
        60_000,
        async () => {
          // The consumer is new: it gets what comes after its first call.
          if (performance.now() - saidAt > 5000) {
            saidAt = performance.now()
            await service.phone('say', { text: 'hello' })
          }
          return said.stdout.includes('answered hello')
        },
        all,
      )
      await service.phone('say', { text: 'bye' })
      await until('it is closed', 120_000, () => said.stdout.includes('closed'), all)
      expect(await said.exited).toBe(0)
      expect(said.stderr).toBe('')
      for (const line of ['saved numbers', 'denied true', 'event ']) expect(said.stdout).toContain(line)
    },
    300_000,
  )

for (const [name, command] of runtimes)
  test.skipIf(!command || !Bun.which('npm'))(
    `on ${name} a file of 100 MB goes both ways in little memory (skipped where it cannot be had)`,
    async () => {
      const { service, key } = await serviceWithKey()
      await using _service = service
      const own = join(folder, `${name} large`)
      await mkdir(own)
      await service.phone('say', { text: 'hello' })
      const run = await ended([...command!, join(project, 'large-files.mjs'), service.url, key, own], {
        cwd: project,
        env,
        withinMs: 280_000,
      })
      expect(run).toMatchObject({ status: 0, stderr: '' })
      const { grownMB, size, same } = JSON.parse(run.stdout)
      expect({ size, same }).toEqual({ size: 100_000_000, same: true })
      expect(grownMB).toBeLessThan(80)
    },
    300_000,
  )

test('a service that is killed 100 times', async () => {
  expect(await runThroughKills(100)).toEqual({ lost: [], twice: [] })
}, 1_200_000)
