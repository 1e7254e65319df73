/** The targets for which svc is built, and the names of their parts. */

export interface Target {
  /** Bun's name of the target. */
  readonly name: Bun.Build.CompileTarget
  /** The name of the release file. */
  readonly file: string
  /** The package with the Bun program from which the binary is made. */
  readonly runtime: string
}

const target = (platform: string, suffix = ''): Target => ({
  name: `bun-${platform}` as Bun.Build.CompileTarget,
  file: `svc-${platform}${suffix}`,
  // The packages are named aarch64 where the targets are named arm64.
  runtime: `@oven/bun-${platform.replace('arm64', 'aarch64')}`,
})

export const targets: readonly Target[] = [
  target('linux-x64'),
  target('linux-arm64'),
  target('linux-x64-musl'),
  target('linux-arm64-musl'),
  target('darwin-x64'),
  target('darwin-arm64'),
  target('windows-x64', '.exe'),
]

/** @throws Error that lists the known targets */
export function targetNamed(name: string): Target {
  const found = targets.find(candidate => candidate.name === name)
  if (found) return found
  throw new Error(`There is no target ${name}. There are:\n${targets.map(one => `  ${one.name}`).join('\n')}`)
}
