import { describe, expect, test } from 'bun:test'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isSvcError, Svc } from '../../src/index.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { texts, withLibrary } from '../support/library.ts'

describe('open', () => {
  test('an option that is wrong is named, with what was expected', async () => {
    await using t = await withLibrary()
    const wrong: [object, string][] = [
      [{ upstreamUrl: 'ftp://x' }, 'upstreamUrl'],
      [{ pace: 'fast' }, 'pace'],
      [{ storeMaxCount: -1 }, 'storeMaxCount'],
      [{ basepath: '/x' }, 'basepath'],
      [{ sandbox: true }, 'sandbox'],
      [{ sandboxUrl: 'x' }, 'sandboxUrl'],
      [{ basePath: 5 }, 'basePath'],
      [{ basePath: null }, 'basePath'],
      [{ basePath: ['/x'] }, 'basePath'],
      [{ store: {} }, 'store'],
      [{ store: 1 }, 'store'],
      [{ sandbox: 'yes' }, 'sandbox'],
      [{ storeMaxCount: '7' }, 'storeMaxCount'],
      [{ storeMaxAgeDays: Number.NaN }, 'storeMaxAgeDays'],
      [{ secretKey: 5 }, 'secretKey'],
      [{ logLevel: {} }, 'logLevel'],
      [JSON.parse('{"__proto__": 1}'), '__proto__'],
    ]
    for (const [options, field] of wrong) {
      const error = await t.open(options).catch(error => error)
      expect(isSvcError(error, 'invalid_arguments')).toBe(true)
      expect(error.field).toBe(field)
    }
  })

  test('what is no object of options opens nothing', async () => {
    const nothing = new Map([['basePath', '/x']])
    const inherits = Object.create({ basePath: '/x' })
    for (const options of [5, 'x', null, [], true, () => {}, nothing, inherits, Promise.resolve({})])
      expect(await failure(Svc.open(options as never))).toMatchObject({
        code: 'invalid_arguments',
        field: 'options',
      })
  })

  test('options of the methods are checked alike', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    const next = (iterate: () => AsyncGenerator<unknown>) => iterate().next()
    const any = (value: unknown) => value as never
    const cases: [() => unknown, string][] = [
      [() => svc.recv({ timeout: 0 }, any({ signal: 'x' })), 'signal'],
      [() => svc.recv({ timeout: 0 }, any(5)), 'options'],
      [() => svc.sessions(any({ sginal: 1 })), 'sginal'],
      [() => svc.send({ to: 'x', text: 'x' }, any({ below: 5 })), 'below'],
      [() => svc.onMessage(() => {}, any({ consumer: 5 })), 'consumer'],
      [() => svc.onMessage(() => {}, any({ from: 'x' })), 'from'],
      [() => svc.onMessage(any('x')), 'handler'],
      [() => next(() => svc.messages(any({ sesion: 'x' }))), 'sesion'],
      [() => next(() => svc.openMessages(any('x'))), 'options'],
      [() => next(() => svc.events(any({ types: 'message.received' }))), 'types'],
      [() => next(() => svc.events(any({ onGone: 1 }))), 'onGone'],
      [() => svc.as(any(5)), 'options'],
      [() => svc.as(any({ name: 'a', can: 'read' })), 'can'],
      [() => svc.as({ name: 'a', can: any(['__proto__']) }), 'can'],
      [() => svc.as({ name: 'a', can: any(['constructor']) }), 'can'],
      [() => svc.as({ name: 'a', can: ['read'], users: any('u@im.wechat') }), 'users'],
      [() => svc.as({ name: 'a', can: ['read'], users: any([5]) }), 'users'],
      [() => svc.as(any({ name: 'a', can: ['read'], user: ['x'] })), 'user'],
      [() => svc.as(any({ name: 5, can: ['read'] })), 'name'],
      [() => svc.as(Object.assign(Object.create({ users: 'x' }), { name: 'a', can: ['read'] })), 'options'],
    ]
    for (const [call, field] of cases) {
      const error = await failure((async () => await call())())
      expect([field, (error as { code?: string }).code]).toEqual([field, 'invalid_arguments'])
      expect((error as { field?: string }).field?.replace(/[.[].*/, '')).toBe(field)
    }
  })

  test('a part keeps what it was given, whatever happens to the lists', async () => {
    await using t = await withLibrary()
    const svc = await t.open()
    await t.sandbox.say('hello')
    await svc.recv({ timeout: 30 })
    const users: string[] = []
    const can: ('read' | 'send')[] = ['read']
    const part = svc.as({ name: 'a', can, users })
    const [{ user_id } = { user_id: '' }] = await svc.users()
    users.push(user_id)
    can.push('send')
    expect(await part.users()).toEqual([])
    expect(await failure(part.send({ to: user_id, text: 'x' }))).toMatchObject({ code: 'forbidden' })
  })

  test('a directory of real sessions is no sandbox, and the reverse', async () => {
    await using t = await withLibrary()
    expect(await failure(Svc.open({ basePath: t.dir, sandboxUrl: t.sandbox.url }))).toMatchObject({
      code: 'invalid_arguments',
      field: expect.any(String),
    })
    await using own = await withLibrary({ sessions: [] })
    const svc = await Svc.open({ basePath: own.dir, sandboxUrl: own.sandbox.url })
    await svc.close()
    expect(await failure(Svc.open({ basePath: own.dir }))).toMatchObject({
      code: 'invalid_arguments',
      field: 'basePath',
    })
  })

  test('the store is off unless asked for; a path puts it there', async () => {
    await using t = await withLibrary()
    const off = await t.open()
    await t.sandbox.say('kept nowhere')
    expect(texts(await off.recv({ timeout: 30 }))).toEqual(['kept nowhere'])
    // This program has seen it, so it can look it up.
    expect((await off.history()).total).toBe(1)
    await off.close()
    expect((await readdir(t.dir)).filter(name => name.startsWith('messages'))).toEqual([])
    expect((await (await t.open()).history()).total).toBe(0)

    const path = join(t.dir, 'elsewhere', 'log.db')
    const on = await t.open({ store: path })
    await t.sandbox.say('kept there')
    expect(texts(await on.recv({ timeout: 30 }))).toEqual(['kept there'])
    await on.close()
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect((await (await t.open({ store: path })).history()).messages).toMatchObject([{ text: 'kept there' }])
  })

  test('nothing is polled, and nothing keeps the program alive, before it asks', async () => {
    await using t = await withLibrary()
    // A recv that finds nothing would wait a while for WeChat's answer.
    await t.sandbox.say('hello')
    const program = `
      import { Svc } from ${JSON.stringify(join(import.meta.dir, '../../src/index.ts'))}
      const svc = await Svc.open(${JSON.stringify({ basePath: t.dir, upstreamUrl: t.sandbox.url, cdnUrl: t.sandbox.cdnUrl })})
      console.log((await svc.sessions()).length, (await svc.recv({ timeout: 0 })).length)`
    const child = Bun.spawn([process.execPath, '-e', program], { stdout: 'pipe', stderr: 'inherit' })
    expect((await new Response(child.stdout).text()).trim()).toBe('1 1')
    expect(await child.exited).toBe(0)
    expect(t.requests('getupdates')).toBe(1)
  })

  test('with sandbox: true a program has a simulated WeChat of its own, shared by the next one', async () => {
    const dir = folderOfTest()
    await using svc = await Svc.open({ basePath: dir, sandbox: true, logLevel: 'ERROR' })
    await using other = await Svc.open({ basePath: dir, sandbox: true, logLevel: 'ERROR' })
    expect(other.phoneUrl).toBe(svc.phoneUrl!)
    const phone = (path: string, body: object) =>
      fetch(`${svc.phoneUrl}/${path}`, { method: 'POST', body: JSON.stringify(body) })
    expect(await svc.login({ session_name: 'work' })).toMatchObject({ status: 'waiting', session: 'work' })
    await phone('scan', { confirm: true })
    expect(await svc.login({ session_name: 'work', timeout: 30 })).toMatchObject({ status: 'confirmed' })
    expect(await other.sessions()).toMatchObject([{ name: 'work', connected: true }])
    await phone('say', { text: '你好' })
    const [message] = await other.recv({ timeout: 30 })
    expect(message).toMatchObject({ text: '你好', session: 'work' })
  })
})

describe('the nine verbs', () => {
  test('each does its work, with the checks and errors of the tools', async () => {
    await using t = await withLibrary({ sessions: ['work'] })
    const svc = await t.open()
    const user = t.bots.get('work')!.user_id
    await t.sandbox.say('hi')
    const sent = await t.sandbox.media('file', 'numbers', { name: 'report.txt' })
    expect(sent.size).toBe(7)
    const messages = await svc.recv({ timeout: 30 })
    expect(messages).toMatchObject([{ text: 'hi' }, { msg_type: 'FILE' }])
    const saved = await svc.download({
      message_id: messages[1]!.message_id,
      save_dir: join(t.dir, 'media', 'saved'),
    })
    expect(saved).toMatchObject({ file_name: 'report.txt', size: 7 })
    expect(await Bun.file(saved.path).text()).toBe('numbers')
    expect(await svc.send({ to: user, text: 'here', file_path: saved.path })).toMatchObject({
      success: true,
      parts: [{ kind: 'text' }, { kind: 'file' }],
    })
    const page = await svc.history({ since: new Date(0).toISOString(), text_contains: 'h', limit: 10 })
    expect(texts(page.messages)).toEqual(['here', 'hi'])
    expect(await svc.renameSession({ old_name: 'work', new_name: 'home' })).toMatchObject({ success: true })
    expect(await svc.setDefault({ session_name: 'home' })).toMatchObject({ default_session: 'home' })
    expect(await svc.sessions()).toMatchObject([{ name: 'home', is_default: true, user_count: 1 }])
    expect(await svc.login({ session_name: 'home' })).toMatchObject({ status: 'confirmed' })
    expect(await svc.logout()).toEqual({ success: true, session: 'home' })

    expect(await failure(svc.send({ to: user, text: 'too late' }))).toMatchObject({ code: 'not_connected' })
    expect(await failure(svc.send({ to: 'nobody', text: 'x' }))).toMatchObject({ code: 'invalid_arguments' })
    // @ts-expect-error an argument that does not exist
    expect(await failure(svc.recv({ tiemout: 1 }))).toMatchObject({ field: 'tiemout' })
    expect(await failure(svc.logout({ session_name: 'ghost' }))).toMatchObject({ code: 'session_not_found' })
    expect(() => svc.onMessage(() => {}, { consumer: 'not good' })).toThrow(
      expect.objectContaining({ field: 'consumer' }),
    )
  })
})
