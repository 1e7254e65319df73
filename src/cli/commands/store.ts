/** Declares and runs `svc store copy`: moves a whole store between a data directory and PostgreSQL. */
import { withSecrets } from '../../config/secrets.ts'
import { parseFolder } from '../../config/values.ts'
import { type Config, findCredentials } from '../../config.ts'
import type { CopyProgress, CopyResult } from '../../migrate/store/copy.ts'
import { badArgument } from '../../model/error.ts'
import { formatCount } from '../../platform/format.ts'
import {
  type Command,
  type CommandLine,
  type CommandSpec,
  configFrom,
  requireSubcommand,
  toolDefaults,
} from '../command.ts'
import { writeResult } from '../print.ts'
import { colours, oneLine } from '../terminal.ts'

/** Stands for the database, whose address has a password. */
const postgres = 'postgres'

export const commands: readonly CommandSpec[] = [
  {
    words: 'store',
    summary: 'move the store between a data directory and PostgreSQL',
    addOptions: command => command.usage('copy <from> <to> [options]'),
    examples: [['svc store copy --help', 'how to move a store']],
    run: requireSubcommand('store', 'copy'),
  },
  {
    words: 'store copy',
    summary: 'move the store between a data directory and PostgreSQL',
    about:
      'Move a whole store: accounts, messages, sends that wait, names, keys, webhooks and agents. <from> and <to> are a data directory, or the word postgres for the database that --store-url-file or SVC_STORE_URL names. Everything is compared before the source is marked as moved; it refuses to open from then on.',
    config: 'copy',
    noSandboxHint: 'ever',
    addOptions: command =>
      command
        .argument('<from>', 'a data directory, or postgres')
        .argument('<to>', 'a new or empty folder, or postgres'),
    jsonHelp: 'print one JSON object: {from, to, rows: {TABLE: number}, sessions, files, damaged: [session]}',
    examples: [
      [
        'svc store copy ~/.svc postgres --store-url-file ~/db.url --secret-key-file ~/svc.key',
        'onto PostgreSQL',
      ],
      [
        'svc store copy postgres ~/.svc-new --store-url-file ~/db.url --secret-key-file ~/svc.key',
        'and back to one machine',
      ],
    ],
    helpFooter:
      'Every process on both sides has to be stopped first. If the command is killed, run it again: it carries on. Running logins have to begin again, and the generated token of the service is another one afterwards: svc token prints it.',
    run: runCopy,
  },
]

async function runCopy(command: Command, line: CommandLine): Promise<void> {
  const [from, to] = command.args.map((typed, nth) => parseSide(typed, nth === 0 ? 'from' : 'to'))
  if ((from === postgres) === (to === postgres))
    throw badArgument('to', `expected one folder and the word ${postgres}`, {
      hint: `As in: svc store copy ~/.svc ${postgres}. To copy a data directory elsewhere, use svc backup and svc restore.`,
    })
  const dir = from === postgres ? to! : from!
  const config = withSecrets(
    configFrom(command, { basePath: dir }, toolDefaults),
    findCredentials(command.io.env),
  )
  const { storeUrl, secretKey } = config
  if (storeUrl === undefined)
    throw badArgument('--store-url-file', 'expected a file that holds the address of the database', {
      hint: 'Or give the address with SVC_STORE_URL.',
    })
  if (secretKey === undefined)
    throw badArgument('--secret-key-file', 'expected, since a store on PostgreSQL needs a secret key', {
      hint: 'If the data directory has a key, name that one. Otherwise make one: openssl rand -base64 32 > FILE.',
    })
  const result = await copy(command, { ...config, storeUrl, secretKey }, from === postgres)
  line.changeMade = 'moved'
  await writeResult(command, result, formatResult(result))
}

/** @throws SvcError `invalid_arguments` for an address */
function parseSide(typed: string, argument: 'from' | 'to'): string {
  if (typed === postgres) return postgres
  if (/^postgres(ql)?:/i.test(typed))
    throw badArgument(
      argument,
      `expected the word ${postgres}: every user of this machine can read the password of an address here`,
      { hint: 'Write the address into a file, and name it with --store-url-file. Change the password.' },
    )
  const folder = parseFolder(typed)
  if (folder !== undefined) return folder
  throw badArgument(argument, `expected a data directory, or ${postgres}`)
}

async function copy(
  command: Command,
  config: Config & { storeUrl: string; secretKey: string },
  isFromPostgres: boolean,
): Promise<CopyResult> {
  const { moveStore } = await import('../../migrate/store/move.ts')
  const { clock, err } = command.io
  let shown = ''
  const onProgress = ({ step, table, rows }: CopyProgress) => {
    const text = step === 'copying' && rows > 0 ? `copying ${table}: ${rows} …` : `${step} ${table} …`
    // One line for each table, and for each hundred thousand rows.
    const part = `${step} ${table} ${Math.floor(rows / 100_000)}`
    if (part === shown || !err.isTerminal) return
    shown = part
    err.print(text)
  }
  return await moveStore({ config, clock, isFromPostgres, onProgress })
}

function formatResult({ damaged, files, from, rows, sessions, to }: CopyResult): string {
  const lines = [
    `moved ${oneLine(from)} to ${oneLine(to)}: ${formatCount(rows.message ?? 0, 'message')}, ${formatCount(sessions, 'session')}, ${formatCount(files, 'file')}`,
    ...damaged.map(session =>
      colours.yellow(`${oneLine(session)} has to log in again: its credentials were damaged before`),
    ),
  ]
  return `${lines.join('\n')}\n`
}
