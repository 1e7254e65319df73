/**
 * The sandbox of an agent, made by bubblewrap (Linux): it sees the system's programs, its working folder and nothing
 * else of the disk, and few variables. The network is shared, so the agent reaches its model, and also what listens on loopback.
 */
import { lstat, readlink, realpath } from 'node:fs/promises'
import { basename, delimiter, dirname, isAbsolute, join, sep } from 'node:path'
import { type Environment, getEnvironment } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { isInside, realPathOf, statOf } from '../platform/files.ts'
import { runProgram } from '../platform/process.ts'
import { isOfModel } from './backends/known-programs.ts'

/** Files of `/etc` that programs need: for names, certificates and the libraries of the system. */
const settings = [
  ...['alternatives', 'ca-certificates', 'group', 'hosts', 'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d'],
  ...['localtime', 'nsswitch.conf', 'passwd', 'pki', 'resolv.conf', 'ssl'],
]

/** The folder of the sources of svc. */
const sources = dirname(import.meta.dirname)

/** Folders of the system beside /usr; on most systems links into it. */
const systemFolders = ['/bin', '/sbin', '/lib', '/lib32', '/lib64']

interface Isolation {
  /** Working folder, the only one in which the agent may write. */
  readonly folder: string
  /**
   * Words that the user configured. The files that they name are visible. What people write to the agent is not among
   * them.
   */
  readonly settings: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Names of variables that it gets besides. */
  readonly given?: readonly string[] | undefined
  /** The data directory. */
  readonly hidden: string
}

/**
 * Returns the command line that runs a program in a sandbox.
 *
 * @param command the absolute path of the program, and its arguments
 * @throws SvcError `invalid_arguments` where there is no bubblewrap
 */
export async function isolate(
  command: readonly string[],
  { env, folder, given, hidden, settings }: Isolation,
): Promise<{ args: string[]; env: Record<string, string> }> {
  const path = await pathOutside(env.PATH, [folder])
  const bwrap = await findBubblewrap(path)
  const [program = '', ...rest] = command
  const work = await realpath(folder)
  const data = await realpath(hidden).catch(() => hidden)
  const at = join(await realpath(dirname(program)), basename(program))
  // A program in the working folder is the agent's own. It may be a link, which leads nowhere in the sandbox.
  const isTheirs = isInside(work, at)
  const real = isTheirs ? at : await realpath(program)
  const shown = [...(isTheirs ? [] : await programFilesOf(real, path)), ...(await filesIn(settings))]
  const files = shown.filter(path => !isInside(data, path) && !isInside(work, path))
  if (isInside(work, data))
    throw badArgument('isolate', `the data directory ${data} is inside the working folder`, {
      hint: 'Choose another working folder.',
    })
  const args = [
    ...(await systemArguments()),
    ...files.flatMap(path => ['--ro-bind', path, path]),
    // If one of these folders contains the data directory, the agent sees an empty folder in its place.
    ...(['/usr', ...files].some(path => isInside(path, data)) ? ['--tmpfs', data] : []),
    ...['--bind', work, work],
    ...['--chdir', work, '--', real, ...rest],
  ]
  const inner = Object.entries(env).filter(([name]) => isForSandbox(name, settings, given))
  return { args: [bwrap, ...args], env: { ...Object.fromEntries(inner), HOME: work, TMPDIR: '/tmp' } }
}

/**
 * Whether a program in a sandbox gets a variable: what is common, what its model needs, and what was named. Others may be
 * secrets of the owner.
 */
export const isForSandbox = (
  name: string,
  command: readonly string[],
  given: readonly string[] = [],
): boolean => /^(?:PATH|LANG|LC_\w+|TZ|TERM)$/.test(name) || given.includes(name) || isOfModel(name, command)

const sandbox = [
  ...['--unshare-user', '--disable-userns', '--unshare-pid', '--unshare-ipc', '--unshare-uts'],
  ...['--die-with-parent', '--new-session', '--cap-drop', 'ALL'],
]

async function systemArguments(): Promise<string[]> {
  const args = [...sandbox, '--ro-bind', '/usr', '/usr']
  for (const folder of systemFolders) {
    const found = await lstat(folder).catch(() => undefined)
    if (found?.isSymbolicLink()) args.push('--symlink', await readlink(folder), folder)
    else if (found) args.push('--ro-bind', folder, folder)
  }
  for (const name of settings) args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`)
  return [...args, '--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp']
}

/**
 * Returns the files of a program outside /usr: a file alone, or the packages that it comes with and the Node that runs
 * them.
 */
async function programFilesOf(real: string, path = ''): Promise<string[]> {
  if (isInside('/usr', real)) return []
  const [before, ...inside] = real.split(`${sep}node_modules${sep}`)
  if (inside.length === 0) return [real]
  const found = [join(before ?? '', 'node_modules')]
  for (const folder of path.split(delimiter)) {
    const node = await realpath(join(folder, 'node')).catch(() => undefined)
    if (node === undefined) continue
    if (!isInside('/usr', node)) found.push(dirname(node))
    break
  }
  return found
}

/** Returns the files that words name by their absolute paths: the script of an interpreter, settings. */
async function filesIn(words: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const path of words) {
    if (!isAbsolute(path) || isInside('/usr', path)) continue
    // svc itself from its sources, such as its echo agent.
    if (isInside(sources, path))
      found.push(sources, ...['node_modules', 'package.json'].map(name => join(dirname(sources), name)))
    const isFile = (await statOf(path).catch(() => undefined))?.isFile() ?? false
    // Only real paths are compared with the data directory, so a link into it is not shown.
    if (isFile && (await realpath(path)) === path) found.push(path)
  }
  return found
}

/**
 * Checks that programs can be isolated here, by isolating one.
 *
 * @param folders of the agent
 * @throws SvcError `invalid_arguments`
 */
export async function requireIsolation(
  folders: readonly string[] = [],
  env: Environment = getEnvironment(),
): Promise<void> {
  const bwrap = await findBubblewrap(await pathOutside(env.PATH, folders))
  const args = [...(await systemArguments()), '--', '/usr/bin/env', 'true']
  const { status, stderr } = await runProgram(bwrap, args)
  if (status === 0) return
  throw badArgument('isolate', `bubblewrap cannot isolate a program here: ${stderr.trim().slice(-300)}`, {
    hint: 'It needs version 0.8 or newer, and user namespaces, which a container or the system may forbid.',
  })
}

/** Returns PATH without the folders in which the agent can leave a program: npx adds that of the project. */
async function pathOutside(path = '', folders: readonly string[]): Promise<string> {
  const inside = await Promise.all(folders.map(realPathOf))
  const found = path.split(delimiter).filter(isAbsolute)
  const real = await Promise.all(found.map(folder => realPathOf(folder).catch(() => folder)))
  return found.filter((_, nth) => !inside.some(folder => isInside(folder, real[nth]!))).join(delimiter)
}

async function findBubblewrap(path = ''): Promise<string> {
  for (const folder of path.split(delimiter)) {
    const bwrap = join(folder, 'bwrap')
    if (isAbsolute(bwrap) && (await statOf(bwrap).catch(() => undefined))?.isFile()) return bwrap
  }
  throw badArgument('isolate', 'bubblewrap is not installed', {
    hint: 'Install it (on Debian: apt install bubblewrap), or start the agent without isolation.',
  })
}
