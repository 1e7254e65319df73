/** An installed service as it stands: its definition, what its manager says, and what answers at its address. */

import { userFolders } from '../config.ts'
import { addressOf } from '../doctor/healthz.ts'
import type { ServiceSight } from '../doctor/service.ts'
import { askHealthOf, type Identified } from '../doctor/whose.ts'
import { runsReplacedProgram } from '../platform/other-process.ts'
import { managerOf } from '../service/by-platform.ts'
import { ownText } from '../service/install.ts'
import { installedNames } from '../service/installed.ts'
import {
  machineFolders,
  type Scope,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServiceState,
} from '../service/plan.ts'
import { ownProgram } from './service-plan.ts'
import { type ServedAs, servedAs } from './service-served.ts'

/** Of a service that was given no other. */
const usualName = 'svc'
/** Longest wait for an answer of a service on this machine. */
export const askWithinMs = 2000

/** The places of this machine and this user. */
export function foldersHere(): ServiceFolders {
  const { home, xdgConfig } = userFolders()
  return { home, config: xdgConfig, ...machineFolders }
}

/** @throws SvcError where there is no manager that svc knows */
export const managerHere = (service: ServiceName): ServiceManager =>
  managerOf(userFolders().platform, service, foldersHere(), ownProgram().command)

/** A service that is installed. */
export interface Installed {
  readonly state: ServiceState
  /** Its program is another file by now. */
  readonly replaced: boolean
  /** Absent: it was told what this version does not know. */
  readonly served?: ServedAs & { readonly url: string }
  /** Of one that runs. */
  readonly answered?: Identified
}

/** @returns undefined when there is none @throws SvcError `forbidden` for one that svc did not install */
export async function lookAtService(manager: ServiceManager): Promise<Installed | undefined> {
  const text = await ownText(manager)
  if (text === undefined) return undefined
  const told = servedAs(manager, text)
  const served = told && { ...told, url: addressOf(told.config.host, told.config.port) }
  const state = await manager.state()
  const replaced = state.pid !== undefined && (await runsReplacedProgram(state.pid))
  const answered =
    served && state.running ? await askHealthOf(served.config.basePath, served.url, askWithinMs) : undefined
  return { state, replaced, ...(served && { served }), ...(answered && { answered }) }
}

/** What svc doctor looks at: yours and the machine's, whatever they are called. */
export async function installedServices(): Promise<ServiceSight[]> {
  const found = await Promise.all((['user', 'system'] as const).map(servicesOf))
  return found.flat()
}

async function servicesOf(scope: Scope): Promise<ServiceSight[]> {
  try {
    const names = await installedNames(managerHere({ scope, name: usualName }))
    const found = await Promise.all(names.map(name => sightOf({ scope, name })))
    return found.filter(one => one !== undefined)
  } catch {
    // No manager that svc knows.
    return []
  }
}

async function sightOf(service: ServiceName): Promise<ServiceSight | undefined> {
  const { scope, name } = service
  try {
    const manager = managerHere(service)
    const found = await lookAtService(manager)
    if (!found) return undefined
    const { state, replaced, served, answered } = found
    const { answer, isElsewhere = false } = answered ?? {}
    const isSystem = scope === 'system'
    return {
      title: `${isSystem ? 'the' : 'your'} service ${name} of ${manager.title}`,
      ...{ state, replaced, advice: manager.advice },
      install: `${isSystem ? 'sudo ' : ''}svc service install${name === usualName ? '' : ` --name ${name}`}`,
      ...(served && {
        place: { basePath: served.config.basePath, sandbox: served.config.sandbox, url: served.url },
      }),
      ...(answer?.kind === 'svc' && !isElsewhere && { version: answer.seen.version }),
    }
  } catch {
    // A service of somebody else by now.
    return undefined
  }
}
