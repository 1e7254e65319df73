/**
 * The hooks of Claude Code that svc adds: a command whose output it adds to the user's prompt, and one that answers its
 * permission prompts. Hooks are a list of groups in the settings, by event (source: "Hooks reference" of Claude Code). svc
 * adds groups of its own.
 */

import { join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { quoteForShell } from '../platform/format.ts'
import type { Client, SettingsScope } from './clients.ts'
import { type Step, valueAt } from './edit.ts'

/** Time to answer a question of the permission hook on WeChat, from when it was sent. */
export const answerSeconds = 600

/** Claude Code waits at most `timeoutSeconds` for a hook, then continues without its output. */
const kinds = {
  hook: { event: 'UserPromptSubmit', word: 'hook-poll', timeoutSeconds: 15 },
  // With time to ask, and to take the question back.
  ask: { event: 'PermissionRequest', word: 'hook-ask', timeoutSeconds: answerSeconds + 60 },
}

/**
 * Returns the settings file and the edit for a hook.
 *
 * @throws SvcError `invalid_arguments` for a client without such hooks
 */
export function createHookTarget(
  { client, scope, folders }: { client: Client; scope: SettingsScope; folders: UserFolders },
  what: keyof typeof kinds,
  command: readonly string[],
) {
  const { event, timeoutSeconds, word } = kinds[what]
  if (client.name !== 'claude-code')
    throw badArgument(`--${what}`, 'svc supports only the hooks of Claude Code', {
      hint: `Omit the option. If another client has such a hook, let it run svc ${word}.`,
    })
  const { home, project, claudeCode } = folders
  const folder = scope === 'user' ? (claudeCode ?? join(home, '.claude')) : join(project, '.claude')
  const isOurs = (group: unknown) => runsOnly(group, word)
  const path: Step[] = ['hooks', event, isOurs]
  const line = command.map(word => quoteWord(word, folders.platform)).join(' ')
  const value = { hooks: [{ type: 'command', command: line, timeout: timeoutSeconds }] }
  return {
    what,
    path: join(folder, 'settings.json'),
    edits: () => [{ path, value }],
    pathsToRemove: () => [path],
    isOurs,
  }
}

/** Returns true if the group runs only this command of svc. */
function runsOnly(group: unknown, word: string): boolean {
  const hooks = valueAt(group, ['hooks'])
  return (
    Array.isArray(hooks) &&
    hooks.length > 0 &&
    hooks.every(hook => `${valueAt(hook, ['command'])} `.includes(` ${word} `))
  )
}

/**
 * Quotes a word for the shell that runs hooks. On Windows that shell accepts slashes, but takes a backslash
 * as an escape.
 */
export const quoteWord = (word: string, platform: string): string =>
  quoteForShell(platform === 'win32' ? word.replaceAll('\\', '/') : word)
