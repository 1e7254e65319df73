/** What clients and models send that is not quite the protocol, and is understood. */
import { describe, expect, test } from 'bun:test'
import { startDoor } from '../support/mcp-door.ts'
import { initialize, modernHeaders, modernMeta, openSession, post } from '../support/mcp-raw.ts'

const call = (name: string, args: object, more: object = {}) => ({
  ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
  params: { name, arguments: args, ...more },
})
const kinds = ['*/*', 'application/json', 'application/*;q=0.5', 'text/html, */*;q=0.1']

describe('a client that takes only JSON', () => {
  test.each(kinds)('Accept: %s', async accept => {
    await using door = await startDoor()
    const answer = async (url: string, body: unknown, headers: object = {}) => {
      const response = await post(url, body, { accept, ...headers })
      expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json'])
      return { id: response.headers.get('mcp-session-id'), body: await response.json() }
    }
    const { id, body } = await answer(door.url, initialize())
    expect(body.result.serverInfo.name).toBe('svc')
    const session = { 'mcp-session-id': id }
    const list = { jsonrpc: '2.0', id: 5, method: 'tools/list' }
    expect((await answer(`${door.url}/`, list, session)).body).toMatchObject({ id: 5 })
    expect((await answer(door.url, call('sessions', {}), session)).body.result.isError).toBeUndefined()
    const batch = [list, { ...call('sessions', {}), id: 6 }]
    const both = (await answer(door.url, batch, { ...session, 'mcp-protocol-version': '2025-03-26' })).body
    expect(both.map((one: { id: number }) => one.id).sort()).toEqual([5, 6])
    // Without a session, in both eras.
    expect((await answer(door.url, list)).body.result.tools).not.toBeEmpty()
    const modern = call('sessions', {}, { _meta: modernMeta() })
    expect((await answer(door.url, modern, modernHeaders('sessions'))).body.result.isError).toBeFalsy()
  })

  test('no header at all counts as anything, and what takes neither is refused', async () => {
    await using door = await startDoor()
    const { accept: _, ...headers } = { accept: '', 'content-type': 'application/json' }
    const none = await fetch(door.url, { method: 'POST', headers, body: JSON.stringify(initialize()) })
    expect([none.status, (await none.json()).result.serverInfo.name]).toEqual([200, 'svc'])
    expect((await post(door.url, initialize(), { accept: 'text/html' })).status).toBe(406)
    const stream = await post(door.url, initialize(), { accept: 'text/event-stream' })
    expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    await stream.text()
  })

  test('what never ends is refused', async () => {
    await using door = await startDoor()
    const session = await openSession(door.url)
    const listening = { jsonrpc: '2.0', id: 1, method: 'events/stream', params: { name: 'message.received' } }
    expect((await post(door.url, listening, { accept: '*/*', ...session })).status).toBe(406)
  })
})

/** Calls a tool of a service in memory. @returns the text of its answer, with the fields that are wrong */
async function fieldsOf(tool: string, args: object): Promise<string[] | undefined> {
  await using door = await startDoor()
  const response = await post(door.url, call(tool, args), { accept: 'application/json' })
  const { result } = await response.json()
  const { details, code } = result._meta?.['svc/problem'] ?? {}
  const errors = details?.errors
  return errors?.map(({ field }: { field: string }) => field) ?? (code === undefined ? undefined : [])
}

describe('arguments as models write them', () => {
  const send = { to: 'u@im.wechat', text: 'hi' }
  test.each([
    ['history', { user_id: undefined, limit: null, text_contains: null, msg_type: null }, undefined],
    ['send', { ...send, session: null, file_path: null, media: '[]' }, undefined],
    [
      'send',
      { ...send, text: null, media: '[{"kind":"image","upload_id":"x","file_name":null}]' },
      undefined,
    ],
    // It is read, and then checked.
    ['send', { ...send, media: '[{"kind":"sound"}]' }, ['media[0].kind']],
    ['send', { ...send, media: 'a.png' }, ['media']],
    ['send', { ...send, text: '["a"]' }, undefined],
    ['send', { to: null, text: 'hi' }, ['to']],
    ['recv', { timeout: null, ack: null }, ['ack']],
    ['recv', { after: null }, ['after']],
    ['history', { user_id: null }, ['user_id']],
    ['logout', { session_name: null }, ['session_name']],
  ] as const)('%s %j', async (tool, args, fields) => {
    expect(await fieldsOf(tool, args)).toEqual(fields as string[] | undefined)
  })
})

test.each(['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'])(
  '%s refuses a cursor, since svc makes none',
  async method => {
    await using door = await startDoor()
    const list = (params: object) =>
      post(door.url, { jsonrpc: '2.0', id: 1, method, params }, { accept: '*/*' }).then(answer =>
        answer.json(),
      )
    expect((await list({})).error).toBeUndefined()
    for (const cursor of ['', 'eyJvIjoxfQ==']) expect((await list({ cursor })).error.code).toBe(-32602)
  },
)
