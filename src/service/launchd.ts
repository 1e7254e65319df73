/** One service of launchd: where its files lie, and the calls of launchctl. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as wait } from 'node:timers/promises'
import { SvcError } from '../model/error.ts'
import { statOf } from '../platform/files.ts'
import { type Ran, runProgram } from '../platform/process.ts'
import { commandOfPlist, labelOf, nameOfPlist, plistText } from './launchd-plist.ts'
import {
  Failed,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
} from './plan.ts'

/** launchd lets go of a service some time after it said so. */
const tries = 10
const betweenMs = 500

/** The launchd of this machine, or of this user. */
export function launchdService({ name, scope }: ServiceName, folders: ServiceFolders): ServiceManager {
  const isSystem = scope === 'system'
  const label = labelOf(name)
  const base = isSystem ? folders.library : join(folders.home, 'Library')
  const path = join(base, isSystem ? 'LaunchDaemons' : 'LaunchAgents', `${label}.plist`)
  const logPath = join(base, 'Logs', `${name}.log`)
  const own = join(base, 'Application Support', 'svc')
  const tokenPath = join(own, `${name}.token`)
  const domain = isSystem ? 'system' : `gui/${process.geteuid?.()}`
  const target = `${domain}/${label}`
  const call = (...args: string[]): Promise<Ran> => runProgram('launchctl', args)
  const isLoaded = async () => (await call('print', target)).status === 0

  async function unload(): Promise<void> {
    if (!(await isLoaded())) return
    const { stderr } = await call('bootout', target)
    for (let left = tries; left > 0; left--) {
      if (!(await isLoaded())) return
      await wait(betweenMs)
    }
    throw new Failed(stderr.trim() || 'launchd does not let go of it')
  }

  return {
    title: 'launchd',
    path,
    tokenPath,
    environmentPath: join(own, `${name}.env`),
    nameOf: nameOfPlist,
    commandOf: commandOfPlist,
    files(plan: ServicePlan) {
      const { token, account, environment } = plan
      const isSecret = Object.keys(environment).length > 0
      return [
        ...(token === undefined
          ? []
          : [
              {
                path: tokenPath,
                text: `${token}\n`,
                mode: 0o600 as const,
                ...(account && { owner: account }),
              },
            ]),
        { path, text: plistText(plan, logPath), mode: isSecret ? (0o600 as const) : (0o644 as const) },
      ]
    },
    async check() {
      if (isSystem || (await call('print', domain)).status === 0) return
      throw new SvcError('internal', `launchd has no place for services of this user here (${domain})`, {
        hint: 'Log in at the screen of this machine once, or install for the whole machine: sudo svc service install.',
      })
    },
    elsewhere: async () => undefined,
    async start() {
      await unload()
      // Somebody may have disabled it; then bootstrap refuses.
      await call('enable', target)
      for (let left = tries; ; left--) {
        const { status, stderr, stdout } = await call('bootstrap', domain, path)
        if (status === 0) return
        if (left <= 1) throw new Failed(stderr.trim() || stdout.trim() || `launchctl ended with ${status}`)
        await wait(betweenMs)
      }
    },
    stop: unload,
    forget: async () => {},
    async state() {
      const { status, stdout } = await call('print', target)
      const field = (key: string) => new RegExp(`^\\s*${key} = (.+)$`, 'm').exec(stdout)?.[1]
      const [pid, runs, exit] = [field('pid'), field('runs'), field('last exit code')]
      const running = field('state') === 'running'
      return {
        loaded: status === 0,
        enabled: status === 0,
        state: status === 0 ? (field('state') ?? 'unknown') : 'not loaded',
        running,
        ...(pid !== undefined && { pid: Number(pid) }),
        ...(runs !== undefined && { restarts: Math.max(0, Number(runs) - 1) }),
        ...(!running && /^-?[1-9]/.test(exit ?? '') && { ended: `status ${exit}` }),
      }
    },
    async lastWords(since) {
      const changed = (await statOf(logPath))?.mtimeMs ?? 0
      if (changed < since) return []
      const text = await readFile(logPath, 'utf8').catch(() => '')
      return text.trimEnd().split('\n').filter(Boolean).slice(-4)
    },
    advice: {
      logs: `tail -f ${logPath.replaceAll(' ', '\\ ')}`,
      restart: `${isSystem ? 'sudo ' : ''}launchctl kickstart -k ${target}`,
    },
  }
}
