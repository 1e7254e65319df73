/** Declares `svc key` and its subcommands, for keys of programs and people. */
import { parseSize } from '../../config/values.ts'
import { badArgument } from '../../model/error.ts'
import type { AddedKey, Key, Me } from '../../model/key.ts'
import { owner } from '../../model/principal.ts'
import * as key from '../../operations/keys.ts'
import { formatBytes, formatCount, formatLocalTime } from '../../platform/format.ts'
import { ensureToken, readCurrentToken } from '../../server/token.ts'
import { type Command, directoryFlagsOf, toolConfig } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, describeNext, type OutputLines, showTable, unprintedError } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import type { Ask, TypedInput } from '../view.ts'

export const commands = [
  operationCommand(key.listKeys, {
    createEmpty: () => [],
    render: (keys, _again, { input }) => ({ note: describeNext(input, keys), ...formatKeys(keys) }),
  }),
  operationCommand(key.addKey, {
    addOptions: command =>
      command
        .option('--rate <calls>', 'Maximum calls per second, such as 10/s; more are rejected.')
        .option('--max-open <number>', 'Maximum number of long polls and streams at a time.')
        .option('--max-bytes <size>', 'Maximum bytes of uploads and media per day, such as 1g/d.'),
    toInput: toNewKey,
    render: describeAdded,
    async undoUnprinted(ask, { id }) {
      await ask(key.revokeKey, { id })
      throw unprintedError('no key was added: the key, which is shown once, could not be printed')
    },
    finish: closeService,
  }),
  operationCommand(key.getKey, { render: describeKey }),
  operationCommand(key.rotateKey, {
    render: describeAdded,
    async undoUnprinted() {
      throw unprintedError('the key was replaced, and the new one, which is shown once, could not be printed')
    },
  }),
  operationCommand(key.revokeKey, {
    changeMade: 'revoked',
    render: ({ revoked }) => [revoked.length > 0 ? `revoked: ${listOf(revoked)}` : 'it was revoked before'],
  }),
  operationCommand(key.me, { createEmpty: () => key.describeCaller(owner), render: describeMe }),
]

/** Reads the limits of a new key. @throws SvcError `invalid_arguments` */
function toNewKey(typed: TypedInput, command: Command): TypedInput {
  const { rate, maxOpen, maxBytes } =
    command.opts<Record<'rate' | 'maxOpen' | 'maxBytes', string | undefined>>()
  const limits = {
    ...(rate !== undefined && {
      calls_per_second: requireNumber(
        '--rate',
        'a number of calls per second, such as 10/s',
        /^(\d{1,5})\/s$/.exec(rate)?.[1],
      ),
    }),
    ...(maxOpen !== undefined && {
      open: requireNumber('--max-open', 'a number', /^\d{1,5}$/.exec(maxOpen)?.[0]),
    }),
    ...(maxBytes !== undefined && {
      bytes_per_day: requireNumber(
        '--max-bytes',
        'a size, such as 1g/d',
        parseSize(maxBytes.replace(/\/d$/, '')),
      ),
    }),
  }
  return { ...typed, ...(Object.keys(limits).length > 0 && { limits }) }
}

/** @throws SvcError `invalid_arguments` for 0, and for a text that has another form */
function requireNumber(flag: string, expected: string, parsed: string | number | undefined): number {
  if (Number(parsed) > 0) return Number(parsed)
  throw badArgument(flag, `expected ${expected}`)
}

/**
 * From the first key on, a service needs a master token. Makes one if there is none, and says at the first
 * key what has changed.
 */
export async function closeService(ask: Ask, command: Command): Promise<CommandOutput> {
  const config = toolConfig(command)
  // Another door may have made the first key.
  if ((await readCurrentToken(config)) === undefined) await ensureToken(config)
  const isFirst = (await ask(key.listKeys, { limit: 2 })).length === 1
  if (!isFirst) return {}
  const again = directoryFlagsOf(command)
  return {
    note: [
      'This is the first key. From now on every call over TCP needs a key or the master token, also on this machine.',
      `svc token${again} prints the master token, unless the service was started with --token. The command line and --socket need neither.`,
      `The panel needs a sign-in from now on: svc panel link${again} makes a link.`,
      'curl takes a key as -H "Authorization: Bearer KEY"; svc mcp and svc setup take its file as --key-file.',
    ],
  }
}

const statusColours = { active: 'green', expired: 'yellow', revoked: 'dim' } as const
const statusOf = ({ status }: Key) => colours[statusColours[status]](status)
const listOf = (words: readonly string[]) => words.map(oneLine).join(', ') || 'none'

const formatKeys = (all: readonly Key[]): CommandOutput =>
  showTable(all, 'no keys: svc key add <name> --can read makes one; see svc key add --help', [
    ['id', 'id'],
    ['name', 'name'],
    ['status', statusOf],
    ['can', ({ can, tools = [] }) => listOf([...can, ...tools])],
    ['last used', 'last_used_at'],
    ['from', ({ last_address = '–' }) => oneLine(last_address)],
  ])

/** Describes everything about one key. */
function describeKey(one: Key): OutputLines {
  const { created_at, expires_at, last_address, last_used_at, made_by, revoked_at, rotating_until } = one
  return [
    `${statusOf(one)}  ${oneLine(one.id)}  ${oneLine(one.name)}`,
    `can: ${listOf(one.can)}`,
    ...describeBounds(one),
    `made ${formatLocalTime(created_at)} by ${oneLine(made_by)}`,
    expires_at !== undefined && `ends ${formatLocalTime(expires_at)}`,
    revoked_at !== undefined && `revoked ${formatLocalTime(revoked_at)}`,
    rotating_until !== undefined && `the old secret is accepted until ${formatLocalTime(rotating_until)}`,
    last_used_at === undefined
      ? 'never used'
      : `last used ${formatLocalTime(last_used_at)}${last_address ? ` from ${oneLine(last_address)}` : ''}`,
  ]
}

/** Describes tools, sessions, users and limits, a line each. */
function describeBounds({ limits = {}, sessions, tools, topics, users }: Partial<Me>): OutputLines {
  const { bytes_per_day, calls_per_second, open } = limits
  const most = [
    calls_per_second !== undefined && `${formatCount(calls_per_second, 'call')} a second`,
    open !== undefined && formatCount(open, 'open call'),
    bytes_per_day !== undefined && `${formatBytes(bytes_per_day)} a day`,
  ].filter(Boolean)
  return [
    tools && `tools: ${listOf(tools)}`,
    topics && `topics: ${listOf(topics)}`,
    `sessions: ${sessions === undefined ? 'all' : listOf(sessions.map(({ bot_id, session }) => session ?? bot_id))}`,
    `users: ${users === undefined ? 'all' : listOf(users)}`,
    most.length > 0 && `at most: ${most.join(', ')}`,
  ]
}

function describeMe(me: Me): OutputLines {
  const { expires_at, name, principal, rights } = me
  return [
    `${oneLine(principal)}${name === undefined ? '' : `  ${oneLine(name)}`}`,
    `rights: ${listOf(rights)}`,
    ...describeBounds(me),
    expires_at !== undefined && `ends ${formatLocalTime(expires_at)}`,
  ]
}

function describeAdded(added: AddedKey): OutputLines {
  return [...describeKey(added), `key: ${added.key} (shown this once)`]
}
