/** Declares and runs `svc backup` and `svc restore`, which work on files and ask no service. */
import { Option } from 'commander'
import type { BackupOptions } from '../../backup/make.ts'
import { listOpenFiles, openFileWarning, secretFilesOf } from '../../config/token-file.ts'
import { parseFolder } from '../../config/values.ts'
import type { Config } from '../../config.ts'
import { badArgument } from '../../model/error.ts'
import { formatBytes, formatCount, formatLocalTime } from '../../platform/format.ts'
import { endWithStdin } from '../../platform/process.ts'
import type { KnownBackup } from '../../storage/backups.ts'
import type { StandingStill } from '../../storage/nouns/stand-still.ts'
import {
  type Command,
  type CommandLine,
  type CommandSpec,
  configFrom,
  directoryFlagsOf,
  keyedConfig,
  toolDefaults,
} from '../command.ts'
import { auditLineOf } from '../open.ts'
import { writeResult } from '../print.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands: readonly CommandSpec[] = [
  {
    words: 'backup',
    summary: 'copy the data directory into one file, while services run',
    about:
      'Copy the data directory into one file: accounts, messages, sends that wait, keys and webhooks. Works while services run, and while none runs. Files that were downloaded or uploaded are not in it. A store on PostgreSQL is copied as it is at one moment; the usual backups of the database are those of pg_dump, or of its provider.',
    config: 'backup',
    addOptions: command =>
      command
        .argument('<file>', 'the new file')
        .option('--force', 'replace the file if it is there already')
        // For a service that makes backups by schedule.
        .addOption(new Option('--ends-with-stdin', 'end when stdin ends').hideHelp()),
    jsonHelp: 'print one JSON object: {path, created_at, size, took_ms, encrypted}',
    examples: [
      ['svc backup svc.tar', 'a copy that everyone who can read the file can use'],
      ['svc backup svc.tar.age --passphrase-file pass.txt', 'an encrypted copy; age can read it too'],
    ],
    run: runBackup,
  },
  {
    words: 'restore',
    summary: 'restore a backup into an empty data directory',
    about:
      'Restore a backup into an empty data directory. The whole backup is checked before anything is written. Afterwards queued sends wait for approval, webhooks are paused, keys are revoked, and topics have no secret.',
    config: 'backup',
    noSandboxHint: 'ever',
    ownHelp: { passphraseFile: 'file that holds the passphrase of the backup' },
    addOptions: command =>
      command
        .argument('<file>', 'the backup')
        .option('--keep-keys', 'keys, secrets of topics and the token of the service stay valid'),
    jsonHelp:
      'print one JSON object: {base_path, created_at, svc, accounts: [{session, bot_id}], waiting_sends, paused_webhooks, revoked_keys, closed_topics, secret_key}',
    examples: [
      ['svc restore svc.tar -d ~/.svc', 'in place of the directory that was lost'],
      ['svc restore svc.tar.age --passphrase-file pass.txt -d /srv/svc', 'from an encrypted backup'],
    ],
    helpFooter:
      "Do not run the original and the restored copy at once: two copies of an account take each other's messages.",
    run: runRestore,
  },
]

async function runBackup(command: Command, line: CommandLine): Promise<void> {
  const config = keyedConfig(command, {}, toolDefaults)
  using _parent = command.opts().endsWithStdin === true ? endWithStdin() : undefined
  const path = parsePath(command)
  for (const open of listOpenFiles(secretFilesOf(config))) command.io.err.print(openFileWarning(open))
  const passphrase = await passphraseOf(config)
  rejectEnding(path, passphrase)
  const force = command.opts().force === true
  // A service that makes one has its own line.
  const audited =
    command.opts().endsWithStdin === true ? undefined : { ...auditLineOf(command, 'backup'), subject: path }
  const made = await make(config, { path, clock: command.io.clock, passphrase, force, line: audited })
  line.changeMade = 'backed up'
  if (config.storeUrl !== undefined && command.io.err.isTerminal) command.io.err.print(databaseNote)
  const encrypted = passphrase !== undefined
  const kind = encrypted ? 'encrypted' : 'not encrypted'
  await writeResult(
    command,
    { ...made, encrypted },
    `backed up to ${oneLine(made.path)} (${formatBytes(made.size)}, ${kind}, ${(made.took_ms / 1000).toFixed(1)} s)\n`,
  )
}

/** @throws SvcError `invalid_arguments` for a name that promises what the file would not be */
function rejectEnding(path: string, passphrase: string | undefined): void {
  const [ending] = /\.(age|zip|7z|tgz|gz|bz2|xz|zst)$/i.exec(path.toLowerCase()) ?? []
  if (ending === undefined || (ending === '.age' && passphrase !== undefined)) return
  throw badArgument(
    'file',
    `expected a name that ends with .tar, or with .tar.age and --passphrase-file, got ${ending}`,
  )
}

const databaseNote =
  'This file is restored into a data directory, which svc store copy moves into a database. To restore the database itself, keep backups by pg_dump or its provider.'

async function make(config: Config, options: Omit<BackupOptions, 'config'>): Promise<KnownBackup> {
  const { secretKey, storeUrl } = config
  if (storeUrl === undefined) {
    const { makeBackup } = await import('../../backup/make.ts')
    return await makeBackup({ ...options, config })
  }
  if (secretKey === undefined)
    throw badArgument('--secret-key-file', 'expected, since a store on PostgreSQL needs a secret key')
  const { backUpDatabase } = await import('../../migrate/store/backup.ts')
  return await backUpDatabase({ ...options, config: { ...config, secretKey, storeUrl } })
}

async function runRestore(command: Command, line: CommandLine): Promise<void> {
  const config = configFrom(command, {}, toolDefaults)
  const path = parsePath(command)
  const { restoreBackup } = await import('../../backup/restore.ts')
  const passphrase = await passphraseOf(config)
  const keepKeys = command.opts().keepKeys === true
  const { manifest, still } = await restoreBackup({
    path,
    config,
    clock: command.io.clock,
    passphrase,
    keepKeys,
    line: auditLineOf(command, 'restore'),
  })
  line.changeMade = 'restored'
  const { accounts, created_at, secret_key, svc } = manifest
  const value = {
    base_path: config.basePath,
    created_at,
    svc,
    accounts,
    ...stillValueOf(still),
    secret_key,
  }
  await writeResult(command, value, formatRestored(value, command))
}

/** Returns what stands still in a restored store, as JSON has it. */
export const stillValueOf = ({ keys, sends, topics, webhooks }: StandingStill) => ({
  waiting_sends: sends,
  paused_webhooks: webhooks,
  revoked_keys: keys,
  closed_topics: topics,
})

/** Returns lines that say what stands still, and how it goes on. */
export function listStandingStill(value: ReturnType<typeof stillValueOf>, command: Command): string[] {
  const { closed_topics: topics, paused_webhooks: webhooks, revoked_keys: keys, waiting_sends: sends } = value
  const run = (words: string) => `svc ${words}${directoryFlagsOf(command)}`
  return [
    sends > 0 && `${formatCount(sends, 'send')} must be approved to go: ${run('approvals')}`,
    webhooks > 0 && `${formatCount(webhooks, 'webhook')} must be resumed to deliver: ${run('webhook')}`,
    keys > 0 && `${formatCount(keys, 'key')} revoked; make new ones: ${run('key add --help')}`,
    topics > 0 &&
      `${formatCount(topics, 'topic')} without a secret, or attachments from your own network, now: ${run('topic change --help')}`,
  ].filter(line => line !== false)
}

function formatRestored(value: RestoredValue, command: Command): string {
  const { accounts, base_path, created_at, secret_key } = value
  const lines = [
    `restored ${oneLine(base_path)} as it was on ${formatLocalTime(created_at)}`,
    ...listStandingStill(value, command),
  ]
  if (secret_key !== null)
    lines.push(`the secrets are encrypted: start svc with the secret key with the id ${secret_key}`)
  if (accounts.length > 0)
    lines.push(
      colours.yellow(
        'Before you start svc here, stop the original: two copies of an account take each other’s messages.',
      ),
      ...accounts.map(({ bot_id, session }) => `  ${oneLine(session)} (${oneLine(bot_id)})`),
    )
  return `${lines.join('\n')}\n`
}

interface RestoredValue extends ReturnType<typeof stillValueOf> {
  base_path: string
  /** Unix ms. */
  created_at: number
  accounts: readonly { session: string; bot_id: string }[]
  secret_key: string | null
}

async function passphraseOf({ passphraseFile }: Pick<Config, 'passphraseFile'>): Promise<string | undefined> {
  if (passphraseFile === undefined) return undefined
  const { readPassphrase } = await import('../../backup/passphrase.ts')
  return await readPassphrase(passphraseFile)
}

/** Returns the absolute path of the file that was typed. */
function parsePath({ args: [typed = ''] }: Command): string {
  const path = parseFolder(typed)
  if (path === undefined) throw badArgument('file', 'expected a path')
  return path
}
