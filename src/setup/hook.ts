/**
 * The prompt hook of Claude Code: a command whose output it adds to what the user typed. It stands in a list of groups
 * in the settings ("Hooks reference" of Claude Code), ours in a group of its own.
 */

import { join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { shellWord } from '../platform/format.ts'
import type { Client, Scope } from './clients.ts'
import { type Step, valueAt } from './edit.ts'

/** The hook waits at most this long, in seconds, then the prompt goes on without it. */
const timeoutSeconds = 15

/** The file and the group of the hook. @throws SvcError `invalid_arguments` for a client without such hooks */
export function hookOf(
  { client, scope, folders }: { client: Client; scope: Scope; folders: UserFolders },
  command: readonly string[],
) {
  if (client.name !== 'claude-code')
    throw badArgument('--hook', 'svc knows the prompt hook of Claude Code only', {
      hint: 'Leave the option out; where another client has such a hook, let it run svc hook-poll.',
    })
  const { home, project, claudeCode } = folders
  const folder = scope === 'user' ? (claudeCode ?? join(home, '.claude')) : join(project, '.claude')
  const path: Step[] = ['hooks', 'UserPromptSubmit', isOurGroup]
  const line = command.map(word => quoted(word, folders.platform)).join(' ')
  const value = { hooks: [{ type: 'command', command: line, timeout: timeoutSeconds }] }
  return {
    what: 'hook' as const,
    path: join(folder, 'settings.json'),
    edits: () => [{ path, value }],
    taken: () => [path],
    isOurs: isOurGroup,
  }
}

/** A group that runs hook-poll and nothing else. */
function isOurGroup(group: unknown): boolean {
  const hooks = valueAt(group, ['hooks'])
  return (
    Array.isArray(hooks) &&
    hooks.length > 0 &&
    hooks.every(hook => / hook-poll( |$)/.test(String(valueAt(hook, ['command']) ?? '')))
  )
}

/** A word for the shell that runs hooks; on Windows that is one that knows slashes, and takes backslashes as escapes. */
function quoted(word: string, platform: string): string {
  const text = platform === 'win32' ? word.replaceAll('\\', '/') : word
  return shellWord(text)
}
