import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { contentOf } from '../../src/mcp/content.ts'
import type { Message } from '../../src/model/message.ts'
import { verbs } from '../../src/tools/index.ts'
import { folderOfFile } from '../support/folder.ts'

const dir = folderOfFile()

const mebibyte = 1024 * 1024

async function downloaded(content_type: string, size: number, local = false) {
  const path = join(dir, 'file')
  await writeFile(path, Buffer.alloc(size, 7))
  const file = { path, size, file_name: 'a "name".bin', content_type, sha256: 'ab' }
  return contentOf(verbs.download, file, { input: { message_id: 'derived:ab/cd', item: 2 }, local })
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

  test('a client of this machine gets the path', async () => {
    const [described, ...more] = await downloaded('image/png', 100, true)
    expect(more).toEqual([{ type: 'text', text: expect.stringContaining('from a WeChat user') }])
    expect((described as { text: string }).text.split('\n')).toContain(`path: ${join(dir, 'file')}`)
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
    JSON.stringify(await contentOf(verbs.history, page, { input: {}, local: false, tools }))
  for (const name of ['send', 'download']) {
    expect(await said()).toContain(`tool ${name} `)
    expect(await said(['history', 'sessions'])).not.toContain(`tool ${name} `)
  }
})
