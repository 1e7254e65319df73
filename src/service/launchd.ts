/** One service of launchd: where its files lie, and the calls of launchctl. */

import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as wait } from 'node:timers/promises'
import { SvcError } from '../model/error.ts'
import { type Ran, runProgram } from '../platform/process.ts'
import { commandOfPlist, labelOf, plistText } from './launchd-plist.ts'
import {
  notStarted,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
  type ServiceState,
  tokenFile,
} from './plan.ts'

/** launchd ends a service some time after bootout returned; until then it refuses to bootstrap it. */
const tries = 10
const betweenMs = 500

/** The launchd of this machine, or of this user. */
export function launchdService({ name, scope }: ServiceName, folders: ServiceFolders): ServiceManager {
  const isSystem = scope === 'system'
  const label = labelOf(name)
  const base = isSystem ? folders.library : join(folders.home, 'Library')
  const path = join(base, isSystem ? 'LaunchDaemons' : 'LaunchAgents', `${label}.plist`)
  const logPath = join(base, 'Logs', `${name}.log`)
  const tokenPath = join(base, 'Application Support', 'svc', `${name}.token`)
  const domain = isSystem ? 'system' : `gui/${process.geteuid?.()}`
  const target = `${domain}/${label}`
  const advice = {
    logs: `tail -f ${logPath.replaceAll(' ', '\\ ')}`,
    restart: `${isSystem ? 'sudo ' : ''}launchctl kickstart -k ${target}`,
  }

  return {
    title: 'launchd',
    files: {
      paths: [tokenPath, path],
      tokenPath,
      commandOf: commandOfPlist,
      of(plan: ServicePlan) {
        const isSecret = Object.keys(plan.environment).length > 0
        return [
          ...tokenFile(plan, tokenPath),
          { path, text: plistText(plan, logPath), mode: isSecret ? 0o600 : 0o644 },
        ]
      },
    },
    advice,
    async ensureReachable() {
      if (isSystem || (await call('print', domain)).status === 0) return
      throw new SvcError('internal', `launchd has no place for services of this user here (${domain})`, {
        hint: 'Log in at the screen of this machine once, or install for the whole machine: sudo svc service install.',
      })
    },
    start: () => start({ domain, target, path }, advice.logs),
    async stop(remove) {
      await call('bootout', target)
      await remove()
    },
    state: () => stateOf(target),
  }
}

const call = (...args: string[]): Promise<Ran> => runProgram('launchctl', args)

async function start(
  { domain, target, path }: { domain: string; target: string; path: string },
  logs: string,
): Promise<void> {
  await call('bootout', target)
  // A service that somebody disabled cannot be bootstrapped.
  await call('enable', target)
  for (let left = tries; ; left--) {
    const { status, stderr, stdout } = await call('bootstrap', domain, path)
    if (status === 0) return
    if (left <= 1) throw notStarted(stderr.trim() || stdout.trim() || `launchctl ended with ${status}`, logs)
    await wait(betweenMs)
  }
}

async function stateOf(target: string): Promise<ServiceState> {
  const { status, stdout } = await call('print', target)
  const field = (key: string) => new RegExp(`^\\s*${key} = (.+)$`, 'm').exec(stdout)?.[1]
  const [pid, runs, exit = ''] = [field('pid'), field('runs'), field('last exit code')]
  const [loaded, running] = [status === 0, field('state') === 'running']
  return {
    ...{ loaded, enabled: loaded, running },
    state: loaded ? (field('state') ?? 'unknown') : 'not loaded',
    pid: pid === undefined ? undefined : Number(pid),
    restarts: runs === undefined ? undefined : Math.max(0, Number(runs) - 1),
    ended: !running && /^-?[1-9]/.test(exit) ? `status ${exit}` : undefined,
  }
}
