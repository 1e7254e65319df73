/** Services of systemd and launchd that svc installed: whether the one of this directory runs, and with this program. */
import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Config } from '../config.ts'
import { svcCommand } from '../inspect/advised-commands.ts'
import type { HealthAnswer } from '../inspect/healthz.ts'
import type { ServiceManager, ServiceState } from '../service/plan.ts'
import { type DoctorContext, type Found, note, ok, warning } from './finding.ts'

/** One that is installed. */
export interface SeenService {
  /** As in `the service svc of systemd`. */
  title: string
  state: ServiceState
  /** Absent: its options are those of another version. */
  served: { program: string; config: Config; url: string } | undefined
  /** Of one that runs. */
  answered: HealthAnswer | undefined
  advice: ServiceManager['advice']
  /** The command that installs it, without its options. */
  install: string
}

/** Looks at the services; says nothing where there is none. */
export async function examineServices(
  { version, polling, directory }: DoctorContext,
  services: readonly SeenService[],
): Promise<Found[]> {
  const found: Found[] = []
  const others: Found[] = []
  for (const one of services) {
    const { served, title } = one
    if (!served || (await isSame(served.config.basePath, directory.dir))) {
      found.push(ofOurs(version, one))
      continue
    }
    const { basePath, sandbox } = served.config
    const fix = `As its user: ${svcCommand('doctor', basePath, sandbox)}`
    others.push(note('service', `${title} is of another data directory, ${basePath}`, fix))
  }
  // Where this directory is served or polled already, services of others do not matter.
  return found.length > 0 || polling?.held ? found : others
}

function ofOurs(own: string, service: SeenService): Found {
  const { title, state, served, answered, advice, install } = service
  const log = `Its log says why: ${advice.logs}; to start it anew: ${advice.restart}`
  if (!served)
    return note('service', `${title} has options of another version`, `Install it anew: ${install}`)
  if (!state.running)
    return warning(
      'service',
      `${title} does not run: ${[state.state, state.ended ?? []].flat().join(', ')}`,
      log,
    )
  const version = answered?.kind === 'svc' && answered.seen.version
  if (!version) return warning('service', `${title} runs, and does not answer on ${served.url}`, log)
  if (version !== own)
    return warning('service', `${title} runs svc ${version}; this is ${own}`, advice.restart)
  return state.enabled
    ? ok('service', `${title} runs and starts by itself`)
    : note('service', `${title} runs, and does not start by itself`, `Install it once more: ${install}`)
}

async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map(path => realpath(path).catch(() => resolve(path))))
  return a === b
}
