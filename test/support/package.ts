/** svc as the package that people install: packed as for them, installed as by them. */
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'
import { parse } from 'jsonc-parser'
import { ended } from './ended.ts'

const root = resolve(import.meta.dirname, '../..')
/** What the package is made of, and what makes it. */
const sources = [
  ...['src', 'admin', 'locales', 'scripts/package.ts', 'scripts/panel.ts', 'package.json', 'bun.lock'],
  ...['tsconfig.json', 'tsconfig.package.json', 'README.md', 'CHANGELOG.md', 'LICENSE'],
]

/** `npm pack` on a copy of the sources in `folder`, so that nothing here changes. @returns the file it makes */
export async function pack(folder: string): Promise<string> {
  for (const path of sources) await cp(join(root, path), join(folder, path), { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await run(['npm', 'pack', '--no-update-notifier', '--loglevel=error'], folder)
  const made = (await readdir(folder)).filter(name => name.endsWith('.tgz'))
  if (made.length !== 1) throw new Error(`npm pack made ${made.join(', ') || 'nothing'}`)
  return join(folder, made[0]!)
}

/**
 * Somebody's project in `folder`, with the package and Bun's types.
 *
 * What svc depends on comes in the versions of our lock file, so that Bun has them in its cache: no network is needed.
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

/** The files of the package, without the folder that they all lie in. */
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
  // npm's scripts find the tools of the project by themselves.
  const { status, stdout, stderr } = await ended(command, { cwd, env: { PATH, HOME }, withinMs: 120_000 })
  if (status !== 0) throw new Error(`${command.join(' ')} ended with ${status}:\n${stdout}${stderr}`)
  return stdout
}
