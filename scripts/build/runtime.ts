/**
 * Fetches the runtimes from which binaries are made. Bun could fetch them itself, but it accepts what the
 * registry sends and what is in its cache without a check, so a changed byte would get into the binary. Here
 * they come as packages through npm, with the registry and proxy that npm is set up for, and each is checked
 * against the sum in bun.lock whenever it is used. Fetched packages are kept, so the next build needs no
 * network.
 */
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import process from 'node:process'

const root = resolve(import.meta.dirname, '../..')

export interface RuntimeSource {
  /** The lock file with the sums. */
  lock?: string
  /** The folder for fetched packages. */
  kept?: string
  /** The environment for npm. */
  env?: NodeJS.ProcessEnv
}

/**
 * Writes the program of a runtime package into a folder.
 *
 * @param name the package, as `@oven/bun-linux-x64`
 * @returns the path of the program
 * @throws Error when no package with the sum of the lock file can be fetched
 */
export async function unpackRuntime(
  name: string,
  folder: string,
  source: RuntimeSource = {},
): Promise<string> {
  const tarball = await fetchVerifiedPackage(name, source)
  const files = await new Bun.Archive(tarball).files()
  for (const program of ['bun', 'bun.exe']) {
    const content = files.get(`package/bin/${program}`)
    if (!content) continue
    const path = join(folder, program)
    await writeFile(path, await content.bytes(), { mode: 0o755 })
    return path
  }
  throw new Error(`The package ${name} holds no program: ${[...files.keys()].join(', ')}`)
}

/** @returns the package as npm packed it, with a checked sum */
export async function fetchVerifiedPackage(name: string, source: RuntimeSource = {}): Promise<Uint8Array> {
  const { lock = join(root, 'bun.lock'), kept = join(root, '.bun/runtimes'), env = process.env } = source
  const { version, integrity } = await readLockEntry(lock, name)
  const path = join(kept, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`)
  const before = await readFile(path).catch(() => undefined)
  if (before && sumOf(before) === integrity) return before

  await mkdir(kept, { recursive: true })
  const workshop = await mkdtemp(join(kept, '.fetch-'))
  try {
    const fetched = await fetchPackage(`${name}@${version}`, workshop, env)
    const content = await readFile(fetched)
    if (sumOf(content) !== integrity) {
      throw new Error(
        `The package ${name} ${version} that npm fetched is not the one in bun.lock:\n` +
          `  expected ${integrity}\n  got      ${sumOf(content)}\n` +
          'Nothing was built. Check the registry that npm is set up for, and run `npm cache verify`.',
      )
    }
    await rename(fetched, path)
    return content
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

async function readLockEntry(path: string, name: string): Promise<{ version: string; integrity: string }> {
  const lock = Bun.JSONC.parse(await readFile(path, 'utf8')) as { packages?: Record<string, unknown> }
  const entry = lock.packages?.[name]
  if (Array.isArray(entry)) {
    const [spec, integrity] = [entry[0], entry.at(-1)]
    if (typeof spec === 'string' && typeof integrity === 'string' && integrity.startsWith('sha512-')) {
      return { version: spec.slice(name.length + 1), integrity }
    }
  }
  throw new Error(`${path} has no sum for ${name}: run \`bun install\`, and check what it changes there.`)
}

const sumOf = (content: Uint8Array) => `sha512-${createHash('sha512').update(content).digest('base64')}`

/** @returns the path of the package in `folder` */
async function fetchPackage(spec: string, folder: string, env: NodeJS.ProcessEnv): Promise<string> {
  console.error(`Fetching ${spec} …`)
  const command = ['npm', 'pack', '--ignore-scripts', '--prefer-offline', '--loglevel=error', spec]
  const npm = Bun.which('npm', { PATH: env.PATH ?? '' })
  if (!npm) throw new Error(`Fetching ${spec} needs npm (Node.js 20 or later) on the PATH.`)
  const child = Bun.spawn([npm, ...command.slice(1)], { cwd: folder, env, stdout: 'ignore', stderr: 'pipe' })
  const [message, status] = await Promise.all([new Response(child.stderr).text(), child.exited])
  const [file] = await readdir(folder)
  if (status === 0 && file !== undefined) return join(folder, file)
  throw new Error(
    `\`${command.join(' ')}\` failed; the first build for a target needs the network.\n${message.trim()}`,
  )
}
