/** What every engine must do for searches (`MessageLog.search`). */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { MessageKind } from '../../src/model/message.ts'
import type { HistoryFilter } from '../../src/storage/messages.ts'
import type { Store } from '../../src/storage/store.ts'
import { failure } from '../support/failure.ts'
import { onEach } from './engines.ts'
import {
  formsOf,
  insert,
  message,
  nthOf,
  type Opened,
  open,
  outgoing,
  type Running,
  sending,
} from './support.ts'

const texts = async (store: Store, filter: Partial<HistoryFilter>) =>
  (await store.log.search({ limit: 200, offset: 0, ...filter })).rows.map(row => row.text)

/** The contract's rule, naively: a literal substring, A-Z alike, in any of the forms that Unicode has for it. */
const fold = (text: string) =>
  text
    .toWellFormed()
    .replaceAll('\0', '\ufffd')
    .replace(/[A-Z]/g, char => char.toLowerCase())
const contains = (text: string, needle: string) =>
  formsOf(needle.toWellFormed()).some(form => fold(text).includes(fold(form)))

interface Row {
  text: string
  peer: string
  session: string
  bot: string
  kind: MessageKind
  at: number
  sent: boolean
}

/** Rows of all kinds, mixed; times neither unique nor in the order of ids. */
async function mixed(t: Running, count: number): Promise<Row[]> {
  const rows: Row[] = []
  const kinds: MessageKind[] = ['TEXT', 'IMAGE', 'VOICE']
  for (let i = 0; i < count; i++) {
    const n = (i * 7919) % 1000
    rows.push({
      text: `${n % 3 === 0 ? '苹果 ' : ''}word${n % 17} ${i}`,
      peer: `u${n % 5}`,
      session: `s${n % 4}`,
      bot: `b${n % 2}`,
      kind: kinds[n % 3]!,
      at: 1_000_000 + Math.floor(i / 10) * 10 + (n === 500 ? -900_000 : 0),
      sent: n % 11 === 0,
    })
  }
  // Those between two sent ones share a commit, in their order.
  let storing: Promise<unknown>[] = []
  for (const row of rows) {
    const { text, peer, session, bot, kind, at, sent } = row
    if (sent) {
      await Promise.all(storing)
      storing = []
      await sending(t.store, session, bot, {
        client_id: text,
        to_user: peer,
        msg_type: kind,
        text,
        timestamp: at,
        raw: '{}',
      })
    } else {
      const received = message(text, { from_user: peer, msg_type: kind, timestamp: at })
      storing.push(insert(t, [received], session, bot))
    }
  }
  await Promise.all(storing)
  return rows
}

onEach((it, openStore, share) => {
  it('a time range is found as a range of ids, although times do not follow their order', async t => {
    for (const [nth, timestamp] of [50, 10, 30, 20, 40, 30].entries())
      await insert(t, [message(String(nth), { timestamp })])
    const range = async (since?: number, until?: number) => {
      const { low, high } = await t.store.log.findRange({ since, until })
      return { low: nthOf(low), high: nthOf(high) }
    }
    expect(await range(20, 40)).toEqual({ low: 3, high: 6 })
    expect(await range(50)).toEqual({ low: 1, high: 1 })
    expect(await range(undefined, 20)).toEqual({ low: 2, high: 2 })
    const { low, high } = await range(60)
    expect(low > high).toBe(true)
  })

  describe('text_contains', () => {
    let one: Opened
    let cases = 0
    beforeAll(async () => {
      one = await openStore()
    })
    afterAll(() => one[Symbol.asyncDispose]())

    test.each([
      ['ell', 'hello', true],
      ['ELL', 'hello', true],
      ['hello', 'HeLLo', true],
      ['100%', '100', false],
      ['100%', 'at 100% now', true],
      ['a_b', 'axb', false],
      ['a_b', 'a_b', true],
      ['\\', 'a\\b', true],
      ['\\%', '\\%', true],
      ['\\%', '%', false],
      ["'", "O'Brien", true],
      ['"', 'say "x"', true],
      ['""', 'say "x"', false],
      ['好', '你好吗', true],
      ['你好', '你好吗', true],
      ['好你', '你好吗', false],
      ['吗', '你好吗', true],
      ['👍', 'ok👍🏽', true],
      ['👍🏽', 'ok👍', false],
      ['👨‍👩‍👧', 'x👨‍👩‍👧y', true],
      ['，', '你好，吗', true],
      [' ', 'a b', true],
      [' ', 'ab', false],
      ['\n', 'a\nb', true],
      ['a\0b', 'a\0b', true],
      ['b', 'a\0b', true],
      ['É', 'é', false],
      ['é', 'é', true],
      ['e', 'e\u0301', true],
      ['é', 'e\u0301', true],
      ['e\u0301', 'é', true],
      ['e', 'é', false],
      ['Caf\u00e9 au', 'un Cafe\u0301 au lait', true],
      ['Cafe\u0301', 'un Caf\u00e9 au lait', true],
      ['Cafe\u0301', 'un Cafe au lait', false],
      ['한국', '한국어'.normalize('NFD'), true],
      ['한국'.normalize('NFD'), '한국어', true],
      ['\u212b', '\u00c5', true],
      ['ế', 'e\u0302\u0301', true],
      ['が', 'か\u3099き', true],
      ['が'.repeat(40), 'か\u3099'.repeat(41), true],
      [`x${'\u0301'.repeat(5000)}`, `x${'\u0301'.repeat(5000)}`, true],
      ['I', 'ı', false],
      ['i', 'İ', false],
      ['k', '\u212a', false],
      ['s', 'ſ', false],
      ['Ä', 'ä', false],
      ['\ue025', '%', false],
      ['%', '\ue025', false],
      ['\ue025', 'x\ue025', true],
      ['\ud800', 'x\ud800', true],
      ['AND', 'x', false],
      ['NEAR(a b)', 'NEAR(a b)', true],
      ['gram:a*', 'a', false],
    ])('%j in %j: %j', async (needle, text, expected) => {
      const session = `case${++cases}`
      await insert(one, [message(text), message('龘')], session)
      expect(contains(text, needle)).toBe(expected)
      expect(await texts(one.store, { session, text_contains: needle })).toHaveLength(expected ? 1 : 0)
    })

    test('a long text is found by any part of it', async () => {
      const text = Array.from({ length: 100_000 }, (_, n) =>
        String.fromCodePoint(0x4e00 + (n % 20_000)),
      ).join('')
      const session = `case${++cases}`
      await insert(one, [message(`${text}%好`), message('好'), message('x')], session)
      const found = (text_contains: string) => texts(one.store, { session, text_contains })
      for (const [needle, times] of [
        ['%好', 1],
        ['好', 2],
        [text.slice(50_000, 50_020), 1],
        [text.slice(0, 5000), 1],
        ['\ue000', 0],
        ['\ue000\ue000\ue000', 0],
        ['龘龘', 0],
      ] as const)
        expect(await found(needle)).toHaveLength(times)
    })

    it('agrees with a naive implementation for random texts and needles', async t => {
      let seed = 7
      const random = (below: number) => {
        seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
        return Math.floor((seed / 2 ** 32) * below)
      }
      const alphabet = [
        ...'aAbBzZiI019 %_\\"\'*-(\0\n\ue025\ue05c\ufffd\udc4d',
        '\ud83d',
        ...'中文好，👍🏽éáe\u0301ıİſ\u212a\u{f0025}',
      ]
      const make = (length: number) =>
        Array.from({ length }, () => alphabet[random(alphabet.length)]).join('')
      const list = Array.from({ length: 3000 }, () => make(random(12)))
      for (let i = 0; i < list.length; i += 500) {
        await insert(
          t,
          list.slice(i, i + 500).map(text => message(text)),
        )
      }
      const folded = list.map(fold)
      for (let i = 0; i < 600 * share; i++) {
        const from = list[random(list.length)]!
        const start = random(from.length)
        // Half of them stand somewhere; code units are cut without regard for pairs.
        const needle = i % 2 ? from.slice(start, start + 1 + random(5)) : make(1 + random(4))
        if (needle === '') continue
        const wanted = formsOf(needle.toWellFormed()).map(fold)
        const expected = folded.filter(text => wanted.some(form => text.includes(form))).length
        const found = await t.store.log.search({ text_contains: needle, limit: 1, offset: 0 })
        expect({ needle, total: found.total }).toEqual({ needle, total: expected })
      }
    })

    it('a long needle is compared as a short one is', async t => {
      const long = `${'a%'.repeat(30)}Z`
      await insert(t, [message(`-${long.toLowerCase()}-`), message('a%'.repeat(40)), message('ä'.repeat(50))])
      expect(await texts(t.store, { text_contains: long })).toHaveLength(1)
      expect(await texts(t.store, { text_contains: 'Ä'.repeat(50) })).toEqual([])
    })

    it('an empty needle filters nothing, a needle as long as a text is taken, a longer one refused', async t => {
      const long = '长'.repeat(10_000)
      await insert(t, [message('x'), message(long), message('%'.repeat(10_000))])
      expect(await texts(t.store, { text_contains: '' })).toHaveLength(3)
      expect(await texts(t.store, { text_contains: long })).toHaveLength(1)
      expect(await texts(t.store, { text_contains: '%'.repeat(10_000) })).toHaveLength(1)
      const tooLong = t.store.log.search({ text_contains: `${long}长`, limit: 1, offset: 0 })
      expect(await failure(tooLong)).toMatchObject({ code: 'invalid_arguments' })
    })

    it('finds what was sent, too', async t => {
      await sending(t.store, 's', 'b', outgoing('发出去'))
      expect(await texts(t.store, { text_contains: '出去', direction: 'sent' })).toEqual(['发出去'])
      expect(await texts(t.store, { text_contains: '出去', direction: 'received' })).toEqual([])
    })
  })

  it('rows are found wherever the index ends, by the text that they have now', async t => {
    const waiting = { kind: 'text' as const, waiting: { message: outgoing('alpha') } }
    const call = {
      session: 's',
      bot_id: 'b',
      user: 'u',
      mode: 'queue' as const,
      made_by: 'owner',
      parts: [waiting],
    }
    const added = await t.store.outbox.enqueue(call, open)
    const lane = added.state === 'new' ? added.lane : 0
    // One by one, and with a page of text among them: the index takes them in turns.
    for (let nth = 1; nth <= 310; nth++)
      await insert(t, [message(`number ${nth}.`), ...(nth === 290 ? [message('x'.repeat(70_000))] : [])])
    const found = () => texts(t.store, { text_contains: 'number', limit: 999 })
    expect((await found()).length).toBe(310)
    for (const nth of [1, 255, 256, 257, 289, 290, 291, 309, 310])
      expect(await texts(t.store, { text_contains: `NUMBER ${nth}.` })).toEqual([`number ${nth}.`])
    const [part] = (await t.store.outbox.claim(lane))!.parts
    await t.store.outbox.begin([part!.id], 'b', open, outgoing('omega'))
    expect(await texts(t.store, { text_contains: 'alpha' })).toEqual([])
    expect(await texts(t.store, { text_contains: 'omega' })).toEqual(['omega'])
    await t.reopen()
    await insert(t, [message('number 311.')])
    expect((await found()).length).toBe(311)
  })

  it('every filter, alone and with every other one, gives what a naive filter gives, in pages without gaps', async t => {
    const rows = await mixed(t, 900)
    const parts: [Partial<HistoryFilter>, (row: Row) => boolean][] = [
      [{ user_id: 'u1' }, row => row.peer === 'u1'],
      [{ bot_id: 'b1' }, row => row.bot === 'b1'],
      [{ session: 's2' }, row => row.session === 's2'],
      [{ msg_type: 'TEXT' }, row => row.kind === 'TEXT'],
      [{ direction: 'received' }, row => !row.sent],
      [{ since: 1_000_200 }, row => row.at >= 1_000_200],
      [{ until: 1_000_700 }, row => row.at < 1_000_700],
      [{ text_contains: '果 WORD' }, row => row.text.includes('果 word')],
    ]
    for (let mask = 0; mask < 1 << parts.length; mask++) {
      const chosen = parts.filter((_, bit) => mask & (1 << bit))
      // Up to three together, and all.
      if (chosen.length > 3 && chosen.length < parts.length) continue
      const filter = Object.assign({}, ...chosen.map(([part]) => part)) as Partial<HistoryFilter>
      const expected = rows
        .filter(row => chosen.every(([, keep]) => keep(row)))
        .map(row => row.text)
        .reverse()
      const seen: string[] = []
      let before: number | undefined
      for (let pages = 0; pages < 50; pages++) {
        const page = await t.store.log.search({ ...filter, limit: 97, offset: 0, ...(before && { before }) })
        expect(page.total).toBe(expected.length)
        expect(page.total_is_lower_bound).toBe(false)
        seen.push(...page.rows.map(row => row.text))
        before = page.next_before
        if (before === undefined) break
      }
      expect(seen).toEqual(expected)
      const middle = await t.store.log.search({ ...filter, limit: 10, offset: 13 })
      expect(middle.rows.map(row => row.text)).toEqual(expected.slice(13, 23))
      expect(middle.next_before !== undefined).toBe(expected.length > 23)
    }
  })

  it('a filter without matches, an unknown session, an empty store', async t => {
    const nothing = { rows: [], total: 0, total_is_lower_bound: false }
    expect(await t.store.log.search({ limit: 5, offset: 0 })).toEqual(nothing)
    await mixed(t, 20)
    expect(await t.store.log.search({ session: 'none', limit: 5, offset: 0 })).toEqual(nothing)
    expect(await t.store.log.search({ user_id: 'none', text_contains: 'word', limit: 5, offset: 0 })).toEqual(
      nothing,
    )
    expect(await t.store.log.search({ before: 1, limit: 5, offset: 0 })).toMatchObject({
      rows: [],
      total: 20,
    })
    expect(await t.store.log.search({ offset: 20, limit: 5 })).toMatchObject({ rows: [], total: 20 })
  })

  it('the total is exact up to 10,000 and then a lower bound', async t => {
    const add = async (count: number) =>
      await insert(
        t,
        Array.from({ length: count }, () => message('苹果', { from_user: 'u' })),
      )
    const filters = [{}, { user_id: 'u' }, { text_contains: '苹果' }, { text_contains: '苹' }, { since: 0 }]
    for (let i = 0; i < 10; i++) await add(1000)
    for (const filter of filters) {
      expect(await t.store.log.search({ ...filter, limit: 1, offset: 0 })).toMatchObject({
        total: 10_000,
        total_is_lower_bound: false,
      })
    }
    await add(1)
    for (const filter of filters) {
      expect(await t.store.log.search({ ...filter, limit: 1, offset: 0 })).toMatchObject({
        total: 10_000,
        total_is_lower_bound: true,
      })
    }
  })

  it('a kind is found in any item of a message, not in its text or quotes, whatever its JSON is', async one => {
    const text = (text: string, more: object = {}) => ({ type: 1, text_item: { text }, ...more })
    const picture = { type: 2, image_item: {} }
    const rows: [string, MessageKind, string][] = [
      ['alone', 'IMAGE', JSON.stringify({ item_list: [picture] })],
      ['after a text', 'TEXT', JSON.stringify({ item_list: [text('see'), picture] })],
      ['said', 'TEXT', JSON.stringify({ item_list: [text('"image_item"'), 'image_item'] })],
      ['quoted', 'TEXT', JSON.stringify({ item_list: [text('', { ref_msg: { message_item: picture } })] })],
      ['broken', 'TEXT', '{"item_list":[{"image_item":{}'],
      ['no list', 'TEXT', '{"item_list":{"image_item":7},"image_item":{}}'],
    ]
    await insert(
      one,
      rows.map(([name, msg_type, raw]) => message(name, { msg_type, raw })),
      'a',
    )
    expect(await texts(one.store, { has_kind: 'IMAGE' })).toEqual(['after a text', 'alone'])
    expect(await texts(one.store, { has_kind: 'IMAGE', user_id: 'u@im.wechat' })).toHaveLength(2)
    expect(await texts(one.store, { msg_type: 'IMAGE' })).toEqual(['alone'])
    expect(await texts(one.store, { has_kind: 'VIDEO' })).toEqual([])
  })
})
