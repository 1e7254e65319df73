/** Declares and runs `svc store`: moves a whole store between a data directory and PostgreSQL, adopts a copy, sets one aside. */
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
import { auditLineOf } from '../open.ts'
import { writeResult } from '../print.ts'
import { colours, oneLine } from '../terminal.ts'
import { listStandingStill, stillValueOf } from './backup.ts'

/** Stands for the database, whose address has a password. */
const postgres = 'postgres'

export const commands: readonly CommandSpec[] = [
  {
    words: 'store',
    summary: 'move the store between a data directory and PostgreSQL, adopt a copy, or set a store aside',
    addOptions: command => command.usage('copy <from> <to> | adopt | aside [options]'),
    examples: [['svc store copy --help', 'how to move a store']],
    run: requireSubcommand('store', 'copy, adopt or aside'),
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
  {
    words: 'store adopt',
    summary: 'let svc run on a copy of its database',
    about:
      'Let svc run on a database that is a copy: a dump that was restored, a database that was renamed, or one that pg_upgrade made. Until then nothing polls, sends or delivers there. Afterwards queued sends wait for approval, webhooks are paused, keys are revoked, and topics have no secret, as after svc restore.',
    config: 'copy',
    noSandboxHint: 'ever',
    addOptions: command =>
      command
        .option('--keep-keys', 'keys and secrets of topics stay valid')
        .option('--go-on', 'the original has not changed since: sends, webhooks and keys go on as they were'),
    jsonHelp: 'print one JSON object: {address, waiting_sends, paused_webhooks, revoked_keys, closed_topics}',
    examples: [
      ['svc store adopt --store-url-file new.url --secret-key-file svc.key', 'a dump that was restored'],
      ['svc store adopt --go-on', 'after pg_upgrade, or ALTER DATABASE … RENAME'],
    ],
    helpFooter: "Stop every svc on the original first: two copies of an account take each other's messages.",
    run: runAdopt,
  },
  {
    words: 'store aside',
    summary: 'begin with an empty store, and keep the logins',
    about:
      'Set the messages.db of a version of svc before the first release aside, as messages.db.aside, and begin with an empty one. Logins stay, and so does the right to answer. Messages, names, keys, webhooks and sends that wait are in the old file alone: until you make a key, every program of this machine may call svc.',
    config: 'tool',
    noSandboxHint: 'ever',
    jsonHelp: 'print one JSON object: {aside: PATH}',
    examples: [['svc store aside -d ~/.svc', 'after that version exported what is needed']],
    helpFooter: 'Stop every svc on this directory first.',
    run: runAside,
  },
]

async function runAside(command: Command, line: CommandLine): Promise<void> {
  const { setStoreAside } = await import('../../gateway/directory.ts')
  const aside = await setStoreAside(
    configFrom(command, {}, toolDefaults).basePath,
    auditLineOf(command, 'set_store_aside'),
  )
  line.changeMade = 'set aside'
  await writeResult(
    command,
    { aside },
    `set aside: ${oneLine(aside)}. svc begins with an empty store, without keys: until svc key add, every program of this machine may call it. Remove the old file when it is needed no more\n`,
  )
}

async function runAdopt(command: Command, line: CommandLine): Promise<void> {
  const { goOn, keepKeys } = command.opts()
  const { adoptStore } = await import('../../migrate/store/adopt.ts')
  const still = await adoptStore({
    ...databaseOf(command, {}),
    clock: command.io.clock,
    goesOn: goOn === true,
    keepKeys: keepKeys === true,
    line: auditLineOf(command, 'adopt_store'),
  })
  line.changeMade = 'adopted'
  const value = { address: still.address, ...stillValueOf(still) }
  const lines = [`adopted ${oneLine(still.address)}: start svc on it`, ...listStandingStill(value, command)]
  await writeResult(command, value, `${lines.join('\n')}\n`)
}

async function runCopy(command: Command, line: CommandLine): Promise<void> {
  const [from, to] = command.args.map((typed, nth) => parseSide(typed, nth === 0 ? 'from' : 'to'))
  if ((from === postgres) === (to === postgres))
    throw badArgument('to', `expected one folder and the word ${postgres}`, {
      hint: `As in: svc store copy ~/.svc ${postgres}. To copy a data directory elsewhere, use svc backup and svc restore.`,
    })
  const dir = from === postgres ? to! : from!
  const { config, secret: secretKey, url: storeUrl } = databaseOf(command, { basePath: dir })
  const result = await copy(command, { ...config, storeUrl, secretKey }, from === postgres)
  line.changeMade = 'moved'
  await writeResult(command, result, formatResult(result))
}

/** @throws SvcError `invalid_arguments` without the address of a database, or without a secret key */
function databaseOf(command: Command, preset: { basePath?: string }) {
  const config = withSecrets(configFrom(command, preset, toolDefaults), findCredentials(command.io.env))
  const { storeUrl: url, secretKey: secret } = config
  if (url === undefined)
    throw badArgument('--store-url-file', 'expected a file that holds the address of the database', {
      hint: 'Or give the address with SVC_STORE_URL.',
    })
  if (secret === undefined)
    throw badArgument('--secret-key-file', 'expected, since a store on PostgreSQL needs a secret key', {
      hint: 'If the data directory has a key, name that one. Otherwise make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE).',
    })
  return { config, secret, newSecret: config.newSecretKey, url }
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
  const line = auditLineOf(command, 'move_store')
  return await moveStore({ config, clock, isFromPostgres, line, onProgress })
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
