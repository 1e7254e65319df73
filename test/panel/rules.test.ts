/** Rules of the pages, tested without a page: the modules that decide them, with a real panel. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { storeChanges } from '../../src/model/audit.ts'
import { operations } from '../../src/operations/operations.ts'
import { ask } from '../../src/operations/questions.ts'
import { write } from '../support/panel.ts'
import { type PanelState, withPanelState } from '../support/panel-state.ts'

let panel: PanelState
let live: typeof import('../../admin/live.ts')
beforeAll(async () => {
  panel = await withPanelState({ sessions: ['default', 'b'] })
  live = await import('../../admin/live.ts')
  const { follow } = await import('../../admin/follow.ts')
  follow(20)
  await panel.until('it follows', () => live.sessions.value?.some(({ name }) => name === 'b'))
})
afterAll(() => panel?.[Symbol.asyncDispose]())

test('each operation that leaves a line in the audit log has a name there', async () => {
  const { deedOptions } = await import('../../admin/audit/deeds.ts')
  const named = deedOptions().flatMap(([names]) => names.split(','))
  const audited = [...operations, ask].filter(({ audited, effect }) => audited ?? effect !== 'read')
  const names = [...audited.map(({ name }) => name), ...storeChanges]
  expect(names.filter(name => !named.includes(name))).toEqual([])
})

test('a renamed account keeps its conversations, even if they were loaded during the rename', async () => {
  const { user_id } = panel.bots.get('b')!
  await write(panel, 'Is it blue?', 'b')
  await panel.until('it is listed', () => live.conversationOf('b', user_id))
  const early = panel.hold(/list_conversations$/)
  const renamed = panel.gateway.accounts.rename('b', '客服')
  panel.clock.advance(1000)
  await early.asked
  await renamed
  // The answer has messages of the old name, and the account already has the new one.
  early.release(Response.json([]))
  await panel.until('it is there under the new name', () => live.conversationOf('客服', user_id))
})

test('why WeChat refused a message is in the viewer’s language, and the words of WeChat are quoted', async () => {
  const { chooseLanguage } = await import('../../admin/i18n.ts')
  const { deliveryNote, quotedReason } = await import('../../admin/conversations/delivery.tsx')
  await write(panel, 'hello')
  for (const [code, errmsg] of [
    [-1, 'not on a Sunday'],
    [-2, 'prepare failed'],
  ] as const) {
    await panel.sandbox.fail('sendmessage', 'ret', { code, errmsg })
    await panel
      .send({ session: 'default', to: panel.bots.get('default')!.user_id, text: errmsg })
      .catch(() => {})
  }
  const { messages } = await panel.gateway.history.page({ limit: 10, offset: 0, direction: 'sent' })
  expect(messages.map(({ text }) => text).sort()).toEqual(['not on a Sunday', 'prepare failed'])
  const textOf = (message: (typeof messages)[number]) => `${deliveryNote(message)} ${quotedReason(message)}`
  await chooseLanguage('zh')
  for (const message of messages) {
    expect(textOf(message)).toContain(message.text)
    expect(textOf(message).replace(message.text, '')).not.toMatch(/[a-z]{2}/i)
  }
  await chooseLanguage('en')
  for (const message of messages) expect(textOf(message)).toContain(message.text)
})

test('durations have no zero, and say how often in words', async () => {
  const { every, left } = await import('../../admin/times.ts')
  const [hour, minute] = [3_600_000, 60_000]
  for (const ms of [2 * hour, hour, 30 * minute, 25 * hour]) expect(left(ms)).not.toMatch(/\b0/)
  expect(left(2 * hour + 5 * minute)).toMatch(/2.*5/)
  expect([24 * hour, hour, 6 * hour, 90 * minute].map(every)).toEqual([
    'every day',
    'every hour',
    'every 6 hours',
    'every 90 minutes',
  ])
})

test('the number of answers that a text takes is the same as in the service', async () => {
  const { costOf } = await import('../../admin/conversations/pieces.ts')
  const row = `| ${'宽'.repeat(900)} | b |\n`
  const table = `| a | ${'h'.repeat(4000)} |\n|---|---|\n${row.repeat(16)}`
  const fence = `> \`\`\`${'x'.repeat(3000)}\n${'> code\n'.repeat(5000)}`
  await write(panel, 'go on')
  for (const text of ['hi', ` ${'a '.repeat(9000)}`, table, fence]) {
    const { parts } = await panel.send({ session: 'default', to: panel.bots.get('default')!.user_id, text })
    expect(costOf(text, 0)).toBe(parts.length)
  }
  expect(costOf(' \n', 2)).toBe(2)
  expect(costOf('字'.repeat(60_000), 1)).toBe(12)
  expect(costOf('字'.repeat(600_000), 0)).toBeGreaterThan(100)
})

test('a search finds and marks a text in either Unicode form', async () => {
  const { around, contains } = await import('../../admin/conversations/text.tsx')
  for (const [text, needle, found] of [
    ['Cafe\u0301 a', 'CAF\u00e9', true],
    ['Caf\u00e9 a', 'cafe\u0301', true],
    ['Cafe a', 'Caf\u00e9', false],
    ['a.b', 'a.b', true],
    ['axb', 'a.b', false],
    ['50% (off)', '% (', true],
  ] as const)
    expect([text, needle, contains(text, needle)]).toEqual([text, needle, found])
  expect(around(`${'word '.repeat(50)}Cafe\u0301`, 'Caf\u00e9')).toContain('Cafe\u0301')
})

test('without a database the browser saves nothing and asks before the page is left', async () => {
  expect(typeof indexedDB).toBe('undefined')
  const { forgetMessage, keepFiles, keptOf, lookForUnsent, whenWritten } = await import(
    '../../admin/conversations/kept.ts'
  )
  const isAsked = () => !dispatchEvent(new Event('beforeunload', { cancelable: true }))
  const attached = [new File(['x'], 'draft.pdf')]
  keepFiles('default', 'somebody', { attached, refused: new Map() })
  await whenWritten()
  expect([await keptOf('default', 'somebody'), await lookForUnsent()]).toEqual([
    { messages: [], files: undefined },
    [],
  ])
  expect(isAsked()).toBe(true)
  keepFiles('default', 'somebody', { attached: [], refused: new Map() })
  forgetMessage('default', 'somebody', 'none')
  await whenWritten()
  expect(isAsked()).toBe(false)
})

test('messages below an old unsent one have the headings of their own days', async () => {
  const { rowsOf } = await import('../../admin/conversations/rows.ts')
  const { outgoingOf } = await import('../../admin/conversations/pieces.ts')
  const dayMs = 86_400_000
  const noon = new Date(2026, 2, 10, 12).getTime()
  const { messages } = await panel.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })
  const at = (id: number, timestamp: number) => ({ ...messages[0]!, id, timestamp })
  const what = { key: 'k', text: 'not sent', files: [], queue: false, after: 1, at: noon + 60_000 }
  const draft = outgoingOf({ session: 'default', userId: 'u' }, what)
  const stored = [at(1, noon), at(2, noon + dayMs), at(3, noon + 3 * dayMs)]
  const rows = rowsOf(stored, [draft], undefined)
  expect(rows.map(({ newDay }) => newDay)).toEqual([true, true, true, false])
  expect(rowsOf([stored[0]!], [draft], undefined).map(({ newDay }) => newDay)).toEqual([true, false])
  const tomorrow = outgoingOf({ session: 'default', userId: 'u' }, { ...what, at: noon + 4 * dayMs })
  expect(rowsOf(stored, [tomorrow], undefined).at(-1)?.newDay).toBe(true)
})

test('a message that waited stands where it was sent, and a draft below all of them', async () => {
  const { rowsOf } = await import('../../admin/conversations/rows.ts')
  const minute = 60_000
  const { messages } = await panel.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })
  const at = (id: number, minutes: number, more: object = {}) => ({
    ...messages[0]!,
    id,
    timestamp: minutes * minute,
    ...more,
  })
  const sent = { direction: 'sent' as const, status: 'accepted' as const }
  const draft = { direction: 'sent' as const, status: 'queued' as const, reason_code: 'approval' }
  const orderOf = (stored: Parameters<typeof rowsOf>[0]) =>
    rowsOf(stored, [], undefined).map(({ key }) => key)
  // Written at 15 and 16, sent at 25 and 24; the clocks of svc and WeChat differ by half a minute.
  const log = [at(1, 10), at(2, 25, sent), at(3, 24, sent), at(4, 9, draft), at(5, 16), at(6, 20.5, sent)]
  expect(orderOf([...log, at(7, 20), at(8, 30)])).toEqual([1, 5, 6, 7, 3, 2, 8, 4])
  expect(orderOf(log)).toEqual([1, 5, 6, 3, 2, 4])
  expect(orderOf([at(1, 10), at(2, 10, sent), at(3, 10), at(4, 10, sent)])).toEqual([1, 2, 3, 4])

  // In the list, too; what was received since stays unread.
  const { listMessage, talksOf } = await import('../../admin/talks.ts')
  const [older, newer] = [at(3, 16), { ...at(9, 20), from_user: 'other' }]
  const talks = talksOf(
    [newer, older].map(last_message => ({
      session: 'default',
      user_id: last_message.from_user,
      last_message,
      unread: 1,
    })),
  )
  const listed = () => [...talks.values()].map(({ last_message: { id }, unread }) => [id, unread])
  const to_user = older.from_user
  listMessage(talks, at(2, 15, { ...sent, to_user }), true)
  expect(listed()).toEqual([
    [3, 1],
    [9, 1],
  ])
  listMessage(talks, at(2, 25, { ...sent, to_user }), true)
  expect(listed()).toEqual([
    [9, 1],
    [2, 1],
  ])
})

test('the time of a message is by the clock of the service, even if the browser’s is wrong', async () => {
  const { deskOf } = await import('../../admin/conversations/desks.ts')
  const { call } = await import('../../admin/api.ts')
  panel.clock.step(7 * 3_600_000)
  await call('status', {})
  const desk = deskOf('default', 'nobody')
  desk.write('now')
  desk.send()
  expect(Math.abs(desk.outgoing.value[0]!.at - panel.clock.now())).toBeLessThan(60_000)
  await panel.until('it failed', () => desk.outgoing.value[0]?.state.value !== 'sending')
})

test('a call beyond the rate of a key is repeated, if it may go within a second', async () => {
  const { call } = await import('../../admin/api.ts')
  const reject = async (retry_after: number) => {
    const held = panel.hold(/list_webhooks$/)
    const answer = call('list_webhooks', {})
    await held.asked
    held.release(Response.json({ code: 'rate_limited', retry_after }, { status: 429 }))
    return answer
  }
  expect(await reject(0.01)).toEqual([])
  expect(await reject(5).catch(({ code, retryAfter }) => [code, retryAfter])).toEqual(['rate_limited', 5])
})
