/** One service of systemd: where its files lie, and the calls of systemctl. */

import { join } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { fileExists } from '../platform/files.ts'
import { type Ran, runProgram } from '../platform/process.ts'
import {
  notStarted,
  type ServiceFile,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServiceState,
  tokenFile,
} from './plan.ts'
import { commandOfUnit, environmentLine, unitText } from './systemd-unit.ts'

/** `TimeoutStartSec` and a moment. */
const startWithinMs = 310_000

/** The systemd of this machine, or of this user. */
export function systemdService({ name, scope }: ServiceName, folders: ServiceFolders): ServiceManager {
  const isSystem = scope === 'system'
  const unit = `${name}.service`
  const path = join(isSystem ? folders.etc : folders.config, 'systemd', scope, unit)
  const own = join(isSystem ? folders.etc : folders.config, 'svc')
  const [tokenPath, environmentPath] = [join(own, `${name}.token`), join(own, `${name}.env`)]
  const scoped = isSystem ? [] : ['--user']
  const call = async (...args: string[]): Promise<Ran> =>
    runProgram('systemctl', [...scoped, '--no-pager', ...args], {
      withinMs: startWithinMs,
      env: isSystem ? {} : await sessionOf(process.geteuid?.()),
    })
  const must = async (...args: string[]): Promise<void> => {
    const { status, stderr, stdout } = await call(...args)
    if (status === 0) return
    const said = (stderr.trim() || stdout.trim()).split('\n')[0] || `systemctl ended with ${status}`
    throw notStarted(said, advice.logs)
  }
  const advice = {
    logs: `journalctl ${isSystem ? '' : '--user '}-u ${name} -f`,
    restart: `${isSystem ? 'sudo systemctl' : 'systemctl --user'} restart ${name}`,
  }

  return {
    title: 'systemd',
    files: {
      paths: [tokenPath, environmentPath, path],
      tokenPath,
      commandOf: commandOfUnit,
      of(plan) {
        const lines = Object.entries(plan.environment).map(([name, value]) => environmentLine(name, value))
        const environment = lines.map(line => `${line}\n`).join('')
        const secrets: ServiceFile[] = environment
          ? [{ path: environmentPath, text: environment, mode: 0o600 }]
          : []
        const text = unitText(plan, { lib: folders.lib, environmentPath: secrets[0]?.path })
        return [...tokenFile(plan, tokenPath), ...secrets, { path, text, mode: 0o644 }]
      },
    },
    advice,
    async ensureReachable() {
      const { stdout, stderr } = await call('is-system-running')
      // `degraded` and its like are states of a systemd that runs.
      if (/^(running|degraded|starting|initializing|maintenance|stopping)\s*$/.test(stdout)) return
      throw unreachable(isSystem, stderr.trim().split('\n')[0] ?? '')
    },
    async start() {
      await must('daemon-reload')
      await must('enable', '--quiet', unit)
      await must('restart', unit)
    },
    async stop(remove) {
      await must('disable', '--quiet', '--now', unit)
      await remove()
      await call('daemon-reload')
      await call('reset-failed', unit)
    },
    state: () => stateOf(call, unit),
  }
}

const asked = [
  ...['LoadState', 'UnitFileState', 'ActiveState', 'SubState', 'MainPID', 'NRestarts'],
  ...['ActiveEnterTimestamp', 'Result', 'ExecMainStatus'],
]

async function stateOf(call: (...args: string[]) => Promise<Ran>, unit: string): Promise<ServiceState> {
  const { stdout } = await call('show', unit, `--property=${asked.join(',')}`)
  const of: Record<string, string | undefined> = Object.fromEntries(
    [...stdout.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
  )
  const { ActiveState: active = 'unknown', SubState: sub, Result: result = 'success' } = of
  const running = active === 'active'
  // As in `Sun 2026-11-22 00:38:53 UTC`: the zone was asked for.
  const since = Date.parse((of.ActiveEnterTimestamp ?? '').replace(/^\w+ (\S+) (\S+) UTC$/, '$1T$2Z'))
  return {
    loaded: of.LoadState === 'loaded',
    enabled: /^enabled/.test(of.UnitFileState ?? ''),
    state: sub && sub !== active ? `${active} (${sub})` : active,
    running,
    pid: Number(of.MainPID) || undefined,
    since: running && Number.isFinite(since) ? since : undefined,
    restarts: of.NRestarts === undefined ? undefined : Number(of.NRestarts),
    ended: running || result === 'success' ? undefined : `${result}, status ${of.ExecMainStatus ?? '?'}`,
  }
}

/** Where this user's systemd is asked: `sudo -u` and `su` do not say it. */
async function sessionOf(uid: number | undefined): Promise<Record<string, string>> {
  const folder = `/run/user/${uid}`
  return (await fileExists(folder)) ? { XDG_RUNTIME_DIR: folder } : {}
}

const unreachable = (isSystem: boolean, said: string) =>
  new SvcError(
    'internal',
    `the systemd of this ${isSystem ? 'machine' : 'user'} cannot be reached${said && `: ${said}`}`,
    {
      hint: `${isSystem ? '' : 'Log in as this user directly (not by su or sudo), or let the systemd of this user run without that: sudo loginctl enable-linger <user>. '}In a container let its engine restart svc; in WSL set systemd=true under [boot] in /etc/wsl.conf; elsewhere let the init system start svc openapi. svc service install --print shows the unit.`,
    },
  )
