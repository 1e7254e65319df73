/**
 * A send goes with a login and a context token of one moment, though another program writes them into two files:
 * it holds the data lock while it does.
 */
import { describe, expect, spyOn } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openLock } from '../../src/platform/lock.ts'
import { failure } from '../support/failure.ts'
import type { TestGateway } from '../support/gateway.ts'
import { testOfFiles } from '../support/given.ts'
import { withTalk } from '../support/talk.ts'

/** A program that writes the login of another bot, and its contexts, under the data lock. */
async function anotherLogin(t: TestGateway, to = t.bots.get('default')!.user_id) {
  const lock = await openLock(join(t.dir, '.data.lock'))
  const { base_url, bot_id, token, user_id } = t.sandbox.bot(t.bots.get('default')!.user_id)
  const write = (name: string, content: object) =>
    writeFileSync(join(t.dir, 'default', name), JSON.stringify(content))
  const contextToken = t.sandbox.world.people.recordMessage(bot_id, to)
  const now = t.clock.now()
  return {
    goesWith: [bot_id, contextToken],
    hold: () => lock.lock(),
    writeLogin: () => write('token.json', { bot_id, token, base_url, user_id, cursor: '', created_at: now }),
    writeContexts: () =>
      write('contexts.json', { [to]: { token: contextToken, received_at: now, used: 0, first_seen: now } }),
    [Symbol.asyncDispose]: () => lock.close(),
  }
}

/** Records with which bot and context token messages come to WeChat. */
function sentWith({ sandbox }: TestGateway): unknown[][] {
  const { outbox } = sandbox.world
  const send = outbox.send.bind(outbox)
  const sent: unknown[][] = []
  spyOn(outbox, 'send').mockImplementation((bot, body) => {
    sent.push([bot.id, (body.msg as { context_token?: string }).context_token])
    return send(bot, body)
  })
  return sent
}

describe('begun between the two writes, a send goes with both new', () => {
  for (const when_closed of ['fail', 'queue'] as const)
    for (const user of ['the same user', 'a user whom only the new file knows'])
      testOfFiles(`${when_closed}, to ${user}`, async () => {
        await using t = await withTalk({ switches: { missing_context_token: 'refuse' } })
        const to = user === 'the same user' ? t.bots.get('default')!.user_id : await t.sandbox.addUser('new')
        await using other = await anotherLogin(t, to)
        const sent = sentWith(t)
        await other.hold()
        other.writeLogin()
        const sending = t.send({ to, text: 'between', when_closed })
        // Its turn comes: without the lock it would go now.
        await t.pass(200)
        expect(sent).toEqual([])
        other.writeContexts()
        await other[Symbol.asyncDispose]()
        expect((await sending).status).toBe('accepted')
        expect(sent).toEqual([other.goesWith])
      })
})

/** Starts a send whose file hangs on its way to WeChat. */
async function sendPicture(t: TestGateway) {
  const asked = Promise.withResolvers<void>()
  await t.sandbox.fail('getuploadurl', 'slow', { until: asked.promise })
  const path = join(t.mediaRoot, 'in', 'a.txt')
  writeFileSync(path, 'a file')
  const sending = t.send({ media: [{ kind: 'file', path }] })
  await t.until('it uploads', () => t.requests('getuploadurl') === 1)
  return { sending, goOn: () => asked.resolve() }
}

testOfFiles('a login anew while a file is on its way is followed, with its contexts', async () => {
  await using t = await withTalk({ switches: { missing_context_token: 'refuse' } })
  const { bot_id, user_id: to } = t.bots.get('default')!
  const sent = sentWith(t)
  const { sending, goOn } = await sendPicture(t)
  const path = join(t.dir, 'default', 'token.json')
  const login = JSON.parse(readFileSync(path, 'utf8'))
  const lock = await openLock(join(t.dir, '.data.lock'))
  await lock.lock()
  t.sandbox.world.core.db.run`UPDATE bot SET token = 'anew' WHERE id = ${bot_id}`
  writeFileSync(path, JSON.stringify({ ...login, token: 'anew' }))
  goOn()
  await t.pass(200)
  const token = t.sandbox.world.people.recordMessage(bot_id, to)
  const context = { token, received_at: t.clock.now(), used: 0, first_seen: 1 }
  writeFileSync(join(t.dir, 'default', 'contexts.json'), JSON.stringify({ [to]: context }))
  await lock.close()
  expect((await sending).status).toBe('accepted')
  expect(sent).toEqual([[bot_id, token]])
})

testOfFiles(
  'another bot while a message waits for its slot: nothing goes with what was read before',
  async () => {
    await using t = await withTalk({ config: { pace: { perSecond: 0.1, perWindow: 10, windowMs: 300_000 } } })
    await t.send({ text: 'the first' })
    const sending = t.send({ text: 'waits' })
    await t.setApart(2)
    const sent = sentWith(t)
    await using other = await anotherLogin(t)
    await other.hold()
    other.writeLogin()
    other.writeContexts()
    await other[Symbol.asyncDispose]()
    expect(await failure(t.hurry(sending))).toMatchObject({ code: 'not_connected' })
    expect(sent).toEqual([])
  },
)

testOfFiles('what shows that the bot is typing goes with both new', async () => {
  await using t = await withTalk()
  await using other = await anotherLogin(t)
  await other.hold()
  other.writeLogin()
  const sending = t.send({ typing: true })
  await t.pass(200)
  expect(t.requests('getconfig')).toBe(0)
  other.writeContexts()
  await other[Symbol.asyncDispose]()
  expect(await sending).toMatchObject({ success: true })
})
