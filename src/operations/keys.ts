/** Operations for keys: what other programs and people may do. */
import { Type } from '@sinclair/typebox'
import { presets } from '../model/access.ts'
import { badArgument } from '../model/error.ts'
import { AddedKey, Key, Me, NewKeyInput, RevokedKeys } from '../model/key.ts'
import { linkNext, pageInput } from '../model/page.ts'
import { formatPrincipal, owner, type Principal } from '../model/principal.ts'
import { bounded, closed, oneOf, optional } from '../model/shapes.ts'
import { type CommandShape, defineOperation } from './operation.ts'
import { mayCall, rightsHeldBy } from './rights.ts'
import { tools } from './tools.ts'

const id = 'k3v9x2ab'
const KeyInput = closed({ id: bounded(64, 'Id or name of a key.', { examples: [id] }) })
const maxKeepSeconds = 30 * 86_400

const exampleKey = {
  id,
  name: 'support-bot',
  can: ['reply'],
  sessions: [{ bot_id: '4f2c@im.bot', session: 'work' }],
  status: 'active' as const,
  created_at: 1767225600000,
  made_by: 'owner',
  last_used_at: 1767225660000,
  last_address: '192.0.2.7',
}
const exampleAdded = { ...exampleKey, key: `svc_${id}_${'0a1b2c3d'.repeat(8)}` }

/** Returns the command of an operation on one key. @param does what the example does */
const keyCommand = (word: string, does: string): CommandShape => ({
  path: ['key', word],
  examples: [[`svc key ${word} support-bot`, does]],
})

export const listKeys = defineOperation({
  name: 'list_keys',
  title: 'List the keys of callers',
  effect: 'read',
  right: 'keys',
  description:
    'Lists the keys with which programs and people call svc, oldest first, also those that have ended: what each may do, its state, and when it was used last. A caller with a key sees only the keys that it made. Secrets are not shown.',
  input: closed(pageInput('keys')),
  output: Type.Array(Key),
  examples: [{ summary: 'One key', output: [exampleKey] }],
  rest: { route: 'GET /keys', tag: 'keys', answerHeaders: linkNext },
  cli: {
    path: ['key'],
    alias: 'list',
    short: { limit: 'n' },
    examples: [['svc key', 'Every key']],
  },
  run: ({ keys }, page, { by }) => keys.list(by, page),
})

export const addKey = defineOperation({
  name: 'add_key',
  title: 'Make a key for a program or a person',
  effect: 'write',
  right: 'keys',
  description:
    'Makes a key. Only this answer contains it; callers send it as bearer token. A caller with a key can only make keys that may do no more than itself. From the first key on, every call over TCP needs a key or the master token, also on this machine.',
  input: closed({
    ...NewKeyInput.properties,
    tools: optional(
      Type.Array(oneOf(tools.map(({ name }) => name)), {
        maxItems: 20,
        description: 'Tools that the key may call in addition, without their rights.',
        examples: [['recv', 'send']],
      }),
    ),
  }),
  output: AddedKey,
  errors: ['session_not_found', 'forbidden'],
  examples: [
    {
      summary: 'For a bot that answers for one account',
      input: { name: 'support-bot', can: ['reply'], sessions: ['work'] },
      output: exampleAdded,
    },
  ],
  rest: { route: 'POST /keys', tag: 'keys' },
  cli: {
    path: ['key', 'add'],
    about:
      'Name what it may do with --can or --tools. svc token prints the master token. The command line and --socket need neither token nor key. curl sends a key with -H "Authorization: Bearer KEY"; svc mcp --url, and the clients that svc setup --url sets up, take it in the variable SVC_TOKEN.',
    positionals: ['name'],
    names: { expires_at: 'expires' },
    untyped: ['limits'],
    help: {
      can: 'Presets (read, draft, reply, operate, all) or single rights, separated by commas.',
      tools: 'Only these tools, or in addition to --can, separated by commas.',
      sessions: 'Only these sessions, separated by commas.',
      users: 'Only these users, by id or name, separated by commas.',
      topics: 'The topics that it may notify, separated by commas, with --can notify.',
      expires_at: 'When the key ends: a span such as 30d, or a time. Default: never.',
    },
    examples: [
      ['svc key add support-bot --can reply --sessions work', 'Read and answer for one account'],
      ['svc key add dashboard --can read --expires 30d', 'Read everything, for a month'],
      ['svc key add camera --can notify --topics home', 'Notify one topic, and nothing else'],
      ['svc key add agent --can draft --rate 10/s', 'A person approves every send'],
    ],
  },
  check({ can = [], tools = [] }) {
    if (can.length + tools.length > 0) return
    throw badArgument('can', 'expected what the key may do: presets, rights, or tools', {
      hint: `The presets are ${Object.keys(presets).join(', ')}.`,
    })
  },
  run: ({ keys }, input, call) => keys.add(input, call.by, call),
})

export const getKey = defineOperation({
  name: 'get_key',
  title: 'Show what a key may do',
  effect: 'read',
  right: 'keys',
  description:
    'Shows a key by its id or name: what it may do, with which sessions and users, until when, and when it was used last. The secret is not shown.',
  input: KeyInput,
  output: Key,
  errors: ['not_found'],
  examples: [{ summary: 'One key', input: { id }, output: exampleKey }],
  rest: { route: 'GET /keys/{id}', tag: 'keys' },
  cli: keyCommand('show', 'What it may do'),
  run: ({ keys }, input, { by }) => keys.get(input.id, by),
})

export const rotateKey = defineOperation({
  name: 'rotate_key',
  title: 'Replace the secret of a key',
  effect: 'write',
  right: 'keys',
  description:
    'Makes a new secret for a key. Only this answer contains it. The key keeps its id and everything that belongs to it. The old secret ends now, or after `keep_old_seconds`.',
  input: closed({
    ...KeyInput.properties,
    keep_old_seconds: optional.between(
      0,
      maxKeepSeconds,
      'How long the old secret is accepted too, in seconds.',
      { default: 0 },
    ),
  }),
  output: AddedKey,
  errors: ['not_found'],
  examples: [
    { summary: 'The old one for another day', input: { id, keep_old_seconds: 86_400 }, output: exampleAdded },
  ],
  rest: { route: 'POST /keys/{id}/rotate', tag: 'keys' },
  cli: {
    ...keyCommand('rotate', 'The old secret ends now'),
    names: { keep_old_seconds: 'keep-old' },
    help: { keep_old_seconds: 'How long the old secret is accepted too, such as 1d; at most 30d.' },
    examples: [
      ['svc key rotate support-bot', 'The old secret ends now'],
      ['svc key rotate support-bot --keep-old 1d', 'Time to replace it in the program'],
    ],
  },
  run: ({ keys }, input, { by }) => keys.rotate(input.id, (input.keep_old_seconds ?? 0) * 1000, by),
})

export const revokeKey = defineOperation({
  name: 'revoke_key',
  title: 'End a key and the keys that it made',
  effect: 'destroy',
  right: 'keys',
  description:
    'Ends a key and the keys that it made, and their calls in progress, within a second. Their webhooks stop, their uploads are removed, and what they queued waits for the approval of a person. A revoked key stays in the list and cannot be used again.',
  input: KeyInput,
  output: RevokedKeys,
  errors: ['not_found'],
  examples: [{ summary: 'Revoked', input: { id }, output: { success: true, revoked: [id] } }],
  rest: { route: 'DELETE /keys/{id}', tag: 'keys' },
  cli: {
    ...keyCommand('revoke', 'Asks first at a terminal'),
    many: { form: /\S/ },
    async question({ keys }, input) {
      const key = await keys.get(String(input.id), owner)
      return `Revoke the key ${key.name} (${key.id}), and the keys that it made?`
    },
  },
  run: ({ keys }, input, { by }) => keys.revoke(input.id, by),
})

/** Returns what a caller may do, without the limits of its key. */
export const describeCaller = (by: Principal): Me => ({
  principal: formatPrincipal(by),
  rights: rightsHeldBy(by),
  tools: tools.filter(tool => mayCall(by, tool)).map(({ name }) => name),
})

export const me = defineOperation({
  name: 'me',
  title: 'Show what this caller may do',
  effect: 'read',
  right: 'me',
  description: 'Shows what this caller may do: rights, tools, sessions, users, limits, and until when.',
  output: Me,
  examples: [
    {
      summary: 'A key that only receives',
      output: {
        principal: `key:${id}`,
        name: 'support-bot',
        rights: ['recv', 'tools', 'health', 'shared', 'me'],
        tools: ['recv'],
        expires_at: 1769817600000,
      },
    },
  ],
  rest: { route: 'GET /me', tag: 'keys' },
  cli: {
    path: ['key', 'me'],
    examples: [['svc key me --json', 'As GET /me answers']],
  },
  run: async ({ keys }, _input, { by }) => ({ ...describeCaller(by), ...(await keys.describe(by)) }),
})
