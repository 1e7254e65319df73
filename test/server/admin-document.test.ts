import { expect, test } from 'bun:test'
import { startAdmin } from '../support/admin.ts'
import { forFile } from '../support/folder.ts'
import { redocly, spectral } from '../support/openapi-judges.ts'
import type { Json } from '../support/rest.ts'

const admin = forFile(await startAdmin({ sessions: [], start: false }))
const document: Json = (await admin.call('GET', '/openapi.json')).body

test('the document has every path of the specification’s table and of the panel', () => {
  const operations = Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )
  expect(operations.sort()).toEqual(
    [
      'DELETE /api/outbox/{id}',
      'DELETE /api/webhooks/{id}',
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
      'GET /api/waiting-files/{row}',
      'GET /api/webhooks',
      'GET /api/webhooks/{id}',
      'GET /api/webhooks/{id}/log',
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
      'POST /api/webhooks',
      'POST /api/webhooks/{id}/pause',
      'POST /api/webhooks/{id}/replay',
      'POST /api/webhooks/{id}/resume',
      'POST /api/webhooks/{id}/rotate',
      'POST /api/webhooks/{id}/test',
      'PUT /api/users/{user_id}/name',
    ].sort(),
  )
  expect(JSON.stringify(document)).not.toMatch(/x-svc|aes_key|context_token|bot_token/)
  expect(document.info.version).toBe('1.2.3')
})

test('Redocly (recommended-strict) finds nothing in it', async () => {
  const { status, stdout, stderr } = await redocly(`${admin.url}/openapi.json`)
  expect(stdout + stderr).toContain('Your API description is valid')
  expect(status).toBe(0)
})

test('Spectral (spectral:oas) finds no errors, and of warnings only the contact we have not', async () => {
  const found = await spectral(JSON.stringify(document))
  expect(found.filter(one => one.severity === 0)).toEqual([])
  expect(found.filter(one => one.code !== 'info-contact')).toEqual([])
})
