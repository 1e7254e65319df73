/** What we propose to type next: with the flags that name the data directory, as they were given. */

import { join } from 'node:path'
import type { Command } from 'commander'
import { type Flags, readConfig } from '../config.ts'
import type { Wording } from '../model/next-step.ts'
import { fileExists } from '../platform/files.ts'
import { shellWord } from '../platform/shell.ts'

/** The flags that name the data directory, for command lines that we propose. */
export function againFlags(command: Command): string {
  const { sandbox, basePath } = command.opts() as { sandbox?: boolean; basePath?: string }
  return `${sandbox ? ' --sandbox' : ''}${basePath === undefined ? '' : ` -d ${shellWord(basePath)}`}`
}

/** Ports that a command takes, by the flag's name in camel case. */
const ports: readonly (readonly [key: string, flag: string, commands: readonly string[]])[] = [
  ['port', '--port', ['openapi', 'doctor']],
  ['adminPort', '--admin-port', ['openapi', 'doctor', 'admin']],
  ['sandboxPort', '--sandbox-port', ['openapi', 'doctor', 'admin', 'sandbox']],
]

/** The ports that `command` was given, for a command line that we propose and that takes them; a port in it stays. */
export function portFlags([name = '', ...rest]: readonly string[], command: Command): string {
  const given = command.opts() as Readonly<Record<string, string | undefined>>
  return ports
    .filter(([key, flag, names]) => given[key] !== undefined && names.includes(name) && !rest.includes(flag))
    .map(([key, flag]) => ` ${flag} ${given[key]}`)
    .join('')
}

/** How the command line words what to do next; `command` is the one that runs, where it came to that. */
export const wordingOf = (command: Command | undefined, help?: string): Wording => ({
  door: 'cli',
  command: words =>
    ['svc', ...words.map(shellWord)].join(' ') +
    (command ? againFlags(command) + portFlags(words, command) : ''),
  ...(help !== undefined && { help }),
})

/**
 * A hint for users who tried svc with `--sandbox` and now leave it out, so that they see an empty directory; '' for
 * others. Changes nothing.
 */
export async function forgottenSandbox(command: Command): Promise<string> {
  try {
    const { basePath, sandbox } = readConfig(command.opts() as Flags)
    const usual = readConfig({}, {}).basePath
    if (sandbox || basePath !== usual || (await sessionsIn(usual)) > 0) return ''
    const pretended = readConfig({ sandbox: true }, {}).basePath
    const runs = await fileExists(join(pretended, 'sandbox', 'address'))
    return runs || (await sessionsIn(pretended)) > 0 ? 'For the pretend WeChat add --sandbox.' : ''
  } catch {
    return ''
  }
}

async function sessionsIn(dir: string): Promise<number> {
  const [{ lookAround }, { lookAtSessions }] = await Promise.all([
    import('../inspect/data-directory.ts'),
    import('../inspect/sessions.ts'),
  ])
  return (await lookAtSessions(await lookAround(dir))).sessions.length
}
