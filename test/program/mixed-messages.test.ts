import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { parseLossless } from '../../src/ilink/lossless.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'

const count = 1000
const firstId = 2n ** 64n - 1n - BigInt(count * 3)
const longText = '长文本 long text 👩‍👩‍👧 \\ " \u2028 '.repeat(1500)
const texts = [
  'hello',
  '你好，世界',
  '👍🏽👨‍👩‍👧‍👦🇨🇳',
  'مرحبا بالعالم',
  'e\u0301 vs \u00e9',
  'tab\tnewline\nreturn\r end',
  '  spaces kept  ',
  '"message_id":123456789012345678901 and {"svr_id":1}',
  '\u0000nul and \u001f control',
  '\\u0041 \\" \\\\',
  'lone \ud83d surrogate',
  '𠜎𠜱𠝹 rare characters',
  longText,
]
const media = { encrypt_query_param: 'cGFyYW0=', aes_key: 'MDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZGVlZmY=' }

interface Sample {
  /** JSON text of the message, as upstream sends it: ids bare. */
  wire: string
  id: string | undefined
  text: string
  kinds: string[]
  quote?: Json
}

/** One of every shape in turn; the number makes each message its own. */
function sample(index: number, user: string, bot: string, previous: readonly Sample[]): Sample {
  const id = String(firstId + BigInt(index) * 2n)
  const own = `#${index} ${texts[index % texts.length]}`
  const textItem = { type: 1, text_item: { text: own } }
  const base: Json = {
    seq: index,
    from_user_id: user,
    to_user_id: bot,
    client_id: `c-${index}`,
    create_time_ms: 1_700_000_000_000 + index * 1000,
    session_id: `${user}#${bot}`,
    message_type: 1,
    message_state: 2,
    context_token: `AARzJWAFAAAB${index}`,
  }
  const made = (
    items: Json[],
    kinds: string[],
    text: string,
    more: Partial<Sample> = {},
    fields: Json = {},
  ): Sample => {
    const wire = JSON.stringify({ ...base, item_list: items, ...fields })
    return { id, text, kinds, wire: wire.replace(/^\{/, `{"message_id":${id},`), ...more }
  }
  const quoted = previous.findLast(
    one => one.id !== undefined && one.text.startsWith('#') && one.kinds[0] === 'TEXT',
  )
  switch (index % 16) {
    case 0:
    case 1:
    case 2:
      return made([textItem], ['TEXT'], own)
    case 3:
      return made(
        [{ type: 2, image_item: { media, mid_size: 1024, thumb_width: 120, thumb_height: 90 } }],
        ['IMAGE'],
        '',
      )
    case 4:
      return made(
        [{ type: 3, voice_item: { media, encode_type: 4, playtime: 3200, text: '转写' } }],
        ['VOICE'],
        '',
      )
    case 5:
      return made(
        [{ type: 4, file_item: { media, file_name: `报告 ${index}.pdf`, len: '123456789012' } }],
        ['FILE'],
        '',
      )
    case 6:
      return made([{ type: 5, video_item: { media, video_size: 4096, play_length: 12 } }], ['VIDEO'], '')
    case 7:
      return made(
        [textItem, { type: 2, image_item: { media } }, { type: 1, text_item: { text: 'second text' } }],
        ['TEXT', 'IMAGE', 'TEXT'],
        `${own}\nsecond text`,
      )
    case 8: {
      if (!quoted) return made([textItem], ['TEXT'], own)
      const wire = JSON.stringify({ ...base, item_list: [{ ...textItem, ref_msg: { svr_id: '@' } }] })
      return {
        id,
        text: own,
        kinds: ['TEXT'],
        wire: wire.replace(/^\{/, `{"message_id":${id},`).replace('"@"', quoted.id!),
        quote: { message_id: quoted.id, text: quoted.text },
      }
    }
    case 9: {
      const long = previous.findLast(one => one.id !== undefined && one.text.includes('hello'))
      if (!long) return made([textItem], ['TEXT'], own)
      const partial = { start: 'he', end: 'lo', startindex: 0, endindex: 0, quotemd5: md5('hello') }
      const wire = JSON.stringify({
        ...base,
        item_list: [{ ...textItem, ref_msg: { svr_id: '@', partial_text: partial } }],
      })
      return {
        id,
        text: own,
        kinds: ['TEXT'],
        wire: wire.replace(/^\{/, `{"message_id":${id},`).replace('"@"', long.id!),
        quote: { message_id: long.id, text: 'hello', partial: true },
      }
    }
    case 10:
      return made(
        [{ type: 77, future_item: { deep: [1, { big: '18446744073709551615' }] } }],
        ['UNKNOWN'],
        '',
      )
    case 11:
      return made([], [], '', {}, { item_list: [] })
    case 12: {
      const { item_list: _, ...rest } = { ...base, item_list: undefined }
      return { id, text: '', kinds: [], wire: JSON.stringify(rest).replace(/^\{/, `{"message_id":${id},`) }
    }
    case 13:
      return made([{ type: 1 }, { type: 1, text_item: {} }, {}], ['TEXT', 'TEXT', 'UNKNOWN'], '')
    case 14:
      // No id at all: the store derives one.
      return {
        id: undefined,
        text: own,
        kinds: ['TEXT'],
        wire: JSON.stringify({ ...base, item_list: [textItem] }),
      }
    default:
      return made(
        [textItem],
        ['TEXT'],
        own,
        {},
        { group_id: 'g1@chatroom', new_field: { a: [true, null, 1.5] } },
      )
  }
}

const md5 = (text: string) => createHash('md5').update(text).digest('hex')

describe('1,000 mixed messages', () => {
  test('every one comes out of recv once and of history whole', async () => {
    await using service = await startService()
    const login = await logIn(service, 'work')
    const { users }: Json = await (await fetch(`${service.phoneUrl}/phone/state`)).json()
    const user = users[0].id ?? users[0].user_id
    const samples: Sample[] = []
    const raw = []
    for (let index = 0; index < count; index++) {
      const one = sample(index, user, login.bot_id, samples)
      samples.push(one)
      raw.push(one.wire)
    }
    const receiving = receiveAll(service, count)
    receiving.catch(() => {})
    for (const message of raw) await service.phone('raw', { message_json: message, to: login.bot_id })
    const received = await receiving

    expect(received).toHaveLength(count)
    expect(new Set(received.map(message => message.message_id)).size).toBe(count)
    expect(received.some(message => message.redelivered)).toBe(false)
    for (const [index, message] of received.entries()) check(message, samples[index]!, login.bot_id, user)

    const history: Json[] = []
    for (let before: number | undefined; ; ) {
      const { body } = await service.call('history', { limit: 200, ...(before && { before }) })
      expect(body.total).toBe(count)
      history.push(...body.messages)
      before = body.next_before
      if (before === undefined) break
    }
    expect(history.reverse()).toEqual(received)

    // The raw messages are kept whole, unknown fields and all.
    const db = new Database(join(service.dir, 'messages.db'), { readonly: true })
    const rows = db.query<{ raw: string }, []>('SELECT raw FROM message ORDER BY id').all()
    expect(rows.map(row => parseLossless(row.raw))).toEqual(samples.map(one => parseLossless(one.wire)))
    db.close()

    // Found by what stands in them, in any script.
    for (const [needle, index] of [
      ['世界', 1],
      ['👨‍👩‍👧‍👦', 2],
      ['#999 ', 999],
      ['MESSAGE_ID', 7],
    ] as const) {
      const { body } = await service.call('history', { text_contains: needle, limit: 200 })
      const expected = samples.filter(one => one.text.toLowerCase().includes(needle.toLowerCase())).length
      expect(body.total).toBe(expected)
      expect(expected).toBeGreaterThan(index < 0 ? 1 : 0)
    }
  }, 300_000)
})

function check(message: Json, one: Sample, bot: string, user: string): void {
  if (one.id !== undefined) expect(message.message_id).toBe(one.id)
  else expect(message.message_id).toMatch(/^derived:/)
  expect(message.text).toBe(one.text)
  expect(message.items.map((item: Json) => item.kind)).toEqual(one.kinds)
  expect(message).toMatchObject({ session: 'work', bot_id: bot, from_user: user, direction: 'received' })
  if (one.quote) expect(message.ref_msg).toMatchObject(one.quote)
}

async function receiveAll(service: Service, wanted: number): Promise<Json[]> {
  const received: Json[] = []
  using watch = stopwatch()
  while (received.length < wanted && watch.ms < 90_000) {
    const { status, body } = await service.call('recv', { timeout: 5, limit: 70 })
    if (status !== 200) throw new Error(JSON.stringify(body))
    received.push(...body)
  }
  // One more: nothing comes twice.
  received.push(...(await service.call('recv', { timeout: 0 })).body)
  return received
}
