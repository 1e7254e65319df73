/** What we propose to type next: with the flags that name the data directory, as they were given. */

import type { Command } from 'commander'
import type { Wording } from '../model/next-step.ts'
import { shellWord } from '../platform/shell.ts'

/** The flags that name the data directory, for command lines that we propose. */
export function againFlags(command: Command): string {
  const { sandbox, basePath } = command.opts<{ sandbox?: boolean; basePath?: string }>()
  return `${sandbox ? ' --sandbox' : ''}${basePath === undefined ? '' : ` -d ${shellWord(basePath)}`}`
}

/** How the command line words what to do next; `command` is the one that runs, where it came to that. */
export const wordingOf = (command: Command | undefined, help?: string): Wording => ({
  door: 'cli',
  command: words => ['svc', ...words.map(shellWord)].join(' ') + (command ? againFlags(command) : ''),
  help,
})

/** For users who tried svc with `--sandbox` and now leave it out, so that they see an empty directory. */
export const forgottenSandbox = (command: Command): string =>
  againFlags(command) === '' ? 'For the simulated WeChat add --sandbox.' : ''
