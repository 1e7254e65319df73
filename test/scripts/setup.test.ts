/** `./scripts/start` and `./scripts/svc` in a clone: whose it is, what is missing, and several at once. */
import { expect, test } from 'bun:test'
import { chmod, cp, mkdir, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildPanel } from '../../scripts/panel.ts'
import { ended } from '../support/ended.ts'
import { folderOfTest } from '../support/folder.ts'
import { freePort } from '../support/port.ts'

const root = join(import.meta.dir, '../..')
/** Takes away the right of root to write everywhere. */
const asUser = process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] : []

/** A clone whose program only says that it ran, with Bun and packages, and with a panel that is too old. */
async function makeClone(): Promise<string> {
  const clone = folderOfTest()
  for (const path of ['scripts', 'package.json', 'bun.lock'])
    await cp(join(root, path), join(clone, path), { recursive: true })
  for (const folder of ['admin', 'locales', 'src', 'dist/panel', 'node_modules/.bin'])
    await mkdir(join(clone, folder), { recursive: true })
  await writeFile(join(clone, 'src/main.ts'), 'console.log("ran")\n')
  await cp(join(root, 'bun.lock'), join(clone, 'node_modules/.installed.lock'))
  await symlink(process.execPath, join(clone, 'node_modules/.bin/bun'))
  await writeFile(join(clone, 'dist/panel/index.html'), '')
  await utimes(join(clone, 'dist/panel/index.html'), 1, 1)
  return clone
}

const run = (clone: string, env: Record<string, string> = {}, before: readonly string[] = []) =>
  ended([...before, join(clone, 'scripts/svc'), 'status'], {
    cwd: clone,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: clone, ...env },
    withinMs: 40_000,
  })

test.skipIf(process.platform !== 'linux')('a clone that cannot be written says so in one line', async () => {
  const clone = await makeClone()
  for (const folder of ['dist', 'node_modules', '']) await chmod(join(clone, folder), 0o555)
  const old = await run(clone, {}, asUser)
  expect([old.status, old.stdout, old.stderr.split('\n').length]).toEqual([0, 'ran\n', 2])
  expect(old.stderr).toContain(clone)
  await chmod(join(clone, 'bun.lock'), 0o644)
  await writeFile(join(clone, 'bun.lock'), 'newer')
  const incomplete = await run(clone, {}, asUser)
  expect([incomplete.status, incomplete.stdout, incomplete.stderr.split('\n').length]).toEqual([1, '', 2])
  expect(incomplete.stderr).toContain(clone)
  for (const folder of ['dist', 'node_modules', '']) await chmod(join(clone, folder), 0o755)
})

test('every user of the machine may read the panel that one has built', async () => {
  const folder = join(folderOfTest(), 'panel')
  await buildPanel(folder)
  const modeOf = async (name: string) => (await stat(join(folder, name))).mode & 0o777
  const usual = 0o777 & ~process.umask()
  expect(await Promise.all(['', 'assets', 'index.html'].map(modeOf))).toEqual([usual, usual, usual & 0o666])
})

test('without a network the first start says so soon', async () => {
  const clone = await makeClone()
  await rm(join(clone, 'node_modules/.bin/bun'))
  const env = { NPM_CONFIG_REGISTRY: `http://127.0.0.1:${freePort()}` }
  const { status, stderr } = await run(clone, env)
  expect([status, /ECONNREFUSED/.test(stderr)]).toEqual([1, true])
}, 60_000)

test('several that start at once take different ports for the panel', async () => {
  const preload = join(root, 'scripts/panel-port.ts')
  const code = 'console.log(process.env.SVC_ADMIN_PORT); await Bun.stdin.text()'
  const all = Array.from({ length: 4 }, () =>
    Bun.spawn([process.execPath, '--preload', preload, '-e', code], { stdin: 'pipe', stdout: 'pipe' }),
  )
  const ports = await Promise.all(
    all.map(async ({ stdout }) => {
      for await (const bytes of stdout) return Number(new TextDecoder().decode(bytes))
      return undefined
    }),
  )
  for (const { stdin } of all) stdin.end()
  // Another program may have 8002 here.
  expect(ports.toSorted().slice(0, 3)).toEqual([0, 0, 0])
  expect([0, 8002]).toContain(ports.toSorted()[3]!)
  expect(await Promise.all(all.map(({ exited }) => exited))).toEqual([0, 0, 0, 0])
})
