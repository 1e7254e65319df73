import { afterAll, beforeAll, expect, test } from 'bun:test'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { type Admin, startAdmin } from '../support/admin.ts'
import type { Json } from '../support/rest.ts'

const toolsDir = fileURLToPath(new URL('../openapi-tools', import.meta.url))

let admin: Admin
let document: Json
beforeAll(async () => {
  admin = await startAdmin({ sessions: [], start: false })
  document = (await admin.call('GET', '/openapi.json')).body
})
afterAll(async () => {
  await admin[Symbol.asyncDispose]()
})

/** Runs a program of the workspace under this Bun; nothing of it may reach the network. */
async function run(args: string[], stdin = ''): Promise<{ code: number; out: string }> {
  const child = Bun.spawn([process.execPath, ...args], {
    cwd: toolsDir,
    stdin: Buffer.from(stdin),
    stdout: 'pipe',
    stderr: 'pipe',
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  })
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out: out + err }
}

test('the document has every path of the specification’s table and of the panel', () => {
  const operations = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )
  expect(operations.sort()).toEqual(
    [
      'DELETE /api/outbox/{id}',
      'GET /api/conversations',
      'GET /api/events',
      'GET /api/media/{message_id}/{item}',
      'GET /api/messages',
      'GET /api/outbox',
      'GET /api/outbox/{id}',
      'GET /api/sessions',
      'GET /api/sessions/login/status',
      'GET /api/stats',
      'GET /api/status',
      'GET /api/users',
      'GET /healthz',
      'POST /api/conversations/read',
      'POST /api/media',
      'POST /api/messages',
      'POST /api/outbox/{id}/approve',
      'POST /api/sessions/login',
      'POST /api/sessions/login/cancel',
      'POST /api/sessions/login/code',
      'POST /api/sessions/{name}/check',
      'POST /api/sessions/{name}/default',
      'POST /api/sessions/{name}/logout',
      'POST /api/sessions/{name}/rename',
      'POST /api/sign-in',
      'POST /api/sign-out',
      'PUT /api/users/{user_id}/name',
    ].sort(),
  )
  expect(JSON.stringify(document)).not.toMatch(/x-svc|aes_key|context_token|bot_token/)
  expect(document.info.version).toBe('1.2.3')
})

test('Redocly (recommended-strict) finds nothing in it', async () => {
  const { code, out } = await run([
    Bun.resolveSync('@redocly/cli/package.json', toolsDir).replace('package.json', 'bin/cli.js'),
    'lint',
    `${admin.url}/openapi.json`,
    '--extends=recommended-strict',
    '--format=stylish',
  ])
  expect(out).toContain('Your API description is valid')
  expect(code).toBe(0)
})

test('Spectral (spectral:oas) finds no errors, and of warnings only the contact we have not', async () => {
  const { out } = await run(['spectral.ts'], JSON.stringify(document))
  const found = JSON.parse(out) as { severity: number; code: string; path: unknown; message: string }[]
  expect(found.filter(one => one.severity === 0)).toEqual([])
  expect(found.filter(one => one.code !== 'info-contact')).toEqual([])
})
