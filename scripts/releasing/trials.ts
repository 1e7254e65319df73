/** Which of the files that go out can be started on this machine, and how. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { type Target, targets } from '../build/targets.ts'

export interface Trial {
  file: string
  /** What starts it; undefined where nothing here can. */
  command?: string[]
  /** Where it is started, or why it is not. */
  where: string
  env?: Record<string, string>
  /** How many times slower than on its own machine it may be. */
  patience?: number
}

const isMusl = () => {
  if (process.platform !== 'linux') return false
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  return report.header?.glibcVersionRuntime === undefined
}

/** The target whose binary runs here as it is. */
export function ownTarget(): Target | undefined {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `bun-${platform}-${process.arch}${isMusl() ? '-musl' : ''}`
  return targets.find(target => target.name === name)
}

/** How this machine is called in the notes. */
export const ownMachine = (): string =>
  ownTarget()?.name.slice('bun-'.length) ?? `${process.platform}-${process.arch}`

const armLibraries = () => process.env.QEMU_LD_PREFIX ?? '/usr/aarch64-linux-gnu'

/** The trial of a binary that lies in `folder`. */
export function trialOf({ name, file }: Target, folder: string): Trial {
  const path = join(folder, file)
  if (name === ownTarget()?.name) return { file, command: [path], where: `on ${ownMachine()}` }
  if (name !== 'bun-linux-arm64')
    return { file, where: `needs another machine than this one (${ownMachine()})` }
  const emulator = Bun.which('qemu-aarch64') ?? Bun.which('qemu-aarch64-static')
  if (!emulator) return { file, where: 'needs qemu-aarch64, which is not here' }
  if (!existsSync(join(armLibraries(), 'lib/ld-linux-aarch64.so.1'))) {
    return { file, where: `needs the C library of arm64, which is not in ${armLibraries()}` }
  }
  return {
    file,
    command: [emulator, '-L', armLibraries(), path],
    where: 'emulated by qemu-aarch64',
    // The process would replace itself by a program that only the emulator can start.
    env: { BUN_CONFIG_MAX_HTTP_REQUESTS: '60000' },
    patience: 10,
  }
}
