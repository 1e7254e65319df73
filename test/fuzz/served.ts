/**
 * Whether others are served: while each route, tool and MCP method is called at its largest sizes, and while callers, receivers
 * and WeChat do what takes long, with a house that is full, a call of `sessions` beside it is answered soon.
 */
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import { until } from '../support/until.ts'
import {
  allEndless,
  type Crowd,
  endlessServer,
  fillStore,
  known,
  ofUsers,
  placeOf,
  scattered,
  withMessages,
} from './crowd.ts'
import { type Listed, listsOf, methods } from './doors.ts'
import { bearer, json, mcpHeaders } from './requests.ts'
import { standingConnections } from './standing.ts'
import { startTarget, type Target, users } from './target.ts'
import { message, textItem } from './upstream.ts'
import type { Schema } from './values.ts'

export interface ServedOptions {
  crowd: Crowd
  /** Each case is run so often; the middle one counts. */
  times: number
  /** A caller beside may wait so long. */
  pauseMs: number
  memoryMb: number
  /** Only cases whose name contains it. */
  only?: string
  command?: string[]
  onLine?(line: string): void
}

export interface ServedReport {
  cases: number
  /** How long the caller beside waited at most, by the middle of the runs, ms. */
  waits: { name: string; ms: number }[]
  findings: string[]
}

export const fullHouse: Crowd = { messages: 100_000, webhooks: 100, users: 1000 }

/** What takes long: it has as much time. */
const patienceMs = 120_000
const readMs = 4000

interface Case {
  name: string
  run(target: Target): Promise<unknown>
}

export async function othersServed(options: ServedOptions): Promise<ServedReport> {
  const { command, crowd, memoryMb, only = '', pauseMs, times, onLine = () => {} } = options
  const servers = await Promise.all(allEndless.map(endlessServer))
  try {
    await using target = await startTarget({
      ...{ memoryMb, asked: 'sessions', ...(command && { command }) },
      prepare: dir =>
        fillStore(
          dir,
          crowd,
          servers.map(({ url }) => url),
        ),
    })
    const token = await until('an account polls', patienceMs, () => target.victim())
    await target.upstream.answer(token, ofUsers(crowd.users, 'crowd'))
    await until('the users are there', patienceMs, () => target.upstream.cursorOf(token) === 'crowd')
    const report: ServedReport = { cases: 0, waits: [], findings: [] }
    const cases = [...attacks(crowd), ...(await largestCalls(target)), ...(await standingConnections(target))]
    for (const { name, run } of cases.filter(one => one.name.includes(only))) {
      const pauses: number[] = []
      for (let time = 0; time < times && !target.broken(); time++) {
        target.restore()
        target.pauseMs()
        await run(target)
        // The next one begins when this one is worked off. Else they pile up on a machine in demand.
        const { asks } = target
        await until(
          'the caller beside is answered',
          patienceMs,
          () => target.asks > asks + 1 || target.broken(),
        )
        pauses.push(target.pauseMs())
      }
      onLine(`${name}: ${pauses.join(' ')} ms, ${target.peakMb} MB`)
      const ms = pauses.sort((a, b) => a - b)[pauses.length >> 1] ?? 0
      report.cases++
      report.waits.push({ name, ms })
      const broken = target.broken()
      if (broken) report.findings.push(`${name}: ${broken}`)
      else if (ms > pauseMs) report.findings.push(`${name}: everybody waits ${ms} ms`)
      if (broken || ms > pauseMs) onLine(`FOUND ${report.findings.at(-1)}`)
      if (broken) break
    }
    return report
  } finally {
    for (const server of servers) await server[Symbol.asyncDispose]()
  }
}

export const servedText = ({ cases, findings, waits }: ServedReport): string =>
  [
    `others are served: ${cases} cases, ${findings.length} findings; the longest waits:`,
    ...waits
      .sort((a, b) => b.ms - a.ms)
      .slice(0, 10)
      .map(({ ms, name }) => `${String(ms).padStart(6)} ms  ${name}`),
  ].join('\n')

async function called(url: string, init: RequestInit, withinMs = readMs): Promise<number> {
  try {
    const signal = AbortSignal.timeout(withinMs)
    const answer = await fetch(url, { ...init, headers: { ...bearer, ...init.headers }, signal })
    for await (const _ of answer.body ?? []);
    return answer.status
  } catch {
    return 0
  }
}

const many = <T>(count: number, work: (nth: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, nth) => work(nth)))

/** What callers, receivers and WeChat do that takes long. */
function attacks({ messages }: Crowd): Case[] {
  const rest = (target: Target, path: string) => target.urls.rest + path
  const tool = (target: Target, name: string, input: string) =>
    called(rest(target, `/tools/default/${name}`), { method: 'POST', headers: json, body: input }, patienceMs)
  const search = JSON.stringify({ text_contains: scattered })
  const brackets = '['.repeat(10_000_000)
  const answered = async (target: Target, reply: { status: number; body: string }, cursor?: string) => {
    const token = await until('an account polls', patienceMs, () => target.victim())
    await target.upstream.answer(token, reply)
    if (cursor === undefined) await Bun.sleep(2000)
    else await until('it is stored', patienceMs, () => target.upstream.cursorOf(token) === cursor)
  }
  let batches = 0
  return [
    { name: 'nothing', run: () => Bun.sleep(2000) },
    ...[1, 4].map(readers => ({
      name: `${readers} read all events at full speed`,
      run: (target: Target) => many(readers, () => called(rest(target, '/events?after=0'), {})),
    })),
    ...['', '?after=0'].map(query => ({
      name: `1,000 never read /events${query}`,
      run: (target: Target) => neverRead(target, `/events${query}`, 1000),
    })),
    ...[1, 40].map(count => ({
      name: `${count} search for a phrase whose pairs are everywhere`,
      run: (target: Target) => many(count, () => tool(target, 'history', search)),
    })),
    {
      name: '200 ask for links without a token',
      run: target =>
        many(200, nth =>
          called(rest(target, `/shared/wh_${nth % 100}/1/message?expires=99999999999&signature=x`), {
            headers: { authorization: '' },
          }),
        ),
    },
    {
      name: '1,000 calls without a token',
      run: target =>
        many(1000, () =>
          called(rest(target, '/tools/default/sessions'), { method: 'POST', headers: { authorization: '' } }),
        ),
    },
    ...['../é/', 'é/', 'é'.repeat(500).concat('/../')].map(names => {
      const path = names.repeat(32_000 / names.length)
      return {
        name: `4 name a file by ${names.slice(0, 5)} ${path.length / names.length} times`,
        run: (target: Target) =>
          many(4, () =>
            tool(target, 'send', JSON.stringify({ to: users[0], media: [{ kind: 'file', path }] })),
          ),
      }
    }),
    ...allEndless.map((kind, nth) => ({
      name: `a receiver without end: ${kind}`,
      run: (target: Target) =>
        many(4, () => called(rest(target, `/webhooks/wh_${nth}/test`), { method: 'POST' }, 30_000)),
    })),
    ...[
      brackets,
      `{"media":[{"data":"${'A'.repeat(22_000_000)}"}]}`,
      `{"text":"${'\\"'.repeat(10_000_000)}"}`,
    ].map(body => ({
      name: `a body of ${body.length} bytes: ${body.slice(0, 20)}`,
      run: (target: Target) => tool(target, 'send', body),
    })),
    {
      name: 'WeChat answers with 10 MB of brackets',
      run: target => answered(target, { status: 200, body: `{"ret":0,"msgs":${brackets}` }),
    },
    {
      name: 'WeChat answers with a message of 10 MB of brackets',
      run: target => {
        const half = 5_000_000
        const msgs = `[{"a":${'['.repeat(half)}${']'.repeat(half)}}]`
        const cursor = `deep${batches++}`
        return answered(
          target,
          { status: 200, body: `{"ret":0,"msgs":${msgs},"get_updates_buf":"${cursor}"}` },
          cursor,
        )
      },
    },
    {
      name: `WeChat answers with ${messages} messages`,
      run: target => {
        const cursor = `many${batches++}`
        const msgs = Array.from({ length: messages }, (_, nth) =>
          message({
            id: String(7_420_000_000_000_000_000n + BigInt(batches * messages + nth)),
            user: `u${nth % 1000}@im.wechat`,
            items: [textItem(`new ${nth}`)],
          }),
        )
        return answered(target, withMessages(msgs, cursor), cursor)
      },
    },
  ]
}

/** Readers whose sockets take nothing, while messages come. */
async function neverRead(target: Target, path: string, count: number): Promise<void> {
  const { hostname, port, host } = new URL(target.urls.rest)
  const head = `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: ${bearer.authorization}\r\n\r\n`
  const sockets: Socket[] = []
  for (let nth = 0; nth < count; nth++) {
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    socket.pause()
    socket.write(head)
    sockets.push(socket)
    if (nth % 50 === 0) await Bun.sleep(5)
  }
  await Bun.sleep(1000)
  await target.count()
  for (const socket of sockets) socket.destroy()
}

const longText = 16_384

/** The largest value that a schema allows. */
function largest(schema: Schema, resolve: (ref: string) => Schema, name = ''): unknown {
  if (schema.$ref !== undefined) return largest(resolve(schema.$ref), resolve, name)
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum.at(-1)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices) return largest(choices[0]!, resolve, name)
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'integer':
    case 'number':
      return /timeout/.test(name) ? 0 : Math.min(schema.maximum ?? 1e6, Number.MAX_SAFE_INTEGER)
    case 'boolean':
      return true
    case 'array':
      return Array.from({ length: Math.min(schema.maxItems ?? 20, 100) }, () =>
        largest(schema.items ?? {}, resolve, name),
      )
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([key, one]) => [key, largest(one, resolve, key)]),
      )
    default:
      return '字'.repeat(Math.min(schema.maxLength ?? longText, longText))
  }
}

/** With what is needed alone, with all, and with each argument at its largest. */
function inputsOf(schema: Schema, resolve: (ref: string) => Schema): Record<string, unknown>[] {
  if (schema.$ref !== undefined) return inputsOf(resolve(schema.$ref), resolve)
  const fields = Object.entries(schema.properties ?? {})
  const given = (key: string, one: Schema) => known[key] ?? largest(one, resolve, key)
  const needed = Object.fromEntries(
    fields.filter(([key]) => schema.required?.includes(key)).map(([key, one]) => [key, given(key, one)]),
  )
  return [
    needed,
    Object.fromEntries(fields.map(([key, one]) => [key, given(key, one)])),
    ...fields.flatMap(([key, one]) => [
      { ...needed, [key]: given(key, one) },
      { ...needed, [key]: largest(one, resolve, key) },
    ]),
  ]
}

async function largestCalls(target: Target): Promise<Case[]> {
  const headers = { ...bearer, ...mcpHeaders, 'mcp-session-id': target.ids.session }
  const rpc = (method: string, params: unknown) =>
    called(`${target.urls.rest}/mcp`, {
      ...{ method: 'POST', headers },
      body: JSON.stringify({ jsonrpc: '2.0', id: ++asked, method, params }),
    })
  let asked = 1000
  const { operations, tools } = await listsOf(target)
  return [
    ...operations.map(one => largestOf(target.urls[one.door], one)),
    ...tools.map(({ name, inputSchema }) => ({
      name: `mcp: ${name}`,
      async run() {
        for (const args of inputsOf(inputSchema, () => ({})))
          await rpc('tools/call', { name, arguments: args })
      },
    })),
    ...Object.entries(methods).map(([method, params]) => ({
      name: `mcp: ${method}`,
      async run() {
        for (const given of fc.sample(params, { numRuns: 4, seed: 1 })) await rpc(method, given)
      },
    })),
  ]
}

function largestOf(url: string, { door, method, path, parameters, schema, resolve }: Listed): Case {
  return {
    name: `${door}: ${method} ${path}`,
    async run() {
      const place = placeOf(path)
      const query = parameters.filter(one => one.in === 'query')
      const asked = inputsOf(
        { type: 'object', properties: Object.fromEntries(query.map(({ name, schema }) => [name, schema])) },
        resolve,
      ).map(one => new URLSearchParams(Object.entries(one).map(([key, value]) => [key, String(value)])))
      const bodies = schema ? inputsOf(schema, resolve).map(one => JSON.stringify(one)) : [undefined]
      const init = { method: method.toUpperCase(), ...(schema && { headers: json }) }
      for (const one of asked.slice(0, schema ? 1 : asked.length))
        for (const text of bodies)
          await called(`${url}${place}?${one}`.slice(0, 60_000), { ...init, ...(text && { body: text }) })
    },
  }
}
