/** What an agent is told of messages that are more than text. */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PlayedBackend, type TestAgents, withAgents } from './support.ts'

const photo = Uint8Array.fromHex(
  '89504e470d0a1a0a0000000d4948445200000001000000010800000000 3a7e9b55'.replace(' ', ''),
)

/** Returns the prompt of the next turn. */
async function promptOf(agents: TestAgents, backend: PlayedBackend, send: () => Promise<unknown>) {
  const before = backend.runs.length
  await send()
  await agents.until('a turn runs', () => backend.runs.length > before)
  const { prompt } = backend.runs[before]!
  await agents.until('it has ended', async () => (await agents.turns()).every(turn => turn.ended_at))
  return prompt
}

test('a quoted picture is attached, whatever WeChat tells of it', async () => {
  await using agents = await withAgents()
  const { clock, sandbox } = agents.library
  const { backend } = await agents.start(new PlayedBackend(() => 'seen'))
  const sent = await sandbox.media('image', photo)
  await agents.gets(1)
  for (const how of ['id', 'type0', 'type8', 'full']) {
    clock.advance(60_000)
    await sandbox.advance(60_000)
    const prompt = await promptOf(agents, backend, () =>
      sandbox.phone('POST', 'say', { text: 'what is this?', quote: sent.message_id, how }),
    )
    expect(prompt.text, how).toMatch(/^> \[image: .+\]\nwhat is this\?$/)
    expect(await Bun.file(prompt.files[0]!.path).bytes(), how).toEqual(photo)
  }
})

test('a picture that the agent sent is attached too, when the user quotes it', async () => {
  await using agents = await withAgents()
  const { sandbox } = agents.library
  const { backend } = await agents.start(
    new PlayedBackend(({ text }, { folder }) => {
      writeFileSync(join(folder, 'plot.png'), photo)
      return { text: 'here', files: text === 'draw' ? [join(folder, 'plot.png')] : [] }
    }),
  )
  await agents.say('draw')
  await agents.gets(2)
  const [, picture] = await sandbox.messages({ from: 'bot' })
  for (const how of ['id', 'type0']) {
    const prompt = await promptOf(agents, backend, () =>
      sandbox.phone('POST', 'say', { text: 'and this?', quote: picture!.message_id, how }),
    )
    expect(prompt.text, how).toMatch(/^> \[image: .+\.png\]\nand this\?$/)
    expect(await Bun.file(prompt.files[0]!.path).bytes(), how).toEqual(photo)
  }
})

test('a quote of a time that is none is told in words', async () => {
  await using agents = await withAgents()
  const { backend } = await agents.start(new PlayedBackend(() => 'seen'))
  for (const create_time_ms of [1, 9_007_199_254_740_991]) {
    const ref_msg = { message_item: { type: 8, create_time_ms } }
    const item_list = [{ type: 1, text_item: { text: `at ${create_time_ms}` }, ref_msg }]
    const raw = { from_user_id: agents.owner, message_type: 1, message_state: 2, item_list }
    const { text } = await promptOf(agents, backend, () => agents.library.sandbox.raw(raw))
    expect(text).toMatch(/^> \[.+\]\nat \d+$/)
  }
})

test('a quote without content that may be one of several messages is none of them', async () => {
  await using agents = await withAgents()
  const { sandbox } = agents.library
  const { backend } = await agents.start(new PlayedBackend(() => 'seen'))
  const at = sandbox.world.core.now()
  const say = (create_time_ms: number, more = {}) =>
    sandbox.raw({
      from_user_id: agents.owner,
      message_type: 1,
      message_state: 2,
      create_time_ms,
      item_list: [{ type: 1, text_item: { text: `at ${create_time_ms - at}` }, ...more }],
    })
  const quote = (create_time_ms: number) => ({ ref_msg: { message_item: { type: 8, create_time_ms } } })
  const ask = (time: number, more: object) => promptOf(agents, backend, () => say(time, more))
  await promptOf(agents, backend, () => say(at - 60_000))
  await promptOf(agents, backend, () => say(at - 60_400))
  expect((await ask(at, quote(at - 60_200))).text).toMatch(/^> \[.+\]\nat 0$/)
  expect((await ask(at + 1, quote(at - 60_400))).text).toBe('> at -60400\nat 1')
})

test('an answer that shows nothing is told in words', async () => {
  await using agents = await withAgents()
  const answers = ['\u200b', '\u200b\n\n\u2800', '\u3164 \0', ' \n']
  const { backend } = await agents.start(new PlayedBackend(() => answers[backend.runs.length - 1]!))
  for (const count of answers.keys()) {
    await promptOf(agents, backend, () => agents.library.sandbox.say('hi'))
    expect((await agents.gets(count + 1)).at(-1)).toMatch(/[a-z]{3}/)
  }
  await agents.become(...answers.map(() => 'answered' as const))
})

test('a sticker, a location, or nothing at all is told in words, beside text and alone', async () => {
  await using agents = await withAgents()
  const { sandbox } = agents.library
  const { backend } = await agents.start(new PlayedBackend(() => 'seen'))
  const raw = (item_list: object[]) => () =>
    sandbox.raw({ from_user_id: agents.owner, message_type: 1, message_state: 2, item_list })
  const sticker = { type: 47, emoji_item: { md5: 'a' } }
  const alone = (await promptOf(agents, backend, raw([sticker]))).text
  expect(alone).toMatch(/^\[.*sticker.*location.*\]$/)
  expect((await promptOf(agents, backend, raw([]))).text).toBe(alone)
  const text = { type: 1, text_item: { text: 'look' } }
  expect((await promptOf(agents, backend, raw([text, { type: 48 }]))).text).toBe(`look\n${alone}`)
  await agents.become('answered', 'answered', 'answered')
})
