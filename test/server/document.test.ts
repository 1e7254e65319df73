import { describe, expect, test } from 'bun:test'
import { errorCodes } from '../../src/model/error.ts'
import { panelOperations } from '../../src/operations/operations.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { type Tool, tools } from '../../src/operations/tools.ts'
import { startAdmin } from '../support/admin.ts'
import { forFile } from '../support/folder.ts'
import { checkedClient, redocly, runTool } from '../support/openapi-judges.ts'
import { type Json, startRest } from '../support/rest.ts'

const rest = forFile(await startRest())
const text = await (await fetch(`${rest.url}/openapi.json`)).text()
const document: Json = JSON.parse(text)
const admin = forFile(await startAdmin({ sessions: [], start: false }))
const panelText = await (await fetch(`${admin.url}/openapi.json`)).text()

/** Calls a tool with its first example, without waiting. */
const callExample = (tool: Tool) => {
  const input = tool.examples[0]?.input as object
  return rest.call(tool.name, 'timeout' in input ? { ...input, timeout: 0 } : input)
}

describe('the OpenAPI document', () => {
  test('says of every operation its id, each id once, and is tidy', () => {
    const ids = Object.values<Record<string, Json>>(document.paths).flatMap(methods =>
      Object.values(methods).map(({ operationId }) => operationId),
    )
    expect(new Set(ids).size).toBe(ids.length)
    expect(ids.length).toBeGreaterThan(30)
    expect(text).not.toContain('x-svc')
  })

  test('gives generators one failure for all, a name for each answer, and one kind of body', () => {
    const operations = Object.values<Record<string, Json>>(document.paths).flatMap(methods =>
      Object.values(methods),
    )
    for (const { description, operationId, requestBody, responses } of operations) {
      expect(responses.default).toEqual({ $ref: '#/components/responses/Failure' })
      // A range that has no bytes has a header of its own.
      const { 416: _, ...others } = responses
      expect(JSON.stringify(others)).not.toContain('problem+json')
      expect([operationId, description]).toEqual([operationId, expect.stringContaining('Fails with `')])
      for (const { schema } of Object.values<Json>(responses['200'].content ?? {}))
        expect([operationId, schema?.properties ?? schema?.items?.properties]).toEqual([
          operationId,
          undefined,
        ])
      expect(Object.keys(requestBody?.content ?? {}).length).toBeLessThan(2)
    }
    const { schemas } = document.components
    expect(schemas.Problem.properties.code.enum).toEqual([...errorCodes])
    const bodies = Object.values(schemas).map(schema => JSON.stringify(schema))
    expect(new Set(bodies).size).toBe(bodies.length)
  })

  test('explains each heading, and has something below each', () => {
    for (const one of [document, JSON.parse(panelText) as Json]) {
      const used = Object.values<Record<string, Json>>(one.paths).flatMap(methods =>
        Object.values(methods).flatMap(({ tags }) => tags as string[]),
      )
      const explained = (one.tags as Json[]).map(({ name }) => name)
      expect([...new Set(used)].sort()).toEqual(explained.sort())
    }
  })

  test('carries the version and stays the same whatever was called before', async () => {
    expect(document.info.version).toBe('1.2.3')
    for (const tool of tools) await callExample(tool)
    await fetch(`${rest.url}/healthz`)
    await fetch(`${rest.url}/tools`)
    expect(await rest.app.document()).toEqual(document)
  })

  test('shows nothing secret', () => {
    expect(text).not.toMatch(/aes_key|encrypt_query_param|context_token|bot_token|\/work\//)
  })

  test('/tools tells the same schemas', async () => {
    const list = (await (await fetch(`${rest.url}/tools`)).json()) as Json[]
    expect(list.map(one => Object.keys(one))).toEqual(
      tools.map(() => ['name', 'description', 'effect', 'path', 'input_schema', 'output_schema', 'errors']),
    )
    for (const [index, tool] of tools.entries()) {
      expect(list[index].path).toBe(`/tools/default/${tool.name}`)
      expect(list[index].input_schema).toEqual(tool.inputSchema)
    }
  })

  test('what the service answers fits what it says', async () => {
    rest.gateway.say('hello')
    for (const tool of tools) {
      const { status, body } = await callExample(tool)
      if (status === 200) expect(problemsOf(tool.output, body)).toEqual([])
      else expect(body.code).toBe('session_not_found')
    }
  })
})

describe("the panel's document", () => {
  const document: Json = JSON.parse(panelText)

  test('has every path of the specification’s table and of the panel', () => {
    const operations = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
    )
    expect(operations.sort()).toEqual(
      [
        'GET /api/events',
        'GET /api/export',
        'GET /api/media/{message_id}/{item}',
        'GET /api/sessions',
        'GET /api/sessions/login/status',
        'GET /api/status',
        'GET /api/waiting-files/{row}',
        'GET /healthz',
        'GET /readyz',
        'POST /api/media',
        'POST /api/pass',
        'POST /api/sessions/login',
        'POST /api/sessions/{name}/logout',
        'POST /api/sessions/{name}/rename',
        'POST /api/sign-in',
        'POST /api/sign-out',
        ...Object.values(panelOperations)
          .flat()
          .map(({ name }) => `POST /api/call/${name}`),
      ].sort(),
    )
    expect(JSON.stringify(document)).not.toMatch(/x-svc|aes_key|context_token|bot_token/)
    expect(document.info.version).toBe('1.2.3')
  })
})

test('Redocly (recommended-strict) finds nothing in either', async () => {
  const [service, panel] = await redocly([`${rest.url}/openapi.json`, `${admin.url}/openapi.json`])
  expect(service).toEqual([])
  expect(panel).toEqual([])
})

test('a client generated from it type-checks and calls all nine tools', async () => {
  // By the TypeScript of svc itself; by 5, in the long tests, it takes ten times as long.
  expect(await checkedClient(text, import.meta.dir)).toEqual({ status: 0, stdout: '', stderr: '' })
  await using fresh = await startRest()
  fresh.gateway.say('你好')
  fresh.gateway.known.push({
    name: 'default',
    connected: true,
    status: 'connected',
    is_default: true,
    user_count: 1,
  })
  const { stdout, stderr } = await runTool(['client/client.ts', fresh.url])
  expect(stderr).toBe('')
  expect(stdout.trim().split('\n')).toEqual([
    'login: waiting',
    'sessions: true',
    'recv: 你好',
    'send: accepted',
    'download: image/png',
    'history: 1',
    'rename_session: b',
    'set_default: b',
    'logout: true',
    'failure: session_not_found',
    'tools: 9',
  ])
})
