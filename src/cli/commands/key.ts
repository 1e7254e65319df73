/** Declares `svc key` and its subcommands, for keys of programs and people. */
import { parseSize } from '../../config/values.ts'
import { badArgument } from '../../model/error.ts'
import type { AddedKey, Key, Me } from '../../model/key.ts'
import { owner } from '../../model/principal.ts'
import * as key from '../../operations/keys.ts'
import { formatBytes, formatCount, formatLocalTime } from '../../platform/format.ts'
import { ensureToken, readCurrentToken } from '../../server/token.ts'
import { type Column, formatTable } from '../columns.ts'
import { type Command, directoryFlagsOf, toolConfig } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { type CommandOutput, formatNote, unprintedError, withNext } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'
import { parseSpan, parseTypedEnd, timeForms } from '../typed-time.ts'
import type { Ask, TypedInput } from '../view.ts'

export const commands = [
  operationCommand(key.listKeys, {
    createEmpty: () => [],
    render: (keys, _again, { input }) => withNext(formatKeys(keys), input, keys),
  }),
  operationCommand(key.addKey, {
    addOptions: command =>
      command
        .option('--rate <calls>', 'Maximum calls per second, such as 10/s; more are rejected.')
        .option('--max-open <number>', 'Maximum number of long polls and streams at a time.')
        .option('--max-bytes <size>', 'Maximum bytes of uploads and media per day, such as 1g/d.'),
    toInput: toNewKey,
    render: formatSecret,
    async undoUnprinted(ask, { id }) {
      await ask(key.revokeKey, { id })
      throw unprintedError('no key was added: the key, which is shown once, could not be printed')
    },
    finish: closeService,
  }),
  operationCommand(key.getKey, { render: formatKey }),
  operationCommand(key.rotateKey, {
    toInput(typed) {
      const { keep_old_seconds: keep } = typed
      if (typeof keep !== 'string') return typed
      const ms = parseSpan(keep)
      if (ms === undefined) throw badArgument('--keep-old', 'expected a span such as 12h or 1d, or seconds')
      return { ...typed, keep_old_seconds: ms / 1000 }
    },
    render: formatSecret,
    async undoUnprinted() {
      throw unprintedError('the key was replaced, and the new one, which is shown once, could not be printed')
    },
  }),
  operationCommand(key.revokeKey, {
    changeMade: 'revoked',
    render: ({ revoked }) => ({
      text: revoked.length > 0 ? `revoked: ${revoked.map(oneLine).join(', ')}\n` : 'it was revoked before\n',
    }),
  }),
  operationCommand(key.me, { createEmpty: () => key.describeCaller(owner), render: formatMe }),
]

/** Reads the limits and the end of a new key. @throws SvcError `invalid_arguments` */
function toNewKey(typed: TypedInput, command: Command, now: number): TypedInput {
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
  const { expires_at } = typed
  const end = typeof expires_at === 'string' ? parseTypedEnd(expires_at, now) : expires_at
  if (expires_at !== undefined && end === undefined)
    throw badArgument('--expires', `expected a span from now on such as 30d, or ${timeForms}`)
  return {
    ...typed,
    ...(expires_at !== undefined && { expires_at: end }),
    ...(Object.keys(limits).length > 0 && { limits }),
  }
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
async function closeService(ask: Ask, command: Command): Promise<CommandOutput> {
  const config = toolConfig(command)
  // Another door may have made the first key.
  if ((await readCurrentToken(config)) === undefined) await ensureToken(config)
  const isFirst = (await ask(key.listKeys, { limit: 2 })).length === 1
  if (!isFirst) return {}
  const again = directoryFlagsOf(command)
  return {
    note: formatNote(
      [
        'This is the first key. From now on every call over TCP needs a key or the master token, also on this machine.',
        `svc token${again} prints the master token, unless the service was started with --token. The command line and --socket need neither.`,
        `The panel needs a sign-in from now on: svc panel link${again} makes a link.`,
        'curl takes a key as -H "Authorization: Bearer KEY"; svc mcp and svc setup take its file as --key-file.',
      ].join('\n'),
    ),
  }
}

const statusColours = { active: 'green', expired: 'yellow', revoked: 'dim' } as const
const statusOf = ({ status }: Key) => colours[statusColours[status]](status)
const listOf = (words: readonly string[]) => words.map(oneLine).join(', ') || 'none'

function formatKeys(all: readonly Key[]): CommandOutput {
  if (all.length === 0)
    return { note: formatNote('no keys: svc key add <name> --can read makes one; see svc key add --help') }
  const columns: Column<Key>[] = [
    ['id', ({ id }) => oneLine(id)],
    ['name', ({ name }) => oneLine(name)],
    ['status', statusOf],
    ['can', ({ can, tools = [] }) => listOf([...can, ...tools])],
    ['last used', ({ last_used_at }) => formatLocalTime(last_used_at)],
    ['from', ({ last_address = '–' }) => oneLine(last_address)],
  ]
  return { text: formatTable(all, columns, colours.dim) }
}

/** Formats everything about one key. */
function formatKey(one: Key): CommandOutput {
  const { created_at, expires_at, last_address, last_used_at, made_by, revoked_at, rotating_until } = one
  const lines = [
    `${statusOf(one)}  ${oneLine(one.id)}  ${oneLine(one.name)}`,
    `can: ${listOf(one.can)}`,
    ...describeBounds(one),
    `made ${formatLocalTime(created_at)} by ${oneLine(made_by)}`,
    ...(expires_at === undefined ? [] : [`ends ${formatLocalTime(expires_at)}`]),
    ...(revoked_at === undefined ? [] : [`revoked ${formatLocalTime(revoked_at)}`]),
    ...(rotating_until === undefined
      ? []
      : [`the old secret is accepted until ${formatLocalTime(rotating_until)}`]),
    last_used_at === undefined
      ? 'never used'
      : `last used ${formatLocalTime(last_used_at)}${last_address ? ` from ${oneLine(last_address)}` : ''}`,
  ]
  return { text: `${lines.join('\n')}\n` }
}

/** Describes tools, sessions, users and limits, a line each. */
function describeBounds({ limits = {}, sessions, tools, topics, users }: Partial<Me>): string[] {
  const { bytes_per_day, calls_per_second, open } = limits
  const most = [
    ...(calls_per_second === undefined ? [] : [`${formatCount(calls_per_second, 'call')} a second`]),
    ...(open === undefined ? [] : [`${formatCount(open, 'open call')}`]),
    ...(bytes_per_day === undefined ? [] : [`${formatBytes(bytes_per_day)} a day`]),
  ]
  return [
    ...(tools === undefined ? [] : [`tools: ${listOf(tools)}`]),
    ...(topics === undefined ? [] : [`topics: ${listOf(topics)}`]),
    `sessions: ${sessions === undefined ? 'all' : listOf(sessions.map(({ bot_id, session }) => session ?? bot_id))}`,
    `users: ${users === undefined ? 'all' : listOf(users)}`,
    ...(most.length === 0 ? [] : [`at most: ${most.join(', ')}`]),
  ]
}

function formatMe(me: Me): CommandOutput {
  const { expires_at, name, principal, rights } = me
  const lines = [
    `${oneLine(principal)}${name === undefined ? '' : `  ${oneLine(name)}`}`,
    `rights: ${listOf(rights)}`,
    ...describeBounds(me),
    ...(expires_at === undefined ? [] : [`ends ${formatLocalTime(expires_at)}`]),
  ]
  return { text: `${lines.join('\n')}\n` }
}

function formatSecret(added: AddedKey): CommandOutput {
  return { text: `${formatKey(added).text}key: ${added.key} (shown this once)\n` }
}
