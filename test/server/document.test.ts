import { describe, expect, test } from 'bun:test'
import { describedFor, type Tool, tools } from '../../src/tools/index.ts'
import { problemsOf } from '../../src/tools/parse.ts'
import { forFile } from '../support/folder.ts'
import { redocly, runTool, spectral, toolsDir } from '../support/openapi-judges.ts'
import { type Json, startRest } from '../support/rest.ts'

const clientDir = `${toolsDir}/client`

const rest = forFile(await startRest())
const text = await (await fetch(`${rest.url}/openapi.json`)).text()
const document: Json = JSON.parse(text)

/** Calls a tool with its first example, without waiting. */
const callExample = (tool: Tool) => {
  const input = tool.examples[0]?.input as object
  return rest.call(tool.name, 'timeout' in input ? { ...input, timeout: 0 } : input)
}

const operations = () =>
  Object.entries(document.paths as Record<string, Record<string, Json>>).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  )

describe('the OpenAPI document', () => {
  test('has every tool with description, example and error answers', () => {
    for (const tool of tools) {
      const operation = document.paths[`/tools/default/${tool.name}`].post
      expect(operation.operationId).toBe(tool.name)
      expect(operation.description).toBe(describedFor(tool, 'remote'))
      const body = operation.requestBody.content['application/json']
      expect(Object.keys(operation.requestBody.content)).toEqual(['application/json'])
      expect(Object.keys(body.schema.properties ?? {})).toEqual(
        Object.keys(tool.inputSchema.properties ?? {}),
      )
      expect(Object.keys(body.examples).length).toBe(tool.examples.length)
      const codes = Object.values<Json>(operation.responses).flatMap(one =>
        Object.keys(one.content['application/problem+json']?.examples ?? {}),
      )
      for (const code of tool.errors) expect(codes).toContain(code)
    }
  })

  test('says of every operation its id, summary and tag, each id once', () => {
    const all = operations()
    expect(all.length).toBe(30)
    expect(new Set(all.map(one => one.operation.operationId)).size).toBe(all.length)
    for (const { operation } of all) {
      expect(operation.summary.length).toBeGreaterThan(3)
      expect(operation.description.length).toBeGreaterThan(20)
      expect(operation.tags.length).toBe(1)
      expect(JSON.stringify(operation)).not.toContain('x-svc')
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

describe('its judges', () => {
  test('Redocly (recommended-strict) finds nothing', async () => {
    const { status, stdout, stderr } = await redocly(`${rest.url}/openapi.json`)
    expect(stdout + stderr).toContain('Your API description is valid')
    expect(status).toBe(0)
  })

  test('Spectral (spectral:oas) finds no errors, and of warnings only the contact we have not', async () => {
    const found = await spectral(text)
    expect(found.filter(one => one.severity === 0)).toEqual([])
    expect(found.map(one => one.code)).toEqual(['info-contact'])
  })

  test('a client generated from it type-checks with TypeScript 5 and calls all nine tools', async () => {
    const generated = await runTool(['generate.ts'], text)
    expect(generated.status).toBe(0)
    await Bun.write(`${clientDir}/schema.ts`, generated.stdout)
    const typescript = Bun.resolveSync('typescript/package.json', toolsDir)
    expect((await Bun.file(typescript).json()).version).toStartWith('5.')
    const checked = await runTool([typescript.replace('package.json', 'bin/tsc'), '-p', clientDir])
    expect(checked).toEqual({ status: 0, stdout: '', stderr: '' })
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
})
