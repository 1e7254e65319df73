/** Programs that speak WeChat's protocol to svc, as one small one does. */
import { expect } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { changeIn, rowsIn } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withRelay } from './driver.ts'
import { type RelayProgram, relayProgram } from './protocol.ts'

const it = given(withRelay)
const textsOf = (messages: { item_list: { text_item?: { text: string } }[] }[]) =>
  messages.map(({ item_list }) => item_list[0]?.text_item?.text)
const hello = new TextEncoder().encode('the bytes of a file')

/** Says something, and reads it: what was said before came before. */
async function readTo(program: RelayProgram, say: () => Promise<unknown>, text: string) {
  await say()
  const all: string[] = []
  while (!all.includes(text)) all.push(...textsOf(await program.poll()).map(String))
  return all
}

it('does not exist before the first client', async ({ t, url, add }) => {
  const ask = () => fetch(`${url}/ilink/bot/get_bot_qrcode`, { method: 'POST' })
  expect(await (await ask()).text()).toBe('off')
  await add('one')
  await t.until('it is on', async () => {
    t.clock.advance(500)
    return (await ask()).status !== 404
  })
  // A login is refused in words.
  expect(await (await ask()).json()).toMatchObject({ ret: -1, errmsg: expect.stringContaining('svc') })
})

it('each of two programs gets every message once, with ids and bytes as they are', async ({ t, add }) => {
  const programs = [await add('one'), await add('two')]
  const bytes = crypto.getRandomValues(new Uint8Array(50_001))
  const said = await t.sandbox.say('hello 你好 "message_id":"1"')
  await t.sandbox.media('image', bytes)
  await t.sandbox.media('voice', bytes)
  await t.sandbox.media('file', bytes, { name: 'paper.pdf' })
  await t.sandbox.media('video', bytes)
  await t.sandbox.say('end', { quote: said.message_id })
  for (const program of programs) {
    const got = await program.read(6)
    expect(got).toHaveLength(6)
    expect(textsOf(got)[0]).toBe('hello 你好 "message_id":"1"')
    expect(got[0]).toMatchObject({ message_id: said.message_id, message_type: 1, message_state: 2 })
    for (const [nth, name] of ['image_item', 'voice_item', 'file_item', 'video_item'].entries()) {
      const payload = got[nth + 1].item_list[0][name]
      expect(payload.aeskey).toBeUndefined()
      expect(Buffer.from(await program.fetchFile(payload)).equals(Buffer.from(bytes))).toBe(true)
    }
    expect(new Set(got.map(({ context_token }) => context_token)).size).toBe(6)
  }
  const { message_id } = await t.sandbox.say('more')
  for (const program of programs) {
    const answer = await program.post('getupdates', { get_updates_buf: program.cursor })
    expect(answer.text).toContain(`"message_id":${message_id}`)
    expect(answer.body.msgs).toHaveLength(1)
    expect(answer.body.longpolling_timeout_ms).toBeGreaterThan(30_000)
  }
})

it('what a program did not acknowledge comes again, and only that', async ({ t, add }) => {
  const program = await add('one')
  await t.sandbox.say('a')
  const before = program.cursor
  expect(textsOf(await program.poll())).toEqual(['a'])
  const cursor = program.cursor
  // It was killed before it could keep the cursor.
  program.cursor = before
  expect(textsOf(await program.poll())).toEqual(['a'])
  // The store forgets what was handed out, as after a crash of the machine.
  await changeIn(t.dir, `UPDATE acknowledged SET handed_out = position`)
  program.cursor = cursor
  expect(await readTo(program, () => t.sandbox.say('b'), 'b')).toEqual(['b'])
})

it('a cursor of another program, a forged one, or of another message counts as none', async ({ t, add }) => {
  const [one, two] = [await add('one'), await add('two')]
  await t.sandbox.say('a')
  expect(textsOf(await one.poll())).toEqual(['a'])
  expect(textsOf(await two.poll())).toEqual(['a'])
  expect(await readTo(one, () => t.sandbox.say('b'), 'b')).toEqual(['b'])
  const forged = two.cursor.slice(0, -1) + (two.cursor.endsWith('_') ? '-' : '_')
  for (const cursor of [one.cursor, forged, 'nonsense', '.', `${two.cursor}.x`]) {
    const other = { ...two, cursor }
    const { body } = await two.post('getupdates', { get_updates_buf: other.cursor })
    expect(textsOf(body.msgs)).toEqual(['a', 'b'])
  }
  expect(textsOf(await two.poll())).toEqual(['b'])
  expect(await readTo(two, () => t.sandbox.say('c'), 'c')).toEqual(['c'])
  // After a restore, the row of its cursor is another message.
  await changeIn(t.dir, `UPDATE message SET message_id = '42' WHERE text = 'c'`)
  expect(await readTo(two, () => t.sandbox.say('d'), 'd')).toEqual(['c', 'd'])
})

it('a new token goes on where the program stands', async ({ t, add, url }) => {
  const program = await add('one')
  await t.sandbox.say('a')
  await program.read(1)
  expect(await readTo(program, () => t.sandbox.say('b'), 'b')).toEqual(['b'])
  const { key } = await t.gateway.keys.rotate(program.id, 0, owner)
  const next = relayProgram(url, program.id, key, t.bots.get('default')!.user_id)
  next.cursor = program.cursor
  expect((await t.hurry(program.post('getupdates'))).body.errcode).toBe(-14)
  // Nothing shows that "b" arrived.
  expect(await readTo(next, () => t.sandbox.say('c'), 'c')).toEqual(['b', 'c'])
})

it('a new login of the same person goes on in the open poll', async ({ t, add }) => {
  const { gateway, sandbox, bots } = t
  const { bot_id, user_id } = bots.get('default')!
  const programs = [await add('one'), await add('limited', { users: [user_id] })]
  await sandbox.say('before')
  for (const program of programs) expect(textsOf(await program.read(1))).toEqual(['before'])
  const polled = programs.map(program => program.poll())
  const of = 'SELECT 1 FROM acknowledged WHERE position = (SELECT max(id) FROM message)'
  await t.until('they poll', async () => (await rowsIn(t.dir, of)).length === programs.length)
  const ask = () =>
    gateway.logins.login(owner, { session_name: 'default', force: true, timeout: 0 }, AbortSignal.any([]))
  const { qr_url } = await ask()
  await sandbox.scan({ qrcode: qr_url!, user: user_id, confirm: true })
  await t.soon('the login', async () => (await ask()).status === 'confirmed')
  const [account] = await gateway.accounts.list()
  expect(account!.bot_id).not.toBe(bot_id)
  await sandbox.say('after', { from: user_id, to: account!.bot_id! })
  // The keys learn of the new account a moment later.
  const stored = `SELECT 1 FROM message WHERE text = 'after'`
  await t.until('it is stored', async () => (await rowsIn(t.dir, stored)).length > 0)
  const since = t.clock.monotonic()
  for (const poll of polled) expect(textsOf(await t.hurry(poll))).toEqual(['after'])
  expect(t.clock.monotonic() - since).toBeLessThan(5000)
  await sandbox.say('end', { from: user_id, to: account!.bot_id! })
  for (const program of programs) {
    expect(textsOf(await program.read(1))).toEqual(['end'])
    expect((await program.say('answer')).body.ret).toBe(0)
  }
})

it('a program sends once per client_id, others see it in the history and never as incoming', async ({
  t,
  add,
}) => {
  const [one, two] = [await add('one'), await add('two')]
  await t.sandbox.say('hi')
  await one.read(1)
  const first = await one.say('answer', { client_id: 'c1' })
  expect(first.body).toMatchObject({ ret: 0, message_id: expect.stringMatching(/^\d+$/) })
  expect((await one.say('answer', { client_id: 'c1' })).body).toEqual(first.body)
  expect((await one.say('other', { client_id: 'c1' })).body.ret).toBe(-2)
  expect((await two.say('other', { client_id: 'c1' })).body.ret).toBe(0)
  const file = await one.upload(hello)
  expect(file.status).toBe(200)
  expect((await one.sendFile(file.headers.get('x-encrypted-param')!, 'a.txt')).body.ret).toBe(0)
  const seen = await t.sandbox.seen(messages => messages.length === 3)
  expect(seen.map(({ items }) => items[0]?.text ?? items[0]?.kind)).toEqual(['answer', 'other', 'file'])
  expect(Buffer.from(await t.sandbox.mediaBytes(seen[2]!.items[0]!.media_id!)).toString()).toBe(
    'the bytes of a file',
  )
  const { messages } = await t.gateway.history.page({ limit: 10, offset: 0, direction: 'sent' })
  expect(messages.map(({ sent_by }) => sent_by).sort()).toEqual(
    [`key:${one.id}`, `key:${one.id}`, `key:${two.id}`].sort(),
  )
  expect(await readTo(two, () => t.sandbox.say('end'), 'end')).toEqual(['hi', 'end'])
  const lines = await rowsIn<{ operation: string }>(t.dir, `SELECT operation FROM audit`)
  expect(lines.map(({ operation }) => operation)).toContain('upload_media')
})

it('refusals have the codes of WeChat, and stand in the row of the program', async ({ t, add }) => {
  const program = await add('one')
  expect((await program.say('too early')).body.ret).toBe(-2)
  await t.sandbox.say('hi')
  await program.read(1)
  for (let nth = 0; nth < 10; nth++) expect((await program.say(`${nth}`)).body.ret).toBe(0)
  expect((await program.say('one too many')).body.ret).toBe(-2)
  expect((await program.say('nobody', { to_user_id: 'user' })).body.ret).toBe(-3)
  expect((await program.say('', { item_list: [] })).body.ret).toBe(-2)
  expect((await program.say('', { item_list: [{ type: 11, tool_call_start_item: {} }] })).body).toEqual({
    ret: 0,
  })
  const [row] = await rowsIn(t.dir, 'SELECT refused, refusal FROM relay_client')
  expect(row).toMatchObject({ refused: 2, refusal: 'quota_exhausted' })
})

it('while the login of svc is over, polls hold and sends are refused', async ({ t, add }) => {
  const program = await add('one')
  await t.sandbox.say('hi')
  await program.read(1)
  await t.sandbox.fail('getupdates', 'expired')
  await t.soon('it is expired', async () => (await t.gateway.accounts.list())[0]?.status === 'expired')
  const polled = program.poll()
  expect((await program.say('now')).body.ret).toBe(-2)
  await t.sandbox.mend()
  await t.soon('it is connected', async () => (await t.gateway.accounts.list())[0]?.status === 'connected')
  await t.sandbox.say('back')
  expect(textsOf(await polled)).toEqual(['back'])
})

const paced = { pace: { perSecond: 0.2, perWindow: 10, windowMs: 300_000 } }
given(() => withRelay({ config: paced }))(
  'a send that waits for its slot does not begin after 9 s',
  async ({ t, add }) => {
    const program = await add('one')
    await t.sandbox.say('hi')
    await program.read(1)
    const sent = Array.from({ length: 9 }, (_, nth) => program.say(`${nth}`))
    const answers = await t.hurry(Promise.all(sent))
    const went = answers.filter(({ body }) => body.ret === 0).length
    expect(went).toBeGreaterThan(0)
    expect(answers.map(({ body }) => body.ret)).toContain(-2)
    expect(await t.sandbox.messages({ from: 'bot' })).toHaveLength(went)
  },
)
