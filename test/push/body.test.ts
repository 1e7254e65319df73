/** What a delivery says: always less than 20 kB of JSON. */
import { expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import type { Message, MessageItem } from '../../src/model/message.ts'
import { bodyOf } from '../../src/push/body.ts'
import { runs } from '../support/properties.ts'

const text = (of: string): MessageItem => ({ kind: 'TEXT', text: of, has_media: false })
const message = (items: MessageItem[], more: Partial<Message> = {}): Message => ({
  ...{
    id: 1,
    message_id: 'm/1',
    session: 's',
    bot_id: 'b',
    direction: 'received',
    from_user: 'u',
    to_user: 'b',
  },
  ...{
    msg_type: items[0]?.kind ?? 'TEXT',
    text: items.map(one => one.text ?? '').join('\n'),
    timestamp: 5,
    items,
  },
  ...more,
})
const links = {
  linkMedia: (id: string, item: number) => `https://svc.example/shared/${encodeURIComponent(id)}/${item}`,
  linkMessage: (id: string) => `https://svc.example/shared/${encodeURIComponent(id)}/message`,
}
const sent = (data: object, type = 'message.received') =>
  bodyOf({ id: 'abc-7', type, at: 1_800_000_000_000, data }, links)

test('an event is told as it is, with its time in ISO 8601', () => {
  const data = message([text('hello')])
  expect(JSON.parse(sent(data))).toEqual({
    ...{ id: 'abc-7', type: 'message.received', timestamp: '2027-01-15T08:00:00.000Z', data },
  })
})

test('media have a link each, counted over the items that have some', () => {
  const image: MessageItem = { kind: 'IMAGE', has_media: true }
  const { data } = JSON.parse(
    sent(message([text('look'), image, { ...image, kind: 'FILE' }], { image })),
  ) as {
    data: { items: { url?: string }[]; image: { url: string } }
  }
  expect(data.items.map(({ url }) => url)).toEqual([
    undefined,
    links.linkMedia('m/1', 0),
    links.linkMedia('m/1', 1),
  ])
  expect(data.image.url).toBe(links.linkMedia('m/1', 0))
  const bare = JSON.parse(
    bodyOf({ id: 'a', type: 'message.received', at: 1, data: message([image]) }, undefined),
  )
  expect(bare.data.items[0]).toEqual(image)
})

test('a long text is cut, which it says, with a link to the whole', () => {
  const long = '好'.repeat(16_000)
  const body = sent(message([text(long)]))
  expect(Buffer.byteLength(body)).toBeLessThan(20_000)
  const { data } = JSON.parse(body)
  expect(data).toMatchObject({ truncated: true, whole_url: links.linkMessage('m/1'), message_id: 'm/1' })
  expect(long.startsWith(data.text.slice(0, -1))).toBe(true)
  expect(data.text.length).toBeGreaterThan(500)
  expect(data.items[0].text.length).toBeLessThan(long.length)
})

test('whatever a message holds, the body is short and well-formed', () => {
  const texts = fc.string({ unit: 'grapheme', maxLength: 3000 })
  const items = fc.array(fc.tuple(texts, fc.boolean()), { maxLength: 60 })
  fc.assert(
    fc.property(items, texts, fc.nat(400), (given, quoted, times) => {
      const data = message(
        given.map(([one, has_media]) => ({
          kind: 'TEXT',
          text: one.repeat(times % 20),
          has_media,
          file_name: one,
        })),
        { ref_msg: { text: quoted.repeat(times) }, user_name: quoted.slice(0, 64) },
      )
      const body = sent(data)
      expect(Buffer.byteLength(body)).toBeLessThan(20_000)
      expect(body.isWellFormed()).toBe(true)
      expect(JSON.parse(body).data.message_id).toBe('m/1')
    }),
    runs(60),
  )
})
