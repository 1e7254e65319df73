/**
 * Many connections of one caller at once, on every route: each sends its request, or the beginning of it, and reads nothing
 * of the answer. The caller beside has another key.
 */
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import { placeOf } from './crowd.ts'
import { listsOf, methods } from './doors.ts'
import { bearer, json, mcpHeaders } from './requests.ts'
import type { Target } from './target.ts'

const connections = 400

/** What each connection sends. */
interface Sent {
  name: string
  door: 'rest' | 'panel'
  /** Method and path. */
  line: string
  headers?: Record<string, string>
  body?: string
  /** Bytes that are announced and never come. */
  missing?: number
  /** Only so much of it is sent. */
  length?: number
}

/** @returns one for each way to keep many connections open */
export async function standingConnections(
  target: Target,
): Promise<{ name: string; run(target: Target): Promise<void> }[]> {
  const made = await fetch(`${target.urls.rest}/keys`, {
    method: 'POST',
    headers: { ...bearer, ...json },
    body: JSON.stringify({ name: 'crowd', can: ['all'] }),
  })
  const { key } = (await made.json()) as { key: string }
  const own = { authorization: `Bearer ${key}` }
  return (await allSent(target)).map(sent => ({
    name: `${connections} connections: ${sent.name}`,
    run: found => standing(found, { ...sent, headers: { ...own, ...sent.headers } }),
  }))
}

async function allSent(target: Target): Promise<Sent[]> {
  const { operations } = await listsOf(target)
  const ofOperations = operations.flatMap(({ door, hasBody, method, path }): Sent[] => {
    const line = `${method.toUpperCase()} ${placeOf(path)}`
    const isFile = hasBody && /\/media$/.test(path)
    const type = { 'content-type': isFile ? 'application/octet-stream' : 'application/json' }
    const name = `${door} ${method} ${path}`
    const whole = { name, door, line, ...(hasBody && { headers: type, body: '{}' }) }
    return hasBody ? [whole, { ...whole, name: `${name}, half a body`, missing: 100_000 }] : [whole]
  })
  const tool = (name: string, input: object): Sent => ({
    ...{ name: `${name} ${JSON.stringify(input)}`, door: 'rest', line: `POST /tools/default/${name}` },
    ...{ headers: json, body: JSON.stringify(input) },
  })
  const rpc = (method: string, params: unknown, more: Partial<Sent> = {}): Sent => ({
    ...{ name: `mcp ${method}`, door: 'rest', line: 'POST /mcp', headers: mcpHeaders },
    ...{ body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), ...more },
  })
  const stranger = { authorization: '' }
  return [
    ...ofOperations,
    tool('recv', { timeout: 60, consumer: 'late' }),
    tool('history', { limit: 200 }),
    { name: 'events from the first', door: 'rest', line: 'GET /events?after=0' },
    { name: 'changes of the panel', door: 'panel', line: 'GET /api/events' },
    ...Object.entries(methods).map(([method, params]) =>
      rpc(method, fc.sample(params, { numRuns: 1, seed: 1 })[0]),
    ),
    rpc('tools/call', { name: 'recv', arguments: { timeout: 60 } }),
    rpc('subscriptions/listen', {}),
    rpc('initialize', {}, { name: 'mcp, half a body', missing: 100_000 }),
    { name: 'nothing at all', door: 'rest', line: 'GET /me', length: 0 },
    { name: 'half a header', door: 'rest', line: 'GET /me', length: 30 },
    {
      name: 'a wrong key',
      door: 'rest',
      line: 'GET /me',
      headers: { authorization: 'Bearer svc_k3v9x2ab_x' },
    },
    { name: 'no token, half a body', door: 'rest', line: 'POST /media', headers: stranger, missing: 100_000 },
    ...['/', '/docs', '/openapi.json', '/healthz', '/events?link=x'].map(
      (path): Sent => ({ name: `no token, ${path}`, door: 'rest', line: `GET ${path}`, headers: stranger }),
    ),
    ...['/', '/sign-in?code=x', '/locales/en.json'].map(
      (path): Sent => ({
        name: `no token, panel ${path}`,
        door: 'panel',
        line: `GET ${path}`,
        headers: stranger,
      }),
    ),
    {
      ...{ name: 'sign in to the panel, half a body', door: 'panel', line: 'POST /api/sign-in' },
      ...{ headers: { ...stranger, ...json }, body: '{"', missing: 100 },
    },
  ]
}

async function standing(target: Target, sent: Sent): Promise<void> {
  const { body = '', door, headers, line, missing = 0 } = sent
  const { hostname, port, host } = new URL(target.urls[door])
  const announced = body.length + missing
  const all = { host, ...headers, ...(announced > 0 && { 'content-length': String(announced) }) }
  const fields = Object.entries(all).flatMap(([name, value]) => (value ? [`${name}: ${value}\r\n`] : []))
  const text = `${line} HTTP/1.1\r\n${fields.join('')}\r\n${body}`.slice(0, sent.length)
  const sockets: Socket[] = []
  try {
    for (let nth = 0; nth < connections; nth++) {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.pause()
      socket.write(text)
      sockets.push(socket)
      if (nth % 50 === 49) await Bun.sleep(5)
    }
    await Bun.sleep(600)
  } finally {
    for (const socket of sockets) socket.destroy()
  }
}
