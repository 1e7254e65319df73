/** Computes the next version, and reads and writes the version in package.json. */

// As semver.org defines it, but without build metadata, which neither tags nor npm keep.
const numbers = '(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)'
const named = '(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)'
const semver = new RegExp(`^${numbers}(?:-(${named}(?:\\.${named})*))?$`)

const isVersion = (text: string): boolean => semver.test(text)

/**
 * Returns the version that `requested` means: itself, or for major, minor and patch the next one after
 * `current`.
 *
 * @throws Error when `requested` is not a version; the message says what to give instead
 */
export function versionOf(requested: string, current: string): string {
  if (isVersion(requested)) return requested
  const step = ['major', 'minor', 'patch'].indexOf(requested)
  const [, ...parts] = semver.exec(current) ?? []
  if (step < 0)
    throw new Error(
      `${requested} is not a version; give one like 1.2.3 or 1.2.3-rc.1, or major, minor, patch`,
    )
  if (parts.length === 0 || parts[3] !== undefined) {
    throw new Error(`${requested} of ${current} could mean two versions; give the version itself`)
  }
  return parts
    .slice(0, 3)
    .map((part, index) => (index < step ? part : index === step ? Number(part) + 1 : 0))
    .join('.')
}

/** Negative when `a` comes before `b`. */
export const compareVersions = (a: string, b: string): number => Bun.semver.order(a, b)

const versionLine = /^( {2}"version": ")([^"]*)(",?)$/m

/** Returns the version in the text of a package.json. */
export function readStatedVersion(packageJson: string): string {
  const version = versionLine.exec(packageJson)?.[2]
  if (version === undefined) throw new Error('package.json has no line "version" of its own; add one')
  return version
}

/** Returns the text of a package.json with another version, otherwise unchanged. */
export const withVersion = (packageJson: string, version: string): string =>
  packageJson.replace(
    versionLine,
    (_line, before: string, _old, after: string) => `${before}${version}${after}`,
  )
