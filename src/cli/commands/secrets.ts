/** Declares and runs `svc secrets`: encrypts the secrets in a data directory, changes their key, decrypts them. */
import { dirname } from 'node:path'
import { readSecretKeyFile, withSecrets } from '../../config/secrets.ts'
import { type Config, findCredentials } from '../../config.ts'
import { claimDirectory } from '../../gateway/directory.ts'
import { type KeyChange, type ResealStep, reseal } from '../../gateway/secrets.ts'
import { createInspection, rejectForeign } from '../../inspect/data-directory.ts'
import { badArgument, SvcError } from '../../model/error.ts'
import { createDurably, fileExists, isInside, realPathOf, syncDir } from '../../platform/files.ts'
import { formatCount, quoteForShell } from '../../platform/format.ts'
import { randomBytes } from '../../platform/lazy-crypto.ts'
import { createSealer, noSealer, type Sealer } from '../../platform/sealing.ts'
import type { SecretState } from '../../storage/inspection.ts'
import {
  type Command,
  type CommandLine,
  type CommandSpec,
  configFrom,
  keyedConfig,
  requireSubcommand,
  toolDefaults,
} from '../command.ts'
import { auditLineOf, isAbsent } from '../open.ts'
import { isJson, writeResult } from '../print.ts'

const keyFlag = '--secret-key-file'
const newKeyFlag = '--new-secret-key-file'
const footer =
  'On a data directory every process has to be stopped first, and the disk needs room for a second copy of messages.db. If the command is killed, run it again: it carries on.'

export const commands: readonly CommandSpec[] = [
  {
    words: 'secrets',
    summary: 'encrypt the tokens in the data directory',
    addOptions: command => command.usage('on|rotate|off|status [options]'),
    examples: [
      ['svc secrets on --secret-key-file ~/svc.key', 'make a key and encrypt the secrets'],
      ['svc secrets status', 'are they encrypted, and with which key?'],
    ],
    run: requireSubcommand('secrets', 'on, rotate, off or status'),
  },
  {
    words: 'secrets on',
    summary: 'encrypt the secrets in the data directory',
    noSandboxHint: 'ever',
    about:
      'Encrypt the tokens of accounts and users, the secrets of webhooks, logins in progress and the tokens of svc itself, also in the history. Messages are not encrypted. From then on every svc on this directory needs the key. If the file of --secret-key-file does not exist, it is made with a new key.',
    config: 'tool',
    addOptions: command => command.usage(`[${keyFlag} <file>] [options]`),
    jsonHelp: 'print one JSON object: {state, key_id, changed}',
    examples: [
      ['svc secrets on --secret-key-file ~/svc.key', 'make the key and encrypt'],
      ['svc openapi --secret-key-file ~/svc.key', 'then start the service with it'],
    ],
    helpFooter: footer,
    run: switchOn,
  },
  {
    words: 'secrets rotate',
    summary: 'encrypt the secrets with another key',
    noSandboxHint: 'ever',
    about: `Encrypt with the key in the file of ${newKeyFlag} what is encrypted with the key in the file of --secret-key-file. If the new file does not exist, it is made with a new key. A store on PostgreSQL is changed while its nodes run, once all of them have both keys by the same options.`,
    config: 'tool',
    jsonHelp:
      'print one JSON object: {state, key_id, changed}; for a store on PostgreSQL {old_key_id, key_id, values}',
    examples: [['svc secrets rotate --secret-key-file old --new-secret-key-file new', 'replace the key']],
    helpFooter: footer,
    run: rotate,
  },
  {
    words: 'secrets off',
    summary: 'decrypt the secrets in the data directory',
    noSandboxHint: 'ever',
    config: 'tool',
    addOptions: command => command.usage(`[${keyFlag} <file>] [options]`),
    jsonHelp: 'print one JSON object: {state, changed}',
    examples: [['svc secrets off --secret-key-file ~/svc.key', 'decrypt everything']],
    helpFooter: footer,
    run: switchOff,
  },
  {
    words: 'secrets status',
    summary: 'say whether the secrets are encrypted, and with which key',
    about:
      'Say whether the secrets in the data directory are encrypted, with which key, and whether the given key is that one. Changes nothing, and can run while a service runs.',
    config: 'tool',
    jsonHelp:
      'print one JSON object: {state, key_id, from, to, given_key_id}; state is off, on or unfinished',
    examples: [['svc secrets status --secret-key-file ~/svc.key', 'is this the key?']],
    run: printStatus,
  },
]

async function switchOn(command: Command, line: CommandLine): Promise<void> {
  const { basePath, secretKeyFile: path } = settingsOf(command)
  if (path === undefined) {
    const to = requireKey(command)
    return change(command, line, async () => ({ from: noSealer, to }))
  }
  await rejectInside(keyFlag, path, basePath)
  const readTo = (state: SecretState | undefined) => ensureKeyFile(keyFlag, path, state, null)
  return change(command, line, async state => ({ from: noSealer, to: await readTo(state) }), path)
}

async function rotate(command: Command, line: CommandLine): Promise<void> {
  const config = configFrom(command, {}, toolDefaults)
  if (isShared(config)) return rotateShared(command, line)
  const from = requireKey(command)
  const path = config.newSecretKeyFile
  if (path === undefined) throw badArgument(newKeyFlag, 'expected a file for the new key')
  await rejectInside(newKeyFlag, path, settingsOf(command).basePath)
  const readTo = (state: SecretState | undefined) =>
    ensureKeyFile(newKeyFlag, path, state, from.keyId ?? null)
  await change(command, line, async state => ({ from, to: await readTo(state) }), path)
  if (!isJson(command))
    await command.io.out.write('Keep the old key too, for as long as there are backups from before.\n')
}

/** Changes the key of a store on PostgreSQL, while nodes use it. */
async function rotateShared(command: Command, line: CommandLine): Promise<void> {
  const { newSecretKey: newSecret, secretKey: old, storeUrl = '' } = keyedConfig(command, {}, toolDefaults)
  if (old === undefined) throw badArgument(keyFlag, 'expected the key that the nodes have')
  if (newSecret === undefined || newSecret === old)
    throw badArgument(newKeyFlag, 'expected another key, which all nodes have got with this option')
  const { rotateKey } = await import('../../storage/postgres/rotate.ts')
  const { clock, err } = command.io
  if (err.isTerminal) err.print('this takes ten seconds, and some more for each million messages …')
  const audited = auditLineOf(command, 'rotate_secrets')
  const result = await rotateKey({ url: storeUrl, oldSecret: old, newSecret, clock, line: audited })
  line.changeMade = 'done'
  const { key_id, old_key_id, values } = result
  const text = `the secrets are encrypted with the key ${key_id}: ${formatCount(values, 'value')} changed, and nothing is left under the key ${old_key_id}
Now make the new key the one of --secret-key-file on every node, without --new-secret-key-file. With the old key end:
- sign-ins of the panel, and MCP sessions: their clients begin new ones
- the token, if it was not given with --token-file: svc token ${keyFlag} NEW prints the next one, which is right already
Keep the old key too, for as long as there are backups from before.
`
  await writeResult(command, result, text)
}

async function switchOff(command: Command, line: CommandLine): Promise<void> {
  await change(command, line, async state => {
    const isOff = state && 'key' in state && state.key === null
    return { from: isOff ? noSealer : requireKey(command), to: noSealer }
  })
}

type ReadKeys = (state: SecretState | undefined) => Promise<KeyChange>

/** What follows after each part, for a person who waits. */
const nextParts: Readonly<Record<ResealStep, string | undefined>> = {
  begun: 'rewriting the files …',
  files: 'rewriting the message store …',
  rows: 'copying the message store …',
  store: undefined,
}

/** What the audit log calls the commands. */
const changes = { on: 'encrypt_secrets', rotate: 'rotate_secrets', off: 'decrypt_secrets' } as const

/** @param keyFile holds the new key */
async function change(
  command: Command,
  line: CommandLine,
  readKeys: ReadKeys,
  keyFile?: string,
): Promise<void> {
  const config = settingsOf(command)
  if (command.name() !== 'on' && (await isAbsent(config))) throw absentError(config.basePath)
  await claimDirectory(config)
  let keys: KeyChange | undefined
  const isChanged = await reseal(
    config.basePath,
    async state => {
      keys = await readKeys(state)
      return keys
    },
    step => {
      const next = nextParts[step]
      if (next !== undefined && command.io.err.isTerminal) command.io.err.print(next)
    },
    auditLineOf(command, changes[command.name() as keyof typeof changes]),
  )
  if (isChanged) line.changeMade = 'done'
  const key_id = keys?.to.keyId
  const result = { state: key_id === undefined ? 'off' : 'on', key_id, changed: isChanged }
  await writeResult(command, result, `${describeChange(key_id, isChanged, keyFile)}\n`)
}

function describeChange(keyId: string | undefined, isChanged: boolean, keyFile: string | undefined): string {
  const before = isChanged ? '' : 'nothing to do: '
  if (keyId === undefined) return `${before}the secrets are not encrypted`
  const lines = [`${before}the secrets are encrypted with the key ${keyId}`]
  if (keyFile !== undefined)
    lines.push(
      `From now on every svc on this directory needs --secret-key-file ${quoteForShell(keyFile)}, or SVC_SECRET_KEY_FILE.`,
      'Keep a copy of that file in a safe place, away from backups. Without it every account has to log in again.',
    )
  return lines.join('\n')
}

async function printStatus(command: Command): Promise<void> {
  const config = settingsOf(command)
  if (await isAbsent(config)) throw absentError(config.basePath)
  await rejectForeign(config)
  const state = await createInspection(config.basePath).readSecrets()
  const given_key_id = findKey(command)?.keyId
  const isUnfinished = !('key' in state)
  const result = {
    state: isUnfinished ? 'unfinished' : state.key === null ? 'off' : 'on',
    ...(isUnfinished ? state : { key_id: state.key ?? undefined }),
    given_key_id,
  }
  await writeResult(command, result, `${describeState(state, given_key_id)}\n`)
}

function describeState(state: SecretState, given: string | undefined): string {
  if (!('key' in state))
    return `unfinished: svc secrets was changing ${state.from ?? 'no key'} to ${state.to ?? 'no key'}. Run the same command again.`
  if (state.key === null) return 'off: the secrets are not encrypted. svc secrets on encrypts them.'
  const match =
    given === undefined
      ? 'No key is given.'
      : given === state.key
        ? 'The given key is that one.'
        : `The given key is another one: ${given}`
  return `on: the secrets are encrypted with the key ${state.key}. ${match}`
}

const absentError = (dir: string) =>
  new SvcError('not_found', `there is no data directory ${dir}`, {
    hint: 'Name the one that is meant with --base-path.',
  })

/** The file of `--secret-key-file` may not exist yet, so the key is not read with the settings. */
function settingsOf(command: Command): Config {
  const config = configFrom(command, {}, toolDefaults)
  if (!isShared(config)) return config
  throw badArgument('--store-url-file', 'expected a store in a data directory', {
    hint: 'A store on PostgreSQL is always encrypted. svc secrets rotate changes its key, and svc doctor says which one it is.',
  })
}

const isShared = ({ storeUrl, storeUrlFile }: Config) => (storeUrl ?? storeUrlFile) !== undefined

function findKey(command: Command): Sealer | undefined {
  const { secretKey } = withSecrets(settingsOf(command), findCredentials(command.io.env))
  return secretKey === undefined ? undefined : createSealer(secretKey)
}

/** @throws SvcError `invalid_arguments` */
function requireKey(command: Command): Sealer {
  const key = findKey(command)
  if (key) return key
  throw badArgument(keyFlag, 'expected, since the secrets need a key', {
    hint: 'Name the file that holds the key; svc secrets on makes it. SVC_SECRET_KEY_FILE and SVC_SECRET_KEY count too.',
  })
}

/**
 * Returns the key in a file. Creates the file if the secrets still have the key that it replaces.
 *
 * @throws SvcError `invalid_arguments`
 */
async function ensureKeyFile(
  option: string,
  path: string,
  state: SecretState | undefined,
  replaced: string | null,
): Promise<Sealer> {
  if (!(await fileExists(path))) {
    if (!state || !('key' in state) || state.key !== replaced)
      throw badArgument(option, `${path} does not exist, and the secrets are encrypted already`, {
        hint: 'Name the file that holds the key. svc secrets status tells its id.',
      })
    await createDurably(path, `${randomBytes(32).toString('base64url')}\n`)
    // If a power cut took the key away, the secrets would be lost.
    await syncDir(dirname(path))
  }
  return createSealer(readSecretKeyFile(path, option))
}

/** @throws SvcError `invalid_arguments` for a key beside what it protects */
async function rejectInside(option: string, path: string, dir: string): Promise<void> {
  if (!isInside(await realPathOf(dir), await realPathOf(path))) return
  throw badArgument(option, `${path} is inside the data directory, and a copy of it would contain the key`, {
    hint: 'Name a file somewhere else.',
  })
}
