/**
 * What is foreign to a caller with a key is as if it did not exist: no answer has a byte of it, and a call about
 * it gives the same answer as a call about something unknown, after as many statements.
 */
import { expect, test } from 'bun:test'
import type { Operation } from '../../src/operations/operation.ts'
import { forFile } from '../support/folder.ts'
import { type Column, lackedBy, mcpParts, setUpMatrix } from './matrix-columns.ts'
import type { Door } from './matrix-doors.ts'
import {
  inputAbout,
  isAboutSessions,
  makeThings,
  markersOf,
  reachOf,
  type Things,
  unknownLike,
  valuesOf,
} from './matrix-world.ts'

const matrix = forFile(await setUpMatrix())
const { columns, doors, rows, world } = matrix

/** Calls everything that only reads, as far as it reaches. */
async function readAll(column: Column): Promise<{ what: string; text: string }[]> {
  const all: { what: string; text: string }[] = []
  for (const { door, name, operation } of rows) {
    if (operation.effect !== 'read') continue
    const base = inputAbout(operation, world.own)
    const inputs = Object.entries(operation.inputSchema.properties ?? {}).flatMap(([key, schema]) =>
      reachOf(key, schema).map(value => ({ ...base, [key]: value })),
    )
    for (const input of [base, ...inputs]) {
      if (lackedBy(column, operation, input)) continue
      const { text } = await door.call(operation, input, column)
      all.push({ what: `${name} ${JSON.stringify(input)}`, text })
    }
  }
  return all
}

test('nothing of others is in any answer', async () => {
  const heard = new Map<string, { what: string; text: string }[]>()
  for (const name of ['session', 'user', 'session and user', 'approver of a session', 'owner'])
    heard.set(name, await readAll(columns.get(name)!))
  const { own, neighbour, foreign } = world
  const leaksOf = (name: string, things: Things, allowed: readonly string[] = []) =>
    markersOf(things).flatMap(marker =>
      heard
        .get(name)!
        .flatMap(({ text, what }) =>
          allowed.reduce((rest, word) => rest.replaceAll(word, ''), text).includes(marker)
            ? [[what, marker, text]]
            : [],
        ),
    )
  for (const things of [own, neighbour, foreign])
    for (const marker of markersOf(things))
      expect([marker, heard.get('owner')!.some(({ text }) => text.includes(marker))]).toEqual([marker, true])
  expect(leaksOf('session', foreign)).toEqual([])
  expect(leaksOf('approver of a session', foreign)).toEqual([])
  // A key for a user sees the accounts, and those that are being logged in.
  expect(leaksOf('user', foreign, [foreign.session, foreign.loggingIn])).toEqual([])
  expect(leaksOf('user', neighbour, [neighbour.loggingIn])).toEqual([])
  expect(leaksOf('session and user', foreign)).toEqual([])
  expect(leaksOf('session and user', neighbour)).toEqual([])
  for (const name of ['session', 'user', 'session and user'])
    for (const word of [`Text${own.tag}`, `Name${own.tag}`, `File${own.tag}`, `Draft${own.tag}`, own.message])
      expect([name, heard.get(name)!.some(({ text }) => text.includes(word))]).toEqual([name, true])
})

/** A caller, and what is foreign to it. */
interface Viewer {
  readonly column: string
  readonly foreign: 'foreign' | 'neighbour'
  /** Whether an input key with these things is about something that the caller may not see. */
  isForeign(operation: Operation, key: string): boolean
}
const isEverything = () => true
const exceptSessions = (operation: Operation, key: string) => !isAboutSessions(operation, key)
const viewers: Viewer[] = [
  { column: 'session', foreign: 'foreign', isForeign: isEverything },
  { column: 'user', foreign: 'foreign', isForeign: exceptSessions },
  { column: 'user', foreign: 'neighbour', isForeign: exceptSessions },
  { column: 'session and user', foreign: 'foreign', isForeign: isEverything },
  { column: 'session and user', foreign: 'neighbour', isForeign: exceptSessions },
  { column: 'approver of a session', foreign: 'foreign', isForeign: isEverything },
  // What belongs to the owner and to other keys is foreign to a key without limits too.
  {
    column: 'preset all',
    foreign: 'foreign',
    isForeign: ({ right }, key) =>
      ['login_id', 'webhook', 'media', 'consumer'].includes(key) ||
      key.endsWith('_path') ||
      (key === 'id' && (right === 'webhooks' || right === 'keys')),
  },
]

/** Removes the values that were sent, and what is new in each answer. */
function withoutSent(text: string, values: readonly unknown[]): string {
  let bare = text
  for (const value of values) {
    const sent = String(Array.isArray(value) ? (value[0].upload_id ?? value[0]) : value)
    const isLong = sent.length > 5
    bare = isLong
      ? bare.replaceAll(sent, 'SENT').replaceAll(encodeURIComponent(sent), 'SENT')
      : bare.replaceAll(new RegExp(`\\b${sent}\\b`, 'g'), 'SENT')
  }
  return bare
    .replaceAll(
      /wh_[0-9a-f]{16}|whsec_[\w+/=-]+|svc_\w{8}_\w+|new \d+|"id":"\w{8}"|"request_id":"[\w-]+"|link=[\w.-]+|boundary=\\?"[0-9a-f]{24}|carry [0-9a-f]{24}/g,
      'NEW',
    )
    .replaceAll(/"(created_at|expires_at)":\d+|"after":"\w+-\d+"|id: \w+-\d+/g, 'NOW')
    .replaceAll(/\["content-length","\d+"\],|(,?\{"kind":"relay"\})+/g, '')
}

const isStream = ({ name, rest }: Operation): boolean =>
  rest?.answerKind === 'events' || name === 'follow_messages' || name === 'open_messages'

let names = 1000

/** Calls with a foreign and an unknown value. @returns both answers, with the statements of each */
async function compare(
  door: Door,
  operation: Operation,
  column: Column,
  pairs: { value: unknown; input: object }[],
) {
  const values = pairs.map(({ value }) => value)
  const seen = pairs.map(() => ({ answer: '', statements: Number.POSITIVE_INFINITY }))
  // What is read for the first time may be kept, and what the service does by itself may run statements too.
  for (let tries = 0; tries < 20; tries++) {
    for (const [nth, { input }] of pairs.entries()) {
      const before = world.count.statements
      const fresh = ['add_key', 'add_relay'].includes(operation.name) && { name: `new ${names++}` }
      const { text, ...answer } = await door.call(operation, { ...input, ...fresh }, column)
      const ran = world.count.statements - before
      const statements = Math.min(ran, seen[nth]!.statements)
      seen[nth] = { answer: JSON.stringify({ ...answer, text: withoutSent(text, values) }), statements }
    }
    // A stream reads on for as long as it is open, and may end after its call.
    if (isStream(operation)) for (const one of seen) one.statements = 0
    if (tries > 0 && Bun.deepEquals(seen[0], seen[1])) break
  }
  return seen
}

/** Calls of MCP about these things. */
function mcpCallsAbout(things: Things): readonly (readonly [method: string, params: object])[] {
  const { message, name, session, tag, user } = things
  const { fixed, prompts, templates } = mcpParts(things)
  const named = `svc://conversations/${session}/${encodeURIComponent(name)}`
  const uris = [...Object.values(templates).map(([uri]) => uri), named]
  const call = (tool: string, input: object) => ['tools/call', { name: tool, arguments: input }] as const
  const complete = (uri: string, argument: string, value: string, filled: object) =>
    [
      'completion/complete',
      {
        ref: { type: 'ref/resource', uri },
        argument: { name: argument, value },
        context: { arguments: filled },
      },
    ] as const
  const [, conversation, media] = Object.keys(templates) as [string, string, string]
  return [
    ...uris.map(uri => ['resources/read', { uri }] as const),
    ...Object.keys(fixed).map(uri => ['resources/read', { uri }] as const),
    ...Object.keys(prompts).flatMap(prompt =>
      [user, name].map(who => ['prompts/get', { name: prompt, arguments: { session, user: who } }] as const),
    ),
    complete(conversation, 'session', session, {}),
    complete(conversation, 'user', '', { session }),
    complete(conversation, 'user', name, {}),
    complete(media, 'message_id', message, {}),
    complete(media, 'item', '', { message_id: message }),
    call('history', { user_id: user }),
    call('history', { text_contains: `Text${tag}` }),
    call('download', { message_id: message }),
    call('recv', { timeout: 0, session, after: 0 }),
  ]
}

test.each(viewers.filter(({ column }) => column.includes('session') || column === 'user'))(
  'MCP, $column: what is $foreign is as if it did not exist, and is nowhere',
  async ({ column: name, foreign }) => {
    const column = columns.get(name)!
    // What may be seen of the session stays the same.
    const isAccountForeign = name !== 'user' && foreign === 'foreign'
    const things = world[foreign]
    const unknown = {
      ...unknownLike(things, world.stranger),
      ...(!isAccountForeign && { session: things.session }),
    }
    const [calls, others] = [mcpCallsAbout(things), mcpCallsAbout(unknown)]
    const sentValues = [things, unknown].flatMap(one => [
      one.user,
      one.name,
      one.message,
      `Text${one.tag}`,
      one.tag,
    ])
    const wrong: unknown[] = []
    for (const [nth, [method, params]] of calls.entries()) {
      const answers: string[] = []
      for (const given of [params, others[nth]![1]]) {
        const { status, text } = await doors.mcp(method, given, column)
        answers.push(`${status} ${withoutSent(text, sentValues)}`)
      }
      if (answers[0] !== answers[1]) wrong.push([method, params, ...answers])
    }
    const lists = ['resources/list', 'resources/templates/list', 'prompts/list', 'tools/list']
    for (const [method, params] of [...lists.map(list => [list, {}] as const), ...mcpCallsAbout(world.own)]) {
      const { text } = await doors.mcp(method, params, column)
      const shown = isAccountForeign
        ? text
        : text.replaceAll(things.session, '').replaceAll(things.loggingIn, '')
      for (const marker of markersOf(things))
        if (shown.includes(marker)) wrong.push([method, params, marker, text])
    }
    expect(wrong).toEqual([])
  },
)

// Last, since a send leaves a message.
test.each(viewers)('$column: what is $foreign is as if it did not exist', async viewer => {
  const column = columns.get(viewer.column)!
  const [things, nothing] = [world[viewer.foreign], unknownLike(world[viewer.foreign], world.stranger)]
  const wrong: unknown[] = []
  let compared = 0
  // A send leaves a message. So sends come last.
  const sends = ({ operation }: { operation: Operation }) => ('to' in operation.input.properties ? 1 : 0)
  for (const { door, name, operation } of rows.toSorted((a, b) => sends(a) - sends(b)))
    for (const key of Object.keys(operation.input.properties)) {
      if (!viewer.isForeign(operation, key)) continue
      const unknown = valuesOf(operation, key, nothing)
      for (const [nth, foreign] of valuesOf(operation, key, things).entries()) {
        const pairs = [foreign, unknown[nth]].map(value => ({
          value,
          input: { ...inputAbout(operation, world.own), [key]: value },
        }))
        if (lackedBy(column, operation, pairs[0]!.input)) continue
        const [first, second] = await compare(door, operation, column, pairs)
        compared++
        if (!Bun.deepEquals(first, second)) wrong.push([name, key, foreign, first, second])
      }
    }
  expect(wrong).toEqual([])
  expect(compared).toBeGreaterThan(3)
})

test('what happens elsewhere changes no answer', async () => {
  const { foreign, live } = world
  const { idle } = matrix
  await idle.gateway.start()
  const names = ['session', 'session and user', 'approver of a session']
  const readEach = async () => {
    const all: Record<string, string> = {}
    // Of a session that was not polled yet it is missing.
    for (const name of names)
      for (const { what, text } of await readAll(columns.get(name)!))
        all[`${name}: ${what}`] = withoutSent(text, []).replaceAll(/,"last_poll_at":\d+/g, '')
    return all
  }
  const before = await readEach()
  const user = await live.sandbox.addUser('Personxedwinx')
  const things = await makeThings({ ...idle, bots: live.bots }, foreign.session, user, 'xedwinx')
  expect((await readAll(columns.get('owner')!)).some(({ text }) => text.includes(things.tag))).toBe(true)
  expect(await readEach()).toEqual(before)
})
