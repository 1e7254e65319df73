import { describe, expect, test } from 'bun:test'
import type { OutboxEntry } from '../../src/model/message.ts'
import { Cancelled, OutboxEntry as Entry } from '../../src/model/message.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { forFile } from '../support/folder.ts'
import { type Json, startRest } from '../support/rest.ts'

const rest = forFile(await startRest())

const entry: OutboxEntry = {
  outbox_id: '7',
  session: 'default',
  to_user: 'u@im.wechat',
  created_at: 1,
  expires_at: 2,
  parts: [
    { id: 3, kind: 'text', sent_as: 'text', status: 'queued', text: 'later' },
    { id: 4, kind: 'voice', sent_as: 'file', status: 'queued', file_name: 'a.mp3', size: 9 },
  ],
}

async function at(path: string, method = 'GET'): Promise<{ status: number; body: Json; headers: Headers }> {
  const response = await fetch(`${rest.url}${path}`, { method })
  return { status: response.status, body: await response.json(), headers: response.headers }
}

describe('GET /outbox', () => {
  test('an array, with filters handed down', async () => {
    expect((await at('/outbox')).body).toEqual([])
    rest.gateway.waiting.push(entry)
    const { status, body } = await at('/outbox?user_id=u%40im.wechat&session=default')
    expect([status, body]).toEqual([200, [entry]])
    expect(problemsOf(Entry, body[0])).toEqual([])
    expect(rest.gateway.asked.at(-1)).toEqual({
      verb: 'outbox',
      request: { user_id: 'u@im.wechat', session: 'default' },
    })
  })

  test('an unknown or empty filter is refused by its name', async () => {
    for (const [query, name] of [
      ['who=u', 'who'],
      ['user_id=', 'user_id'],
    ]) {
      const { status, body } = await at(`/outbox?${query}`)
      expect([status, body.code]).toEqual([422, 'invalid_arguments'])
      expect(body.detail).toContain(name)
    }
  })
})

describe('DELETE /outbox/{id}', () => {
  test('cancels once', async () => {
    rest.gateway.waiting.splice(0, 9, structuredClone(entry))
    const { status, body } = await at('/outbox/7', 'DELETE')
    expect([status, body]).toEqual([200, { success: true, outbox_id: '7', cancelled: 2 }])
    expect(problemsOf(Cancelled, body)).toEqual([])
    const again = await at('/outbox/7', 'DELETE')
    expect([again.status, again.body.code]).toEqual([404, 'not_found'])
    expect(again.headers.get('content-type')).toBe('application/problem+json')
  })

  test('what waits for a yes gets one by POST /outbox/{id}/approve', async () => {
    rest.gateway.waiting.splice(0, 9, { ...structuredClone(entry), waits_for: 'approval' })
    const { status, body } = await at('/outbox/7/approve', 'POST')
    expect([status, body.outbox_id, problemsOf(Entry, body)]).toEqual([200, '7', []])
    expect(rest.gateway.asked.at(-1)).toEqual({ verb: 'approve', request: '7' })
    expect((await at('/outbox/8/approve', 'POST')).body.code).toBe('not_found')
    const foreign = await fetch(`${rest.url}/outbox/7/approve`, {
      method: 'POST',
      headers: { origin: 'http://evil.example' },
    })
    expect(foreign.status).toBe(403)
  })
})
