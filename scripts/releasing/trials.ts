/** Which of the files that go out can be started on this machine, and how. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { readExecutable } from '../build/executable.ts'
import { type Target, targets } from '../build/targets.ts'

export interface Trial {
  file: string
  /** What starts it; undefined where nothing here can. */
  command?: string[]
  /** Where it is started, or why it is not. */
  where: string
  /** How many times slower than on its own machine it may be. */
  patience?: number
}

const isMusl = () => {
  if (process.platform !== 'linux') return false
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime === undefined
}

const platformOf = ({ name }: Target) => name.slice('bun-'.length)

/** The target whose binary runs here as it is. */
export function ownTarget(): Target | undefined {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `bun-${platform}-${process.arch}${isMusl() ? '-musl' : ''}`
  return targets.find(target => target.name === name)
}

/** How this machine is called in the notes. */
export function ownMachine(): string {
  const own = ownTarget()
  return own ? platformOf(own) : `${process.platform}-${process.arch}`
}

const armLibraries = () => process.env.QEMU_LD_PREFIX ?? '/usr/aarch64-linux-gnu'

/** The trial of a binary that lies in `folder`. */
export function trialOf(target: Target, folder: string): Trial {
  const { name, file } = target
  const path = join(folder, file)
  if (name === ownTarget()?.name) return { file, command: [path], where: `on ${ownMachine()}` }
  if (name !== 'bun-linux-arm64')
    return { file, where: `needs ${platformOf(target)}, and this is ${ownMachine()}` }
  const emulator = Bun.which('qemu-aarch64') ?? Bun.which('qemu-aarch64-static')
  if (!emulator) return { file, where: 'needs qemu-aarch64, which is not here' }
  if (!existsSync(join(armLibraries(), 'lib/ld-linux-aarch64.so.1'))) {
    return { file, where: `needs the C library of arm64, which is not in ${armLibraries()}` }
  }
  return {
    file,
    command: [emulator, '-L', armLibraries(), path],
    where: 'emulated by qemu-aarch64',
    patience: 10,
  }
}

/**
 * What can be seen of a binary without starting it.
 *
 * @throws when it is not what its name says
 */
export async function lookInto(target: Target, folder: string, version: string): Promise<string> {
  const { format, machine, payload } = readExecutable(await readFile(join(folder, target.file)))
  const [system, processor] = platformOf(target).split('-')
  const wanted = system === 'darwin' ? 'Mach-O' : system === 'windows' ? 'PE' : 'ELF'
  if (format !== wanted || machine !== processor) {
    throw new Error(`${target.file} is ${format} for ${machine}`)
  }
  if (!payload.includes(`name:"svc",version:"${version}"`)) {
    throw new Error(`${target.file} does not hold svc ${version}`)
  }
  return `${format} for ${machine} with svc ${version} in it`
}
