/** Asks the registry for known vulnerabilities of everything in the bill of materials. */
import { run } from './run.ts'

interface Component {
  purl?: string
  components?: Component[]
}

/** Returns the versions of npm packages in a bill, by name, with those inside other parts. */
export function listVersions({ components = [] }: { components?: Component[] }): Record<string, string[]> {
  const found = new Map<string, Set<string>>()
  const add = ({ purl = '', components: inner = [] }: Component): void => {
    const [, name, version] = /^pkg:npm\/(.+)@(.+)$/.exec(purl) ?? []
    if (name && version) {
      const key = decodeURIComponent(name)
      found.set(key, (found.get(key) ?? new Set()).add(version))
    }
    inner.forEach(add)
  }
  components.forEach(add)
  return Object.fromEntries([...found].map(([name, versions]) => [name, [...versions].sort()]))
}

export interface VulnerabilityReport {
  /** False: the registry gave no answer, so nothing is known. */
  checked: boolean
  text: string
}

/**
 * Asks about the packages of a bill, at the place and in the form of `npm audit`. That command itself knows only what is
 * installed, which leaves out what is inside other packages.
 *
 * @param registry default: the one that npm is set up for
 */
export async function findVulnerabilities(
  bill: string,
  cwd: string,
  registry?: string,
): Promise<VulnerabilityReport> {
  const versions = listVersions(JSON.parse(bill))
  const base = (registry ?? (await run(['npm', 'config', 'get', 'registry'], { cwd }))).replace(/\/*$/, '/')
  try {
    const response = await fetch(`${base}-/npm/v1/security/advisories/bulk`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(versions),
      signal: AbortSignal.timeout(60_000),
    })
    if (!response.ok) throw new Error(`it answers ${response.status}`)
    const found = (await response.json()) as Record<
      string,
      { severity: string; title: string; url: string }[]
    >
    const lines = Object.entries(found).flatMap(([name, all]) =>
      all.map(({ severity, title, url }) => `${name} ${versions[name]}: ${severity}, ${title}, ${url}`),
    )
    const count = Object.keys(versions).length
    const text =
      lines.length > 0
        ? `found: ${lines.join('; ')}`
        : `none found for ${count} packages; Bun's parts in other languages were not asked for`
    return { checked: true, text }
  } catch (error) {
    return { checked: false, text: `not checked: the registry does not say (${(error as Error).message})` }
  }
}
