/**
 * The prompt hook of Claude Code: a command whose output it adds to the user's prompt. Hooks are a list of
 * groups in the settings (source: "Hooks reference" of Claude Code). svc adds its own group.
 */

import { join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { quoteForShell } from '../platform/format.ts'
import type { Client, SettingsScope } from './clients.ts'
import { type Step, valueAt } from './edit.ts'

/** Claude Code waits at most this long for the hook, then continues without its output. */
const timeoutSeconds = 15

/**
 * Returns the settings file and the edit for the hook.
 *
 * @throws SvcError `invalid_arguments` for a client without such hooks
 */
export function createHookTarget(
  { client, scope, folders }: { client: Client; scope: SettingsScope; folders: UserFolders },
  command: readonly string[],
) {
  if (client.name !== 'claude-code')
    throw badArgument('--hook', 'svc supports only the prompt hook of Claude Code', {
      hint: 'Omit the option. If another client has such a hook, let it run svc hook-poll.',
    })
  const { home, project, claudeCode } = folders
  const folder = scope === 'user' ? (claudeCode ?? join(home, '.claude')) : join(project, '.claude')
  const path: Step[] = ['hooks', 'UserPromptSubmit', isOurGroup]
  const line = command.map(word => quoteWord(word, folders.platform)).join(' ')
  const value = { hooks: [{ type: 'command', command: line, timeout: timeoutSeconds }] }
  return {
    what: 'hook' as const,
    path: join(folder, 'settings.json'),
    edits: () => [{ path, value }],
    pathsToRemove: () => [path],
    isOurs: isOurGroup,
  }
}

/** Returns true if the group runs only hook-poll. */
function isOurGroup(group: unknown): boolean {
  const hooks = valueAt(group, ['hooks'])
  return (
    Array.isArray(hooks) &&
    hooks.length > 0 &&
    hooks.every(hook => / hook-poll( |$)/.test(String(valueAt(hook, ['command']) ?? '')))
  )
}

/**
 * Quotes a word for the shell that runs hooks. On Windows that shell accepts slashes, but takes a backslash
 * as an escape.
 */
function quoteWord(word: string, platform: string): string {
  const text = platform === 'win32' ? word.replaceAll('\\', '/') : word
  return quoteForShell(text)
}
