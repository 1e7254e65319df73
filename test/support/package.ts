/** Packs svc as an npm package, and installs it as users do. */
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { parse } from 'jsonc-parser'
import { ended } from './ended.ts'

const root = resolve(import.meta.dirname, '../..')
/** Files that the package is made from, and that make it. */
const sources = [
  'src',
  'admin',
  'locales',
  'scripts/build',
  'scripts/package.ts',
  'scripts/export-style.ts',
  'scripts/panel.ts',
  'package.json',
  'bun.lock',
  'tsconfig.json',
  'tsconfig.package.json',
  'README.md',
  'CHANGELOG.md',
  'LICENSE',
]

/**
 * Runs `npm pack` on a copy of the sources in `folder`, so that the project stays unchanged.
 *
 * @returns the path of the package
 */
export async function pack(folder: string): Promise<string> {
  for (const path of sources) await cp(join(root, path), join(folder, path), { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await run(['npm', 'pack', '--no-update-notifier', '--loglevel=error'], folder)
  const made = (await readdir(folder)).filter(name => name.endsWith('.tgz'))
  if (made.length !== 1) throw new Error(`npm pack made ${made.join(', ') || 'nothing'}`)
  return join(folder, made[0]!)
}

/**
 * Creates a user's project in `folder`, with the package and Bun's types. Uses the dependency versions of
 * svc's lock file: Bun has them in its cache, so that no network is needed.
 */
export async function projectWith(tarball: string, folder: string): Promise<void> {
  const ours = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const lock = parse(await readFile(join(root, 'bun.lock'), 'utf8'), [], { allowTrailingComma: true })
  const packages = Object.entries<[string]>(lock.packages).filter(
    ([, [name]]) => !name.includes('@workspace:'),
  )
  const own = { name: 'project', dependencies: { '@types/bun': ours.devDependencies['@types/bun'] } }
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'package.json'), JSON.stringify({ ...own, type: 'module' }))
  await writeFile(
    join(folder, 'bun.lock'),
    JSON.stringify({ ...lock, workspaces: { '': own }, packages: Object.fromEntries(packages) }),
  )
  await run([process.execPath, 'add', tarball], folder)
}

/** Returns the paths of the package's files, without their common folder. */
export async function filesOf(tarball: string): Promise<string[]> {
  const list = await run(['tar', '-tzf', tarball], root)
  return list
    .trim()
    .split('\n')
    .map(path => path.replace(/^package\//, ''))
    .sort()
}

async function run(command: string[], cwd: string): Promise<string> {
  const { PATH = '', HOME = '' } = process.env
  // npm scripts find the project's tools themselves.
  const { status, stdout, stderr } = await ended(command, { cwd, env: { PATH, HOME }, withinMs: 120_000 })
  if (status !== 0) throw new Error(`${command.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
  return stdout
}
