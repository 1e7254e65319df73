/** Every tool as a command, beside a running service or alone. */
import { describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Message } from '../../src/model/message.ts'
import { problemsOf } from '../../src/operations/parse.ts'
import { receiver } from '../push/receiver.ts'
import { testClock } from '../support/clock.ts'
import { type Ended, serveHere, svc, svcRunning } from '../support/command.ts'
import { commanded } from '../support/command-lines.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { jsonLines } from '../support/overheard.ts'
import { type Json, logIn } from '../support/service.ts'
import { until } from '../support/until.ts'

const began = Date.now()
const home = folderOfFile()
const dir = join(home, 'data')
await mkdir(dir, { mode: 0o700 })
const service = forFile(await serveHere(dir, { home }, '--pace', 'off'))
await service.phone('switches', { burst: 'off' })
await logIn(service, 'default')
let user = ''
/** The webhook whose receiver refuses, until it is removed. */
let refused = ''

const here = ['--sandbox', '--pace', 'off']
const run = (args: string[], options: { stdin?: string; env?: Record<string, string> } = {}) =>
  svc([...args, ...here, '-d', dir], { home, ...options })
/** The JSON that a command prints, as its operation has it; it must have succeeded without a word on stderr. */
async function json(...args: string[]): Promise<Json> {
  const ended = await run([...args, '--json'])
  expect(ended).toEqual({ status: 0, stderr: '', stdout: expect.stringMatching(/^[^\n]+\n$/) })
  const value = JSON.parse(ended.stdout)
  const named = (words: number) =>
    commanded.find(({ cli }) => cli.path.join(' ') === args.slice(0, words).join(' '))
  const operation = named(2) ?? named(1)
  if (operation) expect([args, problemsOf(operation.output, value)]).toEqual([args, []])
  return value
}
/** The error of a command, as `--json` has it. */
async function errorOf(args: readonly string[], status: number): Promise<Json> {
  const ended = await run([...args, '--json'])
  expect(ended).toMatchObject({ status, stdout: '' })
  return JSON.parse(ended.stderr)
}
/** Nothing on stdout, and a word about it. */
const nothingFound = { status: 0, stdout: '', stderr: expect.stringMatching(/^[^\n]+\n$/) }
const numbersIn = (text: string) => (text.match(/\d+/g) ?? []).map(Number)

async function said(text: string): Promise<Message> {
  await service.phone('say', { text })
  const message = await until<Message>('the message', 30_000, async () => {
    const page = (await service.call('history', { text_contains: text, direction: 'received' })).body
    return page.messages[0]
  })
  user = message.from_user
  // The right to answer is noted after the message.
  await until('the right to answer', 30_000, async () => {
    const users = (await (await fetch(`${service.url}/users`)).json()) as Json[]
    return users.find(one => one.user_id === user)?.last_received >= message.timestamp
  })
  return message
}

describe('beside a running service', () => {
  test('recv shows what came in the last minute, as JSON and for people, and takes nothing from others', async () => {
    const message = await said('你好 from the phone')
    const shown = await json('recv', '--timeout', '5')
    expect(shown).toContainEqual(expect.objectContaining({ id: message.id, text: '你好 from the phone' }))
    const { stdout, stderr, status } = await run(['recv'])
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toMatch(
      /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d {2}\S+@im\.wechat → default\n {4}你好 from the phone\n/,
    )
    // A part of them says so, for programs too.
    await said('another one')
    for (const form of [[], ['--json']]) {
      const part = await run(['recv', '-n', '1', ...form])
      expect([part.status, part.stderr]).toEqual([0, expect.stringContaining('more')])
      expect(part.stdout).toContain('another one')
    }
    const other = (await service.call('recv', { timeout: 5 })).body as Message[]
    expect(other.map(({ id }) => id)).toContain(message.id)
  })

  test('recv with a consumer of its own name reads on from its place', async () => {
    const texts = async (...args: string[]) => (await json('recv', ...args)).map((one: Json) => one.text)
    const mine = ['-c', 'backup', '--timeout', '0']
    expect(await texts(...mine)).toEqual([])
    for (const text of ['first', 'second', 'third']) await said(text)
    expect(await texts(...mine, '-n', '1')).toEqual(['first'])
    expect(await texts(...mine)).toEqual(['second', 'third'])
    expect(await texts(...mine)).toEqual([])
    // Plain recv has no place beside a service.
    for (let nth = 0; nth < 2; nth++) expect(await texts('--timeout', '0')).toContain('third')
    const waiting = texts('-c', 'backup', '--timeout', '60')
    await said('fourth')
    expect(await waiting).toEqual(['fourth'])
    // A reader that acknowledges is told what to give next.
    const acknowledging = ['recv', '-c', 'careful', '--timeout', '0', '--ack']
    await run([...acknowledging, '0'])
    const { id } = await said('fifth')
    expect((await run([...acknowledging, '0'])).stderr).toContain(`--ack ${id}`)
    expect((await run([...acknowledging, `${id}`])).stderr).not.toContain('--ack')
  })

  test('notify says what a pipe holds, and nothing for an empty one', async () => {
    await run(['topic', 'add', 'piped', '--to', user])
    const state = () => json('topic', 'show', 'piped')
    expect(await run(['notify', 'piped'], { stdin: '' })).toMatchObject({ status: 2, stdout: '' })
    expect((await state()).notices).toEqual([])
    expect(await run(['notify', 'piped', '--priority', 'min'], { stdin: 'disk 95 %\n' })).toEqual({
      status: 0,
      stdout: '',
      stderr: '',
    })
    expect((await state()).notices).toMatchObject([{ name: 'disk 95 %', user_id: expect.any(String) }])
    await run(['topic', 'remove', 'piped', '--yes'])
  })

  test('a topic shows its template, and how many bodies it did not fit', async () => {
    await run(['topic', 'add', 'shaped', '--to', user, '--template', '{{ .monitor.name }}\n{{ .msg }}'])
    const url = `${service.url}/notify/shaped`
    await fetch(url, { method: 'POST', body: JSON.stringify({ level: 'low' }) })
    const { stdout } = await run(['topic', 'show', 'shaped'])
    expect(stdout).toContain(
      '\ntemplate: {{ .monitor.name }} ⏎ {{ .msg }}\ntemplate: it found nothing in 1 body,',
    )
    await run(['topic', 'remove', 'shaped', '--yes'])
  })

  test('a topic is paused for a span, to a time or until it is said, and shown so', async () => {
    await run(['topic', 'add', 'held', '--to', user])
    const change = (pause: string) => run(['topic', 'change', 'held', '--pause', pause])
    const before = Date.now()
    await change('1h')
    const { paused_until: until } = await json('topic', 'show', 'held')
    expect(until).toBeGreaterThanOrEqual(before + 3_600_000)
    expect(until).toBeLessThanOrEqual(Date.now() + 3_600_000)
    expect((await run(['topic', 'show', 'held'])).stdout).toMatch(
      /^paused until \d{4}-.*; only "max" goes out$/m,
    )
    expect((await run(['topic'])).stdout).toMatch(/paused until\n.*\d{4}-\d\d-\d\d \d\d:/)
    await change('on')
    const on = 'paused until svc topic change held --pause off'
    expect((await run(['topic', 'show', 'held'])).stdout).toContain(on)
    expect((await run(['topic'])).stdout).toContain('--pause off')
    expect(await change('soon')).toMatchObject({ status: 2, stderr: expect.stringContaining('--pause') })
    await change('off')
    expect((await run(['topic', 'show', 'held'])).stdout).not.toContain('paused')
    await run(['topic', 'remove', 'held', '--yes'])
  })

  test('send answers with text, with - from stdin, and with several files in the order given', async () => {
    await said('send me something')
    await writeFile(join(home, 'cat.png'), Buffer.from('iVBORw0KGgo=', 'base64'))
    await writeFile(join(home, 'a b.txt'), 'text')
    const sent = await json('send', user, 'hello')
    expect(sent).toMatchObject({ success: true, status: 'accepted' })
    const piped = await run(['send', user, '-'], { stdin: 'line one\nline two\n' })
    expect(piped.status).toBe(0)
    expect(piped.stdout).toMatch(/^accepted {2}default → \S+@im\.wechat {2}\d+\n\d answers left until \d{4}-/)
    const files = ['--file', 'a b.txt', '--image', './cat.png', '--file', join(home, 'cat.png')]
    const many = await json('send', user, '--text', 'three', ...files)
    expect(many.parts.map((part: Json) => part.kind)).toEqual(['text', 'file', 'image', 'file'])
    const one = await json('send', user, '--image', 'cat.png', '--file-name', '猫.png')
    expect(one.parts.map((part: Json) => part.kind)).toEqual(['image'])
    const { messages } = (await (await fetch(`${service.phoneUrl}/phone/messages?from=bot`)).json()) as Json
    expect(
      messages.map((message: Json) => message.items[0].text ?? message.items[0].file_name ?? 'image'),
    ).toEqual(['hello', 'line one\nline two', 'three', 'a b.txt', 'image', 'cat.png', 'image'])
  })

  test('history finds, newest last for people, and says how to go on', async () => {
    await said('needle one')
    await said('needle two')
    const page = await json(...'history --text needle --since 2020-01-01 --type text -n 1'.split(' '))
    expect(page).toMatchObject({ total: 2, limit: 1, messages: [{ text: 'needle two' }] })
    const { stdout, stderr } = await run(['history', 'needle'])
    expect(stdout).toMatch(/needle one\n[\s\S]*needle two\n$/)
    expect(numbersIn(stderr)).toEqual([2, 2])
    const one = (await run(['history', 'needle', '-n', '1'])).stderr
    expect([numbersIn(one), one.includes(' --before ')]).toEqual([[1, 2, page.next_before], true])
    expect(await run(['history', 'no such thing'])).toEqual(nothingFound)
  })

  test('download saves where it is told, and says where it saved otherwise', async () => {
    const bytes = crypto.getRandomValues(new Uint8Array(5000))
    const post = (media: string) =>
      fetch(`${service.phoneUrl}/phone/media?${media}`, { method: 'POST', body: bytes })
    expect((await post('kind=file&name=data.bin')).ok).toBe(true)
    const received = (type: string) => ['history', '--type', type, '--direction', 'received']
    const message = await until<Json>(
      'the file',
      30_000,
      async () => (await json(...received('file'))).messages[0],
    )
    const shown = (await run(received('FILE'))).stdout
    const line = /\[file · data\.bin · 5\.0 kB\] {2}(svc download \S+ --sandbox -d \S+)/.exec(shown)?.[1]
    expect(line).toBe(`svc download ${message.message_id} --sandbox -d ${dir}`)
    // Of a picture WeChat tells the encrypted size.
    await post('kind=image&name=p.png')
    const picture = async () => (await run(received('IMAGE'))).stdout
    expect(await until('the picture', 30_000, picture)).toMatch(/\[image · about 5\.0 kB\]/)
    expect((await run(['events'])).stdout).toMatch(/message\.received .*\[image · about 5\.0 kB\]/)
    await writeFile(join(home, 'taken'), 'x')
    expect(await errorOf(['download', message.message_id, '-o', join(home, 'taken')], 2)).toMatchObject({
      details: { errors: [{ field: '-o' }] },
    })
    const saved = await json('download', message.message_id, '-o', 'here/there', '--digest', 'sha256')
    expect(saved.path).toBe(join(home, 'here', 'there', 'data.bin'))
    expect(saved.sha256).toBe(createHash('sha256').update(bytes).digest('hex'))
    expect(Buffer.from(bytes).equals(await readFile(saved.path))).toBe(true)
    const usual = await run(['download', message.message_id])
    expect(usual).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/ 5\.0 kB, application\/octet-stream\n$/),
    })
    expect(usual.stdout).toBe(`${join(dir, 'media', 'downloads', 'data.bin')}\n`)
  })

  test('sessions, renamed, made the default and logged out: the service sees each change', async () => {
    const another = await newUser()
    await logIn(service, 'work', another)
    expect((await run(['sessions'])).stdout).toMatch(
      /^ {2}SESSION {2}STATUS {5}USERS {2}LOGGED IN +BOT\n\* default {2}connected {2}1 .*\n {2}work {5}connected {2}0 /,
    )
    const listed = await json('sessions')
    expect(listed.map((one: Json) => one.name)).toEqual(['default', 'work'])
    expect((await run(['sessions', 'rename', 'work', '客服'])).stdout).toEndWith('work → 客服\n')
    expect(await json('sessions', 'default', '客服')).toEqual({ success: true, default_session: '客服' })
    expect((await run(['sessions'])).stdout).toContain('\n  default  connected')
    expect((await service.call('sessions')).body.map((one: Json) => [one.name, one.is_default])).toEqual([
      ['客服', true],
      ['default', false],
    ])
    expect(await run(['history', '-s', '客服'])).toEqual(nothingFound)
    await service.phone('say', { text: 'to be kept', from: another })
    await until('it is stored', 30_000, async () => (await json('history', 'to be kept')).messages[0])
    expect((await run(['logout', '客服'])).stdout).toEndWith('客服\n')
    // What it received stays, and can be asked for by its name.
    expect((await run(['history', '-s', '客服'])).stdout).toContain('to be kept')
    expect(await run(['history', 'something else', '-s', '客服'])).toEqual(nothingFound)
    expect((await service.call('sessions')).body.map((one: Json) => one.name)).toEqual(['default'])
  })

  test('webhooks: each verb, and no header is shown with its value', async () => {
    using r = receiver()
    expect((await run(['webhook', 'add', r.url])).status).toBe(1)
    expect(await errorOf(['webhook', 'add', r.url, '--header', 'Host: x'], 2)).toMatchObject({
      details: { errors: [{ field: '--header' }] },
    })
    const add = ['webhook', 'add', r.url, '--allow-private', '--types', 'message.received']
    const { id } = await json(...add, '--header', 'X-Key: hush')
    refused = id
    expect(await json('webhook', 'test', id)).toMatchObject({ success: true, status: 200 })
    expect(r.got[0]?.headers.get('x-key')).toBe('hush')
    const replay = ['replay', '--from', '1h', '--dry-run']
    for (const [word = '', ...more] of [['show'], ['log'], ['pause'], ['resume'], ['rotate'], replay]) {
      const args = ['webhook', word, id, ...more]
      await json(...args)
      const { status, stdout } = await run(args)
      expect([word, status, stdout.includes('X-Key'), stdout.includes('hush')]).toEqual([
        ...[word, 0, word !== 'log', false],
      ])
    }
    expect((await json('webhook', 'replay', id, '--from', '1h')).replay.events).toBeGreaterThan(0)
    expect((await json('webhook', 'pause', id)).status).toBe('paused')
    expect((await run(['webhook', 'list'])).stdout).toContain('paused')
    r.answer = () => 500
    expect((await run(['webhook', 'test', id])).status).toBe(1)
    const asked = Promise.withResolvers<void>()
    r.answer = ({ body }) => {
      if (body.type === 'webhook.test') asked.resolve()
      return new Promise(() => {})
    }
    const cut = svcRunning(['webhook', 'test', id, ...here, '-d', dir], { home })
    await asked.promise
    cut.stop('SIGINT')
    expect(await cut.exited).toEqual({ status: 130, stdout: '', stderr: '' })
    expect(await json('webhook', 'remove', id)).toEqual({ success: true, id })
  })

  test('users and the outbox: who may be answered, what waits, and taken back', async () => {
    await said('hello again')
    const users = await json('users')
    expect(users).toEqual([expect.objectContaining({ session: 'default', user_id: user })])
    expect((await run(['users'])).stdout).toMatch(
      /^USER {2,}SESSION {2}LAST WROTE {2,}ANSWERS LEFT {2}UNTIL\n\S+@im\.wechat {2}default /,
    )
    for (let used = users[0].remaining; used > 0; used--) await json('send', user, `filler ${used}`)
    expect(await errorOf(['send', user, 'too much'], 1)).toMatchObject({ code: 'quota_exhausted' })
    await writeFile(join(home, 'picture.png'), Buffer.from('iVBORw0KGgo=', 'base64'))
    const picture = ['--image', join(home, 'picture.png')]
    const queued = await run(['send', user, `later ${'x'.repeat(900)}`, ...picture, '--when-closed', 'queue'])
    expect(queued).toMatchObject({ status: 0, stderr: '' })
    const id = /svc outbox cancel (\d+)/.exec(queued.stdout)![1]!
    expect((await run(['outbox'])).stdout).toMatch(
      new RegExp(`\\n${id} .* later x{100,400}… \\(906 .*\\) \\| picture.png\\n$`),
    )
    expect(await json('outbox', '--session', 'default')).toMatchObject([{ outbox_id: id }])
    await json('users', 'name', user, 'Auntie')
    expect(await json('outbox', '-u', 'auntie')).toMatchObject([{ outbox_id: id, user_name: 'Auntie' }])
    await json('users', 'name', user, '--clear')
    // Counted as they are listed.
    expect(await json('status')).toMatchObject({ outbox: { sends: 1, messages: 2, users: 1 } })
    expect((await run(['status'])).stdout).toContain('1 send ')
    const cancelled = await run(['outbox', 'cancel', id])
    expect([cancelled.status, numbersIn(cancelled.stdout)]).toEqual([0, [Number(id), 2]])
    expect(await run(['outbox'])).toEqual(nothingFound)
    expect((await run(['outbox', 'cancel', id])).status).toBe(1)
  })

  test('a verb that takes an id takes several: each is done, and the one that fails is named', async () => {
    const ids: string[] = []
    for (const text of ['one', 'two', 'three'])
      ids.push((await json('send', user, text, '--when-closed', 'queue')).outbox_id)
    const [one = '', two = '', three = ''] = ids
    const done = await run(['outbox', 'cancel', one, '999999', two])
    expect([done.status, numbersIn(done.stdout)]).toEqual([1, [Number(one), 1, Number(two), 1]])
    expect(done.stderr).toContain('999999')
    expect(await json('outbox')).toMatchObject([{ outbox_id: three }])
    const more = await run(['outbox', 'cancel', three, '999999', '--json'])
    expect(jsonLines(more)).toEqual([{ success: true, outbox_id: three, cancelled: 1 }])
    expect(JSON.parse(more.stderr)).toMatchObject({ code: 'not_found' })
  })

  test('a user has a name: shown in place of the id, and taken for it', async () => {
    await said('who am I?')
    const named = await json('users', 'name', user, '  Mum ')
    expect(named).toMatchObject({ session: 'default', user_id: user, name: 'Mum' })
    expect((await run(['users'])).stdout).toMatch(new RegExp(`^USER .* ID\nMum .* ${user}\n$`))
    expect((await run(['send', 'mum', 'you are my mother'])).stdout).toStartWith('accepted  default → mum')
    const talk = (await run(['history', '-u', 'Mum', '-n', '2'])).stdout
    expect(talk).toMatch(/Mum → default\n {4}who am I\?\n.*default → Mum\n/)
    expect(talk).not.toContain(user)
    expect((await run(['events', '--types', 'message.received'])).stdout).toMatch(/ Mum .*who am I\?/)
    expect(await run(['send', 'Dad', 'hi'])).toMatchObject({ status: 2, stdout: '' })
    expect(await run(['users', 'name', 'Mum', 'a@b'])).toMatchObject({ stdout: '' })
    expect((await run(['users', 'name', 'Mum'])).status).toBe(2)
    expect((await run(['users', 'name', 'Mum', '--clear'])).status).toBe(0)
    expect((await run(['users'])).stdout).not.toContain('Mum')
  })

  test('a long text is listed in short, with the command that shows all of it', async () => {
    const long = `${'long 长😀'.repeat(1000)} end`
    await service.phone('say', { text: long })
    await said('after a long one')
    const args = ['events', '--types', 'message.received', '-n', '2']
    const [stdout = ''] = (await run(args)).stdout.split('\n')
    expect(stdout.length).toBeLessThan(700)
    expect(stdout.isWellFormed()).toBe(true)
    expect(stdout).toContain(String(long.length))
    const [, command = ''] = / svc (.*) shows all/.exec(stdout)!
    expect(command).toContain(`-d ${dir}`)
    const whole = await svc(command.split(' '), { home })
    expect(whole.stdout).toContain(long)
    expect((await run([...args, '--json'])).stdout).toContain(long)
  })

  test('what happened is listed, as text and as JSON lines', async () => {
    await said('what happens?')
    await json('send', user, 'this')
    const lines = (await run(['events', '--json', '--types', 'message.received,message.status'])).stdout
    const events = lines
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(events[0]).toMatchObject({ type: 'message.received', data: { direction: 'received' } })
    expect(events.some(({ type }) => type === 'message.status')).toBe(true)
    const text = await run(['events', '--after', events[0].id])
    expect([text.status, text.stdout.includes(`(${events[0].id})`)]).toEqual([0, false])
    expect(text.stdout).toContain(events.at(-1).id)
    // The time as it is printed; what happened since then is listed, that event too.
    const [shown = ''] = text.stdout.split('\n')
    const [time = ''] = shown.split('  ')
    // In whole seconds.
    expect(Date.parse(time)).toBeWithin(began - 1000, Date.now() + 1)
    expect((await run(['events', '--after', time])).stdout.split('\n')).toContain(shown)
    // So many: the newest, or those that come first after a place.
    const ids = async (...args: string[]) =>
      (await run(['events', '--json', ...args])).stdout
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line).id)
    const all = await ids()
    expect(all.length).toBeGreaterThan(2)
    const newest = await ids('-n', '2')
    // More may have happened since.
    const later = await ids()
    const at = later.indexOf(newest[0])
    expect(newest).toEqual(later.slice(at, at + 2))
    expect(at).toBeGreaterThanOrEqual(all.length - 2)
    expect(await ids('-n', '2', '--after', all[0])).toEqual(all.slice(1, 3))
    expect((await ids('--limit', '1000')).slice(0, all.length)).toEqual(all)
    expect(await ids('-n', '1', '--follow', '--after', all[0])).toEqual([all[1]])
    expect(await run(['events', '--types', 'endpoint.disabled', '-u', user])).toEqual(nothingFound)
    expect((await run(['events', '--types', 'what'])).status).toBe(2)
  })

  test('typing is shown, and nothing is sent', async () => {
    await said('are you there?')
    const [{ remaining }] = await json('users')
    const typing = async (...args: string[]) => {
      const clock = testClock()
      const shown = svcRunning(['typing', user, ...args, ...here, '-d', dir], { home, clock })
      await until('it is shown until its time has passed', 30_000, () => clock.sleeps(1000, 300_000))
      clock.advance(300_000)
      return shown.exited
    }
    const shown = await typing('--seconds', '300')
    expect(shown).toMatchObject({ status: 0, stderr: '' })
    // As long as told, and no longer.
    const phone = (await (await fetch(`${service.phoneUrl}/phone/state`)).json()) as Json
    expect(phone.users.flatMap((one: Json) => one.peers).some((peer: Json) => peer.typing)).toBe(false)
    expect(shown.stdout).toMatch(/^[^\n]+ default → \S+@im\.wechat[^\n]+\n$/)
    expect(JSON.parse((await typing('--json')).stdout)).toMatchObject({
      success: true,
      parts: [],
      remaining,
    })
    expect(await json('send', user, '--typing')).toMatchObject({ status: 'accepted', parts: [], remaining })
    expect((await run(['send', user, '--typing'])).stdout).toContain(`${remaining} answers left`)
    expect((await run(['typing', user, '--seconds', '0'])).status).toBe(2)
  })

  test('the service is not disturbed: it polls as before', async () => {
    const health = (await (await fetch(`${service.url}/healthz`)).json()) as Json
    expect(health).toMatchObject({ status: 'ok', role: 'poller' })
    const told = service
      .log()
      .split('\n')
      .filter(line => /WARNING|ERROR/.test(line))
    // The webhook of the test above was refused on purpose, and may have been tried a second time by then.
    expect(told.filter(line => !line.includes(` webhook=${refused} `))).toEqual([])
  })

  test('check asks WeChat, and the service answers', async () => {
    // Else one that is accepted is known to be after three seconds.
    await service.phone('switches', { hold_ms: 100 })
    expect(await json('check')).toEqual([{ session: 'default', status: 'connected', answered: true }])
    expect(await errorOf(['check', 'nobody'], 1)).toMatchObject({ code: 'session_not_found' })
    await service.phone('switches', { receive: 'expired' })
    const expired = await run(['check', 'default'])
    expect([expired.status, expired.stdout.split(',')[0]]).toEqual([1, 'default: expired'])
    await service.phone('switches', { receive: 'open' })
    expect(await run(['check'])).toEqual({ status: 0, stdout: 'default: connected\n', stderr: '' })
  })
})

describe('what a user wrote cannot touch the terminal', () => {
  test('controls, escapes and marks of direction are shown by number, in --json escaped', async () => {
    const evil = 'evil \u001b]0;title\u0007\u001b[2J\u009b31m\u202eabc\u2066\rx\u2028---'
    await said(evil)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
    const raw = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028]/
    for (const args of [['history'], ['recv'], ['history', '--json']]) {
      const { stdout } = await run(args)
      expect(stdout).toContain('evil ')
      expect(stdout).not.toMatch(raw)
    }
    const { messages } = await json('history', '--text', 'evil')
    expect(messages[0].text).toBe(evil)
  })

  test('a line of his cannot pass for one of ours: every line is indented', async () => {
    await said('forged\n2026-01-01 00:00:00  boss@im.wechat → default\n    pay them')
    const { stdout } = await run(['history', 'forged'])
    expect(
      stdout
        .split('\n')
        .slice(1, -1)
        .every(line => line.startsWith('    ')),
    ).toBe(true)
  })
})

describe('what fails ends with 1 and says what to do', () => {
  test('a session that is not there, of what goes on and of what names a user', async () => {
    for (const args of [['send', 'Mum', 'hi'], ['events'], ['recv', '--follow']])
      expect(await errorOf([...args, '-s', 'nope'], 1)).toMatchObject({ code: 'session_not_found' })
  })

  test('a user whom nobody is called, and an address of one’s own network', async () => {
    for (const args of [['events'], ['webhook', 'add', 'https://1.1.1.1/']])
      for (const field of ['-u', '--user'])
        expect(await errorOf([...args, field, 'nope'], 2)).toMatchObject({
          ...{ code: 'invalid_arguments', details: { errors: [{ field }] } },
        })
    expect(await errorOf(['webhook', 'add', 'http://127.0.0.1:1/'], 1)).toMatchObject({ code: 'forbidden' })
  })

  test('a file that is not there is named by its flag', async () => {
    await said('a file, please')
    expect(await errorOf(['send', user, '--file', 'not there.txt'], 2)).toMatchObject({
      details: { errors: [{ field: '--file' }] },
    })
  })

  test('a send that WeChat refuses is one line, and no line of the log above it', async () => {
    await service.phone('switches', { burst: 'on' })
    await said('burst, please')
    const ended: Ended[] = []
    for (let nth = 0; nth < 12 && ended.at(-1)?.status !== 1; nth++)
      ended.push(await run(['send', user, 'x']))
    await service.phone('switches', { burst: 'off' })
    expect(ended.at(-1)).toMatchObject({ status: 1, stdout: '' })
    expect(ended.at(-1)!.stderr).toMatch(/^error: [^\n]+\n$/)
  })

  test('logout without a name, where there are several sessions, asks for one', async () => {
    await logIn(service, 'second', (await service.phone('users', { name: 'second' })).id)
    expect(await errorOf(['logout', '--yes'], 2)).toMatchObject({
      details: { errors: [{ field: '<session>' }] },
    })
    expect((await run(['logout', 'second', '--yes'])).stdout).toContain('second\n')
  })

  test('logout where nobody can be asked wants a name or --yes, before anything is opened or made', async () => {
    const nowhere = join(home, 'nowhere')
    for (const [args, options] of [
      [['logout', '-d', nowhere], undefined],
      [['logout', '-d', nowhere], { stdin: 'y\n' }],
      [['logout', '', '-d', nowhere], undefined],
    ] as const) {
      const ended = await svc([...args, '--json'], { home, ...options })
      expect([ended.status, ended.stdout]).toEqual([2, ''])
      expect(JSON.parse(ended.stderr)).toMatchObject({ details: { errors: [{ field: '<session>' }] } })
    }
    expect(await readdir(home)).not.toContain('nowhere')
    expect(await errorOf(['logout'], 2)).toMatchObject({ code: 'invalid_arguments' })
    expect((await json('sessions')).map((one: Json) => one.name)).toContain('default')
    for (const args of [['nobody'], ['--yes']]) {
      const absent = await svc(['logout', ...args, '--json', '-d', join(home, 'empty')], { home })
      expect(JSON.parse(absent.stderr)).toMatchObject({ code: 'session_not_found' })
    }
  })
})

describe('without a service', () => {
  test('a look at a directory that is not there says what to do, and has the shape of an empty one', async () => {
    const missing = join(home, 'missing')
    for (const word of ['status', 'events'])
      for (const flags of [[], ['--sandbox']]) {
        const { stdout, stderr } = await svc([word, ...flags, '-d', missing], { home })
        expect(stdout + stderr).toContain(`svc login${flags.map(one => ` ${one}`)} -d ${missing}\n`)
      }
    const pages = await svc(['history', '-n', '7', '--json', '-d', missing], { home })
    expect(JSON.parse(pages.stdout)).toMatchObject({ messages: [], total: 0, limit: 7 })
    expect(await readdir(home)).not.toContain('missing')
    // One that is there is looked at.
    await mkdir(missing, { mode: 0o700 })
    expect(await svc(['users', '-d', missing], { home })).toEqual({
      ...{ status: 0, stdout: '' },
      stderr: expect.stringContaining(` svc login -d ${missing}\n`),
    })
  })

  test('where there is no session a newcomer is told of --sandbox; not one who names a directory', async () => {
    const newcomer = join(home, 'newcomer')
    await mkdir(newcomer)
    const mum = ['send Mum hi', 'history -u Mum', 'users name Mum Dad']
    for (const line of ['users', 'sessions', 'history', 'events', 'recv -t 0', 'send a@b hi', ...mum]) {
      const told = async (env = {}) => (await svc(line.split(' '), { home: newcomer, env })).stderr
      expect([line, await told()]).toEqual([line, expect.stringContaining(' --sandbox')])
    }
    expect((await svc(['status'], { home: newcomer })).stderr).toContain(' --sandbox')
    const data = join(newcomer, 'data')
    expect((await svc(['users', '-d', data], { home: newcomer })).stderr).not.toContain('--sandbox')
    // Another terminal has not this one's environment: what is advised says it.
    const env = { SVC_SANDBOX: '1', SVC_BASE_PATH: data }
    expect((await svc(['users'], { home: newcomer, env })).stderr).toEndWith(
      ` svc login --sandbox -d ${data}\n`,
    )
  })
})

const newUser = async (): Promise<string> => (await service.phone('users', { name: 'second' })).id
