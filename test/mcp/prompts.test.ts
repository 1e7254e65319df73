import { describe, expect, test } from 'bun:test'
import { failure } from '../support/failure.ts'
import { withMcpPair } from '../support/mcp-pair.ts'

const textsOf = (result: { messages: { content: unknown }[] }) =>
  result.messages.map(({ content }) => (content as { text: string }).text)

describe('prompts', () => {
  test('are listed with title, description and arguments', async () => {
    await using pair = await withMcpPair({ sessions: [] })
    const { prompts } = await pair.client.listPrompts()
    expect(
      prompts.map(({ name, arguments: given }) => [name, given?.map(one => [one.name, one.required])]),
    ).toEqual([
      [
        'answer_newest',
        [
          ['session', false],
          ['user', false],
        ],
      ],
      [
        'summarise_conversation',
        [
          ['session', true],
          ['user', true],
          ['since', false],
        ],
      ],
    ])
    for (const one of prompts) {
      expect(one.title).toBeString()
      expect(one.description).toBeString()
      for (const argument of one.arguments ?? []) expect(argument.description).toBeString()
    }
  })

  test('answer_newest shows the conversations without an answer, with the rules and what is left', async () => {
    await using pair = await withMcpPair()
    const { client, t } = pair
    const { bot_id, user_id } = t.bots.get('default')!
    const other = await t.sandbox.addUser('other')
    expect(textsOf(await client.getPrompt({ name: 'answer_newest' }))).toEqual([
      expect.stringContaining('No WeChat conversation waits for an answer.'),
    ])
    await t.sandbox.say('already answered', { from: user_id, to: bot_id })
    await t.sandbox.say('still open', { from: other, to: bot_id })
    await t.receive(2)
    await t.send({ to: user_id, text: 'my answer' })
    const [rules, ...shown] = textsOf(await client.getPrompt({ name: 'answer_newest', arguments: {} }))
    for (const word of [
      'idempotency_key',
      'window_closed',
      'not instructions',
      'Never send the same message again',
    ])
      expect(rules).toContain(word)
    expect(shown).toHaveLength(1)
    expect(shown[0]).toContain('Conversation 1 of 1: 1 message')
    expect(shown[0]).toContain('The bot may answer 10 more times until')
    expect(shown[0]).toContain('> still open')
    expect(shown[0]).not.toContain('already answered')

    const named = await client.getPrompt({ name: 'answer_newest', arguments: { user: user_id } })
    expect(textsOf(named)[1]).toContain('> already answered')
    expect(textsOf(named)[1]).toContain('The bot may answer 9 more times')
    await t.gateway.users.name({ user_id, session: 'default', name: 'Mum' })
    expect(
      textsOf(await client.getPrompt({ name: 'answer_newest', arguments: { user: 'mum' } }))[1],
    ).toContain('The bot may answer 9 more times')
    const asked = { session: 'default', user: 'Mum' }
    const summary = await client.getPrompt({ name: 'summarise_conversation', arguments: asked })
    expect(textsOf(summary)[1]).toContain('The bot may answer 9 more times')
  })

  test('summarise_conversation shows one conversation since a time', async () => {
    await using pair = await withMcpPair({ sessions: ['工作'] })
    const { client, t } = pair
    const { user_id } = t.bots.get('工作')!
    await t.sandbox.say('let us meet at noon')
    await t.until('the user is known', async () => (await t.gateway.accounts.list())[0]?.user_count === 1)
    const get = (more: Record<string, string>) =>
      client.getPrompt({
        name: 'summarise_conversation',
        arguments: { session: '工作', user: user_id, ...more },
      })
    const texts = textsOf(await get({}))
    expect(texts[0]).toContain('Send nothing.')
    expect(texts[1]).toContain('> let us meet at noon')
    expect(textsOf(await get({ since: '2020-01-01' }))[1]).toContain('let us meet')
    expect(textsOf(await get({ since: '2999-01-01' }))[1]).toStartWith('Conversation: no messages.')
    expect(await failure(get({ since: 'yesterday' }))).toMatchObject({
      code: -32602,
      data: { code: 'invalid_arguments' },
    })
  })

  test('what is missing or not there is said by its code', async () => {
    await using pair = await withMcpPair()
    const cases: [string, Record<string, string>, string?][] = [
      ['summarise_conversation', { session: 'default' }],
      ['summarise_conversation', { session: 'default', user: 'x@y' }, 'invalid_arguments'],
      ['summarise_conversation', { session: 'none', user: 'x@y' }, 'session_not_found'],
      ['answer_newest', { session: 'none' }, 'session_not_found'],
      ['answer_newest', { user: 'x@y' }, 'invalid_arguments'],
      ['nothing', {}],
    ]
    for (const [name, given, code] of cases)
      expect(await failure(pair.client.getPrompt({ name, arguments: given }))).toMatchObject({
        code: -32602,
        ...(code !== undefined && { data: { code } }),
      })
  })
})

describe('completions', () => {
  test('session names and user ids, for prompts and templates', async () => {
    await using pair = await withMcpPair({ sessions: ['工作', 'work', 'home-work'] })
    const { client, t } = pair
    for (const name of ['工作', 'work']) {
      const { bot_id, user_id } = t.bots.get(name)!
      await t.sandbox.say('hi', { from: user_id, to: bot_id })
    }
    await t.receive(2)
    const [first, second] = [t.bots.get('工作')!.user_id, t.bots.get('work')!.user_id]
    await t.until('both users are known', async () =>
      (await t.gateway.accounts.list()).slice(0, 2).every(({ user_count }) => user_count === 1),
    )
    const complete = async (
      ref: { type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string },
      argument: string,
      value: string,
      given?: Record<string, string>,
    ) =>
      (
        await client.complete({
          ref,
          argument: { name: argument, value },
          ...(given && { context: { arguments: given } }),
        })
      ).completion.values
    const prompt = { type: 'ref/prompt', name: 'answer_newest' } as const
    const users = { type: 'ref/resource', uri: 'svc://sessions/{session}/users' } as const
    const talk = { type: 'ref/resource', uri: 'svc://conversations/{session}/{user}' } as const
    // What begins so comes first.
    expect(await complete(prompt, 'session', 'WO')).toEqual(['work', 'home-work'])
    expect(await complete(users, 'session', '工')).toEqual(['工作'])
    expect((await complete(talk, 'user', '')).sort()).toEqual([first, second].sort())
    expect(await complete(talk, 'user', 'o9', { session: 'work' })).toEqual([second])
    expect(await complete(talk, 'user', '', { session: 'none' })).toEqual([])
    expect(await complete({ type: 'ref/prompt', name: 'summarise_conversation' }, 'since', '2')).toEqual([])
    expect(await failure(complete({ type: 'ref/prompt', name: 'x' }, 'a', ''))).toMatchObject({
      code: -32602,
    })
  })

  test('ids of messages with media, and their items', async () => {
    await using pair = await withMcpPair()
    const { client, t } = pair
    await t.sandbox.say('no media')
    await t.sandbox.media('image', new Uint8Array(100), { name: 'a.png' })
    const messages = await t.receive(2)
    const message_id = messages.find(({ items }) => items[0]!.has_media)!.message_id
    const ref = { type: 'ref/resource', uri: 'svc://media/{message_id}/{item}' } as const
    const ids = await client.complete({ ref, argument: { name: 'message_id', value: '' } })
    expect(ids.completion).toEqual({ values: [message_id], total: 1, hasMore: false })
    const items = await client.complete({
      ...{ ref, argument: { name: 'item', value: '' } },
      context: { arguments: { message_id } },
    })
    expect(items.completion.values).toEqual(['0'])
  })
})
