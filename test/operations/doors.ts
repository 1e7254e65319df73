/** The doors that an operation may be called at, each with what a caller of it gives and gets. */
import { expect } from 'bun:test'
import { join } from 'node:path'
import { Svc } from '../../src/index.ts'
import { type ErrorCode, errorKindOf, isSvcError } from '../../src/model/error.ts'
import { groups } from '../../src/operations/groups.ts'
import type { Operation, RestShape } from '../../src/operations/operation.ts'
import { panelOperations } from '../../src/operations/operations.ts'
import { tools } from '../../src/operations/tools.ts'
import { problemTypeOf } from '../../src/server/errors.ts'
import { startAdmin } from '../support/admin.ts'
import { svc } from '../support/command.ts'
import { withMcpPair } from '../support/mcp-pair.ts'
import { MemoryGateway } from '../support/memory-gateway.ts'
import { type Json, restOf } from '../support/rest.ts'
import { libraryStoreOf, storeOf, storeVariablesOf } from '../support/shared-store.ts'

export type Input = Readonly<Record<string, unknown>>

/** What the caller got: an answer, or an error as this door shows errors. */
type Outcome = { readonly output: unknown } | { readonly code: ErrorCode; readonly detail: string }

export interface Door extends AsyncDisposable {
  /** Whether the operation can be called here. */
  offers(operation: Operation): boolean
  call(operation: Operation, input: Input): Promise<Outcome>
  /** The input as it arrives, where the door adds something. */
  meant?(operation: Operation, input: Input): Input
  /** Whether arguments that are not the operation's are not looked at. */
  ignores?(operation: Operation): boolean
  /** Operations whose answer is not handed on as it is: what becomes of it is shown by tests of the door. */
  readonly apart?: readonly string[]
}

const isTool = (operation: Operation): boolean => tools.some(({ name }) => name === operation.name)

/** HTTP: each operation says its place. */
export async function restDoor(): Promise<Door> {
  const rest = await restOf(new MemoryGateway())
  return {
    offers: one => one.rest !== undefined && !one.rest.panelOnly,
    ignores({ input, rest: shape }) {
      const elsewhere = (key: string) =>
        shape?.route.includes(`{${key}}`) || shape?.headers?.[key] !== undefined
      return shape?.hasFileBody || Object.keys(input.properties).every(elsewhere)
    },
    // The bytes of its file are the body.
    apart: ['upload_media'],
    async call(operation, input) {
      const { path, init } = requestOf(operation.rest as RestShape, input)
      return await outcomeOf(await fetch(rest.url + path, init))
    },
    [Symbol.asyncDispose]: () => rest[Symbol.asyncDispose](),
  }
}

/** The request of a call over REST. The bytes of a file are those of a text. */
export function requestOf(shape: RestShape, input: Input): { path: string; init: RequestInit } {
  const { route, hasFileBody, body } = shape
  const [method = '', template = ''] = route.split(' ')
  const others = new Map(Object.entries(input))
  if (hasFileBody) others.delete('file')
  const path = template.replace(/\{(\w+)\}/g, (_all, key: string) => {
    const value = others.get(key)
    others.delete(key)
    return encodeURIComponent(String(value))
  })
  const headers: Record<string, string> = {}
  for (const [key, header] of Object.entries(shape.headers ?? {})) {
    if (others.has(key)) headers[header] = String(others.get(key))
    others.delete(key)
  }
  const given = Object.fromEntries(others)
  const hasBody = !hasFileBody && method !== 'GET' && method !== 'DELETE'
  const query = new URLSearchParams(given as Record<string, string>)
  const sent = hasBody && (body === 'must' || others.size > 0) ? jsonBody(given) : { headers: {} }
  return {
    path: path + (hasBody || query.size === 0 ? '' : `?${query}`),
    init: {
      method,
      ...sent,
      headers: { ...sent.headers, ...headers },
      ...(hasFileBody && { body: 'the bytes' }),
    },
  }
}

/** What a response says. */
async function outcomeOf(response: Response): Promise<Outcome> {
  const body = (await response.json()) as Json
  if (response.ok) return { output: body }
  const { code, detail } = body as { code: ErrorCode; detail: string }
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  const { status, title } = errorKindOf(code)
  expect(body).toMatchObject({ status, title, type: problemTypeOf(code) })
  expect(response.status).toBe(status)
  return { code, detail }
}

/** The panel: its page calls an operation by its name. */
export async function panelDoor(): Promise<Door> {
  const panel = await startAdmin({ sessions: [], start: false })
  const called = new Set<Operation>(Object.values(panelOperations).flat())
  return {
    offers: one => called.has(one),
    call: async ({ name }, input) =>
      outcomeOf(await fetch(`${panel.url}/api/call/${name}`, { method: 'POST', ...jsonBody(input) })),
    [Symbol.asyncDispose]: () => panel[Symbol.asyncDispose](),
  }
}

const jsonBody = (value: unknown) => ({
  body: JSON.stringify(value),
  headers: { 'content-type': 'application/json' },
})

/** What a person types. */
function typedLine({ cli, inputSchema }: Operation, input: Input): string[] {
  const left = new Map(Object.entries(input).filter(([, value]) => value !== ''))
  const typed: string[] = []
  for (const key of cli?.positionals ?? []) {
    if (!left.has(key)) break
    typed.push(String(left.get(key)))
    left.delete(key)
  }
  for (const [key, value] of left) {
    const flag = `--${cli?.names?.[key] ?? key.replaceAll('_', '-')}`
    const { items } = inputSchema.properties?.[key] ?? {}
    if (value === true) typed.push(flag)
    else if (Array.isArray(value) && items?.enum) typed.push(`${flag}=${value.join(',')}`)
    else if (Array.isArray(value))
      typed.push(...value.map(one => `${flag}=${typeof one === 'string' ? one : JSON.stringify(one)}`))
    else if (typeof value === 'object')
      typed.push(...Object.entries(value ?? {}).map(([name, text]) => `${flag}=${name}: ${text}`))
    else typed.push(`${flag}=${value}`)
  }
  return cli?.question ? [...typed, '--yes'] : typed
}

/** The command line, on a data directory in this folder where nobody is logged in. */
export async function commandDoor(home: string): Promise<Door> {
  const dir = join(home, 'data')
  const made = await Svc.open({ basePath: dir, ...(await storeOf(dir)) })
  await made.close()
  const variables = await storeVariablesOf(dir)
  return {
    offers: ({ cli }) => cli !== undefined,
    meant: ({ cli }, input) => ({ ...cli?.defaults, ...input }),
    // It follows the login to its end.
    apart: ['login'],
    async call(operation, input) {
      const words = [...(operation.cli?.path ?? []), ...typedLine(operation, input)]
      const { status, stdout, stderr } = await svc([...words, '--json', '-d', dir], {
        home,
        env: { TZ: 'UTC', ...variables },
      })
      if (status === 0) return { output: JSON.parse(stdout) }
      expect(stderr).toMatch(/^\{.*\}\n$/)
      const { code, detail } = JSON.parse(stderr) as { code: ErrorCode; detail: string }
      expect(status).toBe(code === 'invalid_arguments' ? 2 : 1)
      return { code, detail }
    },
    [Symbol.asyncDispose]: async () => {},
  }
}

type Method = (...given: unknown[]) => Promise<unknown>

/** Methods that stand outside the groups, and are not called as their tool. */
const methodNames: Readonly<Record<string, string>> = {
  list_users: 'users',
  name_user: 'nameUser',
  list_audit: 'audit',
  nodes: 'nodes',
  forget: 'forget',
  export: 'export',
}

/** The method of an operation: of a group of `methods`, or of the library itself; undefined if it has none. */
function methodOf(library: Svc, operation: Operation): Method | undefined {
  for (const [group, operations] of Object.entries(groups)) {
    const found = Object.entries(operations).find(([, one]) => (one as unknown) === operation)
    if (found) return (library as unknown as Record<string, Record<string, Method>>)[group]![found[0]]!
  }
  const tool = operation.name.replace(/_(.)/g, (_all, letter: string) => letter.toUpperCase())
  const name = isTool(operation) ? tool : methodNames[operation.name]
  return (library as unknown as Record<string, Method>)[name ?? '']?.bind(library)
}

/** The library, on a data directory of this folder. */
export async function libraryDoor(folder: string): Promise<Door> {
  const basePath = join(folder, 'library')
  const library = await Svc.open({ basePath, ...(await libraryStoreOf(basePath)) })
  return {
    offers: one => methodOf(library, one) !== undefined,
    // `sessions` takes the options of a call alone.
    ignores: ({ name }) => name === 'sessions',
    async call(operation, input) {
      const placed = operation.positionals ?? []
      const others = Object.entries(input).filter(([key]) => !placed.includes(key))
      const given = placed.map(key => input[key])
      if (others.length > 0) given.push(Object.fromEntries(others))
      try {
        return { output: await methodOf(library, operation)!(...given) }
      } catch (error) {
        if (!isSvcError(error)) throw error
        return { code: error.code, detail: error.message }
      }
    },
    [Symbol.asyncDispose]: () => library.close(),
  }
}

/** MCP, by the official client. */
export async function mcpDoor(): Promise<Door> {
  const pair = await withMcpPair({ sessions: [], start: false, context: { tools } })
  return {
    offers: isTool,
    // It shows the saved file itself.
    apart: ['download'],
    async call({ name, output }, input) {
      const result = await pair.client.callTool({ name, arguments: { ...input } })
      const [first] = result.content as { type: string; text: string }[]
      if (!result.isError) {
        expect(result.content).not.toEqual([])
        const { structuredContent } = result as Json
        return { output: output.type === 'array' ? structuredContent.result : structuredContent }
      }
      const [, code = '', detail = ''] = /^(\w+): (.+?)\. /.exec(`${first?.text} `) ?? []
      return { code: code as ErrorCode, detail }
    },
    [Symbol.asyncDispose]: () => pair[Symbol.asyncDispose](),
  }
}
