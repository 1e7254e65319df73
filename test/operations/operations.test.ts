/** What holds for every operation, whatever it does: one walk over the list, at every door and for every caller. */
import { describe, expect, spyOn, test } from 'bun:test'
import { tmpdir } from 'node:os'
import { rights } from '../../src/model/access.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { errorCodes, isSvcError } from '../../src/model/error.ts'
import { anyCaller, principalKinds } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import { describeFor, type Operation } from '../../src/operations/operation.ts'
import { operations } from '../../src/operations/operations.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { mayCall, rightsOf } from '../../src/operations/rights.ts'
import { health } from '../../src/operations/service.ts'
import { tools } from '../../src/operations/tools.ts'
import { silentLog } from '../../src/platform/log.ts'
import { svc } from '../support/command.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { type Json, startRest } from '../support/rest.ts'

const named = operations.map(one => [one.name, one] as const)
/** Besides the tools: what MCP asks for beside them, what anybody may call, and what the rights for these lead to. */
const ofAgents = new Set([
  ...tools.map(({ name }) => name),
  'list_tools',
  'list_users',
  'get_media',
  'show_typing',
  'me',
  'status',
  'list_accounts',
  'start_login',
  'follow_login',
  'give_login_code',
  'cancel_login',
  'logout_account',
  'rename_account',
  'list_consumers',
  'remove_consumer',
  'lease_messages',
  'renew_leases',
  'settle_leases',
  'begin_reading',
  'describe_inbox',
  'follow_messages',
  'open_messages',
  'follow_changes',
  'follow_events',
  'link_events',
  'foresee_send',
  'forget_login',
  'list_conversations',
  'get_conversation',
  'list_messages',
  'count_messages',
  'list_outbox',
  'get_outbox',
  'cancel_outbox',
  'get_waiting_file',
  'add_question',
  'get_question',
  'cancel_question',
  // The panel notes with these that a browser came or went; no other door has them.
  'sign_in',
  'sign_out',
])
/** The page of an invitation calls these, with the secret of its link. */
const ofVisitors = ['look_at_invitation', 'join_by_invitation', 'give_invited_code']
const ofAnybody = new Set(['health', 'ready', 'get_shared', ...ofVisitors])

/** Whether the gate let it through: what it then did does not matter. */
async function isLetThrough(operation: Operation, kind: (typeof principalKinds)[number]): Promise<boolean> {
  let ran = false
  const watched = {
    ...operation,
    parse: (input: unknown) => input as Record<string, unknown>,
    run: async () => {
      ran = true
    },
  }
  const call = { ...createDirectCall(), by: { kind } }
  await invoke(watched, new MemoryGateway(), {}, call, silentLog).catch(error => {
    if (!isSvcError(error, 'forbidden')) throw error
    for (const right of rightsOf(operation)) expect(error.message).toContain(right)
  })
  return ran
}

describe('who may what', () => {
  test.each(named)('%s', async (_name, one) => {
    const open = ofAnybody.has(one.name)
    const stdio = open || ofAgents.has(one.name)
    const sends = rightsOf(one).includes('send')
    const mayThere = { owner: true, panel: true, stdio, webhook: sends, topic: sends, question: sends, open }
    // What a key or an agent may do depends on its grant.
    for (const kind of principalKinds.filter(kind => kind !== 'key' && kind !== 'agent'))
      expect([kind, await isLetThrough(one, kind)]).toEqual([kind, mayThere[kind]])
  })

  test('no right is without an operation', () => {
    expect(rights.filter(right => !operations.some(one => rightsOf(one).includes(right)))).toEqual([])
  })

  test('anybody may call what is open over HTTP, and nothing else', () => {
    const isOpen = (one: Operation) => one.rest?.isPublic === true || ofVisitors.includes(one.name)
    expect(operations.filter(isOpen)).toEqual(operations.filter(one => mayCall(anyCaller, one)))
  })
})

test('names, places and commands are of one operation each', () => {
  const twice = (values: readonly (string | undefined)[]) =>
    values.filter((value, nth) => value !== undefined && values.indexOf(value) !== nth)
  expect(twice(operations.map(({ name }) => name))).toEqual([])
  expect(twice(operations.map(({ rest }) => rest?.route))).toEqual([])
  expect(twice(operations.map(({ cli }) => cli?.path.join(' ')))).toEqual([])
})

test.each(named)('%s says what it does, and its examples are true to its schemas', (_name, one) => {
  expect(one.title).not.toBe('')
  expect(one.description).not.toBe('')
  for (const code of one.errors) expect(errorCodes).toContain(code)
  for (const { input = {}, output } of one.examples) {
    expect(() => one.parse(input)).not.toThrow()
    expect(problemsOf(one.output, output)).toEqual([])
  }
})

test('each is found where it says, and described there', async () => {
  await using rest = await startRest()
  const { components, paths } = await (await fetch(`${rest.url}/openapi.json`)).json()
  for (const one of operations) {
    if (!one.rest || one.rest.isHidden || one.rest.panelOnly) continue
    const [method = '', path = ''] = one.rest.route.split(' ')
    const found = paths[path]?.[method.toLowerCase()]
    expect(found).toMatchObject({ operationId: one.name, summary: one.title, tags: [one.rest.tag] })
    expect(found.description).toStartWith(describeFor(one, 'remote'))
    const { content = {} } = found.requestBody ?? {}
    const { schema = {} } = content['application/json'] ?? content['multipart/form-data'] ?? {}
    const body = schema.$ref ? components.schemas[schema.$ref.split('/').at(-1)] : schema
    const parameters: string[] = found.parameters?.map(({ name }: { name: string }) => name) ?? []
    const keys = [...parameters, ...Object.keys(body.properties ?? {})]
    for (const key of Object.keys(one.input.properties))
      expect(keys).toContain(one.rest.headers?.[key] ?? key)
    const answers: Record<string, Json> = found.responses
    expect(Object.keys(answers['200'].content['application/json']?.examples ?? {})).toHaveLength(
      one.examples.length,
    )
    if (!one.rest.isPublic) for (const code of one.errors) expect(found.description).toContain(`\`${code}\``)
  }
  for (const { cli } of operations) {
    if (!cli) continue
    const { status, stdout } = await svc([...cli.path, '--help'], { home: tmpdir() })
    expect([cli.path, status]).toEqual([cli.path, 0])
    for (const key of cli.positionals ?? [])
      expect(stdout).toContain(cli.names?.[key] ?? key.replaceAll('_', '-'))
  }
})

test('without the token a service answers nobody but at what is open, where nobody is the owner', async () => {
  await using rest = await startRest({ token: 'a-long-enough-token' })
  using run = spyOn(health, 'run')
  for (const { rest: shape } of operations) {
    if (!shape || shape.panelOnly) continue
    const [method, path = ''] = shape.route.replace(/\{\w+\}/g, '1').split(' ')
    const { status } = await fetch(rest.url + path, { method })
    expect([shape.route, status === 401]).toEqual([shape.route, shape.isPublic !== true])
  }
  expect(run.mock.calls.map(([, , { by }]) => by.kind)).toEqual(['open'])
})

test('what stands in the path stands nowhere else, and what is in no schema is refused at its place', async () => {
  await using rest = await startRest()
  const asked = async (method: string, path: string, body?: unknown) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(rest.url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return (await answer.json()) as { code?: string; details?: { errors: { field: string }[] } }
  }
  for (const [method, path, body, field] of [
    ['PUT', '/users/a%40im.wechat/name', { name: 'Mum', user_id: 'b@im.wechat' }, 'user_id'],
    ['PUT', '/users/a%zz/name', { name: 'Mum' }, 'user_id'],
    ['GET', '/media/a%b/0', undefined, 'message_id'],
    ['POST', '/webhooks/wh_1/replay', { from: 'x-1', id: 'wh_2' }, 'id'],
    ['POST', '/webhooks/wh_1/replay', { from: 'never' }, 'from'],
    ['GET', '/webhooks/wh_1/deliveries?id=wh_2', undefined, 'id'],
    ['GET', '/outbox?sesion=a', undefined, 'sesion'],
    ['GET', '/events?last_event_id=x-1', undefined, 'last_event_id'],
    ['POST', '/media?file=x', 'x', 'file'],
    ['POST', '/webhooks', ['https://example.com/'], ''],
  ] as const) {
    const { code, details } = await asked(method, path, body)
    expect([path, code, details?.errors.map(one => one.field)]).toEqual([path, 'invalid_arguments', [field]])
  }
})
