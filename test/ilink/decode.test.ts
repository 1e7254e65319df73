import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  contentHashOf,
  type DecodeContext,
  decodeMessage,
  derivedIdOf,
  isFromUser,
  mediaOf,
  summaryOf,
} from '../../src/ilink/decode.ts'
import type { WeixinMessage } from '../../src/ilink/wire.ts'
import { runs } from '../support/properties.ts'

const context: DecodeContext = {
  id: 7,
  session: 'default',
  bot_id: 'b@im.bot',
  direction: 'received',
  message_id: '18446744073709551615',
  timestamp: 1758100000000,
}
const media = {
  encrypt_query_param: 'secret-param',
  aes_key: 'secret-key',
  encrypt_type: 1,
  full_url: 'https://c/x',
}
/** A message as upstream may send it, however wrong. */
const wire = (fields: Record<string, unknown>) => fields as WeixinMessage
const textItem = (text: unknown) => ({ type: 1, text_item: { text } })

const everyKind = wire({
  message_id: '18446744073709551615',
  from_user_id: 'o9Cq@im.wechat',
  to_user_id: 'b@im.bot',
  create_time_ms: 1758100000000,
  message_type: 1,
  context_token: 'ctx',
  group_id: 'g@chatroom',
  item_list: [
    textItem('第一 👋'),
    {
      type: 2,
      image_item: {
        media,
        aeskey: 'a'.repeat(32),
        mid_size: 10,
        hd_size: 99,
        thumb_width: 3,
        thumb_height: 4,
      },
    },
    { type: 3, voice_item: { media, playtime: 1200, text: '你好' } },
    {
      type: 4,
      file_item: { media, file_name: '../报告.pdf', len: '123456', md5: 'D41D8CD98F00B204E9800998ECF8427E' },
    },
    { type: 5, video_item: { media: { full_url: 'https://c/v' }, video_size: 77, play_length: 9 } },
    { type: 11, tool_call_start_item: { tool_name: 'x' } },
    textItem('second'),
  ],
})

describe('decodeMessage', () => {
  test('every item in order with its public fields, and nothing secret', () => {
    const message = decodeMessage(everyKind, context)
    expect(message).toEqual({
      id: 7,
      message_id: '18446744073709551615',
      session: 'default',
      bot_id: 'b@im.bot',
      direction: 'received',
      from_user: 'o9Cq@im.wechat',
      to_user: 'b@im.bot',
      msg_type: 'TEXT',
      text: '第一 👋\nsecond',
      timestamp: 1758100000000,
      group_id: 'g@chatroom',
      items: [
        { kind: 'TEXT', text: '第一 👋', has_media: false },
        { kind: 'IMAGE', size: 10, width: 3, height: 4, has_media: true },
        { kind: 'VOICE', playtime: 1200, transcript: '你好', has_media: true },
        { kind: 'FILE', file_name: '../报告.pdf', size: 123456, has_media: true },
        { kind: 'VIDEO', size: 77, playtime: 9, has_media: true },
        { kind: 'UNKNOWN', has_media: false },
        { kind: 'TEXT', text: 'second', has_media: false },
      ],
    })
    for (const secret of ['secret', 'ctx', 'https://c', 'aaaa'])
      expect(JSON.stringify(message)).not.toContain(secret)
  })

  const firsts: [kind: 'image' | 'voice' | 'file' | 'video', item: unknown][] = [
    ['image', { type: 2, image_item: { media } }],
    ['voice', { type: 3, voice_item: {} }],
    ['file', { type: 4, file_item: { file_name: 'a' } }],
    ['video', { type: 5, video_item: null }],
  ]
  for (const [kind, item] of firsts) {
    test(`a first item that is ${kind} is also told as message.${kind}`, () => {
      const message = decodeMessage(wire({ item_list: [item, textItem('x')] }), context)
      expect(message.msg_type).toBe(kind.toUpperCase() as 'IMAGE')
      expect(message[kind]).toEqual(message.items[0]!)
    })
  }

  test('a sent message is from the bot, to the user, with its status and the given time', () => {
    const sent = wire({ from_user_id: '', to_user_id: 'u@im.wechat', item_list: [textItem('hi')] })
    const message = decodeMessage(sent, { ...context, direction: 'sent', status: 'accepted' })
    expect(message).toMatchObject({
      from_user: 'b@im.bot',
      to_user: 'u@im.wechat',
      status: 'accepted',
      timestamp: context.timestamp,
    })
  })

  const odd: [name: string, raw: unknown, expected: Record<string, unknown>][] = [
    [
      'an empty message',
      {},
      { msg_type: 'UNKNOWN', text: '', items: [], from_user: '', to_user: 'b@im.bot' },
    ],
    ['JSON null', 'null', { msg_type: 'UNKNOWN' }],
    [
      'null fields',
      { item_list: null, from_user_id: null, create_time_ms: null, group_id: null },
      { msg_type: 'UNKNOWN' },
    ],
    ['an item list of another type', { item_list: 'x' }, { items: [] }],
    [
      'items of other types keep their places',
      { item_list: [null, 5, 'x', [], textItem('here')] },
      {
        msg_type: 'UNKNOWN',
        text: 'here',
        items: expect.arrayContaining([{ kind: 'TEXT', text: 'here', has_media: false }]),
      },
    ],
    [
      'a text that is a number',
      { item_list: [textItem(5)] },
      { msg_type: 'TEXT', text: '', items: [{ kind: 'TEXT', has_media: false }] },
    ],
    ['a text item without payload', { item_list: [{ type: 1 }] }, { msg_type: 'TEXT', text: '' }],
    ['a type in quotes', { item_list: [{ ...textItem('q'), type: '1' }] }, { msg_type: 'TEXT', text: 'q' }],
    [
      'a missing type with a payload',
      { item_list: [{ text_item: { text: 'p' } }] },
      { msg_type: 'TEXT', text: 'p' },
    ],
    ['type 0', { item_list: [{ type: 0, button_item_list: [] }] }, { msg_type: 'UNKNOWN' }],
    [
      'an unknown type that carries text',
      { item_list: [{ ...textItem('t'), type: 99 }] },
      { msg_type: 'UNKNOWN', text: '' },
    ],
    ['a time is that of the row', { create_time_ms: 1758100009000 }, { timestamp: context.timestamp }],
    [
      'sizes that are none',
      { item_list: [{ type: 4, file_item: { len: '-1', file_name: 7, media: [] } }] },
      { items: [{ kind: 'FILE', has_media: false }] },
    ],
    [
      'an empty media reference',
      { item_list: [{ type: 2, image_item: { media: { encrypt_query_param: '' } } }] },
      { items: [{ kind: 'IMAGE', has_media: false }] },
    ],
    [
      'an empty text between others',
      { item_list: [textItem('a'), textItem(''), textItem('b')] },
      { text: 'a\n\nb' },
    ],
    [
      'prototype names as fields',
      '{"__proto__":{"item_list":[{"type":1}]},"item_list":[{"type":"constructor"}]}',
      { msg_type: 'UNKNOWN' },
    ],
  ]
  for (const [name, raw, expected] of odd) {
    test(`${name} is tolerated`, () => {
      expect(decodeMessage(raw as WeixinMessage, context) as unknown).toMatchObject(expected)
      if (typeof raw !== 'string')
        expect(() => summaryOf(wire(raw as Record<string, unknown>), 1)).not.toThrow()
    })
  }

  test('a text that is no JSON is refused', () => {
    expect(() => decodeMessage('no json at all', context)).toThrow(SyntaxError)
  })

  test('whatever any field holds, nothing throws', () => {
    const names =
      'item_list type text_item text image_item voice_item file_item video_item media aes_key aeskey encrypt_query_param len size video_size playtime file_name ref_msg svr_id msg_id message_item title partial_text start end startindex endindex quotemd5 create_time_ms message_id seq client_id from_user_id to_user_id group_id context_token message_type toString valueOf toJSON __proto__ length'
    const key = fc.constantFrom(...names.split(' '))
    const { value } = fc.letrec<{ value: unknown }>(tie => ({
      value: fc.oneof(
        { depthSize: 'medium', withCrossShrink: true },
        fc.constantFrom<unknown>(null, true, 0, -1, 1, 2, 5, 1e308, '', '0', '1', 'ab', 'a\ud800', {
          toString: 1,
          valueOf: 1,
        }),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(key, tie('value'), { maxKeys: 6 }),
      ),
    }))
    const item = fc.dictionary(key, value, { maxKeys: 8 })
    const ref = fc.record({
      title: fc.constant('ab ab'),
      partial_text: fc.record({
        start: fc.constant('a'),
        end: fc.constant('b'),
        startindex: value,
        endindex: value,
        quotemd5: value,
      }),
    })
    const quoting = fc.record({ type: fc.constant(1), text_item: item, ref_msg: ref })
    const anyMessage = fc
      .tuple(fc.dictionary(key, value, { maxKeys: 8 }), fc.array(fc.oneof(item, quoting), { maxLength: 4 }))
      .map(([fields, item_list]) => JSON.parse(JSON.stringify({ ...fields, item_list })) as WeixinMessage)
    fc.assert(
      fc.property(anyMessage, message => {
        expect(summaryOf(message, 1).contentHash).toBeString()
        expect(derivedIdOf(message)).toStartWith('derived:')
        expect(decodeMessage(message, { ...context, quoted: () => undefined }).items).toBeArray()
        mediaOf(message, 0)
        isFromUser(message, 'b')
      }),
      runs(1000),
    )
  })

  test('nesting as deep as a parser takes does not bring it down', () => {
    const deep = `{"item_list":[{"type":99,"x":${'['.repeat(300_000)}${']'.repeat(300_000)}}]}`
    expect(decodeMessage(deep, context).msg_type).toBe('UNKNOWN')
    expect(summaryOf(JSON.parse(deep), 1).contentHash).toBeString()
  })
})

describe('summary', () => {
  test('what the store indexes', () => {
    expect(summaryOf(everyKind, 1758100005000)).toEqual({
      message_id: '18446744073709551615',
      from_user: 'o9Cq@im.wechat',
      to_user: 'b@im.bot',
      msg_type: 'TEXT',
      text: '第一 👋\n你好\n../报告.pdf\nsecond',
      timestamp: 1758100000000,
      timed: true,
      group_id: 'g@chatroom',
      contextToken: 'ctx',
      contentHash: expect.any(String),
    })
  })

  const ids: [given: unknown, expected: string | undefined][] = [
    ['18446744073709551615', '18446744073709551615'],
    [42, '42'],
    [9007199254740992, '9007199254740992'],
    [0, undefined],
    ['0', undefined],
    ['', undefined],
    [null, undefined],
    [undefined, undefined],
    [{}, undefined],
  ]
  for (const [given, expected] of ids)
    test(`message_id ${JSON.stringify(given)} is ${expected}`, () =>
      expect(summaryOf(wire({ message_id: given }), 1).message_id).toBe(expected))

  test('a user id that no call takes is none, and the message is told all the same', () => {
    const of = (from_user_id: string) => wire({ from_user_id, item_list: [textItem('hi')] })
    const longest = 'u'.repeat(512)
    for (const [given, from_user] of [
      [longest, longest],
      [`${longest}u`, ''],
    ] as const) {
      expect(summaryOf(of(given), 5)).toMatchObject({ from_user, text: 'hi' })
      expect(decodeMessage(of(given), context)).toMatchObject({ from_user, text: 'hi' })
    }
  })

  test('a user id is one text for the store, for readers and in addresses', () => {
    const message = wire({ message_id: '9', from_user_id: 'a\ud800', item_list: [] })
    const { from_user } = summaryOf(message, 1)
    expect(from_user).toBe('a\ufffd')
    expect(decodeMessage(message, context).from_user).toBe(from_user)
    expect(encodeURIComponent(from_user)).toBe('a%EF%BF%BD')
  })

  const at = 1_758_100_000_123
  const day = 24 * 60 * 60_000
  const times: [name: string, stated: unknown, expected: number | undefined][] = [
    ['milliseconds', at - 5, at - 5],
    ['milliseconds in quotes', String(at - 5), at - 5],
    ['seconds', 1_758_100_000, 1_758_100_000_000],
    ['seconds in quotes', '1758100000', 1_758_100_000_000],
    ['seconds with a fraction', 1_758_100_000.0625, 1_758_100_000_063],
    ['364 days ago', at - 364 * day, at - 364 * day],
    ['366 days ago', at - 366 * day, undefined],
    ['a year ahead in seconds', Math.floor((at + 366 * day) / 1000), undefined],
    ['microseconds', at * 1000, undefined],
    ['nanoseconds', `${at}000000`, undefined],
    ['an early time', 1000, undefined],
    ['0', 0, undefined],
    ['-1', -1, undefined],
    ['a negative time', -at, undefined],
    ['the largest number', Number.MAX_VALUE, undefined],
    ['Infinity', 'Infinity', undefined],
    ['NaN', Number.NaN, undefined],
    ['a date', '2025-09-17T09:06:40Z', undefined],
    ['an empty text', '', undefined],
    ['null', null, undefined],
    ['true', true, undefined],
    ['a list', [at], undefined],
    ['nothing', undefined, undefined],
  ]
  for (const [name, create_time_ms, expected] of times)
    test(`a create time of ${name} is ${expected === undefined ? 'the time of receipt' : 'read'}`, () => {
      const { timestamp, timed } = summaryOf(wire({ create_time_ms }), at)
      expect({ timestamp, timed }).toEqual({ timestamp: expected ?? at, timed: expected !== undefined })
    })
})

describe('isFromUser', () => {
  const cases: [fields: Record<string, unknown>, expected: boolean][] = [
    [{ message_type: 1, from_user_id: 'u' }, true],
    [{ from_user_id: 'u' }, true],
    [{ message_type: null, from_user_id: 'u' }, true],
    [{ message_type: 0, from_user_id: 'u' }, true],
    [{ message_type: 2, from_user_id: 'u' }, false],
    [{ message_type: 7, from_user_id: 'u' }, false],
    [{ message_type: 1, from_user_id: 'b@im.bot' }, false],
  ]
  for (const [fields, expected] of cases)
    test(`${JSON.stringify(fields)}: ${expected}`, () =>
      expect(isFromUser(wire(fields), 'b@im.bot')).toBe(expected))
})

describe('mediaOf', () => {
  test('counts over the items that have media, whatever stands between', () => {
    expect([0, 1, 2, 3, 4].map(index => mediaOf(everyKind, index)?.kind)).toEqual([
      'image',
      'voice',
      'file',
      'video',
      undefined,
    ])
  })

  test("an image's own key goes before its reference's, and the full URL stays", () => {
    expect(mediaOf(everyKind, 0)).toEqual({
      info: { ...media, aes_key: 'a'.repeat(32) },
      kind: 'image',
      fileName: undefined,
      size: 10,
    })
  })

  test('a file brings name and size', () => {
    expect(mediaOf(JSON.stringify(everyKind), 2)).toMatchObject({
      info: media,
      fileName: '../报告.pdf',
      size: 123456,
    })
  })

  test('nonsense has none', () => {
    expect(mediaOf('nonsense', 0)).toBeUndefined()
    expect(mediaOf(everyKind, -1)).toBeUndefined()
  })
})

describe('contentHash', () => {
  const hash = (...items: Record<string, unknown>[]) => contentHashOf(items)
  const image = (key: string, param: string) => ({
    type: 2,
    msg_id: param,
    create_time_ms: param.length,
    image_item: {
      media: { encrypt_query_param: param, aes_key: key, full_url: `https://c/${param}` },
      mid_size: 5,
    },
  })
  const keyA = 'a'.repeat(32)

  const same: [name: string, a: Record<string, unknown>, b: Record<string, unknown>][] = [
    [
      'new item ids and times',
      { ...textItem('x'), msg_id: '1', create_time_ms: 1 },
      { ...textItem('x'), msg_id: '2' },
    ],
    ['renewed addresses', image(keyA, 'one'), image(keyA, 'another')],
    [
      'the same key in another spelling',
      image(keyA, 'one'),
      image(Buffer.from(keyA).toString('base64'), 'one'),
    ],
    ['an unknown item under a new id', { type: 99, a: 1, msg_id: '1' }, { type: 99, a: 1, msg_id: '2' }],
  ]
  for (const [name, a, b] of same) test(`equal despite ${name}`, () => expect(hash(a)).toBe(hash(b)))

  const different: [name: string, a: Record<string, unknown>, b: Record<string, unknown>][] = [
    ['text', textItem('x'), textItem('y')],
    ['kind', textItem('x'), { type: 3, voice_item: { text: 'x' } }],
    ['media key', image(keyA, 'one'), image('b'.repeat(32), 'one')],
    ['plain picture', image('', 'one'), image('', 'another')],
    ['file name', { type: 4, file_item: { file_name: 'a' } }, { type: 4, file_item: { file_name: 'b' } }],
    ['quote', textItem('x'), { ...textItem('x'), ref_msg: { svr_id: '1' } }],
    [
      'quoted message',
      { ...textItem('x'), ref_msg: { svr_id: '2' } },
      { ...textItem('x'), ref_msg: { svr_id: '1' } },
    ],
    ['unknown payload', { type: 99, a: 1 }, { type: 99, a: 2 }],
  ]
  for (const [name, a, b] of different)
    test(`another ${name} differs`, () => expect(hash(a)).not.toBe(hash(b)))

  test('order and number of items count', () => {
    expect(hash(textItem('a'), textItem('b'))).not.toBe(hash(textItem('b'), textItem('a')))
    expect(hash(textItem('a'))).not.toBe(hash(textItem('a'), textItem('a')))
  })
})

describe('derivedId', () => {
  const base = wire({ from_user_id: 'u', create_time_ms: 1, client_id: 'c', item_list: [textItem('x')] })
  test('the same for a redelivery with another token', () => {
    expect(derivedIdOf({ ...base, context_token: 'a' })).toBe(derivedIdOf({ ...base, context_token: 'b' }))
    expect(derivedIdOf(base)).toMatch(/^derived:[0-9a-f]{32}$/)
  })
  test('another for another sender, time, client id or text', () => {
    const others = [
      base,
      { ...base, from_user_id: 'v' },
      { ...base, create_time_ms: 2 },
      { ...base, client_id: 'd' },
      wire({ ...base, item_list: [textItem('y')] }),
    ]
    expect(new Set(others.map(derivedIdOf)).size).toBe(others.length)
  })
})
