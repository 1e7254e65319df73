/** Declares `svc relay` and its subcommands: programs that speak WeChat's protocol to svc. */
import type { AddedRelay } from '../../model/relay.ts'
import * as relay from '../../operations/relays.ts'
import { formatCount, formatLocalTime } from '../../platform/format.ts'
import { findHomeFolder } from '../../platform/process.ts'
import { writeRelaySetting } from '../../setup/relay-programs.ts'
import type { Command } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, tableView, unprintedError } from '../show.ts'
import { oneLine } from '../terminal.ts'
import type { Ask } from '../view.ts'
import { closeService } from './key.ts'

export const commands = [
  operationCommand(
    relay.listRelays,
    tableView('no programs: svc relay add <name> --session <session> adds one', [
      ['name', 'name'],
      ['session', 'session'],
      ['answers', ({ answered, answers }) => (answers === 'called' ? answers : `${answered} of ${answers}`)],
      ['last poll', 'polled_at'],
      ['unread', 'unread'],
      ['refused', ({ refusal, refused }) => `${refused}${refusal ? ` (${oneLine(refusal)})` : ''}`],
      ['two programs', ({ doubled_at: at }) => (at === undefined ? '–' : formatLocalTime(at))],
    ]),
  ),
  operationCommand(relay.addRelay, {
    render: describeAdded,
    async undoUnprinted(ask, { id }) {
      await ask(relay.removeRelay, { name: id })
      throw unprintedError('no program was added: its token, which is shown once, could not be printed')
    },
    finish: writeFiles,
  }),
  operationCommand(relay.removeRelay, {
    changeMade: 'removed',
    render: ({ name }) => [`removed: ${oneLine(name)}`],
  }),
]

function describeAdded(added: AddedRelay): CommandOutput {
  const { base_url, bot_id, cdn_url, name, others, session, settings = [], token, user_id } = added
  const names = others.map(other => `${other.kind} ${oneLine(other.name ?? '')}`.trim())
  return {
    text: [
      `${oneLine(name)} gets what ${oneLine(session)} receives from now on`,
      `token: ${token} (shown this once)`,
      `base URL: ${oneLine(base_url)}`,
      `CDN URL: ${oneLine(cdn_url)}`,
      `account id: ${oneLine(bot_id)}`,
      user_id !== undefined && `user id: ${oneLine(user_id)}`,
      ...settings.flatMap(({ file, text }) => ['', file ?? 'settings', ...text.trimEnd().split('\n')]),
    ],
    note: [
      names.length > 0 &&
        `${formatCount(names.length, 'other')} answer${names.length === 1 ? 's' : ''} in this session, too: ${names.join(', ')}. Each message gets an answer of each; --answers called or a number limits this program.`,
    ],
  }
}

/** Writes the files that `--for` names. */
async function writeFiles(ask: Ask, command: Command, { settings = [] }: AddedRelay): Promise<CommandOutput> {
  const { note = [] } = await closeService(ask, command)
  const written: string[] = []
  for (const { file, text } of settings) {
    if (file === undefined) continue
    const { copy, path } = await writeRelaySetting({ file, text }, findHomeFolder(), command.io.clock.now())
    written.push(`written: ${path}${copy ? ` (what was there: ${copy})` : ''}`)
  }
  return { note: [...written, ...[note].flat()] }
}
