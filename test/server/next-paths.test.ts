/** Advice names paths: each is one of the port that gives it. */
import { expect, test } from 'bun:test'
import { type ErrorCode, errorCodes, SvcError } from '../../src/model/error.ts'
import { adviceOf, type Door, type NextStep, plainWordingOf } from '../../src/model/next-step.ts'
import { startAdmin } from '../support/admin.ts'
import { startRest } from '../support/rest.ts'

const seen = [
  'sessions',
  'messages',
  'media',
  'users',
  'webhooks',
  'arguments',
  'outbox',
  'approvals',
  'paths',
]
const steps = [
  ...['login', 'upload', 'queue', 'wait'].map(action => ({ action })),
  ...seen.map(what => ({ action: 'see', what })),
] as NextStep[]
const errors = [
  ...errorCodes.map((code: ErrorCode) => new SvcError(code, 'wrong')),
  ...steps.map(next => new SvcError('not_found', 'wrong', { next })),
]

async function namedBut(door: Door, url: string): Promise<{ named: string[]; absent: string[] }> {
  const { paths } = await (await fetch(`${url}/openapi.json`)).json()
  const advice = errors.map(error => adviceOf(error, plainWordingOf(door))).join(' ')
  const named = [...advice.matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/[\w/{}]+)/g)]
  const absent = named.filter(([, method, path]) => !paths[path!]?.[method!.toLowerCase()])
  const linked = [...advice.matchAll(/(?<!(?:GET|POST|PUT|DELETE) )(?<=^|\s)\/\w+/g)].map(([path]) => path)
  for (const path of new Set(linked)) expect([path, (await fetch(url + path)).status]).toEqual([path, 200])
  return { named: named.map(([text]) => text), absent: absent.map(([text]) => text) }
}

test('at the service', async () => {
  await using rest = await startRest()
  const { named, absent } = await namedBut('http', rest.url)
  expect([absent, named.length > 3]).toEqual([[], true])
})

test('at the panel, which speaks of no tool either', async () => {
  await using admin = await startAdmin({ start: false })
  const { named, absent } = await namedBut('panel', admin.url)
  expect([absent, named.length > 5]).toEqual([[], true])
  for (const [path, body] of [
    ['/api/call/cancel_outbox', { id: '1' }],
    ['/api/call/test_webhook', { id: 'wh_1' }],
    ['/api/call/list_messages', { session: 'nope' }],
  ] as const)
    expect((await admin.call('POST', path, body)).body.hint).toContain('/api/call/list_')
})

test('a call that there is not is told of as such, and of the others only where they are described', async () => {
  await using admin = await startAdmin({ start: false })
  for (const [method, path] of [
    ['POST', '/api/call/nope'],
    ['GET', '/api/call/nope'],
    ['POST', '/api/nope'],
  ] as const) {
    const { status, body } = await admin.call(method, path)
    expect([status, body.code]).toEqual([404, 'not_found'])
    expect(body.hint).not.toContain('/api/')
    expect(JSON.stringify(body).length).toBeLessThan(300)
  }
})
