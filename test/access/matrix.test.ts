/**
 * Every operation for every kind of caller: who may call it, at each door. The rows come from the list of
 * operations, so a new one is a row by itself.
 */

import { expect, test } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { operations } from '../../src/operations/operations.ts'
import { tools } from '../../src/operations/tools.ts'
import { forFile } from '../support/folder.ts'
import { lackedBy, mcpParts, setUpMatrix } from './matrix-columns.ts'
import { inputAbout, plainKeys, unknownLike, valuesOf } from './matrix-world.ts'

const minuteMs = 60_000

const matrix = forFile(await setUpMatrix())
const { columns, doors, ended, rows, world } = matrix
const operationNamed = (name: string) => operations.find(one => one.name === name)!

test('the world has something for every input key that names something', () => {
  for (const operation of operations)
    for (const key of Object.keys(operation.input.properties))
      expect([
        operation.name,
        key,
        valuesOf(operation, key, world.own).length > 0 || plainKeys.has(key),
      ]).toEqual([operation.name, key, true])
})

test.each(Object.keys(doors.doors))(
  'every caller may call what its grant has, and nothing else: %s',
  async where => {
    const nothing = unknownLike(world.own)
    const wrong: unknown[] = []
    for (const { door, name, operation } of rows.filter(({ at }) => at === where))
      for (const column of columns.values()) {
        const input = inputAbout(operation, nothing)
        const lacked = lackedBy(column, operation, input)
        const answer = await door.call(operation, input, column)
        const isDenied = answer.status === 403 && answer.right !== undefined
        const isRight =
          lacked === undefined
            ? !isDenied && answer.status !== 401 && answer.status < 500
            : answer.code === 'forbidden' && isDenied && answer.right === lacked
        if (!isRight) wrong.push([name, column.name, lacked, answer])
      }
    expect(wrong).toEqual([])
  },
)

/**
 * Rights to what ends or changes the account itself, to links that prove themselves, and to a check that takes
 * ten seconds while nobody receives.
 */
const apart: readonly unknown[] = ['login', 'logout', 'rename', 'shared', 'check']

test.each([
  ['session', 0],
  ['user', 1],
  ['session and user', 2],
] as const)('a key limited to a %s may do everything with its own', async (name, nth) => {
  const { by, grant, ...caller } = columns.get(name)!
  const column = { ...caller, by, grant, name }
  const { entries, session, user } = world.own
  const scope = { ...(grant?.bots && { sessions: [session] }), ...(grant?.users && { users: [user] }) }
  const { asks, keys, relayClients, webhooks } = matrix.idle.gateway
  // Nobody listens there.
  const hook = { url: 'http://127.0.0.1:9/', allow_private: true, session, user }
  const own = {
    ...world.own,
    entries: [entries[nth]!],
    webhook: (await webhooks.add(by, hook)).id,
    asked: (
      await asks.ask(
        { to: user, session, text: name, choices: ['yes', 'no'], timeout: 600 },
        createDirectCall({ by }),
      )
    ).id,
    relay: (await relayClients.add(by, { name: `relay of ${name}`, session })).name,
    key: (await keys.add({ name: `own of ${name}`, can: ['history'], ...scope }, by)).id,
  }
  const wrong: unknown[] = []
  const order = ['read', 'write', 'destroy']
  let calls = 0
  // They succeed only with a callback that answers, for the key of a program of the relay, or for one that asks to log in.
  const needsMore = new Set([
    ...['subscribe_events', 'unsubscribe_events'],
    ...['relay_client', 'relay_poll', 'relay_send', 'allow_relay'],
  ])
  for (const operation of operations.toSorted((a, b) => order.indexOf(a.effect) - order.indexOf(b.effect))) {
    const { door } = rows.find(row => row.operation === operation)!
    const input = { ...inputAbout(operation, own), ...(operation.name === 'add_key' && scope) }
    if (apart.includes(operation.right) || needsMore.has(operation.name)) continue
    if (lackedBy(column, operation, input)) continue
    const { status, text } = await door.call(operation, input, column)
    calls++
    // That concerns all users of the account.
    const isAllowed = operation.name !== 'set_default' || !column.grant?.users
    if (status !== (isAllowed ? 200 : 403)) wrong.push([operation.name, input, text])
  }
  expect(wrong).toEqual([])
  expect(calls).toBeGreaterThan(40)
})

test('a key that has ended is 401 at every door', async () => {
  const nothing = unknownLike(world.own)
  const wrong: unknown[] = []
  for (const { at, door, name, operation } of rows.filter(({ at }) => at !== 'gate'))
    for (const [column, caller] of ended) {
      // So late that none of these calls is slowed down as a repeated one.
      doors.clock.advance(minuteMs)
      const { status } = await door.call(operation, inputAbout(operation, nothing), caller)
      const isOpen = at === 'rest' && operation.rest?.isPublic === true
      if ((status === 401) === isOpen) wrong.push([name, column, status])
    }
  for (const [column, caller] of ended) {
    const { status } = await doors.mcp('tools/list', {}, caller)
    if (status !== 401) wrong.push(['mcp', column, status])
  }
  expect(wrong).toEqual([])
})

test('MCP offers and answers what the grant has, and nothing else', async () => {
  const { own } = world
  const { fixed, prompts, templates } = mcpParts(own)
  const wrong: unknown[] = []
  for (const column of columns.values()) {
    const may = (names: readonly string[]) =>
      names.every(name => {
        const operation = operationNamed(name)
        return lackedBy(column, operation, inputAbout(operation, own)) === undefined
      })
    const ask = async (method: string, params: object = {}) => (await doors.mcp(method, params, column)).body
    const namesOf = async (method: string, list: string, field: string): Promise<string[]> =>
      ((await ask(method)).result?.[list] ?? []).map((one: Record<string, string>) => one[field])
    const expectEqual = (what: string, seen: unknown, wanted: unknown) => {
      if (!Bun.deepEquals(seen, wanted)) wrong.push([column.name, what, seen, wanted])
    }
    const allowed = <T>(of: Record<string, T>, names: (one: T) => readonly string[]) =>
      Object.keys(of).filter(key => may(names(of[key]!)))
    const listed = await namesOf('resources/list', 'resources', 'uri')
    const offered = {
      tools: await namesOf('tools/list', 'tools', 'name'),
      fixed: listed.filter(uri => uri in fixed),
      templates: (await namesOf('resources/templates/list', 'resourceTemplates', 'uriTemplate')).sort(),
      prompts: await namesOf('prompts/list', 'prompts', 'name'),
    }
    expectEqual('offers', offered, {
      tools: tools.filter(({ name }) => may([name])).map(({ name }) => name),
      fixed: allowed(fixed, names => names),
      templates: allowed(templates, ([, names]) => names).sort(),
      prompts: allowed(prompts, names => names),
    })
    // A resource without a row above is missing here.
    const isKnown = (uri: string) => uri in fixed || /^svc:..(sessions.*users|conversations.*)$/.test(uri)
    expectEqual(
      'unknown resources',
      listed.filter(uri => !isKnown(uri)),
      [],
    )
    const resources = [
      ...Object.entries(fixed),
      ...Object.values(templates).map(([uri, names]) => [uri, names] as const),
    ]
    for (const [uri, names] of resources)
      expectEqual(uri, (await ask('resources/read', { uri })).result !== undefined, may(names))
    for (const [name, names] of Object.entries(prompts)) {
      const { result } = await ask('prompts/get', {
        name,
        arguments: { session: own.session, user: own.user },
      })
      expectEqual(name, result !== undefined, may(names))
    }
    const refs = [
      ...Object.entries(prompts).map(([name, names]) => [{ type: 'ref/prompt', name }, names] as const),
      ...Object.entries(templates).map(([uri, [, names]]) => [{ type: 'ref/resource', uri }, names] as const),
    ]
    for (const [ref, names] of refs) {
      const { result } = await ask('completion/complete', { ref, argument: { name: 'session', value: '' } })
      expectEqual(JSON.stringify(ref), result !== undefined, may(names))
    }
    for (const { name } of tools.filter(({ name }) => !may([name])))
      expectEqual(`call ${name}`, (await ask('tools/call', { name, arguments: {} })).result, undefined)
  }
  expect(wrong).toEqual([])
})
