/** Questions of an agent to its owner, with the real store and the simulated WeChat. */
import { describe, expect, test } from 'bun:test'
import type { PermissionRequest } from '../../src/agent/backend.ts'
import { AnswerDelivery } from '../../src/agent/delivery.ts'
import {
  chineseQuestions,
  englishQuestions,
  findShown,
  formatQuestion,
  type QuestionTexts,
} from '../../src/agent/question-text.ts'
import { Questions } from '../../src/agent/questions.ts'
import { Talkers } from '../../src/agent/talkers.ts'
import type { AgentQuestion, Message, StoredTurn } from '../../src/index.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { withLibrary } from '../support/library.ts'
import { playedAgent, textOf } from './support.ts'

const request: PermissionRequest = {
  text: 'execute: "Remove build"; input: {"command":"rm -rf build"}',
  options: [
    { id: 'yes', name: 'Yes', kind: 'allow_once' },
    { id: 'ever', name: 'Always', kind: 'allow_always' },
    { id: 'no', name: 'No', kind: 'reject_once' },
  ],
}
const allows: PermissionRequest = { ...request, options: request.options.slice(0, 2) }
const running = new AbortController().signal

/** Two accounts of two owners, and a guest of the first. All have written. */
async function withQuestions({ pauseMs = 1, pace = 'off', operator = '' } = {}) {
  const library = await withLibrary({ sessions: ['work', 'home'] })
  const { clock, sandbox } = library
  const [work, home] = [...library.bots.values()]
  const guest = await sandbox.addUser('guest')
  const svc = await library.open({ store: true, pace })
  const store = await svc.workAsAgent()
  const named = operator === 'home' && { operator: home!.user_id }
  const config = { ...playedAgent, name: 'helper', allow: 'everyone', ...named } as const
  const people = new Talkers({ svc, work: store, config, agents: [config], clock })
  const findFolder = async () => library.dir
  const ports = { svc, work: store, people, findFolder, pauseMs, clock, log: silentLog }
  const decide = async () => false
  const open = () => new Questions({ ...ports, decide, delivery: new AnswerDelivery(ports) })
  let isAlone = true
  // A little ahead: an answer is later than its question.
  let phonesAhead = -10
  const questions = open()
  const stop = new AbortController()
  /** Messages that are no answers. */
  const passed: string[] = []
  const taken: string[] = []
  const reading = (async () => {
    for await (const { message, settle } of svc.openMessages({
      consumer: 'agent-helper',
      signal: stop.signal,
    })) {
      let how = await questions.takeAnswer(message)
      // A conversation asks again after the pause.
      if (how === 'later') how = await questions.takeAnswer(message, isAlone)
      ;(how === 'taken' ? taken : passed).push(message.text)
      await settle(true)
    }
  })()
  const say = async (
    text: string,
    from = work!.user_id,
    to = work!.bot_id,
    { alone = true, ...how }: { alone?: boolean; quote?: string } = {},
  ) => {
    const count = passed.length + taken.length
    isAlone = alone
    await sandbox.say(text, { from, to, ...how })
    await library.until(`"${text}" is read`, () => passed.length + taken.length > count)
  }
  await library.until('the reader reads', async () => (await svc.sessions()).length === 2)
  for (const [user, bot] of [
    [work!.user_id, work!.bot_id],
    [home!.user_id, home!.bot_id],
    [guest, work!.bot_id],
  ] as const) {
    await sandbox.say('hi', { from: user, to: bot })
    await library.until('the user is known', async () =>
      (await svc.users()).some(one => one.user_id === user && one.remaining === 10),
    )
  }
  await library.until('greetings are read', () => passed.length === 3)
  return {
    ...library,
    svc,
    store,
    work: work!,
    home: home!,
    guest,
    questions,
    open,
    passed,
    taken,
    say,
    /** The phones keep up with the time that passes quickly. */
    async quickly<T>(work: Promise<T>): Promise<T> {
      const result = await library.quickly(work)
      const now = Date.now()
      const ahead = clock.now() - now
      await sandbox.advance(ahead - phonesAhead)
      phonesAhead = ahead
      return result
    },
    /** A turn that runs. */
    async turn(user = work!.user_id, session = 'work'): Promise<StoredTurn> {
      const key = { agent: 'helper', session, user }
      await store.claimAgent('helper')
      const { id } = await store.addTurn({ ...key, source: 'inject', messages: [], prompt: 'x' })
      await store.claim(key)
      await store.changeTurn(id, { status: 'running', started_at: clock.now() })
      return (await store.getTurn(id))!
    },
    /** What the owner got, newest last. */
    async got(user = work!.user_id): Promise<string[]> {
      return (await sandbox.messages({ user, from: 'bot', limit: 1000 })).map(textOf)
    },
    /** Waits for the question in a chat. Returns its code. */
    codeFor: (user = work!.user_id, nth = 0) =>
      library.until('the question arrives', async () => {
        // Two that wait are sent as one message.
        const texts = (await sandbox.messages({ user, from: 'bot', limit: 1000 })).map(textOf)
        return [...texts.join('\n').matchAll(/^(\w{4}) 1 = /gm)].map(([, code]) => code!)[nth]
      }),
    /** Waits until WeChat has the only question that was not shown yet. */
    shown: () =>
      library.until('the question is shown', async () => {
        const open = await store.listQuestions()
        return open.length > 0 && open.every(({ message_id }) => message_id !== undefined)
      }),
    question: () => library.until('a question is open', async () => (await svc.agents.questions())[0]),
    async [Symbol.asyncDispose]() {
      stop.abort()
      await reading
      await library[Symbol.asyncDispose]()
    },
  }
}

const ended = async (t: { svc: { agents: { questions(): Promise<AgentQuestion[]> } } }) =>
  (await t.svc.agents.questions()).length === 0

describe('an answer', () => {
  test('in the chat of the owner goes to the agent, and no agent reads it', async () => {
    await using t = await withQuestions()
    const answer = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor()
    const [text = ''] = await t.got()
    expect(text).toContain(request.text)
    expect(text).toContain(`${code} 2 = allow always: Always`)
    // Phones write small and wide characters, and a space at the end.
    await t.say(` ${code.toLowerCase()} ２ `)
    expect(await t.quickly(answer)).toBe('ever')
    expect(t.passed).not.toContain(` ${code.toLowerCase()} ２ `)
    const [line] = await t.svc.audit({ limit: 10 })
    expect(line).toMatchObject({ operation: 'answer_agent_question', principal: 'owner', outcome: 'done' })
    // The answer of the agent comes next.
    expect((await t.got()).length).toBe(1)
  })

  test('by the library counts the same, once', async () => {
    await using t = await withQuestions()
    const answer = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor()
    const { id } = await t.question()
    expect((await t.svc.agents.answer(id, 'no')).answer).toBe('no')
    expect(await failure(t.svc.agents.answer(id, 'yes'))).toMatchObject({ code: 'not_found' })
    await t.say(`${code} 1`)
    expect(await t.quickly(answer)).toBe('no')
    expect(await t.got()).toHaveLength(2)
  })

  test('of nobody but the owner of the account counts', async () => {
    await using t = await withQuestions()
    const answer = t.questions.ask(await t.turn(t.guest), request, running)
    const code = await t.codeFor()
    expect((await t.got())[0]).toContain(t.guest)
    await t.say(`${code} 1`, t.guest, t.work.bot_id)
    await t.say(`${code} 1`, t.home.user_id, t.home.bot_id)
    expect((await t.question()).answer).toBeUndefined()
    // The guest gets no word about it, the owner of the other account a short one.
    expect(await t.got(t.guest)).toEqual([])
    expect(await t.got(t.home.user_id)).toHaveLength(1)
    await t.say(`${code} 1`)
    expect(await t.quickly(answer)).toBe('yes')
    expect(await t.got()).toHaveLength(2)
    expect(t.passed).toEqual(['hi', 'hi', 'hi'])
  })

  test('that is none shows the question once more, then how to answer, and is no prompt', async () => {
    await using t = await withQuestions()
    const answer = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor()
    await t.shown()
    const other = code === 'A2A2' ? 'B2B2' : 'A2A2'
    const none = [
      `${code} 4`,
      code,
      `what does ${code} 1 do?`,
      `not ${code} 1`,
      '2',
      '99',
      'yes?',
      `${code} yes 3`,
    ]
    for (const text of none) await t.say(text)
    // Of a question that is over.
    const late = [`${other} 1`, `${other} yes`, `${other} no`]
    for (const text of late) await t.say(text)
    expect(t.taken).toEqual([...none, ...late])
    const prompts = ['permission granted', 'page 2', '2026 11', 'Which one?', `${other}1`, `${code}${code} 1`]
    for (const text of prompts) await t.say(text)
    expect(t.passed.slice(3)).toEqual(prompts)
    expect((await t.question()).answer).toBeUndefined()
    const got = await t.got()
    expect(got.filter(text => text.includes(`${code} 3 = `))).toHaveLength(2)
    expect(got).toHaveLength(1 + none.length + late.length)
    await t.say(`${code} 3`)
    expect(await t.quickly(answer)).toBe('no')
  })

  test('is also the line of an option as it is shown', async () => {
    await using t = await withQuestions()
    const asked = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor()
    await t.shown()
    await t.say(`${code} 2 = reject: Always`)
    expect((await t.question()).answer).toBeUndefined()
    await t.say(`${code} 2 = 始终允许：Always`)
    expect(await t.quickly(asked)).toBe('ever')
    expect(t.passed).toHaveLength(3)
  })

  test('to a question of a turn that no longer runs does nothing', async () => {
    await using t = await withQuestions()
    const turn = await t.turn()
    const answer = t.questions.ask(turn, request, running)
    const code = await t.codeFor()
    await t.store.changeTurn(turn.id, { status: 'interrupted' })
    expect(await ended(t)).toBe(true)
    await t.say(`${code} 1`)
    t.clock.advance(300_000)
    expect(await answer).toBe('no')
  })

  test('that comes again after a crash is not answered again', async () => {
    await using t = await withQuestions()
    const message = { id: 1, session: 'work', from_user: t.work.user_id, msg_type: 'TEXT' } as Message
    expect(await t.questions.takeAnswer({ ...message, text: 'A2A2 1', redelivered: true })).toBe('taken')
    expect(await t.got()).toEqual([])
  })
})

describe('a plain answer', () => {
  const yes = ['yes', 'OK。', '好的', '1', '１', '👍🏽', 'yes please']
  const no = ['no', '不', '不允许！', '3', 'No, thanks', '取消']

  test('to the only question, last in the chat, allows once or rejects, and is no prompt', async () => {
    await using t = await withQuestions()
    const turn = await t.turn()
    for (const text of [...yes, ...no]) {
      const answer = t.questions.ask(turn, request, running)
      await t.shown()
      await t.say(text)
      expect([text, await t.quickly(answer)]).toEqual([text, yes.includes(text) ? 'yes' : 'no'])
    }
    expect(t.passed).toHaveLength(3)
    expect(await t.got()).toHaveLength(yes.length + no.length)
  })

  /** What makes a plain yes doubtful. Each returns how it is said. */
  type World = Awaited<ReturnType<typeof withQuestions>>
  const doubts: Record<string, (t: World) => Promise<{ alone?: boolean; quote?: string }>> = {
    'something is beside it': async () => ({ alone: false }),
    'it quotes another message': async t => {
      const { messages } = await t.svc.history({ session: 'work', direction: 'received', limit: 1 })
      return { quote: messages[0]!.message_id }
    },
    'the bot said something since': async t => {
      await t.svc.send({ to: t.work.user_id, session: 'work', text: 'news' })
      return {}
    },
    'something waits behind it': async t => {
      const by = t.svc.as({ name: 'other', can: ['draft'] })
      await by.send({ to: t.work.user_id, session: 'work', text: 'news', when_closed: 'queue' })
      return {}
    },
  }
  for (const [why, make] of Object.entries(doubts))
    test(`allows nothing if ${why}; a refusal counts`, async () => {
      await using t = await withQuestions()
      const turn = await t.turn()
      for (const text of ['yes', '1', '好']) {
        const answer = t.questions.ask(turn, request, running)
        await t.shown()
        const how = await make(t)
        await t.say(text, undefined, undefined, how)
        expect((await t.question()).answer).toBeUndefined()
        expect(t.taken.at(-1)).toBe(text)
        await t.say('no')
        expect(await t.quickly(answer)).toBe('no')
      }
    })

  test('allows nothing in the turn of somebody else, for ever, or with two questions open', async () => {
    await using t = await withQuestions()
    const guest = t.questions.ask(await t.turn(t.guest), request, running)
    const code = await t.codeFor()
    for (const text of yes) await t.say(text)
    const own = t.questions.ask(await t.turn(), request, running)
    await t.until('both are open', async () => (await t.svc.agents.questions()).length === 2)
    await t.shown()
    for (const text of [...yes, '2', `${code} always`]) await t.say(text)
    expect(await t.svc.agents.questions()).toHaveLength(2)
    // It is about the newest question.
    await t.say('no')
    expect(await t.quickly(own)).toBe('no')
    await t.say(`${code} 2`)
    expect(await t.quickly(guest)).toBe('ever')
    expect(t.passed).toHaveLength(3)
  })

  test('of somebody else, or where none is open, is for the agent', async () => {
    await using t = await withQuestions()
    await t.say('yes')
    const answer = t.questions.ask(await t.turn(), request, running)
    await t.shown()
    await t.say('yes', t.guest, t.work.bot_id)
    await t.say('1', t.home.user_id, t.home.bot_id)
    expect(t.passed.slice(3)).toEqual(['yes', 'yes', '1'])
    await t.say('yes')
    expect(await t.quickly(answer)).toBe('yes')
  })

  test('that was written before the question, came again, or follows closely on another message allows nothing', async () => {
    await using t = await withQuestions({ pauseMs: 600_000 })
    const answer = t.questions.ask(await t.turn(), request, running)
    await t.shown()
    // The greeting was within the pause.
    await t.say('yes')
    const [message] = (await t.svc.history({ session: 'work', direction: 'received', limit: 1 })).messages
    const early = { ...message!, timestamp: message!.timestamp - 60_000 }
    expect(await t.questions.takeAnswer(early, true)).toBe('taken')
    expect(await t.questions.takeAnswer({ ...message!, redelivered: true }, true)).toBe('taken')
    expect((await t.question()).answer).toBeUndefined()
    await t.svc.agents.answer((await t.question()).id, 'no')
    await t.quickly(answer)
  })

  test('in a voice message rejects, and allows nothing, not even with the code', async () => {
    await using t = await withQuestions()
    const turn = await t.turn()
    for (const allowed of ['yes', '1', 'CODE 1', '不可以。']) {
      const answer = t.questions.ask(turn, request, running)
      await t.shown()
      const code = [...(await t.got()).join('\n').matchAll(/^(\w{4}) 1 = /gm)].at(-1)![1]!
      const count = t.taken.length
      const { user_id: from, bot_id: to } = t.work
      const transcript = allowed.replace('CODE', code)
      await t.sandbox.media('voice', new Uint8Array(100), { from, to, transcript })
      await t.until('it is read', () => t.taken.length > count)
      const { answer: given } = (await t.store.listQuestions())[0] ?? { answer: 'no' }
      expect([allowed, given]).toEqual([allowed, allowed === '不可以。' ? 'no' : undefined])
      await t.say('no')
      expect(await t.quickly(answer)).toBe('no')
    }
  })
})

describe('an operator', () => {
  test('decides from another account, with the code alone; the owner of the account does not', async () => {
    await using t = await withQuestions({ operator: 'home' })
    const { bot_id, user_id } = t.home
    const answer = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor(user_id)
    await t.shown()
    await t.say(`${code} 1`)
    for (const text of ['yes', '1']) await t.say(text, user_id, bot_id)
    expect((await t.question()).answer).toBeUndefined()
    expect(await t.got()).toEqual([])
    await t.say(`${code} 1`, user_id, bot_id)
    expect(await t.quickly(answer)).toBe('yes')
    expect((await t.got(user_id)).at(-1)).toContain('Chosen')
  })

  test('that has never written is asked in the panel alone', async () => {
    await using t = await withQuestions({ operator: 'home' })
    await t.svc.nameUser(t.home.user_id, 'Boss')
    const config = { ...playedAgent, name: 'helper', allow: 'everyone', operator: 'Nobody' } as const
    const people = new Talkers({ svc: t.svc, work: t.store, config, agents: [config], clock: t.clock })
    expect(await people.findOperator('work')).toBeUndefined()
    const boss = { ...config, operator: 'Boss' }
    const known = new Talkers({ svc: t.svc, work: t.store, config: boss, agents: [boss], clock: t.clock })
    expect(await known.findOperator('work')).toEqual({ session: 'home', user_id: t.home.user_id })
  })
})

describe('without an answer', () => {
  test('the option that rejects is taken after five minutes, and the code is worth nothing', async () => {
    await using t = await withQuestions()
    const answer = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor()
    await t.shown()
    t.clock.advance(240_000)
    expect((await t.question()).text).toBe(request.text)
    t.clock.advance(60_000)
    expect(await answer).toBe('no')
    await t.say(`${code} 1`)
    expect(await ended(t)).toBe(true)
  })

  test('reject_once is taken before reject_always, and never one that allows', async () => {
    await using t = await withQuestions()
    const never = { id: 'never', name: 'Never', kind: 'reject_always' } as const
    const [yes, ever, no] = request.options
    const cases = [
      [[never, yes!, no!], 'no'],
      [[yes!, never], 'never'],
    ] as const
    for (const [options, expected] of cases) {
      const answer = t.questions.ask(await t.turn(), { ...request, options }, running)
      await t.question()
      t.clock.advance(300_000)
      expect(await answer).toBe(expected)
    }
    for (const options of [[yes!, ever!], []]) {
      const answer = failure(t.questions.ask(await t.turn(), { ...request, options }, running))
      if (options.length > 0) await t.question()
      t.clock.advance(300_000)
      expect(await answer).toMatchObject({ code: 'forbidden' })
    }
    expect(await ended(t)).toBe(true)
  })

  test('a turn that stops, and a request that is taken back, end the question', async () => {
    await using t = await withQuestions()
    const turn = await t.turn()
    for (const which of ['turn', 'request']) {
      const stop = new AbortController()
      const { signal } = stop
      const answer =
        which === 'turn'
          ? failure(t.questions.ask(turn, request, signal))
          : failure(t.questions.ask(turn, { ...request, signal }, running))
      const code = await t.codeFor(undefined, which === 'turn' ? 0 : 1)
      const reason = new Error('stopped')
      stop.abort(reason)
      expect(await answer).toBe(reason)
      await t.say(`${code} 1`)
      expect(await ended(t)).toBe(true)
    }
  })

  test('what a process that died asked in the same turn is closed', async () => {
    await using t = await withQuestions()
    const turn = await t.turn()
    await t.store.ask({ ...request, turn: turn.id, code: 'A2A2', expires_at: t.clock.now() + 300_000 })
    const answer = t.questions.ask(turn, request, running)
    const code = await t.codeFor()
    await t.say('A2A2 1')
    await t.say(`${code} 3`)
    expect(await t.quickly(answer)).toBe('no')
  })
})

describe('a question that waits for the pace', () => {
  /** The chat had what it may have within a minute. */
  async function withWaiting() {
    const t = await withQuestions({ pace: '1/60s' })
    await t.svc.send({ to: t.work.user_id, session: 'work', text: 'news' })
    const turn = await t.turn()
    const answer = t.questions.ask(turn, request, running)
    const isQueued = async () => (await t.store.listQuestions())[0]?.entry !== undefined
    await t.until('the question waits', isQueued)
    return { t, turn, answer }
  }

  test('has five minutes from when it is sent', async () => {
    const { t, answer } = await withWaiting()
    await using _ = t
    const { asked_at } = await t.question()
    expect(await t.got()).toEqual(['news'])
    // A yes cannot be about what nobody has seen.
    await t.say('yes')
    t.clock.advance(60_000)
    await t.shown()
    expect(await t.got()).toHaveLength(2)
    const { expires_at } = await t.question()
    expect(expires_at - asked_at).toBeWithin(355_000, 420_000)
    t.clock.advance(240_000)
    expect((await t.question()).answer).toBeUndefined()
    t.clock.advance(60_000)
    expect(await answer).toBe('no')
    expect(t.taken).toEqual(['yes'])
  })

  test('is taken out of the outbox when it is answered elsewhere, or nobody needs the answer any more', async () => {
    const { t, turn, answer } = await withWaiting()
    await using _ = t
    await t.svc.agents.answer((await t.question()).id, 'yes')
    expect(await t.quickly(answer)).toBe('yes')
    const stop = new AbortController()
    const stopped = failure(t.questions.ask(turn, request, stop.signal))
    await t.until('the next one waits', async () => (await t.svc.outbox.list()).length > 0)
    stop.abort(new Error('stopped'))
    await stopped
    await t.until('nothing waits', async () => (await t.svc.outbox.list()).length === 0)
    // What a process that died left behind.
    const lost = t.questions.ask(turn, request, running)
    await t.until('another one waits', async () => (await t.store.listQuestions())[0]?.entry !== undefined)
    await t.open().closeLost('helper')
    expect(await t.quickly(lost)).toBe('no')
    expect(await t.svc.outbox.list()).toEqual([])
    expect(await t.got()).toEqual(['news'])
  })
})

describe('a question', () => {
  test('that timed out is told, once', async () => {
    await using t = await withQuestions()
    const answer = t.questions.ask(await t.turn(t.guest), request, running)
    const code = await t.codeFor()
    await t.shown()
    t.clock.advance(300_000)
    expect(await answer).toBe('no')
    const got = await t.got()
    expect(got).toHaveLength(2)
    expect(got[1]).toContain(code)
  })

  test('that would take the last answer, or has no chat, is in the panel alone', async () => {
    await using t = await withQuestions()
    for (let nth = 0; nth < 9; nth++)
      await t.svc.send({ to: t.work.user_id, session: 'work', text: `${nth}` })
    const answer = t.questions.ask(await t.turn(), request, running)
    const { id } = await t.question()
    t.clock.advance(500)
    expect(await t.got()).toHaveLength(9)
    await t.svc.agents.answer(id, 'yes')
    expect(await t.quickly(answer)).toBe('yes')
    const unknown = t.questions.ask(await t.turn(t.guest, 'nobody'), request, running)
    await t.svc.agents.answer((await t.question()).id, 'no')
    expect(await t.quickly(unknown)).toBe('no')
    expect(await t.got()).toHaveLength(9)
  })

  test('says an option once, by what it does, unless the agent calls it something else', () => {
    const options = [
      { id: 'a', name: 'Allow once', kind: 'allow_once' },
      { id: 'b', name: 'Allow for this folder', kind: 'allow_always' },
      { id: 'c', name: '拒绝。', kind: 'reject_once' },
    ] as const
    const asked = { code: 'A4RN', text: 'rm -rf build', agent: 'helper', options }
    const lines = (texts: QuestionTexts) => formatQuestion(asked, texts).split('\n').slice(2, 5)
    expect(lines(englishQuestions)).toEqual([
      'A4RN 1 = allow once',
      'A4RN 2 = allow always: Allow for this folder',
      'A4RN 3 = reject: 拒绝。',
    ])
    expect(lines(chineseQuestions)[2]).toBe('A4RN 3 = 拒绝')
    expect(englishQuestions.chosen(options[0])).toBe('Chosen: allow once')
    for (const text of ['allow once', 'A4RN 1 = allow once', '1. Allow once'])
      expect(findShown(text, asked)?.id).toBe('a')
  })

  test('cannot look like anything but words of the agent', async () => {
    await using t = await withQuestions()
    const stop = new AbortController()
    const text = `harmless${' '.repeat(5000)}\nK7QX 1 = reject: No\u202e\u0007\r\u2028`
    const options = [
      { id: 'yes', name: 'No\nK7QX 2 = reject', kind: 'allow_once' } as const,
      request.options[2]!,
    ]
    const answer = failure(t.questions.ask(await t.turn(), { text, options }, stop.signal))
    const code = await t.codeFor()
    const [asked = ''] = await t.got()
    const lines = asked.split('\n')
    expect(lines.filter(line => line.startsWith('> '))).toHaveLength(1)
    expect(lines.filter(line => / \d = /.test(line) && !line.startsWith('> '))).toEqual([
      `${code} 1 = allow once: No\\u{a}K7QX 2 = reject`,
      `${code} 2 = reject: No`,
    ])
    for (const character of '\u202e\u0007\r\u2028') expect(asked).not.toContain(character)
    expect(asked.length).toBeLessThan(3500)
    stop.abort(new Error('stopped'))
    await answer
  })

  test('is one at a time in a turn, and of 200 at the same time most are rejected at once', async () => {
    await using t = await withQuestions()
    const stop = new AbortController()
    const turn = await t.turn()
    const answers = Array.from({ length: 200 }, () => t.questions.ask(turn, request, stop.signal))
    const late = answers.slice(21)
    expect(new Set(await Promise.all(late))).toEqual(new Set(['no']))
    for (let nth = 0; nth < 3; nth++) {
      const { id } = await t.question()
      expect(await t.svc.agents.questions()).toHaveLength(1)
      await t.svc.agents.answer(id, 'yes')
      expect(await t.quickly(answers[nth]!)).toBe('yes')
    }
    stop.abort(new Error('stopped'))
    for (const answer of answers.slice(3, 21)) expect((await failure(answer)).message).toBe('stopped')
    expect(await ended(t)).toBe(true)
  })

  test('of several turns has a code of its own, and is answered by any process', async () => {
    await using t = await withQuestions()
    const other = t.open()
    const first = t.questions.ask(await t.turn(), request, running)
    const second = other.ask(await t.turn(t.guest), allows, running)
    const codes = [await t.codeFor(), await t.codeFor(undefined, 1)]
    expect(new Set(codes).size).toBe(2)
    for (const code of codes) await t.say(`${code} 1`)
    expect(await t.quickly(Promise.all([first, second]))).toEqual(['yes', 'yes'])
  })

  test('is in Chinese for an owner who writes Chinese', async () => {
    await using t = await withQuestions()
    await t.say('你好')
    const answer = t.questions.ask(await t.turn(), request, running)
    const code = await t.codeFor()
    expect((await t.got())[0]).toContain(`${code} 3 = 拒绝: No`)
    await t.say(`${code} 3`)
    expect(await t.quickly(answer)).toBe('no')
  })
})
