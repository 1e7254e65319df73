/** Webhooks over HTTP, and the links in their deliveries. */

import { expect, test } from 'bun:test'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { owner } from '../../src/model/principal.ts'
import { receiver } from '../push/receiver.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { type Json, restOf, startRest } from '../support/rest.ts'

const client =
  (url: string) =>
  async (method: string, path: string, body?: object): Promise<{ status: number; body: Json }> => {
    const response = await fetch(`${url}${path}`, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  }

test('what lies in a private network is refused over HTTP, whatever is asked for', async () => {
  await using rest = await startRest()
  const at = client(rest.url)
  for (const url of ['http://127.0.0.1:9/', 'http://10.0.0.1/', 'http://169.254.169.254/', 'http://[::1]/'])
    for (const more of [{}, { allow_private: true }])
      expect((await at('POST', '/webhooks', { url, ...more })).body.code).toBe('forbidden')
  expect((await at('GET', '/webhooks')).body).toEqual([])
})

test('links in a delivery open the media and the whole message without a token, and nothing else does', async () => {
  await using t = await withGateway()
  using r = receiver()
  const token = 'a-token-that-nobody-guesses-0123456789'
  await using rest = await restOf(t.gateway, { token })
  t.gateway.listensAt(rest.url)
  await t.gateway.webhooks.add(owner, { url: r.url, types: ['message.received'], allow_private: true })
  const bytes = new TextEncoder().encode('the content of a file')
  await t.sandbox.media('file', bytes, { name: 'a.txt' })
  await t.sandbox.say('好'.repeat(10_000))
  await t.soon('both', () => r.got.length === 2)
  const [file, long] = r.got.map(({ body }) => body.data as Json)
  const found = await fetch(file.items[0].url)
  expect(new Uint8Array(await found.arrayBuffer())).toEqual(bytes)
  expect(found.headers.get('content-type')).toBe('application/octet-stream')
  expect(long.truncated).toBe(true)
  expect(((await (await fetch(long.whole_url)).json()) as Json).text).toBe('好'.repeat(10_000))
  const wrong = (change: (url: URL) => void) => {
    const url = new URL(file.items[0].url)
    change(url)
    return fetch(url).then(response => response.status)
  }
  expect(await wrong(url => url.searchParams.set('signature', 'x'.repeat(43)))).toBe(403)
  expect(await wrong(url => url.searchParams.set('expires', '99999999999'))).toBe(403)
  expect(
    await wrong(url => {
      url.pathname = url.pathname.replace(/0$/, '1')
    }),
  ).toBe(403)
  expect(await wrong(url => url.searchParams.delete('signature'))).toBe(422)
  expect((await fetch(`${rest.url}/webhooks`)).status).toBe(401)
})

test('what is wrong with a link is said without the expression that found it', async () => {
  await using rest = await startRest()
  const at = client(rest.url)
  for (const path of [
    '/shared/a/b/0',
    '/shared/a/b/0?expires=x&signature=y',
    '/shared/a/b/nothing?expires=1&signature=y',
    '/shared/a/b/0?expires=1&signature=y&more=1',
  ]) {
    const { status, body } = await at('GET', path)
    expect([path, status, body.code]).toEqual([path, 422, 'invalid_arguments'])
    expect(body.detail).not.toMatch(/[\\^$]/)
  }
})

test('a command that an error names is for the directory of the service', async () => {
  const folder = folderOfTest()
  const [dir, sandbox] = [join(folder, 'data'), join(folder, 'a sandbox')]
  await mkdir(join(sandbox, 'sandbox'), { recursive: true })
  for (const [basePath, flags] of [
    [dir, ` -d ${dir}`],
    [sandbox, ` --sandbox -d '${sandbox}'`],
  ] as const) {
    await using rest = await startRest({ basePath })
    const { body } = await client(rest.url)('POST', '/webhooks', {
      url: 'http://10.0.0.1/',
      allow_private: true,
    })
    expect(body.hint).toContain(`svc webhook add <url> --allow-private${flags}`)
  }
})
