/** Limits of keys: what ends with them, and which bytes they count. */
import { expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { owner, type Principal } from '../../src/model/principal.ts'
import { bindToCaller } from '../../src/server/limits.ts'
import { withGateway } from '../support/gateway.ts'
import { restOf } from '../support/rest.ts'

test('a key that ends before its answer is read harms nobody else', async () => {
  const end = new AbortController()
  const by: Principal = { kind: 'key', id: 'k3v9x2ab', grant: { rights: ['download'] }, ended: end.signal }
  const answer = await bindToCaller(new Response(new Blob(['content']).stream()), by)
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on('unhandledRejection', note)
  end.abort(new Error('the key has ended'))
  await new Promise(resolve => setImmediate(resolve))
  process.off('unhandledRejection', note)
  expect(unhandled).toEqual([])
  expect(await answer.text().catch(() => 'failed')).toBe('failed')
})

test('bytes that are there already end with the key too', async () => {
  const end = new AbortController()
  const by: Principal = { kind: 'key', id: 'k3v9x2ab', grant: { rights: ['download'] }, ended: end.signal }
  const chunks = new ReadableStream<Uint8Array>({ pull: controller => controller.enqueue(new Uint8Array(8)) })
  const reader = (await bindToCaller(new Response(chunks), by)).body!.getReader()
  expect((await reader.read()).value?.length).toBe(8)
  end.abort(new Error('the key has ended'))
  expect(await reader.read().then(({ value }) => value?.length, String)).toContain('the key has ended')
})

test('bytes count that svc saves or fetches for a key, and leave no file beyond the limit', async () => {
  await using t = await withGateway()
  await using rest = await restOf(t.gateway)
  const { user_id } = t.bots.get('default')!
  const { message_id } = await t.sandbox.media('file', new Blob([new Uint8Array(600)]), { name: 'a.bin' })
  await t.receive(1)
  const add = async (name: string) => {
    const limits = { bytes_per_day: 1000 }
    const { id, key } = await t.gateway.keys.add({ name, can: ['reply'], limits }, owner)
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const call = async (tool: string, input: object) => (await rest.call(tool, input, { headers })).status
    return { id, call }
  }
  const one = await add('one')
  expect(await one.call('download', { message_id })).toBe(200)
  expect(await one.call('download', { message_id })).toBe(429)
  expect(await readdir(join(t.mediaRoot, 'downloads', one.id))).toEqual(['a.bin'])

  const other = await add('other')
  const send = (bytes: number) => {
    const data = Buffer.alloc(bytes).toString('base64')
    return other.call('send', { to: user_id, media: [{ kind: 'file', data }] })
  }
  expect([await send(600), await send(600)]).toEqual([200, 429])
})
