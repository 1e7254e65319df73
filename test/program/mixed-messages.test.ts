import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { parseLossless } from '../../src/platform/lossless.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'

const md5 = (text: string) => createHash('md5').update(text).digest('hex')

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

/** What is of a shape's own; the text is what stands in its text items. */
interface Shape extends Pick<Sample, 'kinds' | 'quote'> {
  items?: Json[]
  text?: string
  /** Beside those that every message has. */
  fields?: Json
}

const picture = { type: 2, image_item: { media, mid_size: 1024, thumb_width: 120, thumb_height: 90 } }
const voice = { type: 3, voice_item: { media, encode_type: 4, playtime: 3200, text: '转写' } }
const video = { type: 5, video_item: { media, video_size: 4096, play_length: 12 } }
const unknown = { type: 77, future_item: { deep: [1, { big: '18446744073709551615' }] } }
const partial_text = { start: 'he', end: 'lo', startindex: 0, endindex: 0, quotemd5: md5('hello') }
/** The store derives an id for it. */
const nameless = 14

/** One of every shape in turn; the number makes each message its own. */
function sample(index: number, user: string, bot: string, previous: readonly Sample[]): Sample {
  const own = `#${index} ${texts[index % texts.length]}`
  const said = { type: 1, text_item: { text: own } }
  const plain: Shape = { items: [said], kinds: ['TEXT'], text: own }
  const before = previous.findLast(one => one.id && one.text.startsWith('#') && one.kinds[0] === 'TEXT')
  const hello = previous.findLast(one => one.id && one.text.includes('hello'))
  const file = { type: 4, file_item: { media, file_name: `报告 ${index}.pdf`, len: '123456789012' } }
  const second = { type: 1, text_item: { text: 'second text' } }
  const shapes: Record<number, Shape> = {
    3: { items: [picture], kinds: ['IMAGE'] },
    4: { items: [voice], kinds: ['VOICE'] },
    5: { items: [file], kinds: ['FILE'] },
    6: { items: [video], kinds: ['VIDEO'] },
    7: { items: [said, picture, second], kinds: ['TEXT', 'IMAGE', 'TEXT'], text: `${own}\nsecond text` },
    8: {
      ...plain,
      items: [{ ...said, ref_msg: { svr_id: `@${before?.id}` } }],
      quote: { message_id: before?.id, text: before?.text },
    },
    9: {
      ...plain,
      items: [{ ...said, ref_msg: { svr_id: `@${hello?.id}`, partial_text } }],
      quote: { message_id: hello?.id, text: 'hello', partial: true },
    },
    10: { items: [unknown], kinds: ['UNKNOWN'] },
    11: { items: [], kinds: [] },
    12: { kinds: [] },
    13: { items: [{ type: 1 }, { type: 1, text_item: {} }, {}], kinds: ['TEXT', 'TEXT', 'UNKNOWN'] },
    15: { ...plain, fields: { group_id: 'g1@chatroom', new_field: { a: [true, null, 1.5] } } },
  }
  const shape = index % 16
  const { items, kinds, text = '', fields, quote } = shapes[shape] ?? plain
  const id = shape === nameless ? undefined : String(firstId + BigInt(index) * 2n)
  const wire = JSON.stringify({
    ...(id && { message_id: `@${id}` }),
    seq: index,
    from_user_id: user,
    to_user_id: bot,
    client_id: `c-${index}`,
    create_time_ms: 1_700_000_000_000 + index * 1000,
    session_id: `${user}#${bot}`,
    message_type: 1,
    message_state: 2,
    context_token: `AARzJWAFAAAB${index}`,
    ...(items && { item_list: items }),
    ...fields,
  })
  return { id, text, kinds, wire: wire.replace(/"@(\d+)"/g, '$1'), ...(quote && { quote }) }
}

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
