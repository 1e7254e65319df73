/** Declares `svc relay` and its subcommands: programs that speak WeChat's protocol to svc. */
import { findServiceUrl } from '../../config/notes.ts'
import { SvcError } from '../../model/error.ts'
import type { AddedRelay } from '../../model/relay.ts'
import * as relay from '../../operations/relays.ts'
import { formatCount, formatLocalTime } from '../../platform/format.ts'
import { findHomeFolder } from '../../platform/process.ts'
import { relayFileOf, writeRelaySetting } from '../../setup/relay-programs.ts'
import { type Command, toolConfig } from '../command.ts'
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
    render: ({ name }) => ({
      text: [`removed: ${oneLine(name)}`],
      note: 'Its settings still have the token, which is refused now. A file that svc changed has its former text in FILE.bak.',
    }),
  }),
  operationCommand(relay.allowRelay, {
    changeMade: 'agreed',
    render: ({ address, name }) => ({
      text: [`${oneLine(name)}${address === undefined ? '' : ` at ${address}`} gets its token now`],
    }),
  }),
]

function describeAdded(added: AddedRelay): CommandOutput {
  const { answers, base_url, bot_id, cdn_url, login_until, name, others, session, settings = [] } = added
  const { token, user_id } = added
  const names = others.map(other => `${other.kind} ${oneLine(other.name ?? '')}`.trim())
  const agents = others.filter(({ kind }) => kind === 'agent').length
  return {
    text: [
      `${oneLine(name)} gets what ${oneLine(session)} receives from now on`,
      token !== undefined && `token: ${token} (shown this once)`,
      `base URL: ${oneLine(base_url)}`,
      `CDN URL: ${oneLine(cdn_url)}`,
      `account id: ${oneLine(bot_id)}`,
      user_id !== undefined && `user id: ${oneLine(user_id)}`,
      ...settings.flatMap(({ file, text }) => ['', file ?? 'settings', ...text.trimEnd().split('\n')]),
    ],
    note: [
      login_until !== undefined &&
        `Until ${formatLocalTime(login_until)}: give ${oneLine(name)} the base URL, begin its login, and type the number of the link that it shows: svc relay allow NUMBER.`,
      names.length > 0 &&
        `What ${oneLine(name)} answers, ${formatCount(names.length, 'other')} answer${names.length === 1 ? 's' : ''}, too: ${names.join(', ')}.`,
      agents > 1 && 'Of the agents, one answers.',
      names.length > 0 && answers === 'all' && '--answers called or a number limits this program.',
    ],
  }
}

/** Writes the files that `--for` names. */
async function writeFiles(ask: Ask, command: Command, { settings = [] }: AddedRelay): Promise<CommandOutput> {
  const { note = [] } = await closeService(ask, command)
  const written: string[] = []
  for (const { file, text } of settings) {
    if (file === undefined) continue
    const path = relayFileOf(file, { env: command.io.env, home: findHomeFolder() })
    const { copy } = await writeRelaySetting({ path, text }, command.io.clock.now()).catch(error => {
      // Trying again would find the name in use.
      if (!(error instanceof SvcError)) throw error
      const hint = 'The program was added: put the text above into its files yourself.'
      throw new SvcError(error.code, error.message, { hint, cause: error })
    })
    written.push(`written: ${path}${copy ? ` (what was there: ${copy})` : ''}`)
  }
  const isServed =
    command.opts().url !== undefined || (await findServiceUrl(toolConfig(command).basePath, 'relay'))
  const start = !isServed && 'No service runs here: start svc openapi, or name its address with --url.'
  return { note: [...written, start, ...[note].flat()] }
}
