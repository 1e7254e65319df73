/** What a program can do, whether it has opened a data directory or is connected to a service. */
import { describe, expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { ConnectedSvc } from '../../src/client/svc.ts'
import { type Event, type OpenMessage, Svc, type SvcApi } from '../../src/index.ts'
import { codeOf, failure, fieldsOf } from '../support/failure.ts'
import { texts } from '../support/library.ts'
import { connected, worlds } from './worlds.ts'

const markedOf = ({ redelivered = false, text }: { redelivered?: boolean; text: string }) =>
  `${text}${redelivered ? ' again' : ''}`

/** Returns the next messages of a loop, and leaves it at the last one. */
async function next(svc: SvcApi, count: number, consumer = 'bot'): Promise<string[]> {
  const found: string[] = []
  for await (const message of svc.messages({ consumer })) {
    found.push(markedOf(message))
    if (found.length === count) break
  }
  return found
}

test('what one class has, the other has, too', () => {
  const membersOf = (svc: typeof Svc | typeof ConnectedSvc) =>
    Object.getOwnPropertyNames(svc.prototype).filter(name => name !== 'constructor')
  expect(membersOf(Svc).filter(name => !membersOf(ConnectedSvc).includes(name))).toEqual(['workAsAgent'])
  expect(membersOf(ConnectedSvc).filter(name => !membersOf(Svc).includes(name))).toEqual([])
})

describe.each(worlds)('%s', (_name, create) => {
  test('a loop gets each message once, and the one at which it was left comes again', async () => {
    await using t = await create()
    const first = await t.open()
    const beginning = next(first, 1)
    await t.until('the consumer is known', async () => {
      await t.sandbox.say('hello')
      return Promise.race([beginning.then(() => true), Bun.sleep(0).then(() => false)])
    })
    await beginning
    await t.until('stored', async () => (await first.history()).messages.length > 0)
    const loop = first.messages({ consumer: 'bot' })
    let seen = await loop.next()
    expect(seen.value).toMatchObject({ text: 'hello', redelivered: true })
    // Others may have come while the first one was awaited.
    for (await t.sandbox.say('last'); seen.value?.text !== 'last'; ) seen = await loop.next()
    await loop.return()
    await first.close()
    const second = await t.open()
    expect(await next(second, 1)).toEqual(['last again'])
  })

  test('without a consumer a loop starts with what comes, and ends with its signal and with close', async () => {
    await using t = await create()
    const svc = await t.open()
    await t.sandbox.say('before')
    await t.until('stored', async () => (await svc.history()).messages.length === 1)
    const stop = new AbortController()
    const found: string[] = []
    const loop = (async () => {
      for await (const message of svc.messages({ signal: stop.signal })) {
        found.push(message.text)
        if (message.text === 'two') stop.abort()
      }
    })()
    // What comes before the loop knows the end of the log is not for it.
    await t.until('the first', async () => found.length > 0 || void (await t.sandbox.say('one')))
    await t.sandbox.say('two')
    await loop
    expect([...new Set(found)]).toEqual(['one', 'two'])
    const waiting = svc.messages().next()
    await svc.close()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(await codeOf(svc.history())).toBe('shutting_down')
    expect(await codeOf(svc.messages().next())).toBe('shutting_down')
  })

  test('a handler that throws gets the message up to three times, another one each once', async () => {
    await using t = await create()
    const svc = await t.open()
    const bad: string[] = []
    const good: string[] = []
    svc.onMessage(message => {
      bad.push(markedOf(message))
      if (message.text === 'a') throw new Error('no')
    })
    const unsubscribe = svc.onMessage(({ text }) => void good.push(text))
    await svc.runBackground()
    await t.sandbox.say('a')
    await t.sandbox.say('b')
    await t.until('both', () => bad.length === 4 && good.length === 2)
    expect(bad).toEqual(['a', 'a again', 'a again', 'b'])
    expect(good).toEqual(['a', 'b'])
    unsubscribe()
    await t.sandbox.say('c')
    await t.until('the third', () => bad.length === 5)
    expect(good).toHaveLength(2)
  })

  test('open messages are settled in any order; what is given back comes again at once', async () => {
    await using t = await create()
    const svc = await t.open()
    const bert = await t.sandbox.addUser('Bert')
    await svc.runBackground()
    const opened: OpenMessage[] = []
    const stop = new AbortController()
    const loop = (async () => {
      for await (const open of svc.openMessages({ consumer: 'bridge', signal: stop.signal }))
        opened.push(open)
    })()
    // The consumer is new: what came before it is not for it.
    await t.until('the first', async () => {
      if (opened.length === 0) await t.sandbox.say('a')
      return opened.length > 0
    })
    await t.sandbox.say('b', { from: bert, to: t.bot.bot_id })
    const find = (text: string) => opened.findLast(({ message }) => message.text === text)
    await t.until('that of another user', () => find('b'))
    await find('b')!.settle(true)
    const [first] = opened
    await first!.settle(false)
    await t.until('it comes again', () =>
      opened.some(({ message }) => message.id === first!.message.id && message.redelivered === true),
    )
    // Twice is once.
    await first!.settle(true)
    stop.abort()
    await loop
    for (const { settle } of opened) await settle(true)
    await t.sandbox.say('end')
    let last: string | undefined
    for await (const { message, settle } of svc.openMessages({ consumer: 'bridge' })) {
      await settle(true)
      last = message.text
      if (last === 'end') break
    }
    expect(last).toBe('end')
  })

  test('a send reaches the user, with files of this machine, and a key sends once', async () => {
    await using t = await create()
    const svc = await t.open()
    const to = t.bot.user_id
    await t.sandbox.say('hi')
    await t.until('stored', async () => (await svc.history()).messages.length === 1)
    const path = join(t.sandbox.dir, 'report.txt')
    await writeFile(path, 'numbers')
    const input = { to, text: 'here', file_path: path, file_name: 'Report.txt', idempotency_key: 'once' }
    const sent = await svc.send(input)
    expect(sent).toMatchObject({ success: true, parts: [{ kind: 'text' }, { kind: 'file' }] })
    expect(await svc.send(input)).toMatchObject({ message_id: sent.message_id! })
    expect(await codeOf(svc.send({ ...input, text: 'other' }))).toBe('idempotency_conflict')
    await svc.send({ to, media: [{ kind: 'file', path }] })
    const seen = await t.sandbox.seen(messages => messages.length >= 3)
    expect(seen).toHaveLength(3)
    expect((await svc.history({ direction: 'sent' })).messages.flatMap(one => one.items)).toMatchObject([
      { kind: 'FILE', file_name: 'report.txt' },
      { kind: 'FILE', file_name: 'Report.txt' },
      { kind: 'TEXT' },
    ])
    const missing = failure(svc.send({ to, image_path: join(t.sandbox.dir, 'no.png') }))
    expect(await missing).toMatchObject({ code: 'invalid_arguments', field: 'image_path' })
    const nested = failure(svc.send({ to, file_path: path, media: [{ kind: 'file', path: `${path}.no` }] }))
    expect(await nested).toMatchObject({ code: 'invalid_arguments', field: 'media[0].path' })
    expect(await failure(svc.send({ to, text: 'x', file_name: 'y' }))).toMatchObject({ field: 'file_name' })
    await writeFile(path, 'no picture')
    expect(await failure(svc.send({ to, image_path: path }))).toMatchObject({ field: 'image_path' })
    expect(await codeOf(svc.send({ to: 'nobody', text: 'x' }))).toBe('invalid_arguments')
    expect(fieldsOf(await failure(svc.send({} as never)))).toContain('to')
  })

  test('a download is a file of this machine, and overwrites none', async () => {
    await using t = await create()
    const svc = await t.open()
    await t.sandbox.media('file', 'numbers', { name: 'Zahlen 数.txt' })
    await t.sandbox.say('no file')
    await t.until('stored', async () => (await svc.history()).messages.length === 2)
    const { messages } = await svc.history()
    const { message_id } = messages[1]!
    const save_dir = join(t.dir, 'media', 'saved')
    const saved = await svc.download({ message_id, save_dir, digest: 'sha256' })
    expect(saved).toMatchObject({ file_name: 'Zahlen 数.txt', size: 7 })
    expect(saved.sha256).toBe(new Bun.CryptoHasher('sha256').update('numbers').digest('hex'))
    expect(await readFile(saved.path, 'utf8')).toBe('numbers')
    const again = await svc.download({ message_id, save_dir })
    expect(basename(again.path)).not.toBe(basename(saved.path))
    expect(await codeOf(svc.download({ message_id: 'unknown' }))).toBe('message_not_found')
    expect(await codeOf(svc.download({ message_id: messages[0]!.message_id }))).toBe('no_media')
  })

  test('recv, names, sessions, the log and the health are those of svc', async () => {
    await using t = await create()
    const svc = await t.open()
    const { user_id } = t.bot
    await t.sandbox.say('hi')
    await t.until('stored', async () => (await svc.history()).messages.length === 1)
    const found = await svc.recv({ after: 0, timeout: 0 })
    expect(texts(found)).toEqual(['hi'])
    expect(await svc.nameUser(user_id, 'Mum')).toMatchObject({ user_id, name: 'Mum' })
    expect(await svc.users({ user_id: 'mum' })).toMatchObject([{ user_id, name: 'Mum', remaining: 10 }])
    expect(await svc.renameSession({ old_name: 'default', new_name: 'home' })).toMatchObject({
      success: true,
    })
    expect(await svc.setDefault({ session_name: 'home' })).toMatchObject({ default_session: 'home' })
    expect(await svc.sessions()).toMatchObject([{ name: 'home', is_default: true }])
    expect(await svc.login({ session_name: 'home' })).toMatchObject({ status: 'confirmed' })
    expect(await svc.health()).toMatchObject({ sessions: 1, store: 'ok' })
    expect((await svc.audit({ limit: 2 })).map(({ operation }) => operation)).toContain('set_default')
    const { content_type, file_name, stream } = await svc.export({ format: 'jsonl' })
    expect(JSON.parse(await new Response(stream).text())).toMatchObject({ text: 'hi' })
    expect(file_name).toEndWith('.jsonl')
    expect(content_type).toContain('ndjson')
    expect(await svc.logout()).toMatchObject({ session: 'home' })
    expect(await codeOf(svc.logout({ session_name: 'ghost' }))).toBe('session_not_found')
  })

  test('groups: what waits, endpoints, keys, topics, invitations, agents, backups, nodes', async () => {
    await using t = await create()
    const svc = await t.open()
    const to = t.bot.user_id
    const { outbox_id = '' } = await svc.send({ to, text: 'later', when_closed: 'queue' })
    expect(await svc.outbox.list()).toMatchObject([{ outbox_id }])
    expect(await svc.outbox.cancel(outbox_id)).toMatchObject({ success: true, cancelled: 1 })
    expect(await codeOf(svc.outbox.approve(outbox_id))).toBe('not_found')
    const { id } = await svc.webhooks.add({ url: 'https://example.com/hook' })
    expect(await svc.webhooks.pause(id)).toMatchObject({ id })
    expect((await svc.webhooks.remove(id)).success).toBe(true)
    expect(await codeOf(svc.webhooks.get('..'))).toMatch(/^(not_found|invalid_arguments)$/)
    const key = await svc.keys.add({ name: 'a / b', can: ['read'] })
    expect(await svc.keys.get('a / b')).toMatchObject({ id: key.id })
    expect(await svc.keys.revoke(key.id)).toMatchObject({ revoked: [key.id] })
    await svc.topics.add('home', { to: [t.bot.user_id] })
    expect(await svc.topics.change('home', { quiet: '23:00-07:00' })).toMatchObject({ name: 'home' })
    expect(await svc.topics.notify('home', 'Done', { title: 'Washing' })).toMatchObject({ topic: 'home' })
    await svc.topics.remove('home')
    expect(await svc.topics.list()).toEqual([])
    const invitation = await svc.invitations.add('Anna')
    await svc.invitations.revoke(invitation.id)
    expect(await svc.agents.conversations()).toEqual([])
    expect(await codeOf(svc.agents.stop(7))).toBe('not_found')
    expect(await svc.backups.status()).toBeObject()
    expect(await svc.nodes()).toBeDefined()
    expect(await svc.forget('nobody@im.wechat')).toMatchObject({ messages: 0 })
  })

  test('a question gets its choice, and a signal takes it back', async () => {
    await using t = await create()
    const svc = await t.open()
    const to = t.bot.user_id
    await t.sandbox.say('hi')
    await t.until('stored', async () => (await svc.history()).messages.length === 1)
    const asked = svc.ask({ to, text: 'Deploy?', choices: ['yes', 'no'] })
    const [shown] = await t.sandbox.seen(messages => JSON.stringify(messages).includes('Deploy?'))
    const [, code] = /([A-Z2-9]{4}) 1 = /.exec(JSON.stringify(shown))!
    await t.until(
      'sent',
      async () => (await svc.history({ direction: 'sent' })).messages[0]?.status === 'accepted',
    )
    await t.sandbox.say(`${code} 1`)
    expect(await asked).toMatchObject({ status: 'answered', choice: 'yes' })
    const stop = new AbortController()
    const taken = svc.ask({ to, text: 'Sure?', choices: ['yes', 'no'] }, { signal: stop.signal })
    await t.sandbox.seen(messages => JSON.stringify(messages).includes('Sure?'))
    const reason = new Error('enough')
    stop.abort(reason)
    expect(await failure(taken)).toBe(reason)
  })

  test('events are an iteration, which continues after an id', async () => {
    await using t = await create()
    const svc = await t.open()
    const types = ['message.received', 'message.status'] as const
    const heard: Event[] = []
    const listening = (async () => {
      for await (const event of svc.events({ types })) heard.push(event)
    })()
    await t.until('a message', async () => heard.length > 0 || void (await t.sandbox.say('hi')))
    await svc.send({ to: t.bot.user_id, text: 'hello' })
    await t.until('the status', () => heard.some(({ type }) => type === 'message.status'))
    for await (const event of svc.events({ after: heard[0]!.id, types })) {
      expect(event).toEqual(heard[1] as Event)
      break
    }
    await svc.close()
    await listening
    expect(await failure((await t.open()).events({ after: 'x' }).next())).toMatchObject({ field: 'after' })
  })

  test('a part does what its grant allows, with its users', async () => {
    await using t = await create()
    const svc = await t.open()
    const anna = t.bot.user_id
    const bert = await t.sandbox.addUser('Bert')
    await t.sandbox.say('secret', { from: bert, to: t.bot.bot_id })
    await t.sandbox.say('hello')
    await t.until('stored', async () => (await svc.history()).messages.length === 2)
    const part = svc.as({ name: 'home', can: ['reply', 'typing'], users: [anna] })
    expect(await part.send({ to: anna, text: 'Hi' })).toMatchObject({ success: true })
    await part.showTyping(anna)
    await part.showTyping(anna, { typing: false })
    expect((await part.users()).map(({ user_id }) => user_id)).toEqual([anna])
    expect(texts((await part.history()).messages)).toEqual(['Hi', 'hello'])
    const reader = svc.as({ name: 'reader', can: ['history'] })
    expect(await codeOf(reader.send({ to: anna, text: 'Hi' }))).toBe('forbidden')
    expect(await codeOf(reader.showTyping(anna))).toBe('forbidden')
    const useless = async (grant: object) => svc.as(grant as never).history()
    expect(await codeOf(useless({ name: '../x', can: ['reply'] }))).toBe('invalid_arguments')
    expect(await codeOf(useless({ name: 'home', can: ['everything'] }))).toBe('invalid_arguments')
    await svc.close()
    expect(await codeOf(part.history())).toBe('shutting_down')
  })

  test('wrong arguments and options are errors that name them; a signal ends a call', async () => {
    await using t = await create()
    const svc = await t.open()
    const wrong = (call: () => unknown) => failure((async () => call())())
    expect(await wrong(() => svc.recv({ tiemout: 1 } as never))).toMatchObject({ field: 'tiemout' })
    expect(await wrong(() => svc.outbox.list({ nope: 1 } as never))).toMatchObject({ field: 'nope' })
    expect(await wrong(() => svc.messages({ consumr: 'x' } as never).next())).toMatchObject({
      field: 'consumr',
    })
    expect(await wrong(() => svc.messages({ consumer: 'not good' }).next())).toMatchObject({
      field: 'consumer',
    })
    expect(await wrong(() => svc.onMessage(() => {}, { consumer: '' }))).toMatchObject({ field: 'consumer' })
    expect(await wrong(() => svc.openMessages({} as never).next())).toMatchObject({
      code: 'invalid_arguments',
    })
    expect(await wrong(() => svc.events({ tpyes: [] } as never).next())).toMatchObject({ field: 'tpyes' })
    const reason = new Error('enough')
    expect(await failure(svc.recv({ timeout: 60 }, { signal: AbortSignal.abort(reason) }))).toBe(reason)
    const stop = new AbortController()
    const waiting = svc.recv({ timeout: 60, consumer: 'w' }, { signal: stop.signal })
    stop.abort(reason)
    expect(await failure(waiting)).toBe(reason)
  })
})

test('what is only of a data directory is refused', async () => {
  await using t = await connected()
  const svc = await t.open()
  expect(await failure(svc.history({}, { below: t.dir }))).toMatchObject({ field: 'below' })
  const notify = svc.topics.notify('home', 'x', { file_path: '/etc/hosts' })
  expect(await failure(notify)).toMatchObject({ field: 'file_path' })
})

test('the key of a part has its name, ends with close, and is not made without a key', async () => {
  await using t = await connected()
  const svc = await t.open()
  const part = svc.as({ name: 'reader', can: ['history', 'sessions'] })
  await Promise.all([part.history(), part.history()])
  const [key, ...others] = await svc.keys.list()
  expect(others).toEqual([])
  expect(key).toMatchObject({ name: expect.stringMatching(/^reader /), can: ['history', 'sessions'] })
  expect(key!.expires_at).toBeGreaterThan(Date.now())
  await svc.close()
  const observer = await t.open()
  expect(await observer.keys.get(key!.id)).toMatchObject({ status: 'revoked' })
})
