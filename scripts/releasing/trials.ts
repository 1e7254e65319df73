/** Which files of a release can be started on this machine, and how. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { readExecutable } from '../build/executable.ts'
import { type Target, targets } from '../build/targets.ts'

export interface Trial {
  file: string
  /** The command that starts it; undefined if it cannot start here. */
  command?: string[]
  /** Where it was started, or why it was not. */
  where: string
  /** The data directory, as it is here and as the program sees it, if it runs in a root directory of its own. */
  data?: { outside: string; inside: string }
  /** The command uses it as a library, and is no svc. */
  isLibrary?: true | undefined
  /** How many times slower it may be than on its own machine. */
  patience?: number
}

const isMusl = () => {
  if (process.platform !== 'linux') return false
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime === undefined
}

const platformOf = ({ name }: Target) => name.slice('bun-'.length)

/** Returns the target whose binary runs on this machine. */
export function findOwnTarget(): Target | undefined {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `bun-${platform}-${process.arch}${isMusl() ? '-musl' : ''}`
  return targets.find(target => target.name === name)
}

/** Returns the name of this machine for the notes. */
export function findOwnMachine(): string {
  const own = findOwnTarget()
  return own ? platformOf(own) : `${process.platform}-${process.arch}`
}

const armLibraries = '/usr/aarch64-linux-gnu'
/** Starts a program for arm64, which then can start programs itself. */
const emulate = join(import.meta.dirname, 'emulate')

/** Returns the trial of a binary in `folder` that is for another machine. */
export function trialOf(target: Target, folder: string): Trial {
  const { name, file } = target
  const path = join(folder, file)
  if (name !== 'bun-linux-arm64')
    return { file, where: `needs ${platformOf(target)}, and this is ${findOwnMachine()}` }
  const emulator = Bun.which('qemu-aarch64') ?? Bun.which('qemu-aarch64-static')
  if (!emulator) return { file, where: 'needs qemu-aarch64, which is not here' }
  if (!existsSync(join(armLibraries, 'lib/ld-linux-aarch64.so.1'))) {
    return { file, where: `needs the C library of arm64, which is not in ${armLibraries}` }
  }
  if (Bun.spawnSync([emulate, 'true'], { stdio: ['ignore', 'ignore', 'ignore'] }).exitCode !== 0)
    return { file, where: 'needs Linux 6.7, and the right to make a namespace (unshare)' }
  return {
    file,
    command: [emulate, path],
    where: 'emulated by qemu-aarch64',
    patience: 10,
  }
}

/**
 * Inspects a binary without starting it.
 *
 * @throws Error when its content does not match its name
 */
export async function inspectBinary(target: Target, folder: string, version: string): Promise<string> {
  const { format, machine, payload } = readExecutable(await readFile(join(folder, target.file)))
  const [system, processor] = platformOf(target).split('-')
  const expectedFormat = system === 'darwin' ? 'Mach-O' : system === 'windows' ? 'PE' : 'ELF'
  if (format !== expectedFormat || machine !== processor) {
    throw new Error(`${target.file} is ${format} for ${machine}`)
  }
  if (!payload.includes(`name:"svc",version:"${version}"`)) {
    throw new Error(`${target.file} does not contain svc ${version}`)
  }
  return `${format} for ${machine} with svc ${version} in it`
}
