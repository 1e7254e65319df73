/** Which calls leave a line in the audit log, what it says, and what it never says. */
import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { type Call, createDirectCall } from '../../src/model/call.ts'
import { SvcError } from '../../src/model/error.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { closed, optional } from '../../src/model/shapes.ts'
import { invoke } from '../../src/operations/gate.ts'
import { defineOperation, type Operation } from '../../src/operations/operation.ts'
import { operations } from '../../src/operations/operations.ts'
import { createLog, silentLog } from '../../src/platform/log.ts'
import { findSystemUser } from '../../src/platform/process.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'

const key: Principal = { kind: 'key', id: 'k1', name: 'support', grant: { rights: ['names', 'events'] } }
const folder = folderOfFile()
const operationNamed = (name: string): Operation => operations.find(one => one.name === name)!

/** An operation of the test's, that a key with the right `names` may call. */
const work = (run: () => Promise<object>) =>
  defineOperation({
    name: 'work',
    title: 'Work',
    effect: 'write',
    right: 'names',
    description: 'Works.',
    input: closed({ user_id: optional(Type.String()), name: optional(Type.String()) }),
    output: Type.Object({}),
    run,
  })

function opened() {
  const gateway = new MemoryGateway()
  const lines = async () =>
    (await gateway.audit.list({ limit: 100, after: 0 })).map(({ id: _, at: _at, ...line }) => line)
  const call = (operation: Operation, input: unknown, by: Principal = key, more: Partial<Call> = {}) =>
    invoke(operation, gateway, input, { ...createDirectCall({ by }), ...more }, silentLog)
  return { gateway, lines, call }
}

test('a line is written before the call and gets its outcome after it', async () => {
  const { lines, call } = opened()
  const seen: unknown[] = []
  const one = work(async () => {
    seen.push(...(await lines()))
    return {}
  })
  await call(one, { user_id: 'a@im.wechat', name: 'Mum' }, key, { address: '10.0.0.7' })
  const line = { principal: 'key:k1', operation: 'work', subject: 'a@im.wechat', address: '10.0.0.7' }
  expect(seen).toEqual([line])
  expect(await lines()).toEqual([{ ...line, outcome: 'done' }])
})

test('a call that fails has the code of its error; one with wrong input has no line', async () => {
  const { lines, call } = opened()
  const failing = (error: Error) => work(() => Promise.reject(error))
  expect(await failure(call(failing(new SvcError('not_found', 'x')), {}))).toMatchObject({
    code: 'not_found',
  })
  expect(await failure(call(failing(new Error('bug')), {}))).toMatchObject({ code: 'internal' })
  expect(await failure(call(failing(new Error('bug')), { nonsense: 1 }))).toMatchObject({
    code: 'invalid_arguments',
  })
  expect((await lines()).map(({ outcome }) => outcome)).toEqual(['not_found', 'internal'])
})

test('the subject of a call that makes something is its id', async () => {
  const { lines, call } = opened()
  await call(
    work(async () => ({ id: 'wh_1', url: 'https://example.com/secret', secret: 'whsec_x' })),
    {},
  )
  expect((await lines()).map(({ subject }) => subject)).toEqual(['wh_1'])
})

test('a call that a key may not make is denied and has a line; others that are denied have none', async () => {
  const { lines, call } = opened()
  const denied = { code: 'forbidden' }
  expect(await failure(call(operationNamed('logout'), { session_name: 'work' }))).toMatchObject(denied)
  expect(await failure(call(operationNamed('history'), {}))).toMatchObject(denied)
  expect(await failure(call(operationNamed('logout'), {}, { kind: 'open' }))).toMatchObject(denied)
  expect(await lines()).toEqual([
    { principal: 'key:k1', operation: 'logout', subject: 'work', outcome: 'denied' },
    { principal: 'key:k1', operation: 'history', outcome: 'denied' },
  ])
})

test('a denied call has the session and user that it named, as ids and safe to print, and nothing else', async () => {
  await using t = await withGateway({ start: false })
  const by: Principal = { ...key, id: 'k3' }
  const denied = async (name: string, input: unknown) => {
    const call = invoke(operationNamed(name), t.gateway, input, createDirectCall({ by }), silentLog)
    expect(await failure(call)).toMatchObject({ code: 'forbidden' })
    const [line] = await t.gateway.audit.list({ limit: 1 })
    expect(line).toMatchObject({ operation: name, outcome: 'denied' })
    return line!.subject
  }
  const user_id = 'a@im.wechat'
  for (const [name, input, subject] of [
    ['send', { to: user_id, text: 'secret', session: 'work' }, `work ${user_id}`],
    ['send', { to: 'Mum', text: 'secret' }, undefined],
    ['history', { user_id, session: 'elsewhere', query: 'secret' }, `elsewhere ${user_id}`],
    ['logout', { session_name: 'default' }, 'default'],
    ['recv', { session: ['work', { a: 1 }] }, undefined],
    ['recv', { session: 'a\u0000b\u2028c\ud800' }, 'a\\u{0}b\\u{2028}c\\u{d800}'],
    ...([undefined, null, 'work', 5, []] as const).map(input => ['recv', input, undefined] as const),
  ] as const)
    expect([name, input, await denied(name, input)]).toEqual([name, input, subject])
  expect((await denied('recv', { session: 'x'.repeat(1e6) }))?.length).toBe(200)
})

test('a call of a key for a session that is not there for it has a line, whether the session exists or not', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'], start: false })
  const { key: secret } = await t.gateway.keys.add({ name: 'bot', can: ['reply'], sessions: ['work'] }, owner)
  const by = (await t.gateway.keys.authenticate(secret))!
  const call = (name: string, input: object, by: Principal) =>
    failure(invoke(operationNamed(name), t.gateway, input, createDirectCall({ by }), silentLog))
  for (const session of ['home', 'nowhere'])
    for (const [name, input] of [
      ['send', { to: 'a@im.wechat', text: 'x', session }],
      ['recv', { session, timeout: 0 }],
      ['history', { session }],
    ] as const) {
      expect(await call(name, input, by)).toMatchObject({ code: 'session_not_found' })
      const [line] = await t.gateway.audit.list({ limit: 1 })
      expect([session, name, line]).toMatchObject([
        session,
        name,
        {
          principal: `key:${by.id}`,
          operation: name,
          outcome: 'session_not_found',
          subject: expect.stringContaining(session),
        },
      ])
    }
  const before = await t.gateway.audit.list({ limit: 100 })
  await call('history', { session: 'nowhere' }, owner)
  expect(await t.gateway.audit.list({ limit: 100 })).toEqual(before)
})

test('of many denied calls in a minute, the last ones have one line together', async () => {
  await using t = await withGateway({ start: false })
  const by: Principal = { ...key, id: 'k2' }
  const call = () =>
    failure(invoke(operationNamed('logout'), t.gateway, {}, createDirectCall({ by }), silentLog))
  for (let nth = 0; nth < 50; nth++) expect(await call()).toMatchObject({ code: 'forbidden' })
  const lines = () => t.gateway.audit.list({ limit: 100, after: 0 })
  const before = await lines()
  expect(before.filter(({ count }) => count === undefined)).toHaveLength(before.length)
  expect(before.length).toBeLessThan(50)
  await t.pass(60_000)
  await t.until('counted', async () => (await lines()).length > before.length)
  const line = { principal: 'key:k2', operation: 'logout', outcome: 'denied' }
  expect((await lines()).at(-1)).toMatchObject({ ...line, count: 50 - before.length })
  expect(await call()).toMatchObject({ code: 'forbidden' })
  const last = (await lines()).at(-1)
  expect(last).toMatchObject(line)
  expect(last?.count).toBeUndefined()
})

test('what a key notifies stands under the key, by topic: the first of a minute, and the number of the others', async () => {
  await using t = await withGateway()
  const by: Principal = { ...key, id: 'k3', grant: { rights: ['notify'], topics: ['home', 'work'] } }
  for (const name of ['home', 'work'])
    await t.gateway.topics.add(owner, { name, to: [t.bots.get('default')!.user_id] })
  const say = (name: string, topic: string, from: Principal) => {
    const read = async () => [{ text: 'x', priority: 'default' }]
    const input = name === 'notify' ? { topic, text: 'x' } : { topic, read }
    return invoke(operationNamed(name), t.gateway, input, createDirectCall({ by: from }), silentLog)
  }
  const lines = async () =>
    (await t.gateway.audit.list({ limit: 100, after: 0 }))
      .filter(({ operation }) => /notif|notices/.test(operation))
      .map(({ count, operation, outcome, principal, subject }) => [
        [principal, operation, subject, outcome].join(' '),
        count,
      ])
  const topics = (await t.gateway.topics.list(owner)).map(({ name }) => name)
  expect(topics).toEqual(['home', 'work'])
  for (let nth = 0; nth < 30; nth++) await say('accept_notices', 'home', by)
  await say('notify', 'work', by)
  await say('notify', 'work', owner)
  await say('accept_notices', 'home', {
    kind: 'open',
    id: 'home',
    grant: { rights: ['notify'], topics: ['home'] },
  })
  expect(await failure(say('notify', 'elsewhere', by))).toMatchObject({ code: 'not_found' })
  const first = [
    ['key:k3 accept_notices home done', undefined],
    ['key:k3 notify work done', undefined],
  ]
  expect(await lines()).toEqual(first)
  await t.pass(60_000)
  await t.until('counted', async () => (await lines()).length > 2)
  expect(await lines()).toEqual([...first, ['key:k3 accept_notices home done', 29]])
})

test('lines of the audit log are events only for callers who may read it', async () => {
  const { lines, call } = opened()
  const webhook = { url: 'https://example.com/', types: ['audit.line'] }
  const audits: Principal = { ...key, grant: { rights: ['events', 'audit', 'webhooks'] } }
  const adds: Principal = { ...key, grant: { rights: ['webhooks'] } }
  for (const [name, input, by] of [
    ['follow_events', { types: 'message.received,audit.line' }, key],
    ['add_webhook', webhook, adds],
  ] as const) {
    expect(await failure(call(operationNamed(name), input, by))).toMatchObject({
      code: 'forbidden',
      details: { right: 'audit' },
    })
    await call(operationNamed(name), input, audits)
    await call(operationNamed(name), input, owner)
  }
  await call(operationNamed('follow_events'), {})
  expect((await lines()).map(({ operation, outcome }) => [operation, outcome])).toEqual([
    ['follow_events', 'denied'],
    ['add_webhook', 'denied'],
    ['add_webhook', 'done'],
    ['add_webhook', 'done'],
  ])
})

test('a key does not get past a log that cannot be written; the owner does, and the log says so', async () => {
  const { gateway, lines } = opened()
  const logged: string[] = []
  const log = createLog('WARNING', line => logged.push(line))
  const broken = async () => {
    throw new SvcError('store_unavailable', 'the disk is full')
  }
  gateway.audit.add = broken
  let ran = 0
  const one = work(async () => ({ ran: ++ran }))
  const call = (by: Principal) => invoke(one, gateway, {}, createDirectCall({ by }), log)
  expect(await failure(call(key))).toMatchObject({ code: 'store_unavailable' })
  expect(ran).toBe(0)
  await call(owner)
  expect([ran, logged.length, await lines()]).toEqual([1, 1, []])
})

describe('each operation', () => {
  test('that changes something has a line, except these', () => {
    const unaudited = operations.filter(({ audited, effect }) => effect !== 'read' && audited === false)
    expect(unaudited.map(({ name }) => name).sort()).toEqual([
      'begin_reading',
      'download',
      'follow_messages',
      'give_invited_code',
      'join_by_invitation',
      'lease_messages',
      'mark_read',
      'mark_unread',
      'open_messages',
      'recv',
      'relay_send',
      'renew_leases',
      'send',
      'settle_leases',
      'show_typing',
      'work_as_agent',
    ])
  })

  test('names only ids and sessions in its line', async () => {
    const { lines, call } = opened()
    for (const one of operations) {
      if (one.effect === 'read' || one.audited === false) continue
      const input = Object.fromEntries(Object.keys(one.input.properties).map(name => [name, `<${name}>`]))
      const silent = { ...one, parse: () => input, furtherRights: () => [], run: async () => ({}) }
      await call(silent as unknown as Operation, {}, owner)
    }
    const subjects = new Map((await lines()).map(({ operation, subject }) => [operation, subject]))
    expect(Object.fromEntries(subjects)).toEqual({
      add_invitation: undefined,
      revoke_invitation: '<id>',
      add_topic: '<name>',
      change_topic: '<topic>',
      remove_topic: '<topic>',
      add_key: undefined,
      add_relay: undefined,
      remove_relay: undefined,
      allow_relay: undefined,
      create_panel_link: undefined,
      sign_in: '<by>',
      sign_out: '<by>',
      rename_session: '<old_name>',
      rename_account: '<name>',
      logout: '<session_name>',
      logout_account: '<name>',
      set_default: '<session_name>',
      login: '<session_name>',
      start_login: '<name> <session_name>',
      give_login_code: '<login_id>',
      cancel_login: '<login_id>',
      forget_login: '<session>',
      check_sessions: '<session>',
      name_user: '<session>',
      add_question: '<session>',
      cancel_question: '<id>',
      cancel_outbox: '<id>',
      approve_outbox: '<id>',
      decline_outbox: '<id>',
      link_events: '<session>',
      remove_consumer: '<name>',
      remove_webhook: '<id>',
      test_webhook: '<id>',
      pause_webhook: '<id>',
      resume_webhook: '<id>',
      revoke_key: '<id>',
      rotate_key: '<id>',
      rotate_webhook: '<id>',
      replay_webhook: '<id>',
      add_webhook: undefined,
      subscribe_events: undefined,
      unsubscribe_events: undefined,
      upload_media: undefined,
      stop_agent_turn: '<id>',
      inject_agent_turn: '<agent> <session>',
      answer_agent_question: '<id> <option>',
      add_agent_time: '<agent> <session>',
      cancel_agent_time: '<id>',
    })
  })
})

test('a line has the id of a user who is named, and not the name', async () => {
  const { lines, call } = opened()
  const one = work(async () => ({ session: 'work', user_id: 'a@im.wechat', name: 'Mum' }))
  await call(one, { user_id: 'Mummy' })
  await failure(
    call(
      work(() => Promise.reject(new SvcError('not_found', 'x'))),
      { user_id: 'Mummy' },
    ),
  )
  expect((await lines()).map(({ subject }) => subject)).toEqual(['work a@im.wechat', undefined])
})

test('a process that dies in a call leaves a line without an outcome', async () => {
  const script = `
    const { Svc } = await import('${import.meta.dir}/../../src/index.ts')
    const { nameUser } = await import('${import.meta.dir}/../../src/operations/users.ts')
    nameUser.run = () => process.kill(process.pid, 'SIGKILL')
    const svc = await Svc.open({ basePath: '${folder}/data', store: true })
    await svc.nameUser('a@im.wechat', 'Mum')`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'ignore', stderr: 'inherit' })
  await child.exited
  expect(child.signalCode).toBe('SIGKILL')
  const { Svc } = await import('../../src/index.ts')
  await using svc = await Svc.open({ basePath: `${folder}/data`, store: true })
  const [line, ...others] = await svc.audit()
  expect(others).toEqual([])
  expect(line).toEqual({
    ...{ id: expect.any(Number), at: expect.any(Number), principal: 'owner' },
    ...{ operation: 'name_user', subject: 'a@im.wechat', address: `library:${findSystemUser()}` },
  })
})
