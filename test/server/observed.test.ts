/** What a door tells of the calls that it answers. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { createLog } from '../../src/platform/log.ts'
import { observeCalls } from '../../src/server/observed.ts'
import { type Json, startRest } from '../support/rest.ts'

/** A service whose log is read, behind a trusted proxy on this machine. */
async function startHeard() {
  const lines: Json[] = []
  const log = createLog('INFO', line => void lines.push(JSON.parse(line)), 'json')
  const rest = await startRest({ log, trustedProxies: ['127.0.0.1'], token: 'correct-horse-battery' })
  const headers = { authorization: 'Bearer correct-horse-battery', 'x-forwarded-for': '203.0.113.9' }
  const call = (path: string, more: Record<string, string> = {}) =>
    fetch(`${rest.url}${path}`, { headers: { ...headers, ...more } })
  return { call, lines, rest, [Symbol.asyncDispose]: () => rest[Symbol.asyncDispose]() }
}

test('an answer, its line and its problem have one id, which is the caller’s own only if it is harmless', async () => {
  await using heard = await startHeard()
  const secret = `svc_${'a'.repeat(8)}_${'0'.repeat(64)}`
  for (const [own, isTaken] of [
    ['job-7.A_b', true],
    ['x'.repeat(64), true],
    ['x'.repeat(65), false],
    ['a b', false],
    ['a"b', false],
    ['ä', false],
    [secret, false],
    ['', false],
  ] as const) {
    const answer = await heard.call('/nothing', own === '' ? {} : { 'x-request-id': own })
    const id = answer.headers.get('x-request-id')!
    expect([own, id === own]).toEqual([own, isTaken])
    expect(id).toMatch(/^[\w.-]{1,64}$/)
    expect((await answer.json()).request_id).toBe(id)
    expect(heard.lines.at(-1)).toMatchObject({ event: 'answered', status: 404, request_id: id })
  }
  const fine = await heard.call('/tools')
  expect(heard.lines.at(-1)!.request_id).toBe(fine.headers.get('x-request-id')!)
  expect(JSON.stringify(heard.lines)).not.toContain(secret)
})

test('a line names node, caller and address, and the page has each of its fields', async () => {
  await using heard = await startHeard()
  await heard.call('/tools')
  await heard.call('/healthz')
  await heard.call('/tools', { authorization: 'Bearer wrong' })
  heard.rest.gateway.accounts.list = () => Promise.reject(new TypeError('a bug'))
  const failed = await heard.call('/tools/default/sessions', { 'x-request-id': 'mine' })
  expect(failed.status).toBe(405)
  const bug = await fetch(`${heard.rest.url}/tools/default/sessions`, {
    method: 'POST',
    headers: {
      authorization: 'Bearer correct-horse-battery',
      'content-type': 'application/json',
      'x-request-id': 'mine',
    },
    body: '{}',
  })
  expect(bug.status).toBe(500)
  const calls = heard.lines.filter(({ event }) => event === 'answered')
  expect(calls.map(({ address, caller, status }) => [status, caller, address])).toEqual([
    [200, 'owner', '203.0.113.9'],
    [401, undefined, '203.0.113.9'],
    [405, 'owner', '203.0.113.9'],
    [500, 'owner', '127.0.0.1'],
  ])
  const [error] = heard.lines.filter(({ event }) => event === 'unexpected error')
  expect(error).toMatchObject({ request_id: 'mine', id: (await bug.json()).details.id })
  for (const { node } of heard.lines) expect(node).toBe(`${hostname()}:${process.pid}`)
  const page = readFileSync(new URL('../../src/server/README.md', import.meta.url), 'utf8')
  const table = page.slice(page.indexOf('### Lines of the log')).split('\n\n')[2]!
  const listed = table.split('\n').flatMap(row => row.split('|')[1]!.match(/\w+/g) ?? [])
  for (const key of [...calls, error!].flatMap(Object.keys)) expect(listed).toContain(key)
  expect(JSON.stringify(heard.lines)).not.toMatch(/correct-horse|Bearer/)
})

// Last: it uses up the lines about strangers.
test('each accepted call has its line; those of strangers have a few together, and are counted all the same', async () => {
  const lines: string[] = []
  let counted = 0
  const answering = observeCalls(
    (request, peer) => {
      const isKnown = request.headers.has('authorization')
      if (isKnown) peer?.accept()
      return new Response(null, { status: isKnown ? 200 : 401 })
    },
    {
      gateway: { metrics: { answered: () => void counted++ } as never },
      log: createLog('INFO', line => void lines.push(line)),
    },
    () => undefined,
  )
  const begun = performance.now()
  const call = (headers: Record<string, string> = {}) =>
    answering(new Request('http://localhost/nothing', { headers }))
  for (let nth = 0; nth < 500; nth++) {
    await call()
    await call({ authorization: 'Bearer x' })
  }
  const seconds = Math.ceil((performance.now() - begun) / 1000) + 1
  expect(lines.filter(line => line.includes('status=200'))).toHaveLength(500)
  expect(lines.filter(line => line.includes('status=401')).length).toBeLessThanOrEqual(10 * seconds)
  expect(counted).toBe(1000)
})
