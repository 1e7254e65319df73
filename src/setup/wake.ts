/**
 * Files that let a message wake an agent program that is open: a plugin of Claude Code with a monitor ("Plugins
 * reference", monitors), and a loop that fills the queue of a Codex session (`codex queue`). They belong to svc whole.
 */
import { join } from 'node:path'
import type { UserFolders } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { quoteForShell } from '../platform/format.ts'
import type { Client, SettingsScope } from './clients.ts'
import type { SettingsFormat } from './edit.ts'
import { quoteWord } from './hook.ts'

/** A file that is written and removed whole. */
const wholeFile: SettingsFormat = {
  name: 'text',
  emptyText: '',
  parse: text => (text === '' ? undefined : text),
  put: (_text, { value }) => String(value),
  remove: () => '',
}

const pluginName = 'svc-wake'

/**
 * Returns the files and their texts.
 *
 * @param command prints one line for each new message
 * @throws SvcError `invalid_arguments` for a client that svc cannot wake
 */
export function createWakeTargets(
  { client, scope, folders }: { client: Client; scope: SettingsScope; folders: UserFolders },
  command: readonly string[],
) {
  if (scope === 'project')
    throw badArgument('--wake', 'expected without --project: it is for all sessions of this user')
  return filesOf(client, folders, command).map(({ path, text, own = [] }) => ({
    what: 'wake' as const,
    path,
    format: wholeFile,
    edits: () => [{ path: [], value: text }],
    pathsToRemove: () => [[]],
    isOurs: (value: unknown) => / recv --follow --brief |"svc-wake"/.test(String(value)),
    ownFolders: own,
  }))
}

interface WakeFile {
  readonly path: string
  readonly text: string
  /** Folders to remove with it once they are empty, inner ones first. */
  readonly own?: readonly string[]
}

function filesOf(client: Client, folders: UserFolders, command: readonly string[]): WakeFile[] {
  const { claudeCode, home, platform } = folders
  const words = command.map(word => quoteWord(word, platform))
  if (client.name === 'claude-code') {
    const plugin = join(claudeCode ?? join(home, '.claude'), 'skills', pluginName)
    const toFile = (folder: string, name: string, value: unknown): WakeFile => ({
      path: join(plugin, folder, name),
      text: `${JSON.stringify(value, undefined, 2)}\n`,
      own: [join(plugin, folder), plugin],
    })
    const description = 'New WeChat messages, by svc'
    return [
      toFile('.claude-plugin', 'plugin.json', { name: pluginName, version: '1.0.0', description }),
      toFile('monitors', 'monitors.json', [{ name: 'wechat', command: words.join(' '), description }]),
    ]
  }
  if (!canWake(client, folders))
    throw badArgument(
      '--wake',
      `svc cannot wake ${client.title}${platform === 'win32' ? ' on Windows' : ''}`,
      {
        hint: 'It can wake Claude Code and, except on Windows, Codex. For others use svc agent.',
      },
    )
  return [{ path: scriptOf(folders), text: toScript(words) }]
}

/** Whether svc can wake a client. */
export const canWake = ({ name }: Client, { platform }: UserFolders): boolean =>
  name === 'claude-code' || (name === 'codex' && platform !== 'win32')

/** Says what the user does so that messages wake the client. */
export const describeWake = ({ name }: Client, folders: UserFolders): string =>
  name === 'codex'
    ? `wake: beside an open session run: sh ${quoteForShell(scriptOf(folders))} SESSION (its name or id; /status in Codex shows it).`
    : 'wake: each new session starts the monitor "wechat" by itself; of several open sessions one gets a message.'

/** Says how the user tries it. */
export const describeTrial = ({ name }: Client): string =>
  name === 'codex'
    ? 'try it: with the script running, write to the bot. Your message appears in the idle session, as a prompt.'
    : 'try it: open Claude Code. Its last line shows "1 monitor"; if not, look for disableAllHooks in its settings. Then write to the bot: the idle session looks at your message.'

/** Returns the path of the loop for Codex. */
const scriptOf = ({ codex, home }: UserFolders): string => join(codex ?? join(home, '.codex'), pluginName)

const toScript = (words: readonly string[]): string =>
  [
    '# Written by svc setup codex --wake. Puts each new WeChat message into the queue of a Codex session, which wakes it.',
    '# Run it beside Codex: sh svc-wake SESSION. SESSION is its name or id, as /status in Codex shows it.',
    '[ $# -eq 1 ] || { echo "usage: sh svc-wake SESSION" >&2; exit 2; }',
    `${words.join(' ')} | while IFS= read -r line; do`,
    '  until codex queue --thread "$1" --message "$line" --resume </dev/null; do sleep 10; done',
    'done',
    '',
  ].join('\n')
