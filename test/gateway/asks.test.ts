/** Questions to people: asked, answered from the log, over, and found again. */
import { describe, expect, test } from 'bun:test'
import { type AskPorts, Asks } from '../../src/gateway/asks.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import type { AskRequest } from '../../src/model/question.ts'
import { Bus, type Runtime } from '../../src/platform/runtime.ts'
import type { NewAsk } from '../../src/storage/asks.ts'
import { testClock } from '../support/clock.ts'
import { codeOf } from '../support/failure.ts'
import { rowsIn, type TestGateway, type TestGatewayOptions, withGateway } from '../support/gateway.ts'
import { withSandbox } from '../support/sandbox.ts'

const call = (by: Principal = owner) => createDirectCall({ by })

/** Times of messages and times to answer are of one clock, which the test moves. */
async function begin(config: TestGatewayOptions['config'] = {}): Promise<TestGateway> {
  const clock = testClock({ runs: false })
  const sandbox = await withSandbox({ clock })
  const t = await withGateway({ clock, sandbox, config })
  return {
    ...t,
    async [Symbol.asyncDispose]() {
      await t[Symbol.asyncDispose]()
      await sandbox[Symbol.asyncDispose]()
    },
  }
}

async function open(choices = ['yes', 'no'], more: Partial<AskRequest> = {}) {
  const t = await begin()
  await hear(t, 'hello')
  const { user_id } = t.bots.get('default')!
  const asked = await ask(t, { choices, ...more })
  return { t, user_id, asked, code: await codeIn(t, asked.text) }
}

const ask = (t: TestGateway, request: Partial<AskRequest> = {}, by?: Principal) =>
  t.gateway.asks.ask(
    { to: t.bots.get('default')!.user_id, text: 'Deploy?', choices: ['yes', 'no'], timeout: 600, ...request },
    call(by),
  )

/** The user writes, later than what the bot said, and it is stored. */
async function hear(t: TestGateway, text: string, restMs = 2000) {
  const bot = t.bots.get('default')!
  t.clock.advance(1)
  await t.sandbox.say(text, { to: bot.bot_id, from: bot.user_id })
  await t.until(text, async () => {
    const { messages } = await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })
    return messages[0]?.text === text && messages[0]
  })
  if (restMs > 0) await t.pass(restMs)
}

/** The code in the message that a person sees. */
async function codeIn(t: TestGateway, text: string): Promise<string> {
  const [seen] = (await t.sandbox.messages({ from: 'bot' })).toReversed()
  const shown = JSON.stringify(seen)
  expect(shown).toContain(text)
  return /([A-Z2-9]{4}) 1 = /.exec(shown)![1]!
}

const look = (t: TestGateway, id: number, ms = 0) => t.gateway.asks.wait(id, ms, call())
/** Time enough for a plain choice to stand alone. */
const rest = (t: TestGateway) => t.pass(2000)

test('a plain choice, its number and the code answer', async () => {
  for (const said of [
    'yes',
    'Yes!',
    '1',
    '好的',
    (code: string) => `${code} 1`,
    (code: string) => `${code.toLowerCase()} yes`,
  ]) {
    const { t, asked, code } = await open()
    await using _ = t
    expect(asked.status).toBe('open')
    await hear(t, typeof said === 'string' ? said : said(code))
    expect([String(said), (await look(t, asked.id)).choice]).toEqual([String(said), 'yes'])
  }
})

test('what is no clear choice answers nothing', async () => {
  for (const said of ['yes?', '3', 'yes and no', 'ZZ22 1', 'we will see', '不好吗']) {
    const { t, asked } = await open()
    await using _ = t
    await hear(t, said)
    expect([said, (await look(t, asked.id)).status]).toEqual([said, 'open'])
  }
})

test('a long message of signs answers nothing, and holds nobody up', async () => {
  const { t, asked } = await open()
  await using _ = t
  await hear(t, `yes${'!'.repeat(40_000)}?`)
  const { messages } = await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })
  expect(await t.gateway.asks.takes(messages[0]!)).toBe('open')
  expect((await look(t, asked.id)).status).toBe('open')
})

test('a choice may be named, numbered, or copied as it is shown', async () => {
  for (const said of [
    'coffee',
    'ＣＯＦＦＥＥ。',
    '2',
    '二',
    '第2个',
    '2. coffee',
    '2 = coffee',
    (code: string) => `${code} 2 = coffee`,
    (code: string) => `${code} coffee`,
    (code: string) => `${code} 2`,
  ]) {
    const { t, asked, code } = await open(['tea', 'coffee'])
    await using _ = t
    await hear(t, typeof said === 'string' ? said : said(code))
    expect([String(said), (await look(t, asked.id)).choice]).toEqual([String(said), 'coffee'])
  }
})

/** How often the question stands in the chat. */
const timesShown = async (t: TestGateway) =>
  (await t.sandbox.messages({ from: 'bot' })).filter(one => JSON.stringify(one).includes('Deploy?')).length

test('where choices are numbers, the code decides, and a number alone is asked about, once', async () => {
  for (const [choices, said, coded, choice] of [
    [['3', '1', '2'], '2', '2', '1'],
    [['3', '1', '2'], '第一个', '1 = 3', '3'],
    [['-1', '1'], '1', '2', '1'],
    [['+1', '-1'], '1', '2', '-1'],
    [['2', '1'], '1.', '1', '2'],
  ] as const) {
    const { t, asked, code } = await open([...choices])
    await using _ = t
    await hear(t, said)
    expect([said, (await look(t, asked.id)).status, await timesShown(t)]).toEqual([said, 'open', 2])
    await hear(t, said)
    expect([said, (await look(t, asked.id)).status, await timesShown(t)]).toEqual([said, 'open', 2])
    await hear(t, `${code} ${coded}`)
    expect([said, (await look(t, asked.id)).choice]).toEqual([said, choice])
  }
})

test('after something else of the bot a plain yes is asked about once, then counts', async () => {
  const { t, asked } = await open()
  await using _ = t
  await t.hurry(t.send({ text: 'By the way' }))
  await hear(t, 'yes')
  expect((await look(t, asked.id)).status).toBe('open')
  expect(await timesShown(t)).toBe(2)
  const [message] = (await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })).messages
  expect(await t.gateway.asks.takes(message!)).toBe('taken')
  await hear(t, 'we will see')
  await look(t, asked.id)
  expect(await timesShown(t)).toBe(2)
  await hear(t, 'yes')
  expect((await look(t, asked.id)).choice).toBe('yes')
})

test('a code is answered also when it is over or not clear', async () => {
  const { t, asked, code } = await open()
  await using _ = t
  const newest = async () =>
    (await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })).messages[0]!
  await hear(t, `${code} perhaps`)
  expect(await t.gateway.asks.takes(await newest())).toBe('taken')
  expect(await timesShown(t)).toBe(2)
  await hear(t, `${code} 1`)
  expect(await t.gateway.asks.takes(await newest())).toBe('taken')
  expect((await look(t, asked.id)).choice).toBe('yes')
  await hear(t, `${code} 2`)
  expect(await t.gateway.asks.takes(await newest())).toBe('over')
})

test('what svc says of a question is in the language of the person, else in that of the question', async () => {
  for (const [wrote, text, isChinese] of [
    ['你好', 'Deploy?', true],
    ['hello', '部署吗？', false],
    ['42', '部署吗？', true],
  ] as const) {
    await using t = await begin()
    await hear(t, wrote)
    const asked = await ask(t, { text })
    const code = await codeIn(t, text)
    await hear(t, `${code} 1`)
    await t.until('answered', async () => (await look(t, asked.id)).status === 'answered')
    const before = (await t.sandbox.messages({ from: 'bot' })).length
    await hear(t, `${code} 2`)
    await (t.gateway.asks as Asks).hear()
    const said = JSON.stringify((await t.sandbox.messages({ from: 'bot' })).slice(before))
    expect([wrote, /这个问题/.test(said), said.includes('question')]).toEqual([wrote, isChinese, !isChinese])
  }
})

test('a plain choice needs to be the next word of a person who has one question', async () => {
  const { t, asked } = await open()
  await using _ = t
  const second = await ask(t, { text: 'Restart?' })
  const code = await codeIn(t, 'Restart?')
  await hear(t, 'yes')
  // Two are open: neither counts. The code of one does.
  expect([(await look(t, asked.id)).status, (await look(t, second.id)).status]).toEqual(['open', 'open'])
  await hear(t, `${code} 2`)
  expect((await look(t, second.id)).choice).toBe('no')
  // The bot has said something else since the first one was asked.
  await t.hurry(t.send({ text: 'By the way' }))
  await hear(t, 'no')
  expect((await look(t, asked.id)).status).toBe('open')
})

test('its time begins when it is sent, and nothing counts after it', async () => {
  const { t, asked, code } = await open(['yes', 'no'], { timeout: 60 })
  await using _ = t
  t.clock.advance(62_000)
  expect((await look(t, asked.id)).status).toBe('unanswered')
  await hear(t, `${code} 1`)
  expect((await look(t, asked.id)).status).toBe('unanswered')
})

test('who waits gets the choice, and whoever asks for the same key the same question', async () => {
  const { t, asked } = await open(['yes', 'no'], { idempotency_key: 'one' })
  await using _ = t
  const again = await ask(t, { idempotency_key: 'one' })
  expect(again.id).toBe(asked.id)
  for (const other of [{ text: 'Another?' }, { grants: true }])
    expect(await codeOf(ask(t, { idempotency_key: 'one', ...other }))).toBe('idempotency_conflict')
  const waiting = look(t, asked.id, 60_000)
  await hear(t, 'no')
  expect((await t.hurry(waiting)).choice).toBe('no')
  expect(await t.sandbox.messages({ from: 'bot' })).toHaveLength(1)
})

test('the store is read once for all who wait for a question', async () => {
  let reads = 0
  const get = async () => {
    reads += 1
    return { id: 7, options: [{ id: '1', name: 'yes', kind: 'allow_once' }], answer: '1' }
  }
  const ports = { asks: { get }, log: { getHead: async () => 0 } } as unknown as AskPorts
  const runtime = {
    bus: new Bus(),
    clock: testClock(),
    closing: new AbortController().signal,
  } as unknown as Runtime
  const asks = new Asks(ports, runtime)
  const all = await Promise.all(Array.from({ length: 50 }, () => asks.wait(7, 0, call())))
  // Once for each to see whose it is, and one look for all.
  expect([all.length, all[0]?.choice, reads]).toEqual([50, 'yes', 51])
})

test('a code that another open question has is not used again', async () => {
  const codes: string[] = []
  const add = async ({ code }: NewAsk) => {
    codes.push(code)
    return codes.length > 1
      ? { id: 7, options: [], text: 'Deploy?', user_id: 'u', grants: false, answer: '' }
      : undefined
  }
  const ports = {
    asks: { add },
    findChat: async () => ({ session: 's', user_id: 'u' }),
  } as unknown as AskPorts
  const asks = new Asks(ports, { bus: new Bus() } as Runtime)
  expect((await asks.ask({ to: 'u', text: 'Deploy?', choices: [], timeout: 600 }, call())).id).toBe(7)
  expect(new Set(codes).size).toBe(2)
})

test('one that was taken back is not answered any more, and is not sent', async () => {
  const { t, asked, code } = await open()
  await using _ = t
  expect((await t.gateway.asks.cancel(asked.id, owner)).status).toBe('cancelled')
  await hear(t, `${code} 1`)
  expect((await look(t, asked.id)).status).toBe('cancelled')
  // The window is over: it waits, and then it is too late.
  t.clock.advance(25 * 3_600_000)
  expect(await codeOf(ask(t))).toBe('window_closed')
  const late = await ask(t, { when_closed: 'queue', timeout: 60, text: 'Late?' })
  expect(late.status).toBe('waiting')
  t.clock.advance(61_000)
  expect((await look(t, late.id)).status).toBe('unanswered')
  const waits = await ask(t, { when_closed: 'queue', timeout: 600, text: 'In time?' })
  await hear(t, 'I am back')
  await t.soon('it is sent', async () => (await look(t, waits.id)).status === 'open')
  expect(JSON.stringify(await t.sandbox.messages({ from: 'bot' }))).not.toContain('Late?')
  await hear(t, 'yes')
  expect((await look(t, waits.id)).choice).toBe('yes')
})

test('a question that left the outbox is open for its whole time, also if nobody looked at it', async () => {
  await using t = await begin()
  await hear(t, 'hello')
  t.clock.advance(25 * 3_600_000)
  const first = await ask(t, { when_closed: 'queue', timeout: 60, text: 'Drop it?' })
  t.clock.advance(55_000)
  await hear(t, 'I am back')
  await t.soon('it is sent', async () =>
    JSON.stringify(await t.sandbox.messages({ from: 'bot' })).includes('Drop it?'),
  )
  t.clock.advance(10_000)
  const second = await ask(t, { text: 'Restart?' })
  await hear(t, 'yes')
  expect([(await look(t, second.id)).status, (await look(t, first.id)).status]).toEqual(['open', 'open'])
})

test('a plain yes that allows a program something is the owner’s alone', async () => {
  const t = await begin()
  await using _ = t
  const stranger = await t.sandbox.addUser('stranger')
  const { bot_id } = t.bots.get('default')!
  const write = async (text: string) => {
    await t.sandbox.say(text, { to: bot_id, from: stranger })
    await t.until(text, async () => {
      const { messages } = await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })
      return messages[0]?.text === text
    })
  }
  await write('hi')
  const asked = await ask(t, { to: stranger, grants: true })
  await write('yes')
  await rest(t)
  expect((await look(t, asked.id)).status).toBe('open')
  await write(`${await codeIn(t, 'Deploy?')} 1`)
  await rest(t)
  expect((await look(t, asked.id)).choice).toBe('yes')
})

test('a guest has scanned the account, and is no owner', async () => {
  await using all = await begin()
  const bot = all.sandbox.bot(await all.sandbox.addUser('guest'))
  const joined = { ...bot, invitation: 'inv_000000000000', cursor: '', created_at: all.clock.now() + 10 }
  await all.other.sessions.save('guest', joined)
  await all.soon('it is polled', () => all.sandbox.world.core.stats.polls_now === 2)
  const t = { ...all, bots: new Map([['default', bot]]) }
  await hear(t, 'hello')
  const asked = await ask(t, { grants: true })
  await hear(t, 'yes')
  expect((await look(t, asked.id)).status).toBe('open')
  await hear(t, `${await codeIn(t, 'Deploy?')} 1`)
  expect((await look(t, asked.id)).choice).toBe('yes')
})

test('an agent gets no answer as a prompt', async () => {
  const { t, asked, code } = await open()
  await using _ = t
  const newest = async () =>
    (await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })).messages[0]!
  await hear(t, 'what is this?')
  expect(await t.gateway.asks.takes(await newest())).toBe('open')
  await hear(t, `${code} maybe`)
  expect(await t.gateway.asks.takes(await newest())).toBe('taken')
  await hear(t, 'yes', 0)
  expect(await t.gateway.asks.takes(await newest())).toBe('later')
  await rest(t)
  expect(await t.gateway.asks.takes(await newest())).toBe('taken')
  expect((await look(t, asked.id)).choice).toBe('yes')
  await hear(t, 'thanks')
  expect(await t.gateway.asks.takes(await newest())).toBe('no')
})

test('a key sees its own questions', async () => {
  const { t, asked } = await open()
  await using _ = t
  const { key } = await t.gateway.keys.add({ name: 'asker', can: ['reply', 'ask'] }, owner)
  const by = (await t.gateway.keys.authenticate(key))!
  expect(await codeOf(t.gateway.asks.wait(asked.id, 0, call(by)))).toBe('not_found')
  expect(await codeOf(t.gateway.asks.cancel(asked.id, by))).toBe('not_found')
  const own = await ask(t, { text: 'Mine?' }, by)
  expect((await t.gateway.asks.wait(own.id, 0, call(by))).status).toBe('open')
})

/** What the bot said since, the newest last. */
const saidSince = async (t: TestGateway, count: number) =>
  (await t.sandbox.messages({ from: 'bot' })).slice(count).map(one => JSON.stringify(one))

/** An answer: a text, in which CODE is the code; with `+` no pause follows. */
type Answer = string | { media: 'voice' | 'image'; transcript?: string } | { quoting: string }

const drinks = ['tea', 'coffee (black)', 'nothing']
const yesNo = ['yes', 'no']

/** The person writes, and it is stored. @param question its `message_id` */
async function write(t: TestGateway, answer: Answer, code: string, question: string): Promise<void> {
  if (typeof answer === 'string') return hear(t, answer.replace('CODE', code).replace('+', ''), 0)
  const { bot_id: to, user_id: from } = t.bots.get('default')!
  const count = async () =>
    (await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })).total
  const before = await count()
  t.clock.advance(1)
  if ('quoting' in answer) await t.sandbox.say(answer.quoting, { to, from, quote: question, how: 'id' })
  else {
    const transcript = answer.transcript?.replace('CODE', code)
    const more = { to, from, ...(transcript && { transcript }) }
    await t.sandbox.media(answer.media, new Uint8Array(10), more)
  }
  await t.until('it is stored', async () => (await count()) > before)
}

/** The answer as it is stored, without looking for one. */
async function storedAnswer(t: TestGateway, id: number): Promise<string | undefined> {
  const query = `SELECT answer FROM agent_question WHERE id = ${id}`
  return (await rowsIn<{ answer?: string }>(t.dir, query))[0]?.answer
}

/** Whether nobody waits or somebody does, each answer has its effect: a choice, or words. */
const answers: readonly [
  choices: readonly string[],
  answers: readonly Answer[],
  choice: string | undefined,
  said: 'nothing' | 'again' | 'again, how to',
][] = [
  [yesNo, ['好嘞！'], 'yes', 'nothing'],
  [yesNo, ['確定'], 'yes', 'nothing'],
  [yesNo, ['[强]'], 'yes', 'nothing'],
  [yesNo, ['[ThumbsDown]'], 'no', 'nothing'],
  [yesNo, ['👎🏽'], 'no', 'nothing'],
  [yesNo, ['ＮＯ！！'], 'no', 'nothing'],
  [drinks, ['②'], 'coffee (black)', 'nothing'],
  [drinks, ['tea please 🙏'], 'tea', 'nothing'],
  [['茶', '咖啡'], ['咖啡吧，谢谢'], '咖啡', 'nothing'],
  [['茶', '都不要'], ['都不要。'], '都不要', 'nothing'],
  [yesNo, [{ media: 'voice', transcript: 'CODE 1.' }], 'yes', 'nothing'],
  [yesNo, [{ quoting: '好' }], 'yes', 'nothing'],
  [drinks, ['How is the weather?'], undefined, 'nothing'],
  [drinks, ['👍'], undefined, 'again'],
  [drinks, ['coffee'], undefined, 'again'],
  [drinks, ['I would like tea, thank you', 'tea'], 'tea', 'again'],
  [['茶', '咖啡'], ['我想要咖啡'], undefined, 'again'],
  [['部署', '不部署'], ['先不部署', '不部署'], '不部署', 'again'],
  [yesNo, ['yes, go ahead', 'yes'], 'yes', 'again'],
  [yesNo, [{ media: 'voice', transcript: '好的。' }], undefined, 'again'],
  [yesNo, [{ media: 'voice' }], undefined, 'again'],
  [yesNo, [{ media: 'image' }, 'ok'], 'yes', 'again'],
  [yesNo, ['+yes', 'no'], undefined, 'again'],
  [['3', '1', '2'], ['1', '1', 'CODE 1'], '3', 'again, how to'],
]

describe('where nobody waits', () => {
  test('an answer counts, or is answered', async () => {
    await using t = await begin()
    await hear(t, 'hello')
    for (const [choices, all, choice, said] of answers) {
      const before = (await t.sandbox.messages({ from: 'bot' })).length
      const asked = await ask(t, { choices })
      const code = await codeIn(t, asked.text)
      const { message_id } = (await t.sandbox.messages({ from: 'bot' })).at(-1)!
      const hasEffect = choice !== undefined || said !== 'nothing'
      for (const one of all) {
        const count = (await saidSince(t, 0)).length
        await write(t, one, code, message_id)
        if (typeof one === 'string' && one.startsWith('+')) continue
        if (!hasEffect) await t.pass(4000)
        // It is read from the store alone, as nobody waits.
        else
          await t.soon(
            `an effect of ${JSON.stringify(one)}`,
            async () => (await saidSince(t, 0)).length > count || (await storedAnswer(t, asked.id)),
          )
      }
      const texts = (await saidSince(t, before + 1)).map(one => {
        expect(one).toContain(`${code} 1 = `)
        return one.includes('Deploy?') ? 'again' : 'how to'
      })
      const ended = await t.gateway.asks.cancel(asked.id, owner)
      expect([all, ended.choice, texts.join(', ') || 'nothing']).toEqual([all, choice, said])
    }
  })

  test('an answer that quotes one of two questions is for that one', async () => {
    const { t, asked } = await open()
    await using _ = t
    const [first] = await t.sandbox.messages({ from: 'bot' })
    const { bot_id: to, user_id: from } = t.bots.get('default')!
    const other = await ask(t, { text: 'Restart?' })
    t.clock.advance(1)
    await t.sandbox.say('no', { to, from, quote: first!.message_id, how: 'full' })
    await t.soon('it counts', async () => (await look(t, asked.id)).choice === 'no')
    await rest(t)
    expect((await look(t, other.id)).status).toBe('open')
    expect(await saidSince(t, 2)).toEqual([])
  })

  test('an answer after the end is told once that it is over, whichever process took it in', async () => {
    const { t, asked, code } = await open(['yes', 'no'], { timeout: 3 })
    await using _ = t
    await t.pass(5000)
    await hear(t, `${code} 1`)
    await t.soon('it is told', async () => (await saidSince(t, 1)).length === 1)
    await using beside = await t.beside()
    for (const one of [t, beside]) await one.pass(70_000)
    const [said, ...others] = await saidSince(t, 1)
    expect(others).toEqual([])
    expect(said).toContain('Deploy?')
    expect(said).not.toContain(code)
    expect((await look(t, asked.id)).status).toBe('unanswered')
    expect(beside.lines.filter(line => line.includes('"error"'))).toEqual([])
  })

  test('what a process took in and left is looked at by the next one', async () => {
    // It may not send anything after the question.
    await using t = await begin({ pace: { perSecond: 1, perWindow: 1, windowMs: 3_600_000 } })
    await hear(t, 'hello')
    const asked = await ask(t, { timeout: 3 })
    await t.pass(5000)
    await hear(t, `${await codeIn(t, asked.text)} 1`)
    await t.gateway.close()
    expect(await saidSince(t, 1)).toEqual([])
    await using next = await t.beside({ config: { pace: 'off' } })
    await next.soon('it is told', async () => (await saidSince(t, 1)).length === 1)
  })

  test('a plain word after the end is told so too, if nothing else was said since; one after a choice if it is another one', async () => {
    for (const [first, said, isTold] of [
      [undefined, 'yes', true],
      [undefined, 'what was that?', false],
      ['yes', 'no', true],
      ['yes', 'ok', false],
    ] as const) {
      const { t, asked } = await open(['yes', 'no'], { timeout: 3 })
      await using _ = t
      if (first) {
        await hear(t, first)
        await t.soon('it counts', () => storedAnswer(t, asked.id))
      } else await t.pass(5000)
      await hear(t, said, 4000)
      if (isTold) await t.soon('it is told', async () => (await saidSince(t, 1)).length > 0)
      // An agent that looks at it after that gets no prompt.
      const { messages } = await t.gateway.history.page({ limit: 1, offset: 0, direction: 'received' })
      expect([first, said, await t.gateway.asks.takes(messages[0]!)]).toEqual([
        first,
        said,
        isTold ? 'over' : 'no',
      ])
      expect([first, said, (await saidSince(t, 1)).length]).toEqual([first, said, isTold ? 1 : 0])
    }
  })
})
