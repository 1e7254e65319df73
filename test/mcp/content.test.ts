import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { contentBlocksOf } from '../../src/mcp/content.ts'
import type { Message } from '../../src/model/message.ts'
import { tools, verbs } from '../../src/operations/tools.ts'
import { folderOfFile } from '../support/folder.ts'
import { withMcpPair } from '../support/mcp-pair.ts'

const dir = folderOfFile()

const mebibyte = 1024 * 1024

async function downloaded(content_type: string, size: number, local = false) {
  const path = join(dir, 'file')
  await writeFile(path, Buffer.alloc(size, 7))
  const file = { path, size, file_name: 'a "name".bin', content_type, sha256: 'ab' }
  return contentBlocksOf(verbs.download, file, { input: { message_id: 'derived:ab/cd', item: 2 }, local })
}

describe('media for a client on another machine', () => {
  test.each([
    ['image/png', 'image'],
    ['image/svg+xml', 'resource'],
    ['audio/mpeg', 'audio'],
    ['audio/silk', 'resource'],
    ['text/plain', 'resource'],
    ['application/pdf', 'resource'],
  ])('%s comes as %s, and always with a link', async (type, kind) => {
    const [described, content, link] = await downloaded(type, 100)
    expect(described).toMatchObject({ type: 'text' })
    expect(content).toMatchObject({ type: kind })
    const { data } = content as { data?: string }
    const { blob = data } = (content as { resource?: { blob: string } }).resource ?? {}
    expect(Buffer.from(blob!, 'base64')).toEqual(Buffer.alloc(100, 7))
    expect(link).toMatchObject({
      type: 'resource_link',
      uri: 'svc://media/derived%3Aab%2Fcd/2',
      name: 'a "name".bin',
      mimeType: type,
      size: 100,
    })
  })

  test('more than a mebibyte is only linked', async () => {
    expect((await downloaded('image/png', mebibyte)).map(({ type }) => type)).toEqual([
      'text',
      'image',
      'resource_link',
      'text',
    ])
    expect((await downloaded('image/png', mebibyte + 1)).map(({ type }) => type)).toEqual([
      'text',
      'resource_link',
      'text',
    ])
  })

  test('a client of this machine gets the path, and a picture that is small', async () => {
    const warning = { type: 'text', text: expect.stringContaining('from a WeChat user') }
    const [described, ...more] = await downloaded('image/png', 100, true)
    expect((described as { text: string }).text.split('\n')).toContain(`path: ${join(dir, 'file')}`)
    expect(more).toMatchObject([{ type: 'image', mimeType: 'image/png' }, warning])
    for (const [type, size] of [
      ['image/png', mebibyte + 1],
      ['image/svg+xml', 100],
      ['audio/mpeg', 100],
      ['text/plain', 100],
    ] as const)
      expect((await downloaded(type, size, true)).slice(1)).toEqual([warning as never])
  })
})

test('an answer names no tool that is not offered', async () => {
  const message: Message = {
    ...{ id: 1, message_id: '1', session: 'default', bot_id: 'b@im.bot', direction: 'received' },
    ...{ from_user: 'u@im.wechat', to_user: 'b@im.bot', msg_type: 'IMAGE', text: '', timestamp: 0 },
    items: [{ kind: 'IMAGE', has_media: true }],
  }
  const page = { messages: [message], total: 1, total_is_lower_bound: false, limit: 50, offset: 0 }
  const said = async (tools?: string[]) =>
    JSON.stringify(await contentBlocksOf(verbs.history, page, { input: {}, local: false, tools }))
  for (const name of ['send', 'download']) {
    expect(await said()).toContain(`tool ${name} `)
    expect(await said(['history', 'sessions'])).not.toContain(`tool ${name} `)
  }
})

describe('pictures that people sent, with recv', () => {
  const kinds = {
    'image/png': Buffer.from('\x89PNG\r\n\x1a\n....', 'latin1'),
    'image/jpeg': Buffer.from('\xff\xd8\xff....', 'latin1'),
    'image/gif': Buffer.from('GIF89a....'),
    'image/webp': Buffer.from('RIFF\x00\x00\n\x00WEBPVP8 ', 'latin1'),
  }
  const said = (
    id: number,
    kinds: Message['items'][number]['kind'][],
    more: Partial<Message> = {},
  ): Message => ({
    ...{ id, message_id: `m${id}`, session: 'default', bot_id: 'b@im.bot', direction: 'received' },
    ...{ from_user: 'u@im.wechat', to_user: 'b@im.bot', msg_type: 'IMAGE', text: '', timestamp: 0 },
    items: kinds.map(kind => ({ kind, has_media: kind !== 'TEXT' })),
    ...more,
  })
  async function blocksOf(messages: Message[], bytes: Record<string, Buffer | undefined>) {
    const asked: string[] = []
    const blocks = await contentBlocksOf(verbs.recv, messages, {
      ...{ input: {}, local: true },
      picture: async ({ message_id, item }) => {
        asked.push(`${message_id}/${item}`)
        return bytes[`${message_id}/${item}`]
      },
    })
    return { asked, blocks: blocks.slice(1) }
  }

  test.each(Object.entries(kinds))(
    '%s comes as content, after a line that names it',
    async (mimeType, bytes) => {
      // Items are counted over those with media.
      const { blocks } = await blocksOf([said(1, ['TEXT', 'FILE', 'IMAGE'])], { 'm1/1': bytes })
      expect(blocks).toEqual([
        { type: 'text', text: expect.stringContaining('item 1 of message_id m1 ') },
        { type: 'image', mimeType, data: bytes.toString('base64') },
      ])
    },
  )

  test('what is no picture, cannot be had, or was sent by the bot does not come; of many the first', async () => {
    const png = kinds['image/png']
    const text = Buffer.from('<svg/>')
    const { asked, blocks } = await blocksOf(
      [
        said(1, ['IMAGE']),
        said(2, ['IMAGE'], { direction: 'sent' }),
        said(3, ['VIDEO']),
        said(4, Array(9).fill('IMAGE')),
      ],
      { 'm1/0': text, 'm2/0': png, 'm4/0': png, 'm4/1': undefined, 'm4/2': png, 'm4/3': png },
    )
    expect(asked).toEqual(['m1/0', 'm4/0', 'm4/1', 'm4/2'])
    expect(blocks.filter(({ type }) => type === 'image')).toHaveLength(2)
  })
})

test('messages are not handed out if a user was erased while their pictures were fetched', async () => {
  const item = { kind: 'IMAGE', has_media: true }
  const message = { id: 1, direction: 'received', text: '', items: [item], message_id: 'm', from_user: 'u' }
  const state = { silent: [], waiting: 0, is_receiving: true }
  let erasures = 0
  const blocks = contentBlocksOf(verbs.recv, [{ ...message, session: 's', timestamp: 1 }] as never, {
    input: {},
    local: true,
    inbox: async () => ({ ...state, erasures }) as never,
    picture: async () => {
      erasures += 1
      return Buffer.from('\x89PNG\r\n\x1a\n', 'latin1')
    },
  })
  expect(await blocks.catch(error => error.code)).toBe('store_unavailable')
})

test('a picture that a user sent comes as content to a client of this machine, with recv and with download', async () => {
  await using pair = await withMcpPair({ context: { tools, structured: false } })
  const png = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  )
  const { message_id } = await pair.t.sandbox.media('image', png)
  const call = async (name: string, input: Record<string, unknown>) =>
    (await pair.client.callTool({ name, arguments: input })).content as { type: string; data?: string }[]
  for (const content of [await call('recv', { timeout: 30 }), await call('download', { message_id })]) {
    const images = content.filter(({ type }) => type === 'image')
    expect(images.map(({ data }) => Buffer.from(data!, 'base64'))).toEqual([png])
  }
})
