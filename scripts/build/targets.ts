/** What svc is built for, and how the parts of each are named. */

export interface Target {
  /** As Bun names it. */
  readonly name: Bun.Build.CompileTarget
  /** The file of a release. */
  readonly file: string
  /** The package whose program the binary is made from. */
  readonly runtime: string
}

const target = (platform: string, suffix = ''): Target => ({
  name: `bun-${platform}` as Bun.Build.CompileTarget,
  file: `svc-${platform}${suffix}`,
  // The packages say aarch64 where the targets say arm64.
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

/** @throws Error that lists the targets there are */
export function targetNamed(name: string): Target {
  const found = targets.find(one => one.name === name)
  if (found) return found
  throw new Error(`There is no target ${name}. There are:\n${targets.map(one => `  ${one.name}`).join('\n')}`)
}
