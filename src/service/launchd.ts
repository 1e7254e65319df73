/** A service of launchd: its files, the calls of launchctl, and its property list. See launchd.plist(5). */
import { join } from 'node:path'
import process from 'node:process'
import { SvcError } from '../model/error.ts'
import { type Clock, systemClock } from '../platform/clock.ts'
import { type ProgramResult, runProgram } from '../platform/process.ts'
import {
  notStartedError,
  type ServiceFolders,
  type ServiceManager,
  type ServiceName,
  type ServicePlan,
  type ServiceState,
  tokenFilesOf,
} from './plan.ts'

/** launchd ends a service some time after bootout returned; until then bootstrap fails. */
const bootstrapTries = 10
const retryMs = 500

/** Returns the launchd of this machine, or of this user. */
export function launchdService(
  { name, scope }: ServiceName,
  folders: ServiceFolders,
  clock: Clock = systemClock,
): ServiceManager {
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
      definitions: [path],
      isOwn: text => text.includes(plistMark),
      parseCommand: parsePlistCommand,
      createFiles(plan: ServicePlan) {
        const isSecret = Object.keys(plan.environment).length > 0
        return [
          ...tokenFilesOf(plan, tokenPath),
          { path, text: formatPlist(plan, logPath), mode: isSecret ? 0o600 : 0o644 },
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
    start: () => start({ domain, target, path }, advice.logs, clock),
    async stop(remove) {
      await call('bootout', target)
      await remove()
    },
    readState: () => stateOf(target),
  }
}

const call = (...args: string[]): Promise<ProgramResult> => runProgram('launchctl', args)

async function start(
  { domain, target, path }: { domain: string; target: string; path: string },
  logs: string,
  clock: Clock,
): Promise<void> {
  await call('bootout', target)
  // bootstrap fails for a service that somebody disabled.
  await call('enable', target)
  for (let left = bootstrapTries; ; left--) {
    const { status, stderr, stdout } = await call('bootstrap', domain, path)
    if (status === 0) return
    if (left <= 1)
      throw notStartedError(stderr.trim() || stdout.trim() || `launchctl ended with ${status}`, logs)
    await clock.sleep(retryMs)
  }
}

async function stateOf(target: string): Promise<ServiceState> {
  const { status, stdout } = await call('print', target)
  const field = (key: string) => new RegExp(`^\\s*${key} = (.+)$`, 'm').exec(stdout)?.[1]
  const [pid, runs, exit = ''] = [field('pid'), field('runs'), field('last exit code')]
  const [loaded, running] = [status === 0, field('state') === 'running']
  return {
    loaded,
    enabled: loaded,
    running,
    state: loaded ? (field('state') ?? 'unknown') : 'not loaded',
    pid: pid === undefined ? undefined : Number(pid),
    restarts: runs === undefined ? undefined : Math.max(0, Number(runs) - 1),
    ended: !running && /^-?[1-9]/.test(exit) ? `status ${exit}` : undefined,
  }
}

/**
 * Mark near the top of a list that svc wrote. The text must stay the same: svc finds installed services by
 * it.
 */
const plistMark = '<!-- Written by svc service install, which writes it anew each time. -->'

/** Returns the label by which launchd knows the service. */
const labelOf = (name: string): string => `local.${name}`

type Value = undefined | string | number | boolean | readonly string[] | { readonly [Key in string]: Value }

/**
 * Formats the property list.
 *
 * @param logPath file for the service's log
 */
export function formatPlist(plan: ServicePlan, logPath: string): string {
  const { name, scope, account, command, environment } = plan
  const values: Record<string, Value> = {
    Label: labelOf(name),
    ProgramArguments: command,
    EnvironmentVariables: { BUN_CONFIG_MAX_HTTP_REQUESTS: '60000', ...environment },
    UserName: scope === 'system' ? account?.name : undefined,
    WorkingDirectory: '/',
    RunAtLoad: true,
    KeepAlive: { SuccessfulExit: false },
    ThrottleInterval: 10,
    ExitTimeOut: plan.drain + 15,
    // `Background` would answer slowly.
    ProcessType: 'Standard',
    SoftResourceLimits: { NumberOfFiles: 65_536 },
    HardResourceLimits: { NumberOfFiles: 65_536 },
    Umask: 0o077,
    // Standard output is discarded: the messages at start may contain a token.
    StandardErrorPath: logPath,
  }
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
${plistMark}
<plist version="1.0">
${toXml(values, '')}
</plist>
`
}

/** Returns program and arguments from a list that svc wrote; undefined for any other. */
export function parsePlistCommand(text: string): string[] | undefined {
  const list = /<key>ProgramArguments<\/key>\s*<array>([\s\S]*?)<\/array>/.exec(text)?.[1]
  if (!text.includes(plistMark) || list === undefined) return undefined
  return [...list.matchAll(/<string>([\s\S]*?)<\/string>/g)].map(([, word = '']) => unescapeXml(word))
}

function toXml(value: Value, indent: string): string {
  const deeper = `${indent}  `
  const inside = (lines: readonly string[]) => lines.map(line => `${deeper}${line}\n`).join('')
  if (typeof value === 'string') return `<string>${escapeXml(value)}</string>`
  if (typeof value === 'number') return `<integer>${value}</integer>`
  if (typeof value === 'boolean') return value ? '<true/>' : '<false/>'
  if (Array.isArray(value))
    return `<array>\n${inside(value.map(element => toXml(element, deeper)))}${indent}</array>`
  const entries = Object.entries(value as Readonly<Record<string, Value>>).filter(
    ([, member]) => member !== undefined,
  )
  const pairs = entries.flatMap(([key, member]) => [`<key>${escapeXml(key)}</key>`, toXml(member, deeper)])
  return `<dict>\n${inside(pairs)}${indent}</dict>`
}

const entityNames: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt' }
const escapeXml = (text: string) => text.replace(/[&<>]/g, sign => `&${entityNames[sign]};`)
const unescapeXml = (text: string) =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
