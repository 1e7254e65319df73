/** Services of systemd and launchd that svc installed: whether the one of this directory runs, and with this program. */

import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { ServiceManager, ServiceState } from '../service/plan.ts'
import { type Found, note, ok, warning } from './finding.ts'
import type { Patient } from './patient.ts'
import { svcCommand } from './words.ts'

/** One that is installed. */
export interface ServiceSight {
  /** As in `the service svc of systemd`. */
  title: string
  state: ServiceState
  /** Its program is another file by now. */
  replaced: boolean
  /** What it serves; absent: it was told what this version does not know. */
  place?: { basePath: string; sandbox: boolean; url: string }
  /** Of the svc that answers for it; absent: none does. */
  version?: string
  advice: ServiceManager['advice']
  /** The command that installs it, without its options. */
  install: string
}

/** Looks at the services; says nothing where there is none. */
export async function examineServices(patient: Patient, services: readonly ServiceSight[]): Promise<Found[]> {
  const found = await Promise.all(services.map(async one => ({ one, is: await isOf(patient, one) })))
  const hasOwn = found.some(({ is }) => is === 'ours')
  return found.flatMap(({ one, is }) =>
    is === 'another' ? ofAnother(patient, one, hasOwn) : ofOurs(patient, one),
  )
}

async function isOf(
  { place: { dir } }: Patient,
  { place }: ServiceSight,
): Promise<'ours' | 'another' | 'unknown'> {
  if (!place) return 'unknown'
  return (await isSame(place.basePath, dir)) ? 'ours' : 'another'
}

function ofOurs(patient: Patient, service: ServiceSight): Found[] {
  const { title, state, place, replaced, version, advice, install } = service
  if (!place)
    return [
      note('service', `${title} was told what this version does not know`, `Install it anew: ${install}`),
    ]
  // Such as without a session of one's own to ask systemd from.
  if (state.state === 'unknown')
    return [note('service', `${title} is installed; how it is cannot be asked here`)]
  const log = `Its log says why: ${advice.logs}; to start it anew: ${advice.restart}`
  if (!state.running)
    return [
      warning(
        'service',
        `${title} does not run: ${[state.state, ...(state.ended === undefined ? [] : [state.ended])].join(', ')}`,
        log,
      ),
    ]
  if (version === undefined)
    return [warning('service', `${title} runs, and does not answer on ${place.url}`, log)]
  const old =
    version !== patient.version
      ? `${title} runs svc ${version}; this is ${patient.version}`
      : replaced
        ? `the program of ${title} was replaced since it started`
        : undefined
  return [
    old === undefined
      ? ok('service', `${title} runs${state.enabled ? ' and starts by itself' : ''}`)
      : warning('service', old, advice.restart),
    ...(state.enabled
      ? []
      : [note('service', `${title} does not start by itself`, `Install it once more: ${install}`)]),
  ]
}

/** Who polls this directory is not that service, and who wants to know of him has found him; so has who has his own. */
const ofAnother = ({ polling }: Patient, { title, place }: ServiceSight, hasOwn: boolean): Found[] =>
  polling?.held || hasOwn || !place
    ? []
    : [
        note(
          'service',
          `${title} is of another data directory, ${place.basePath}`,
          `As its user: ${svcCommand('doctor', place.basePath, place.sandbox)}`,
        ),
      ]

async function isSame(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([one, other].map(path => realpath(path).catch(() => resolve(path))))
  return a === b
}
