import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { partialQuoteOf, type QuotableMessage, quoteOf } from '../../src/ilink/quote.ts'
import type { WeixinMessage } from '../../src/ilink/wire.ts'

const md5 = (text: string) => createHash('md5').update(text).digest('hex')

const known: QuotableMessage = {
  message_id: '900',
  msg_type: 'TEXT',
  text: 'one two one two',
  from_user: 'b@im.bot',
  timestamp: 1000,
}
const quoted = (id: string) => (id === '900' ? known : undefined)
const withRef = (ref_msg: unknown, before: unknown[] = []) =>
  ({ item_list: [...before, { type: 1, text_item: { text: 'reply' }, ref_msg }] }) as WeixinMessage

describe('quoteOf', () => {
  const cases: [name: string, ref: unknown, expected: unknown][] = [
    [
      'a quote in full',
      { message_item: { type: 1, msg_id: '5', create_time_ms: 77, text_item: { text: 'said' } } },
      { message_id: '5', msg_type: 'TEXT', text: 'said', timestamp: 77 },
    ],
    ['an early quote with a title alone', { title: 'said' }, { text: 'said' }],
    ['type 0 with only an id', { message_item: { type: 0, msg_id: '900', button_item_list: [] } }, known],
    [
      'type 8 with an id and a time',
      { message_item: { type: 8, msg_id: 900, create_time_ms: 990 } },
      { ...known, timestamp: 990 },
    ],
    ['no type, no payload, an unknown id', { message_item: { msg_id: '901' } }, { message_id: '901' }],
    [
      'a time that is none, with an id',
      { message_item: { msg_id: 900, create_time_ms: Number.MAX_SAFE_INTEGER } },
      known,
    ],
    ['nothing but a time that is none', { message_item: { create_time_ms: 1_790_000_000_000 } }, {}],
    ['nothing but a time', { message_item: { create_time_ms: 990 } }, { timestamp: 990 }],
    ['an id alone', { svr_id: '900' }, known],
    ['an id nobody knows', { svr_id: '18446744073709551615' }, { message_id: '18446744073709551615' }],
    [
      'an id with a part',
      {
        svr_id: '900',
        partial_text: { start: 'two', end: 'one', startindex: 0, endindex: 1, quotemd5: md5('two one') },
      },
      { ...known, text: 'two one', partial: true },
    ],
    [
      'a part that does not match: the whole',
      { svr_id: '900', partial_text: { start: 'absent', end: 'one' } },
      known,
    ],
    [
      'quoted media',
      { message_item: { type: 2, msg_id: '6', image_item: { media: { encrypt_query_param: 'secret' } } } },
      { message_id: '6', msg_type: 'IMAGE' },
    ],
    [
      'quoted media without a type',
      { message_item: { file_item: { file_name: 'a' } } },
      { msg_type: 'FILE' },
    ],
    ['an empty quote is none', {}, undefined],
    ['null', null, undefined],
    ['a string', 'x', undefined],
  ]
  for (const [name, ref, expected] of cases)
    test(name, () => expect(quoteOf(withRef(ref), 2000, quoted) as unknown).toEqual(expected as never))

  test('the first item that has a quote counts, of whatever type', () => {
    const message = {
      item_list: [{ type: 1 }, { type: 3, ref_msg: { svr_id: '1' } }, { ref_msg: { svr_id: '2' } }],
    }
    expect(quoteOf(message, 2000)).toEqual({ message_id: '1' })
  })

  test('without a store the id remains', () => {
    expect(quoteOf(withRef({ svr_id: '900' }), 2000)).toEqual({ message_id: '900' })
  })
})

describe('partialQuote', () => {
  const text = 'aXbXcXbXd'
  const cases: [name: string, partial: Record<string, unknown>, expected: string | undefined][] = [
    ['first to first', { start: 'a', end: 'b', startindex: 0, endindex: 0 }, 'aXb'],
    ['indexes default to 0', { start: 'a', end: 'b' }, 'aXb'],
    ['a later start', { start: 'b', end: 'd', startindex: 1, endindex: 0 }, 'bXd'],
    ['start and end the same', { start: 'b', end: 'b', startindex: 1, endindex: 1 }, 'b'],
    ['without MD5 the end counts over the whole text', { start: 'c', end: 'b', endindex: 1 }, 'cXb'],
    [
      'the MD5 chooses the whole-text reading',
      { start: 'b', end: 'X', startindex: 0, endindex: 1, quotemd5: md5('bX') },
      'bX',
    ],
    [
      'the MD5 chooses the reading after the start',
      { start: 'b', end: 'X', startindex: 0, endindex: 1, quotemd5: md5('bXcX') },
      'bXcX',
    ],
    ['an upper-case MD5', { start: 'a', end: 'b', quotemd5: md5('aXb').toUpperCase() }, 'aXb'],
    ['an MD5 of neither', { start: 'a', end: 'b', quotemd5: md5('other') }, undefined],
    ['an end before the start', { start: 'c', end: 'a' }, undefined],
    ['too few occurrences', { start: 'a', end: 'b', startindex: 1 }, undefined],
    ['absurd indexes', { start: 'a', end: 'b', startindex: 1e15, endindex: 1e15 }, undefined],
    ['indexes of another type', { start: 'a', end: 'b', startindex: 'x', endindex: null }, 'aXb'],
    ['indexes in quotes', { start: 'b', end: 'd', startindex: '1', endindex: '0' }, 'bXd'],
    ['a missing end', { start: 'a' }, undefined],
    ['an empty start', { start: '', end: 'b' }, undefined],
  ]
  for (const [name, partial, expected] of cases)
    test(name, () => expect(partialQuoteOf(text, partial)).toBe(expected))

  test('MD5 is over UTF-8', () => {
    const whole = '今天天气很好，明天呢？👋'
    const part = '天气很好，明天'
    expect(partialQuoteOf(whole, { start: '天气', end: '明天', quotemd5: md5(part) })).toBe(part)
  })

  test('no partial text at all', () => {
    expect(partialQuoteOf(text, undefined)).toBeUndefined()
    expect(partialQuoteOf(text, 'x')).toBeUndefined()
  })
})
