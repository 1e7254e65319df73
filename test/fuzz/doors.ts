/** Calls at every door, made of what the service says of itself: its two OpenAPI documents and its list of MCP tools. */
import fc from 'fast-check'
import type { Json } from '../support/service.ts'
import {
  type Body,
  bearer,
  type Framing,
  framing,
  json,
  jsonBody,
  mcpHeaders,
  none,
  printable,
  someHeaders,
  uploadBody,
} from './requests.ts'
import type { Target } from './target.ts'
import { firstId } from './upstream.ts'
import {
  hostileText,
  jsonText,
  type Known,
  type Schema,
  type Spoiled,
  sizeOf,
  spoiled,
  stretched,
  valid,
} from './values.ts'

export interface Call {
  door: 'rest' | 'panel' | 'mcp'
  operation: string
  method: string
  path: string
  headers: Record<string, string>
  body?: string | Uint8Array<ArrayBuffer>
  /** How the body is announced. */
  framing: Framing
  /** What is hostile in it. */
  places: string[]
  /** May take its time: the caller leaves after a moment. */
  waits: boolean
}

/** Stand for what only the running service knows. */
const marks = { upload: '@@upload@@', session: '@@session@@' } as const

/** Addresses of this machine, in spellings that a guard may overlook; at none of them anything is to be asked. */
const places = [
  ...[
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    'localhost',
    '127.0.0.1.',
    'u@127.0.0.1',
    '0',
  ].map(host => `http://${host}:1/`),
  ...['file:///etc/passwd', 'gopher://127.0.0.1:1/', '//127.0.0.1:1/', 'http://', 'http:///a', 'http://['],
  ...['data:,a', 'javascript:1', ''],
]
const paths = [
  'a.png',
  'a.png',
  './a.png',
  'none.png',
  '../api_token',
  '/etc/passwd',
  'a.png/..',
  '../media/a.png',
  '..%2fapi_token',
  'a\0.png',
  '/proc/self/environ',
  '/dev/zero',
]

const known: Known = {
  ...{
    to: ['a@im.wechat', 'b@im.wechat'],
    user_id: ['a@im.wechat', 'b@im.wechat'],
    bot_id: ['000000000001@im.bot'],
  },
  ...{
    session: ['work', 'default'],
    session_name: ['work', 'default', 'new'],
    old_name: ['work', 'default'],
    new_name: ['work2', 'neu', '工作'],
  },
  ...{
    name: ['work', 'default'],
    message_id: [firstId, '7460000000000000002'],
    item: [0, 1, 2],
    id: ['1', '2', 'x'],
  },
  ...{
    image_path: paths,
    voice_path: paths,
    file_path: paths,
    video_path: paths,
    path: paths,
    url: places,
    save_dir: ['downloads', 'media/x', '../..', '/tmp', 'a.png'],
  },
  ...{
    upload_id: [marks.upload],
    data: ['QUJD', 'QQ==', 'A', '===='],
    timeout: [0],
    timeout_seconds: [0],
    hours: [1, 24],
    digest: ['sha256', 'md5'],
  },
  ...{
    consumer: ['fuzz', 'fuzz2', 'default'],
    after: [0, 1, 5],
    before: [1, 100],
    limit: [1, 10, 1000],
    offset: [0, 5],
    login_id: ['x'],
    verify_code: ['1234'],
  },
  ...{
    msg_type: ['TEXT', 'IMAGE'],
    since: ['2026-01-01', 0],
    until: ['2026-12-01', 1],
    file_name: ['a.txt', '报告.pdf', 'con'],
    kind: ['file', 'image', 'voice', 'video'],
  },
  ...{
    text: ['hello', '你好', '```js\nlet a\n```'],
    text_contains: ['hello', '%', '_'],
    up_to: [1, 10],
    token: ['wrong'],
  },
}

export const methods: Record<string, fc.Arbitrary<unknown>> = {
  initialize: fc.constant({
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'fuzz', version: '1' },
  }),
  ping: fc.constant({}),
  'server/discover': fc.constant({}),
  'tools/list': fc.constant({ cursor: '1' }),
  'resources/list': fc.constant({}),
  'resources/templates/list': fc.constant({}),
  'resources/read': fc
    .constantFrom('svc://sessions', 'svc://conversations', `svc://media/${firstId}/0`, 'svc://x')
    .map(uri => ({ uri })),
  'resources/subscribe': fc.constant({ uri: 'svc://sessions' }),
  'resources/unsubscribe': fc.constant({ uri: 'svc://sessions' }),
  'prompts/list': fc.constant({}),
  'prompts/get': fc
    .constantFrom('reply', 'summary', 'x')
    .map(name => ({ name, arguments: { user: 'a@im.wechat', session: 'work' } })),
  'completion/complete': fc.constant({
    ref: { type: 'ref/prompt', name: 'reply' },
    argument: { name: 'user', value: 'a' },
  }),
  'logging/setLevel': fc.constant({ level: 'info' }),
  'notifications/initialized': fc.constant({}),
  'notifications/cancelled': fc.constant({ requestId: 1, reason: 'no' }),
  'notifications/progress': fc.constant({ progressToken: 1, progress: 1 }),
}

/** A call of REST or of the panel, as its document has it. */
export interface Listed {
  door: 'rest' | 'panel'
  method: string
  path: string
  parameters: { in: string; name: string; schema: Schema }[]
  /** Of a body of JSON. */
  schema: Schema | undefined
  hasBody: boolean
  resolve(ref: string): Schema
}
export interface ListedTool {
  name: string
  inputSchema: Schema
}

/** Reads the three lists of a running service. */
export async function listsOf(target: Target): Promise<{ operations: Listed[]; tools: ListedTool[] }> {
  const ofDoor = async (door: Listed['door']) => {
    const document: Json = await (
      await fetch(`${target.urls[door]}/openapi.json`, { headers: bearer })
    ).json()
    const resolve = (ref: string) => document.components.schemas[ref.split('/').at(-1)!] as Schema
    const paths = Object.entries(document.paths as Record<string, Record<string, Json>>)
    return paths.flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, { parameters = [], requestBody }]): Listed => ({
          ...{ door, method, path, parameters, resolve, hasBody: requestBody !== undefined },
          schema: requestBody?.content?.['application/json']?.schema,
        }),
      ),
    )
  }
  const listed = await fetch(`${target.urls.rest}/mcp`, {
    method: 'POST',
    headers: { ...bearer, ...mcpHeaders, 'mcp-session-id': target.ids.session },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
  })
  const { result } = JSON.parse((await listed.text()).replace(/^[\s\S]*?(?=\{)/, ''))
  return { operations: [...(await ofDoor('rest')), ...(await ofDoor('panel'))], tools: result.tools }
}

/** @returns calls of everything that a running service lists whose name contains `only` */
export async function callsOf(target: Target, only = ''): Promise<fc.Arbitrary<Call>> {
  const { operations, tools } = await listsOf(target)
  const of = (door: Listed['door']) => operations.filter(one => one.door === door)
  // Without the panel's pages, which are built, only what is below /api is there.
  const hasPages = (await fetch(target.urls.panel)).status === 200
  const kinds = [
    { calls: of('rest').map(operationCalls), weight: 5 },
    { calls: of('panel').map(operationCalls), weight: 4 },
    { calls: mcpCalls(tools), weight: 4 },
    { calls: [{ name: 'elsewhere', arbitrary: elsewhere(hasPages), weight: 1 }], weight: 1 },
    { calls: [...operations.flatMap(longOperationCalls), ...longMcp(tools)], weight: 5 },
  ]
  const wanted = kinds.map(({ calls, weight }) => ({
    calls: calls.filter(({ name }) => name.includes(only)),
    weight,
  }))
  const some = wanted.filter(({ calls }) => calls.length > 0)
  return fc.oneof(...some.map(({ calls, weight }) => ({ arbitrary: fc.oneof(...calls), weight })))
}

interface Weighted {
  name: string
  arbitrary: fc.Arbitrary<Call>
  weight: number
}

function operationCalls({ door, method, path, parameters, schema, hasBody, resolve }: Listed): Weighted {
  const part = (where: string) =>
    fc.tuple(
      ...parameters
        .filter(one => one.in === where)
        .map(({ name, schema }) =>
          fc.tuple(
            fc.constant(name),
            fc.oneof(
              { arbitrary: valid(schema, known, resolve, name).map(String), weight: 4 },
              { arbitrary: hostileText, weight: 1 },
            ),
            fc.integer({ min: 0, max: 9 }),
          ),
        ),
    )
  const body = schema
    ? jsonBody(places, valid(schema, known, resolve))
    : hasBody
      ? uploadBody
      : fc.constant(none)
  const waits = /recv|login|events|status/.test(path)
  const name = `${method} ${path}`
  const arbitrary = fc
    .record({ params: part('path'), query: part('query'), body, headers: someHeaders, framing })
    .map(made => {
      const at = made.params.reduce(
        (text, [name, value]) => text.replace(`{${name}}`, () => encoded(value).slice(0, 8000)),
        path,
      )
      const query = made.query
        .filter(([, , chance]) => chance < 4)
        .map(([name, value]) => `${name}=${encoded(value).slice(0, 8000)}`)
      return {
        ...{ door, operation: name, method: method.toUpperCase(), waits },
        path: at + (query.length > 0 ? `?${query.join('&')}` : ''),
        headers: { ...made.body.headers, ...made.headers },
        ...(made.body.body !== undefined && { body: made.body.body }),
        framing: made.body.body === undefined ? 'length' : made.framing,
        places: made.body.places,
      } satisfies Call
    })
  return { name, arbitrary, weight: 1 + (schema ? sizeOf(schema, resolve) : parameters.length) }
}

/** Calls with one long text. */
function longOperationCalls({ door, method, path: template, schema, resolve }: Listed): Weighted[] {
  const path = template.replace(/\{\w+\}/g, 'work')
  const call = { door, operation: `${method} ${template}`, method: method.toUpperCase(), path } as const
  return schema ? longCalls(call, schema, resolve, { ...json, ...bearer }) : []
}

function longMcp(tools: readonly ListedTool[]): Weighted[] {
  const headers = {
    ...{ ...mcpHeaders, ...bearer },
    ...{ 'mcp-protocol-version': '2025-06-18', 'mcp-session-id': marks.session },
  }
  return tools.flatMap(({ name, inputSchema }) => {
    const call = { door: 'mcp', operation: name, method: 'POST', path: '/mcp' } as const
    return longCalls(
      call,
      inputSchema,
      () => ({}),
      headers,
      value =>
        `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"${name}","arguments":${value}}}`,
    )
  })
}

const longCalls = (
  call: Pick<Call, 'door' | 'operation' | 'method' | 'path'>,
  schema: Schema,
  resolve: (ref: string) => Schema,
  headers: Record<string, string>,
  bodyOf = (value: string) => value,
): Weighted[] => {
  const waits = /recv|login/.test(call.operation)
  return stretched(schema, known, resolve).map(({ arbitrary, weight }) => ({
    ...{ name: call.operation, weight },
    arbitrary: arbitrary.map(
      ({ value, places: found }: Spoiled): Call => ({
        ...{ ...call, headers, body: bodyOf(jsonText(value)), framing: 'length', places: found, waits },
      }),
    ),
  }))
}

/** Percent signs that encode nothing stay as they are now and then. */
const encoded = (text: string) => {
  try {
    return encodeURIComponent(text)
  } catch {
    return '%ED%A0%80%zz%'
  }
}

interface Asked {
  method: string
  params: unknown
  operation: string
  /** What is spoiled in the arguments of a tool. */
  found: string[]
}

function mcpCalls(tools: readonly ListedTool[]): Weighted[] {
  const call = tools.map(({ name, inputSchema }) => ({
    name,
    arbitrary: spoiled(
      valid(inputSchema, known, () => ({})),
      places,
      true,
    ).map(
      ({ value, places: found }): Asked => ({
        method: 'tools/call',
        params: { name, arguments: value },
        operation: name,
        found,
      }),
    ),
    weight: 1 + sizeOf(inputSchema, () => ({})),
  }))
  const other = Object.entries(methods).map(([method, source]) => ({
    name: method,
    arbitrary: source.map((params): Asked => ({ method, params, operation: method, found: [] })),
    weight: 2,
  }))
  const versions = fc.constantFrom(
    '2025-06-18',
    '2025-06-18',
    '2025-03-26',
    '2024-11-05',
    '2025-11-25',
    '1',
    '',
  )
  const sessions = fc.oneof(
    { arbitrary: fc.constant(marks.session as string), weight: 5 },
    fc.constant(''),
    printable,
  )
  const called = (asked: fc.Arbitrary<Asked>): fc.Arbitrary<Call> =>
    fc
      .tuple(asked, versions, sessions, someHeaders, framing)
      .chain(([{ method, params, operation, found }, version, session, headers, framed]) => {
        const id = method.startsWith('notifications/') ? {} : { id: 7 }
        const message = { jsonrpc: '2.0', ...id, method, params }
        const asIs: fc.Arbitrary<Body> = fc.constant({
          headers: json,
          body: jsonText(message),
          places: found,
        })
        // A call whose arguments are spoiled stands in a message that is as it should be.
        return (found.length > 0 ? asIs : jsonBody(places, fc.constant(message))).map(
          ({ body, headers: own, places: all }): Call => ({
            ...{
              door: 'mcp',
              operation,
              method: 'POST',
              path: '/mcp',
              framing: framed,
              places: all,
              waits: /recv|login/.test(operation),
            },
            headers: {
              ...mcpHeaders,
              ...own,
              ...headers,
              ...(version && { 'mcp-protocol-version': version }),
              ...(session && { 'mcp-session-id': session }),
            },
            body: body!,
          }),
        )
      })
  return [...call, ...other].map(one => ({ ...one, arbitrary: called(one.arbitrary) }))
}

/** Other paths and methods. */
const elsewhere = (hasPages: boolean): fc.Arbitrary<Call> =>
  fc
    .record({
      door: fc.constantFrom<Call['door'][]>('rest', 'mcp', ...(hasPages ? (['panel'] as const) : [])),
      method: fc.constantFrom(
        'GET',
        'POST',
        'PUT',
        'DELETE',
        'PATCH',
        'OPTIONS',
        'HEAD',
        'TRACE',
        'QUERY',
        'X',
      ),
      path: fc.oneof(
        fc.constantFrom(
          '/',
          '/docs',
          '/openapi.json',
          '/mcp',
          '/locales/en.json',
          '/api/events',
          '/%',
          '/%00',
          '/..%2f..%2fetc/passwd',
          '//',
          '/tools/default/',
          '/tools/default/constructor',
          '/media//0',
          '/assets/..%5c',
          '/?',
          '/api/sessions/%2e%2e/logout',
        ),
        hostileText.map(text => `/${encoded(text).slice(0, 6000)}`),
      ),
      headers: someHeaders,
    })
    .map(made => ({ ...made, operation: 'elsewhere', framing: 'length', places: [], waits: true }))

let asked = 7
/** Puts what the running service knows in its place. Two requests of one MCP session with one id would be one, and the first never answered. */
export function filled(call: Call, ids: Target['ids']): Call {
  const { body, headers } = call
  return {
    ...call,
    ...(typeof body === 'string' && {
      body: body
        .replaceAll(marks.upload, ids.upload)
        .replace(/^\{"jsonrpc":"2\.0","id":7,/, text => text.replace('7', String(++asked))),
    }),
    ...(headers['mcp-session-id'] === marks.session && {
      headers: { ...headers, 'mcp-session-id': ids.session },
    }),
  }
}
