import { expect, test } from 'bun:test'
import { errorCodes, errorKindOf, invalidArguments, SvcError, withFieldNames } from '../../src/model/error.ts'
import { adviceOf, type Door, type NextStep, plainWordingOf } from '../../src/model/next-step.ts'
import { describeFor, tools } from '../../src/operations/tools.ts'

const errorsOf = (error: SvcError) => error.details?.errors

test('only what a repeat after a while mends has a status that generic clients repeat by themselves', () => {
  expect(errorCodes.filter(code => errorKindOf(code).status === 429)).toEqual(['rate_limited'])
  expect(errorKindOf('quota_exhausted').status).toBe(409)
})

test('a wrong field is data, alone or among others', () => {
  const one = new SvcError('invalid_arguments', 'wrong', { field: 'to' })
  expect(one).toMatchObject({ field: 'to', problem: 'wrong', message: 'to: wrong' })
  expect(errorsOf(one)).toEqual([{ field: 'to', problem: 'wrong' }])
  expect(errorsOf(invalidArguments([{ field: 'to', problem: 'wrong' }]))).toEqual(errorsOf(one))
  const two = invalidArguments([
    { field: 'to', problem: 'wrong' },
    { field: '', problem: 'no object' },
  ])
  expect(two).toMatchObject({ field: undefined, message: 'to: wrong; no object' })
  expect(errorsOf(two)).toHaveLength(2)
  expect(errorsOf(invalidArguments(Array(10_000).fill({ field: 'x', problem: 'y' })))).toHaveLength(20)
})

test('a caller who has other names for the fields gets the same error with those', () => {
  const ofFlag = (error: SvcError) =>
    withFieldNames(error, ({ field, problem }) => ({ field: `--${field}`, problem: `${problem}!` }))
  const next: NextStep = { action: 'upload' }
  const one = new SvcError('invalid_arguments', 'wrong', { field: 'to', next, details: { at: 1 } })
  expect(ofFlag(one)).toMatchObject({ field: '--to', message: '--to: wrong!', advice: { next } })
  expect(ofFlag(one).details).toEqual({ at: 1, errors: [{ field: '--to', problem: 'wrong!' }] })
  expect(ofFlag(ofFlag(one)).field).toBe('----to')
  const many = invalidArguments([
    { field: 'a', problem: 'x' },
    { field: 'b', problem: 'y' },
  ])
  expect(ofFlag(many).message).toBe('--a: x!; --b: y!')
  const other = new SvcError('payload_too_large', 'too large', { field: 'data', hint: 'less', retryAfter: 3 })
  expect(ofFlag(other)).toMatchObject({ field: '--data', hint: 'less', retryAfter: 3 })
  const none = new SvcError('not_found', 'nothing')
  expect(ofFlag(none)).toBe(none)
})

test('every code says what to do, at every door', () => {
  for (const code of errorCodes) {
    expect(errorKindOf(code).hint ?? errorKindOf(code).next).toBeDefined()
    for (const door of ['http', 'mcp', 'local', 'cli', 'library'] as const)
      expect(adviceOf(new SvcError(code, 'it failed'), plainWordingOf(door))).not.toBe('')
  }
})

test('the advice of the thrower stands in place of the catalogue’s, and the command is typed as the door types it', () => {
  const error = new SvcError('not_connected', 'it failed', {
    hint: 'First.',
    next: { action: 'run', command: ['doctor'] },
  })
  const typed = adviceOf(error, { door: 'cli', command: words => `svc ${words.join(' ')} -d there` })
  expect(typed).toStartWith('First. ')
  expect(typed).toContain('svc doctor -d there')
  expect(adviceOf(new SvcError('not_connected', 'it failed', { hint: 'First.' }))).toBe('First.')
})

test('each door is sent to what it has: an option, an argument, a resource, a command', () => {
  const said = (next: NextStep, door: Door) =>
    adviceOf(new SvcError('internal', 'it failed', { next }), plainWordingOf(door))
  const full = (door: Door) => adviceOf(new SvcError('quota_exhausted', 'it failed'), plainWordingOf(door))
  expect(full('cli')).toContain('--when-closed queue')
  expect(full('cli')).not.toContain('when_closed')
  const users: NextStep = { action: 'see', what: 'users' }
  for (const door of ['mcp', 'local'] as const) {
    expect(full(door)).toContain('when_closed')
    expect(full(door)).not.toContain('--when-closed')
    expect(said(users, door)).toContain('svc://users')
    expect(said(users, door)).not.toContain('svc users')
  }
  expect(said(users, 'cli')).toContain('svc users')
  expect(said(users, 'library')).toContain('svc.users()')
  const webhooks: NextStep = { action: 'see', what: 'webhooks' }
  expect(said(webhooks, 'cli')).toContain('svc webhook')
  expect(said(webhooks, 'http')).toContain('/webhooks')
  const bearers = ['home', 'work'].map(session => ({ session, user_id: 'a@im.wechat' }))
  const which: NextStep = { action: 'say which user', users: bearers }
  expect(said(which, 'cli')).toContain(' -s')
  for (const door of ['http', 'mcp', 'local', 'library'] as const) {
    expect(said(which, door)).toContain('session')
    expect(said(which, door)).toContain('a@im.wechat')
    expect(said(which, door)).not.toContain(' -s')
  }
  // Of one session, its name would not help.
  const alike: NextStep = {
    action: 'say which user',
    users: ['a', 'A'].map(name => ({ session: 'home', user_id: `${name}@im.wechat` })),
  }
  expect(said(alike, 'cli')).toContain('A@im.wechat')
  expect(said(alike, 'cli')).not.toContain(' -s')
})

const http = /\b(GET|POST|PUT|DELETE) \/|\/docs|media root/

test('a program that catches an error is told what it can call', () => {
  const error = new SvcError('not_connected', 'it failed')
  expect(error.hint).toBe(adviceOf(error, plainWordingOf('library')))
  const next: NextStep = { action: 'login', session: 'work' }
  const { hint } = new SvcError('session_expired', 'it failed', { next })
  expect(hint).toContain('svc.login({ session_name: "work" })')
})

test('nobody on this machine is told of HTTP paths, by an error or by a tool', () => {
  const actions: NextStep[] = [
    { action: 'login', session: 'work' },
    { action: 'run', command: ['doctor'] },
    { action: 'upload' },
    { action: 'wait' },
    ...(
      ['sessions', 'messages', 'media', 'outbox', 'approvals', 'users', 'webhooks', 'arguments'] as const
    ).map(what => ({ action: 'see', what }) as const),
  ]
  const advice = (next: NextStep, door: Door) =>
    adviceOf(new SvcError('internal', 'it failed', { next }), plainWordingOf(door))
  for (const next of actions)
    for (const door of ['local', 'cli', 'library'] as const) expect(advice(next, door)).not.toMatch(http)
  for (const tool of tools) {
    for (const where of ['anyFile', 'someFiles'] as const) expect(describeFor(tool, where)).not.toMatch(http)
    expect(JSON.stringify([tool.inputSchema, tool.outputSchema])).not.toMatch(http)
  }
})
