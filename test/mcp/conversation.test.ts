/**
 * A whole conversation as an agent leads it: login with the digits asked of the person, news of a message, the answer with
 * a picture, the media brought home. By the official 2.x client in both eras and by the 1.x SDK, over stdio and HTTP.
 */
import { describe, expect, test } from 'bun:test'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Client as Client2 } from '@modelcontextprotocol/client'
import type { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { toBuffer } from 'qrcode'
import { type ClientKind, connectHttp, connectStdio, type McpClient, startMcp } from '../support/mcp.ts'
import { withSandbox } from '../support/sandbox.ts'
import { until } from '../support/until.ts'

const kinds: readonly ClientKind[] = ['2026', '2025', 'sdk1']
const digits = '4711'

/** Has the client hear of new messages, as its era does it. @returns URIs that were announced so far */
async function subscribe(client: McpClient, kind: ClientKind, uri: string): Promise<string[]> {
  const heard: string[] = []
  if (kind === 'sdk1') {
    const raw = client.raw as Client1
    raw.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.push(params.uri))
    await raw.subscribeResource({ uri })
    return heard
  }
  const raw = client.raw as Client2
  raw.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri))
  if (kind === '2026') await raw.listen({ resourceSubscriptions: [uri] })
  else await raw.subscribeResource({ uri })
  return heard
}

for (const transport of ['stdio', 'http'] as const)
  describe(`a conversation over ${transport}`, () => {
    for (const kind of kinds)
      test.concurrent(`by the client ${kind}`, async () => {
        await using sandbox = await withSandbox()
        const dir = await mkdtemp(join(tmpdir(), 'svc-conversation-'))
        await using stack = new AsyncDisposableStack()
        stack.defer(() => rm(dir, { recursive: true, force: true }))
        const asked: string[] = []
        const answer = (params: { message: string; requestedSchema: { properties: object } }) => {
          asked.push(...Object.keys(params.requestedSchema.properties))
          return { action: 'accept', content: { verify_code: digits } }
        }
        const client = stack.use(
          transport === 'stdio'
            ? await connectStdio({ sandbox, kind, answer, cwd: dir })
            : await connectHttp(stack.use(await startMcp('http', { sandbox })).url, { kind, answer }),
        )
        // The 1.x SDK does not tell, over stdio.
        if (kind !== 'sdk1') expect(client.version).toBe(kind === '2026' ? '2026-07-28' : '2025-11-25')

        // Login: the QR code as picture and text, then the digits that the phone shows.
        const first = await client.call('login', { session_name: '工作', timeout: 0 })
        expect(first.content.map(({ type }: { type: string }) => type)).toEqual(['text', 'image', 'text'])
        await sandbox.scan({
          ...{ qrcode: first.structuredContent.qr_url, confirm: true },
          verify_code: digits,
        })
        let status = ''
        for (let tries = 0; status !== 'confirmed' && tries < 20; tries++)
          ({ status } = await client.value('login', { session_name: '工作', timeout: 30 }))
        expect(status).toBe('confirmed')
        expect(asked).toEqual(['verify_code'])

        // A message arrives and is announced, read, and received.
        const heard = await subscribe(client, kind, 'svc://inbox')
        const picture = new Uint8Array(await toBuffer('from the user'))
        await sandbox.say('你好, a picture follows')
        await sandbox.media('image', picture)
        await until('the inbox is announced', 30_000, () => heard.length > 0)
        expect([...new Set(heard)]).toEqual(['svc://inbox'])
        const messages: { from_user: string; text: string; message_id: string; items: object[] }[] = []
        for (let tries = 0; messages.length < 2 && tries < 20; tries++)
          messages.push(...(await client.value('recv', { timeout: 30 })))
        expect(messages[0]!.text).toBe('你好, a picture follows')
        const { from_user } = messages[0]!
        const { contents } = await client.raw.readResource({
          uri: `svc://conversations/工作/${encodeURIComponent(from_user)}`,
        })
        expect((contents[0] as { text: string }).text).toContain('> 你好, a picture follows')

        // The answer: text and a picture, from where the client has it.
        const own = new Uint8Array(await toBuffer('from the bot'))
        await writeFile(join(dir, 'own.png'), own)
        const media =
          transport === 'stdio'
            ? { image_path: join(dir, 'own.png') }
            : { media: [{ kind: 'image', data: Buffer.from(own).toString('base64'), file_name: 'own.png' }] }
        const sent = await client.value('send', { to: from_user, text: 'Here is one back', ...media })
        expect(sent).toMatchObject({ status: 'accepted', session: '工作', remaining: 8 })
        const seen = await sandbox.seen(all => all.length === 2)
        expect(seen[0]!.items[0]!.text).toBe('Here is one back')
        const { media_id } = seen[1]!.items[0] as { media_id: string }
        expect(await sandbox.mediaBytes(media_id)).toEqual(own)

        // The user's picture: as a file where the client can read it, else as content and by its address.
        const { message_id } = messages[1]!
        const got = await client.call('download', { message_id })
        expect(got.structuredContent).toMatchObject({ size: picture.length, content_type: 'image/png' })
        if (transport === 'stdio') {
          expect(new Uint8Array(await readFile(got.structuredContent.path))).toEqual(picture)
        } else {
          const shown = got.content.find(({ type }: { type: string }) => type === 'image')
          expect(new Uint8Array(Buffer.from(shown.data, 'base64'))).toEqual(picture)
        }
        const blob = await client.raw.readResource({ uri: `svc://media/${message_id}/0` })
        const bytes = Buffer.from((blob.contents[0] as { blob: string }).blob, 'base64')
        expect(new Uint8Array(bytes)).toEqual(picture)
      })
  })
