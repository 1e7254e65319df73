/** The targets for which svc is built, and the names of their parts. */

export interface Target {
  /** Bun's name of the target. */
  readonly name: Bun.Build.CompileTarget
  /** The name of the release file. */
  readonly file: string
  /** The package with the Bun program from which the binary is made. */
  readonly runtime: string
}

const createTarget = (platform: string, suffix = ''): Target => ({
  name: `bun-${platform}` as Bun.Build.CompileTarget,
  file: `svc-${platform}${suffix}`,
  // The packages are named aarch64 where the targets are named arm64.
  runtime: `@oven/bun-${platform.replace('arm64', 'aarch64')}`,
})

export const targets: readonly Target[] = [
  createTarget('linux-x64'),
  createTarget('linux-arm64'),
  createTarget('linux-x64-musl'),
  createTarget('linux-arm64-musl'),
  createTarget('darwin-x64'),
  createTarget('darwin-arm64'),
  createTarget('windows-x64', '.exe'),
]

/** @throws Error that lists the known targets */
export function findTarget(name: string): Target {
  const found = targets.find(candidate => candidate.name === name)
  if (found) return found
  throw new Error(`There is no target ${name}. There are:\n${targets.map(one => `  ${one.name}`).join('\n')}`)
}
