/** What we propose to type next: with the flags that name the data directory, as they were given. */

import { join } from 'node:path'
import type { Command } from 'commander'
import { type Flags, readConfig } from '../config.ts'
import { fileExists } from '../platform/files.ts'
import { shellWord } from '../platform/shell.ts'

/** The flags that name the data directory, for command lines that we propose. */
export function againFlags(command: Command): string {
  const { sandbox, basePath } = command.opts() as { sandbox?: boolean; basePath?: string }
  return `${sandbox ? ' --sandbox' : ''}${basePath === undefined ? '' : ` -d ${shellWord(basePath)}`}`
}

// Those that work on a data directory; what `--help` shows is the same everywhere.
const proposed =
  /\bsvc (outbox cancel|sessions|history|users|outbox|login|logout|recv|send|download|status|doctor|openapi)\b(?!(?: [\w-]+)* --help)/g

/** A hint with `again`, as of `againFlags`, in each command that it proposes. */
export const withFlags = (hint: string, again: string): string =>
  again === '' ? hint : hint.replace(proposed, line => `${line}${again}`)

/** Ports as they were given, by the flag's name in camel case: those that a command takes. */
const portFlags: Readonly<Record<string, readonly (readonly [key: string, flag: string])[]>> = {
  openapi: [
    ['port', '--port'],
    ['adminPort', '--admin-port'],
    ['sandboxPort', '--sandbox-port'],
  ],
  admin: [
    ['adminPort', '--admin-port'],
    ['sandboxPort', '--sandbox-port'],
  ],
  sandbox: [['sandboxPort', '--sandbox-port']],
}
const withPort = /\bsvc (openapi|doctor|admin|sandbox)\b((?: --[\w-]*port \d+)*)/g

/** A hint with the ports that `command` was given in each command that takes them; a port in it stays. */
export function withPorts(hint: string, command: Command): string {
  const given = command.opts() as Readonly<Record<string, string | undefined>>
  return hint.replace(withPort, (line, word: string, own: string) => {
    const flags = (portFlags[word === 'doctor' ? 'openapi' : word] ?? []).filter(
      ([key, flag]) => given[key] !== undefined && !own.includes(` ${flag} `),
    )
    return line + flags.map(([key, flag]) => ` ${flag} ${given[key]}`).join('')
  })
}

/**
 * Whoever tried svc with `--sandbox` and leaves it out once meets a real directory with nothing in it: then a word about
 * that, else ''. Looks only.
 */
export async function forgottenSandbox(command: Command): Promise<string> {
  try {
    const { basePath, sandbox } = readConfig(command.opts() as Flags)
    const usual = readConfig({}, {}).basePath
    if (sandbox || basePath !== usual || (await sessionsIn(usual)) > 0) return ''
    const pretended = readConfig({ sandbox: true }, {}).basePath
    const runs = await fileExists(join(pretended, 'sandbox', 'address'))
    return runs || (await sessionsIn(pretended)) > 0 ? 'With the pretend WeChat: add --sandbox.' : ''
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
