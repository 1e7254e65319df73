/** Answers that fit into what clients show their model: nothing is handed over that does not arrive. */

import { expect, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { tools } from '../../src/operations/tools.ts'
import { failure } from '../support/failure.ts'
import { type McpPair, withMcpPair } from '../support/mcp-pair.ts'
import { until } from '../support/until.ts'

const usual = 8000
const plain = { context: { tools, structured: false } }

/** The text that an agent gets. */
async function call({ client }: McpPair, name: string, input: Record<string, unknown> = {}): Promise<string> {
  const result = (await client.callTool({ name, arguments: input })) as {
    content: { type: string; text: string }[]
    isError?: boolean
  }
  expect(result.content).toHaveLength(1)
  if (result.isError) throw new Error(result.content[0]!.text)
  return result.content[0]!.text
}

/** A backlog: each text with its number and so many characters. */
async function backlog({ t }: McpPair, count: number, length: number): Promise<void> {
  for (let at = 0; at < count; at++) await t.sandbox.say(`${at}:${'x'.repeat(length)}`)
  await until(
    'all are stored',
    60_000,
    async () => (await t.gateway.history.page({ limit: 1, offset: 0 })).total === count,
  )
}

const numbersIn = (text: string) => [...text.matchAll(/^> (\d+):x/gm)].map(([, at]) => Number(at))
const idsIn = (text: string) => [...text.matchAll(/^\[(\d+)\] /gm)].map(([, id]) => Number(id))

test('a backlog of 90 messages arrives whole, in order, each once, over several calls of recv', async () => {
  await using pair = await withMcpPair(plain)
  await backlog(pair, 90, 1100)
  const got: number[] = []
  for (let calls = 0; calls < 90; calls++) {
    const text = await call(pair, 'recv', { timeout: 0 })
    const came = numbersIn(text)
    if (came.length === 0) break
    got.push(...came)
    expect(text.length).toBeLessThan(usual + 300)
    expect(text).not.toContain('shown before')
    expect(text).not.toContain('cut here')
    const left = 90 - got.length
    expect(/^(\d+) more wait: call recv again\.$/m.exec(text)?.[1]).toBe(left > 0 ? String(left) : undefined)
  }
  expect(got).toEqual(Array.from({ length: 90 }, (_none, at) => at))
}, 120_000)

test('history gives the same by page, newest first, and with `after` recv moves nothing', async () => {
  await using pair = await withMcpPair(plain)
  await backlog(pair, 30, 1100)
  const newest: number[] = []
  let before: number | undefined
  for (let pages = 0; pages < 30; pages++) {
    const text = await call(pair, 'history', before === undefined ? {} : { before })
    expect(text.length).toBeLessThan(usual + 300)
    newest.push(...numbersIn(text))
    before = Number(/call history with before (\d+)/.exec(text)?.[1])
    if (Number.isNaN(before)) break
  }
  expect(newest).toEqual(Array.from({ length: 30 }, (_none, at) => 29 - at))

  const read: number[] = []
  for (let after = 0, calls = 0; read.length < 30 && calls < 30; calls++) {
    const text = await call(pair, 'recv', { timeout: 0, after, max_chars: 20_000, format: 'full' })
    read.push(...numbersIn(text))
    after = idsIn(text).at(-1)!
    // Whoever keeps the place themselves would get the same again without it.
    expect(/ more wait: .*\bafter (\d+)/.exec(text)?.[1]).toBe(read.length < 30 ? String(after) : undefined)
  }
  expect(read).toEqual(newest.toReversed())
  expect(numbersIn(await call(pair, 'recv', { timeout: 0, limit: 2 }))).toEqual([0, 1])

  // Acknowledged alone, what did not fit is new and what did comes again.
  const first = await call(pair, 'recv', { timeout: 0, consumer: 'default', ack: 2 })
  const shown = numbersIn(first)
  expect(shown[0]).toBe(2)
  expect(first).toContain(`${28 - shown.length} more wait`)
  expect(Number(/ more wait: .*\back (\d+)/.exec(first)?.[1])).toBe(idsIn(first).at(-1)!)
  const second = await call(pair, 'recv', { timeout: 0, consumer: 'default', ack: idsIn(first)[0] })
  expect(numbersIn(second)).toEqual([...shown.slice(1), shown.at(-1)! + 1])
  expect(second.match(/shown before/g)?.length).toBe(shown.length - 1)
}, 120_000)

test('a message that is too long is cut, and history reads on where it was cut, to its end', async () => {
  await using pair = await withMcpPair(plain)
  const words = Array.from({ length: 4000 }, (_none, at) => (at % 50 === 0 ? `${at}\n` : `字${at}`)).join(' ')
  await pair.t.sandbox.say(words)
  await pair.t.sandbox.say('the next one')
  await until(
    'both are stored',
    30_000,
    async () => (await pair.t.gateway.history.page({ limit: 1, offset: 0 })).total === 2,
  )
  const said = (text: string) =>
    text
      .split('\n')
      .filter(line => line.startsWith('> '))
      .map(line => line.slice(2))
      .join('\n')
  const first = await call(pair, 'recv', { timeout: 0 })
  expect(first.length).toBeLessThan(usual + 300)
  expect(first).toContain('1 more wait')
  let whole = said(first)
  const how = /history with before (\d+), limit 1, text_from (\d+) goes on there/
  for (let [text, calls] = [first, 0]; how.test(text) && calls < 20; calls++) {
    const [, before, text_from] = how.exec(text)!
    text = await call(pair, 'history', { before: Number(before), limit: 1, text_from: Number(text_from) })
    expect(text.length).toBeLessThan(usual + 300)
    // Where a cut falls on the end of a line, that end is not shown twice.
    whole += said(text)
  }
  expect(whole).toBe(words)
  expect(said(await call(pair, 'recv', { timeout: 0 }))).toBe('the next one')
})

test('what was handed over and lost comes again, marked; what waited behind it is not', async () => {
  await using pair = await withMcpPair(plain)
  await backlog(pair, 12, 1100)
  const call0 = {
    by: owner,
    signal: new AbortController().signal,
    local: true,
    onDelivered: (tell: (done: boolean) => void) => tell(false),
  }
  const lost = await pair.t.gateway.inbox.recv({ timeout: 0, limit: 3, consumer: 'default' }, call0)
  expect(lost).toHaveLength(3)
  const again = await call(pair, 'recv', { timeout: 0, max_chars: 3500 })
  expect(numbersIn(again)).toEqual([0, 1])
  expect(again.match(/shown before/g)).toHaveLength(2)
  expect(again).toContain('10 more wait')
  const third = await call(pair, 'recv', { timeout: 0 })
  expect([numbersIn(third), third.includes('shown before')]).toEqual([[2], true])
  const rest = await call(pair, 'recv', { timeout: 0 })
  expect([numbersIn(rest)[0], rest.includes('shown before')]).toEqual([3, false])
})

test('what the door takes besides is checked like the rest, and no other tool takes it', async () => {
  await using pair = await withMcpPair(plain)
  for (const [name, input] of [
    ['recv', { max_chars: 10 }],
    ['recv', { format: 'short' }],
    ['recv', { text_from: 1 }],
    ['history', { text_from: -1 }],
    ['sessions', { max_chars: 2000 }],
  ] as const) {
    const error = await failure(call(pair, name, input))
    expect(error.message).toStartWith('invalid_arguments: ')
    expect(error.message).toContain(Object.keys(input)[0]!)
  }
})

test('who may be answered is a resource: by the name that people gave, else an alias', async () => {
  await using pair = await withMcpPair(plain)
  const read = async () =>
    ((await pair.client.readResource({ uri: 'svc://users' })).contents[0] as { text: string }).text
  expect(await read()).not.toContain('@')
  await pair.t.sandbox.say('hello')
  const [hello] = await pair.t.receive(1)
  // The right to answer is noted after the message.
  await until('it is noted', 30_000, async () => (await read()).includes('@'))
  const [, tail] = /(.{6})@/.exec(hello!.from_user)!
  expect(await read()).toMatch(
    new RegExp(
      `^${tail} is ${hello!.from_user}, session default: The bot may answer 10 more times until \\d`,
    ),
  )
  await pair.t.gateway.users.name({ user_id: hello!.from_user, name: 'Mum' })
  expect(await read()).toStartWith(`"Mum" is ${hello!.from_user}`)
  await pair.t.sandbox.say('again')
  expect(await call(pair, 'recv', { timeout: 30, after: hello!.id })).toContain('] "Mum" ')
})

test('recv names the sessions that bring no messages, whether others came or not', async () => {
  await using pair = await withMcpPair({ ...plain, sessions: ['default', 'work'], start: false })
  const { t } = pair
  expect(await call(pair, 'recv', { timeout: 0 })).not.toMatch(/default|work/)
  const { token } = t.bots.get('work')!
  await t.other.sessions.mark('work', token, { expired_at: 5 })
  const named = /^Session work is expired/m
  await t.until('it is known', async () => named.test(await call(pair, 'recv', { timeout: 0 })))
  expect(await call(pair, 'recv', { timeout: 0, session: 'default' })).not.toMatch(named)
})

test('quotes and line ends count as the JSON text has them: the whole result keeps to max_chars, and all arrive', async () => {
  await using pair = await withMcpPair(plain)
  const said = Array.from({ length: 24 }, (_none, at) => `${at}:${`"${at}"\n\\`.repeat(120)}`)
  for (const text of said) await pair.t.sandbox.say(text)
  await pair.t.until('all are stored', async () => {
    const { total } = await pair.t.gateway.history.page({ limit: 1, offset: 0 })
    return total === said.length
  })
  let shown = ''
  for (let calls = 0; calls < 30; calls++) {
    const result = await pair.client.callTool({ name: 'recv', arguments: { timeout: 0 } })
    expect(JSON.stringify(result).length).toBeLessThanOrEqual(usual)
    const { text } = (result.content as { text: string }[])[0]!
    if (numbersIn(text.replaceAll(':"', ':x')).length === 0) break
    shown += text
  }
  for (const text of said) expect(shown).toContain(text.replace(/^|\n/g, end => `${end}> `))
})

test('beside pictures the text is short enough for clients that cut the middle of a result out, and nothing is lost', async () => {
  await using pair = await withMcpPair(plain)
  const png = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(20_000, 7)])
  const { t } = pair
  for (let at = 0; at < 12; at++) {
    await t.sandbox.say(`${at}:${'x'.repeat(600)}`)
    if (at % 2 === 0) await t.sandbox.media('image', png)
  }
  await t.until('all are stored', async () => {
    return (await t.gateway.history.page({ limit: 1, offset: 0 })).total === 18
  })
  const [got, images]: [number[], number[]] = [[], []]
  for (let calls = 0; calls < 20; calls++) {
    const result = await pair.client.callTool({ name: 'recv', arguments: { timeout: 0 } })
    const json = JSON.stringify(result)
    const cut = `${json.slice(0, 4000)}\n${json.slice(-4000)}`
    const { text } = (result.content as { text: string }[])[0]!
    images.push((json.match(/"type":"image"/g) ?? []).length)
    if (images.at(-1)! > 0) expect(cut).toContain(JSON.stringify(text).slice(1, -1))
    if (text === 'No new messages.') break
    got.push(...numbersIn(text))
  }
  expect(got).toEqual(Array.from({ length: 12 }, (_none, at) => at))
  expect(images.reduce((sum, count) => sum + count, 0)).toBe(6)
  expect(Math.max(...images)).toBeLessThanOrEqual(4)
})
