/**
 * Checks the services of systemd and launchd that svc installed: does this directory's service run, and
 * with this version.
 */

import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Config } from '../config.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import { type Finding, finding } from '../inspect/finding.ts'
import type { HealthAnswer } from '../inspect/healthz.ts'
import type { ServiceManager, ServiceState } from '../service/plan.ts'
import type { DoctorContext } from './finding.ts'

/** An installed service and its state. */
export interface InstalledService {
  /** Title such as "the service svc of systemd". */
  title: string
  state: ServiceState
  /** What the service runs; undefined if its options are unknown to this version. */
  served: { program: string; config: Config; url: string } | undefined
  /** Its answer to GET /healthz; undefined if the service does not run, or `served` is undefined. */
  answered: HealthAnswer | undefined
  advice: ServiceManager['advice']
  /** Command that installs it, without options. */
  install: string
}

/** Checks the services. Returns no finding if none is installed. */
export async function examineServices(
  { version, polling, directory }: DoctorContext,
  services: readonly InstalledService[],
): Promise<Finding[]> {
  const found: Finding[] = []
  const others: Finding[] = []
  for (const service of services) {
    const { served, title } = service
    if (!served || (await isSame(served.config.basePath, directory.dir))) {
      found.push(checkService(version, service))
      continue
    }
    const { basePath, sandbox } = served.config
    const fix = `As its user: ${svcCommand('doctor', basePath, sandbox)}`
    others.push(finding.note('service', `${title} is of another data directory, ${basePath}`, fix))
  }
  // If this directory is already served or polled, services of other directories do not matter.
  return found.length > 0 || polling?.held ? found : others
}

function checkService(own: string, service: InstalledService): Finding {
  const { title, state, served, answered, advice, install } = service
  const log = `Its log tells the reason: ${advice.logs}; to restart it: ${advice.restart}`
  if (!served)
    return finding.note('service', `${title} has options of another version`, `Install it again: ${install}`)
  if (!state.running)
    return finding.warning(
      'service',
      `${title} does not run: ${[state.state, state.ended ?? []].flat().join(', ')}`,
      log,
    )
  const version = answered?.kind === 'svc' && answered.seen.version
  if (!version) return finding.warning('service', `${title} runs, but does not answer on ${served.url}`, log)
  if (version !== own)
    return finding.warning('service', `${title} runs svc ${version}; this is ${own}`, advice.restart)
  return state.enabled
    ? finding.ok('service', `${title} runs and starts by itself`)
    : finding.note('service', `${title} runs, and does not start by itself`, `Install it again: ${install}`)
}

async function isSame(...paths: [string, string]): Promise<boolean> {
  const [a, b] = await Promise.all(paths.map(path => realpath(path).catch(() => resolve(path))))
  return a === b
}
