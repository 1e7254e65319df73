/** An installed service as it stands: its definition, what its manager says, and what answers at its address. */

import { Command } from 'commander'
import { type Config, type Flags, readConfig, userFolders } from '../config.ts'
import type { SeenService } from '../doctor/service.ts'
import { addressOf, askHealth } from '../inspect/healthz.ts'
import { managerOf, ownText } from '../service/install.ts'
import {
  machineFolders,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
} from '../service/plan.ts'
import { addConfigOptions, quiet } from './command.ts'
import { ownProgram } from './service-plan.ts'

/** The name of a service that was given no other. */
export const usualName = 'svc'
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

/** @returns undefined when there is none @throws SvcError `forbidden` for one that svc did not install */
export async function lookAtService(service: ServiceName): Promise<SeenService | undefined> {
  const { scope, name } = service
  const manager = managerHere(service)
  const text = await ownText(manager)
  if (text === undefined) return undefined
  const served = servedAs(manager.files.commandOf(text) ?? [])
  const state = await manager.state()
  const isSystem = scope === 'system'
  return {
    title: `${isSystem ? 'the' : 'your'} service ${name} of ${manager.title}`,
    ...{ state, served, advice: manager.advice },
    answered: served && state.running ? await askHealth(served.url, askWithinMs) : undefined,
    install: `${isSystem ? 'sudo ' : ''}svc service install${name === usualName ? '' : ` --name ${name}`}`,
  }
}

/** What a definition starts; undefined for one of a version that knew other options. */
export function servedAs(
  words: readonly string[],
): { program: string; config: Config; url: string } | undefined {
  const [program = '', ...args] = words
  const command = addConfigOptions(quiet(new Command()), 'openapi')
  try {
    command.parse(args.slice(args.indexOf('openapi') + 1), { from: 'user' })
    const config = readConfig(command.opts<Flags>(), {})
    return { program, config, url: addressOf(config.host, config.port) }
  } catch {
    return undefined
  }
}

/** Yours and the machine's, by their usual name: for svc doctor. */
export async function installedServices(): Promise<SeenService[]> {
  const scopes = ['user', 'system'] as const
  // None where there is no manager that svc knows, and none of somebody else's.
  const found = await Promise.all(
    scopes.map(async scope => lookAtService({ scope, name: usualName }).catch(() => undefined)),
  )
  return found.filter(one => one !== undefined)
}
