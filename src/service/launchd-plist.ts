/** The text of a launchd property list, and its command back. See launchd.plist(5). */

import type { ServicePlan } from './plan.ts'

/** In its first lines: a list without it is somebody else's. */
const plistMark = '<!-- Written by svc service install, which writes it anew each time. -->'

/** The label by which launchd knows the service. */
export const labelOf = (name: string): string => `local.${name}`

type Value = undefined | string | number | boolean | readonly string[] | { readonly [Key in string]: Value }

/** The list. @param logPath where what the service logs is kept */
export function plistText(plan: ServicePlan, logPath: string): string {
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
    // It ends within 5 s by itself.
    ExitTimeOut: 15,
    // Background would be slow to answer.
    ProcessType: 'Standard',
    SoftResourceLimits: { NumberOfFiles: 65_536 },
    HardResourceLimits: { NumberOfFiles: 65_536 },
    Umask: 0o077,
    // What is said once at the start may hold a token: it goes nowhere.
    StandardErrorPath: logPath,
  }
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
${plistMark}
<plist version="1.0">
${xml(values, '')}
</plist>
`
}

/** Program and arguments of a list that svc wrote. */
export function commandOfPlist(text: string): string[] | undefined {
  const list = /<key>ProgramArguments<\/key>\s*<array>([\s\S]*?)<\/array>/.exec(text)?.[1]
  if (!text.includes(plistMark) || list === undefined) return undefined
  return [...list.matchAll(/<string>([\s\S]*?)<\/string>/g)].map(([, word = '']) => plain(word))
}

function xml(value: Value, indent: string): string {
  const deeper = `${indent}  `
  const inside = (lines: readonly string[]) => lines.map(line => `${deeper}${line}\n`).join('')
  if (typeof value === 'string') return `<string>${escaped(value)}</string>`
  if (typeof value === 'number') return `<integer>${value}</integer>`
  if (typeof value === 'boolean') return value ? '<true/>' : '<false/>'
  if (Array.isArray(value)) return `<array>\n${inside(value.map(one => xml(one, deeper)))}${indent}</array>`
  const entries = Object.entries(value as Readonly<Record<string, Value>>).filter(
    ([, one]) => one !== undefined,
  )
  const pairs = entries.flatMap(([key, one]) => [`<key>${escaped(key)}</key>`, xml(one, deeper)])
  return `<dict>\n${inside(pairs)}${indent}</dict>`
}

const names: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt' }
const escaped = (text: string) => text.replace(/[&<>]/g, sign => `&${names[sign]};`)
const plain = (text: string) => text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
