/** svc on a real pseudo-terminal: what is drawn, what may be typed, and Ctrl-C. */
import { describe, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, readlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { quoteForShell } from '../../src/platform/format.ts'
import { sandboxAlone, svc, svcOnTerminal } from '../support/command.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { type Json, logIn, type Service, startService } from '../support/service.ts'
import { svcProgram } from '../support/svc-program.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()
const service = forFile(await startService({ dir: await mkdtemp(join(home, 'data-')), env: { HOME: home } }))
await logIn(service)

/** A code, and where to scan it. */
const codeShown = /█▀▀▀▀▀█[\s\S]* http:\S+\/phone/
const coloured = '\u001b['
const on = (service: Service, ...words: string[]) => [...words, '--sandbox', '-d', service.dir]
const fresh = async () =>
  startService({ dir: await mkdtemp(join(home, 'data-')), env: { HOME: home }, args: ['--pace', 'off'] })
const scanWhenShown = (t: Service) =>
  until('a code to scan', 30_000, () => t.phone('scan', { confirm: true }).catch(() => undefined))
/** Runs a login, and scans its code once that is printed. */
async function logInScanned(t: Service, ...words: string[]) {
  const path = join(home, `${crypto.randomUUID()}.out`)
  const program = [...svcProgram, ...on(t, 'login', ...words)]
  const env = { PATH: process.env.PATH ?? '', HOME: home }
  const asked = ended(['sh', '-c', `"$@" > ${quoteForShell(path)}`, 'sh', ...program], { cwd: home, env })
  const read = () => readFile(path, 'utf8').catch(() => '')
  await until('the code is printed', 30_000, async () => (await read()).includes('█'))
  const { verify_code } = await scanWhenShown(t)
  return { ...(await asked), stdout: await read(), verify_code }
}
const post = async (url: string, body: object): Promise<Json> => {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${url}: ${await response.text()}`)
  return response.json()
}

describe.skipIf(process.platform !== 'linux')('a full disk in place of stdout', () => {
  const to = (target: string, ...words: string[]) =>
    ended(['sh', '-c', `"$@" ${target}`, 'sh', ...svcProgram, ...on(service, ...words)], {
      cwd: home,
      env: { PATH: process.env.PATH ?? '', HOME: home },
    })
  const say = async (text: string) => (await service.phone('say', { text })).user_id

  test('what was done counts, and is said; what only looks fails', async () => {
    const user = await say('one')
    const sent = await to('>/dev/full', 'send', user, 'through')
    expect(sent).toMatchObject({ status: 0, stdout: '' })
    expect(sent.stderr).not.toBe('')
    expect((await to('>/dev/full 2>&-', 'send', user, 'unheard')).status).toBe(0)
    expect((await to('2>/dev/full', 'send', user, 'muttered')).status).toBe(0)
    const asJson = await to('>/dev/full', 'send', user, 'as JSON', '--json')
    expect([asJson.status, JSON.parse(asJson.stderr)]).toEqual([
      0,
      { done: expect.any(String), detail: expect.any(String) },
    ])
    expect((await to('>/dev/full', 'users', 'name', user, 'Mum')).status).toBe(0)
    const looked = await to('>/dev/full', 'history')
    expect([looked.status, looked.stderr.startsWith('error: ')]).toEqual([1, true])
    const { messages } = (await service.call('history', { user_id: user })).body
    expect(messages.map((message: Json) => message.text)).toEqual([
      'as JSON',
      'muttered',
      'unheard',
      'through',
      'one',
    ])
  })

  test('messages that could not be printed come again, and a webhook or key whose secret nobody saw is of no use', async () => {
    await to('', 'recv', '-c', 'mine', '--timeout', '0')
    await say('read me')
    await until('it is stored', 30_000, async () =>
      JSON.stringify((await service.call('history', {})).body).includes('read me'),
    )
    expect((await to('>/dev/full', 'recv', '-c', 'mine', '--timeout', '0')).status).toBe(1)
    expect((await to('', 'recv', '-c', 'mine', '--timeout', '0')).stdout).toContain('read me')
    expect((await to('>/dev/full', 'webhook', 'add', 'http://127.0.0.1:9/', '--allow-private')).status).toBe(
      1,
    )
    expect((await to('', 'webhook', '--json')).stdout).toBe('[]\n')
    expect((await to('>/dev/full', 'key', 'add', 'bot', '--can', 'read')).status).toBe(1)
    expect(JSON.parse((await to('', 'key', '--json')).stdout)).toMatchObject([{ status: 'revoked' }])
  })
})

describe('login', () => {
  test('draws the code black on white, renews it, asks for the digits, says that it is done', async () => {
    await using t = await fresh()
    await t.phone('switches', { verify_code: 'on' })
    await using screen = svcOnTerminal(on(t, 'login', 'work'), { home })
    await screen.until(/█▀▀▀▀▀█[\s\S]*https:\/\/\S+qrcode=\S+[\s\S]* http:\S+\/phone/)
    expect(screen.screen()).toContain('\u001b[38;5;16;48;5;231m')
    // Two corners in its first line, the third one below: within a code the same may stand by chance.
    expect(screen.text().match(/^ *█▀▀▀▀▀█.*█▀▀▀▀▀█ *$/gm)).toHaveLength(1)
    expect(screen.text()).toMatch(/█▀▀▀▀▀█ *\n[\s\S]*\n *█▀▀▀▀▀█/)
    await t.phone('expire', {})
    await screen.until(/(█▀▀▀▀▀█[\s\S]* http:\S+\/phone[^\n]*\n[\s\S]*){2}/)
    const asked = screen.text().length
    const seen = await t.phone('scan', { confirm: true })
    const newLine = (from: number) => until('a line more', 30_000, () => screen.text().length > from)
    await newLine(asked)
    const wrong = seen.verify_code === '0000' ? '1111' : '0000'
    screen.type(`${wrong}\n`)
    await newLine(screen.text().length + wrong.length + 2)
    screen.type(`\n${seen.verify_code}\n`)
    await screen.until(/ work[^\n]* \S+@im\.bot\n[^\n]*svc recv --follow --sandbox[^\n]*\n/)
    expect(await screen.exited).toEqual({ status: 0, signal: null })
    expect((await t.call('sessions')).body).toMatchObject([{ name: 'work', connected: true }])
    const again = await svc(on(t, 'login', 'work'), { home })
    expect(again).toMatchObject({ status: 0, stderr: expect.stringContaining('--force') })
  })

  test('the same person once more: one line says so, and nothing changes', async () => {
    await using t = await fresh()
    await logIn(t)
    await using screen = svcOnTerminal(on(t, 'login', 'second'), { home, columns: 200 })
    await screen.until(codeShown)
    await t.phone('scan', { confirm: true })
    expect((await screen.exited).status).toBe(1)
    expect(screen.text()).toMatch(/\nerror: [^\n]+\n$/)
    expect((await t.call('sessions')).body).toMatchObject([{ name: 'default', connected: true }])
  })

  test('without a terminal: code and status as plain lines, the digits by option, or from stdin', async () => {
    await using t = await fresh()
    await t.phone('switches', { verify_code: 'on' })
    const { verify_code, ...nobody } = await logInScanned(t, '--timeout', '60')
    expect(nobody.stderr).toMatch(/^[^\n]+\nerror: [^\n]+\n$/)
    expect(nobody.status).toBe(1)
    expect(nobody.stdout).toMatch(/█▀▀▀▀▀█[\s\S]*\n[^\n█]+\n$/)
    expect(nobody.stdout).not.toContain('\u001b')
    const given = await svc(on(t, 'login', '--verify-code', verify_code, '--timeout', '30'), { home })
    expect(given.status).toBe(0)
    expect((await t.call('sessions')).body).toMatchObject([{ name: 'default', connected: true }])
  })

  test('a login that ran out unseen is not told of: a new code, or that the account is connected', async () => {
    await using t = await fresh()
    const ends = () => t.log().match(/status=expired/g)?.length
    for (const [nth, force] of [false, true].entries()) {
      await t.call('login', { session_name: 'default', force, timeout: 0 })
      // Each is renewed three times; nobody asks meanwhile.
      for (let codes = 0; codes < 4; codes++)
        await until('a code to expire', 30_000, () => t.phone('expire', {}).catch(() => undefined))
      await until('it ended', 30_000, () => ends() === nth + 1)
      if (force) break
      const scanned = scanWhenShown(t)
      expect(await svc(on(t, 'login', '--timeout', '30'), { home })).toMatchObject({ status: 0 })
      await scanned
    }
    const again = await svc(on(t, 'login', 'default'), { home })
    expect(again).toMatchObject({ status: 0, stderr: expect.stringContaining('--force') })
  })

  test('WeChat out of reach is said once, in one line or one object', async () => {
    const away = ['login', '--upstream-url', 'http://127.0.0.1:9', '-d', join(home, 'away')]
    const plain = await svc(away, { home })
    // The first line names the directory that the command made.
    const stderr1 = expect.stringMatching(/^[^\n]*\/away\nerror: [^\n]+\n$/)
    expect(plain).toEqual({ status: 1, stdout: '', stderr: stderr1 })
    const stderr2 = expect.stringMatching(/^error: [^\n]+\n$/)
    expect(await svc(away, { home })).toEqual({ status: 1, stdout: '', stderr: stderr2 })
    const { status, stderr } = await svc([...away, '--json'], { home })
    expect([status, JSON.parse(stderr).code]).toEqual([1, 'upstream_error'])
  })

  test('svc alone with WeChat out of reach: said once, with what to do, and the service goes on', async () => {
    const dir = join(home, 'away-alone')
    const args = ['--upstream-url', 'http://127.0.0.1:9', '-d', dir, '--port', '0', '--no-banner']
    await using screen = svcOnTerminal(args, { home, columns: 400 })
    await screen.until(/ svc login -d \S+\n/)
    expect(screen.text().match(/ svc login /g)).toHaveLength(1)
    screen.type('\u0003')
    expect((await screen.exited).status).toBe(0)
  })

  test('--json gives each change as one line and asks nobody; the error stands alone', async () => {
    await using t = await fresh()
    await t.phone('switches', { verify_code: 'on' })
    const { stdout, stderr, status } = await logInScanned(t, '--json', '--timeout', '60')
    expect([status, JSON.parse(stderr).code]).toEqual([1, 'not_connected'])
    const changes = stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line))
    expect(changes.map(change => change.status)).toEqual(['waiting', 'need_verifycode'])
    expect(changes[0].qr_text).toContain('█')
  })

  test('Ctrl-C ends it as a signal does, so that a loop in a shell ends too', async () => {
    await using t = await fresh()
    await using screen = svcOnTerminal(on(t, 'login'), { home })
    await screen.until(codeShown)
    screen.type('\u0003')
    expect((await screen.exited).signal).toBe('SIGINT')
    expect(screen.text()).not.toContain('error')
  })

  test('a window too narrow for the code says so', async () => {
    await using t = await fresh()
    await using screen = svcOnTerminal(on(t, 'login', '--timeout', '0.2'), { home, columns: 30 })
    await screen.until(/\b45\b/)
    expect(screen.text()).not.toContain('█▀▀▀▀▀█')
  })
})

describe('colours', () => {
  test('on a terminal, not with NO_COLOR, not on a pipe', async () => {
    for (const [env, has] of [
      [{}, true],
      [{ NO_COLOR: '1' }, false],
      [{ TERM: 'dumb' }, false],
    ] as const) {
      await using screen = svcOnTerminal(on(service, 'sessions'), { home, env })
      expect((await screen.exited).status).toBe(0)
      expect(screen.text()).toContain('* default')
      expect(screen.screen().includes(coloured)).toBe(has)
    }
    const piped = await svc(on(service, 'sessions'), { home, env: { FORCE_COLOR: '1', CI: '1' } })
    expect(piped.stdout).not.toContain(coloured)
    const failed = await svc(on(service, 'sessions', 'default', 'nope'), { home })
    expect(failed.stderr).not.toContain(coloured)
    await using wrong = svcOnTerminal(on(service, 'sessions', 'default', 'nope'), { home })
    expect((await wrong.exited).status).toBe(1)
    expect(wrong.screen()).toContain('\u001b[31merror:')
  })
})

test('an upload draws a bar, and the result stands in its place; a download too', async () => {
  await using t = await fresh()
  await logIn(t)
  await t.phone('say', { text: 'send me the film' })
  const { body } = await t.call('recv', { timeout: 60 })
  const film = join(home, 'film.mp4')
  await writeFile(film, '')
  await truncate(film, 40_000_000)
  await using screen = svcOnTerminal(on(t, 'send', body[0].from_user, '--file', 'film.mp4'), { home })
  expect((await screen.exited).status).toBe(0)
  expect(screen.text()).toMatch(/\r[█░]{24} +\d+ % {2}\S+ [kM]?B of 40 MB {2}upload film\.mp4\r/)
  expect(screen.text()).toMatch(/█{24} 100 % {2}40 MB of 40 MB/)
  expect(screen.text()).toMatch(/\raccepted {2}default → /)
  const piped = await svc(on(t, 'send', body[0].from_user, '--file', 'film.mp4', '--json'), { home })
  expect(piped).toMatchObject({ status: 0, stderr: '' })

  await fetch(`${t.phoneUrl}/phone/media?kind=file&name=back.bin`, { method: 'POST', body: Bun.file(film) })
  const [message] = (await t.call('recv', { timeout: 60 })).body
  await using back = svcOnTerminal(on(t, 'download', message.message_id, '-o', 'got'), { home })
  expect((await back.exited).status).toBe(0)
  expect(back.text()).toMatch(/100 % {2}40 MB of 40 MB {2}download back\.bin/)
  expect(back.text()).toContain(`${join(home, 'got', 'back.bin')}\nsaved 40 MB`)
})

test('recv --follow shows a conversation as it comes; Ctrl-C ends it with 0', async () => {
  await using screen = svcOnTerminal(on(service, 'recv', '--follow', '-c', 'screen'), { home })
  await screen.until(/Ctrl-C[^\n]*\n/)
  await service.phone('say', { text: '一行\n二行' })
  await screen.until(/ → default\n {4}一行\n {4}二行\n/)
  screen.type('\u0003')
  expect(await screen.exited).toEqual({ status: 0, signal: null })
})

test('events --follow says at its start that it follows, as recv does', async () => {
  await using screen = svcOnTerminal(on(service, 'events', '--follow'), { home })
  await screen.until(/Ctrl-C[^\n]*\n/)
  screen.type('\u0003')
  expect(await screen.exited).toEqual({ status: 0, signal: null })
})

test('a recv that waits is ended by Ctrl-C, as a signal does', async () => {
  await using t = await fresh()
  await logIn(t)
  await using screen = svcOnTerminal(on(t, 'recv', '--timeout', '60'), { home })
  // It says nothing by which one could tell that it waits.
  await until('it reads the store', 30_000, async () => {
    const files = await readdir(`/proc/${screen.pid}/fd`)
    const named = files.map(file => readlink(`/proc/${screen.pid}/fd/${file}`).catch(() => ''))
    return (await Promise.all(named)).some(path => path.endsWith('/messages.db'))
  })
  screen.type('\u0003')
  expect((await screen.exited).signal).toBe('SIGINT')
  expect(screen.text()).toBe('^C')
})

describe('logout', () => {
  test('asks before it deletes credentials; only yes does it, and --yes asks nothing', async () => {
    await using t = await fresh()
    await logIn(t)
    const names = async () => (await t.call('sessions')).body.map((one: Json) => one.name)
    const question = /default[^\n]+ \[y\/N\] /
    for (const answer of ['\n', 'n\n', 'yess\n', '\u0004']) {
      await using screen = svcOnTerminal(on(t, 'logout'), { home })
      await screen.until(question)
      screen.type(answer)
      expect((await screen.exited).status).toBe(1)
      expect(screen.text()).toMatch(/error: [^\n]+\n$/)
    }
    await using cut = svcOnTerminal(on(t, 'logout'), { home })
    await cut.until(question)
    cut.type('\u0003')
    expect((await cut.exited).signal).toBe('SIGINT')
    expect(await names()).toEqual(['default'])
    // One that is not there is said before anything is asked.
    await using absent = svcOnTerminal(on(t, 'logout', 'nobody'), { home })
    expect((await absent.exited).status).toBe(1)
    expect(absent.text()).toMatch(/^error: [^\n]+\n$/)
    await using screen = svcOnTerminal(on(t, 'logout'), { home })
    await screen.until(question)
    screen.type('y\n')
    expect((await screen.exited).status).toBe(0)
    expect(screen.text()).toMatch(/\n[^\n]+ default\n$/)
    expect(await names()).toEqual([])
    await logIn(t, 'again')
    await using quick = svcOnTerminal(on(t, 'logout', 'again', '--yes'), { home })
    expect((await quick.exited).status).toBe(0)
    expect(quick.text()).toMatch(/^[^\n]+ again\n$/)
  })
})

describe('svc alone', () => {
  test('goes from nothing to an answered message, with the lines that it prints', async () => {
    await using empty = { home: await mkdtemp(join(home, 'home-')), async [Symbol.asyncDispose]() {} }
    const bin = await mkdtemp(join(home, 'bin-'))
    await writeFile(join(bin, 'svc'), `#!/bin/sh\nexec ${svcProgram.map(quoteForShell).join(' ')} "$@"\n`, {
      mode: 0o755,
    })
    await using screen = svcOnTerminal(['--sandbox', '--port', '0', '--sandbox-port', '0'], empty)
    const [, phone] = await screen.until(/\n1\. [\s\S]*█▀▀▀▀▀█[\s\S]* (http\S+\/phone) /)
    await post(`${phone}/scan`, { confirm: true })
    await screen.until(/ default[\s\S]*\n2\. [\s\S]* http\S+\/phone/)
    await post(`${phone}/say`, { text: 'is anybody there?' })
    await screen.until(/ {4}is anybody there\?\n[\s\S]*\n3\. [\s\S]*svc send [\s\S]*Ctrl-C/)
    const [, send = ''] = /^ {2}(svc send .*)$/m.exec(screen.text())!
    const [, curl = ''] = /^ {2}(curl [\s\S]*?)\n\n/m.exec(screen.text())!
    const shell = async (line: string) => {
      const child = Bun.spawn(['sh', '-c', line], {
        cwd: empty.home,
        env: { PATH: `${bin}:${process.env.PATH}`, HOME: empty.home },
        stdout: 'pipe',
        stderr: 'pipe',
      })
      return new Response(child.stdout).text()
    }
    expect(await shell(send)).toStartWith('accepted  default → ')
    expect(JSON.parse(await shell(curl.replace(/\n/g, '')))).toMatchObject({ status: 'accepted' })
    const { messages } = (await (await fetch(`${phone}/messages?from=bot`)).json()) as Json
    expect(messages.map((message: Json) => message.items[0].text)).toEqual(['Hello!', 'Hello!'])
    screen.type('\u0003')
    expect(await screen.exited).toEqual({ status: 0, signal: null })

    await using later = svcOnTerminal(['--sandbox'], empty)
    expect((await later.exited).status).toBe(0)
    expect(later.text()).toMatch(/\* default {2}connected[\s\S]*\n {2}svc openapi --sandbox/)
  })

  test('a port in use is an error', async () => {
    using taken = Bun.serve({ hostname: '127.0.0.1', port: 0, reusePort: false, fetch: () => new Response() })
    const empty = await mkdtemp(join(home, 'home-'))
    await using screen = svcOnTerminal(['--sandbox', '--port', String(taken.port), '--sandbox-port', '0'], {
      home: empty,
    })
    expect((await screen.exited).status).toBe(1)
    expect(screen.text()).toMatch(/error: [^\n]+\n$/)
  })

  test('without a terminal it is the help; with a running service it says so', async () => {
    const empty = await mkdtemp(join(home, 'home-'))
    expect((await svc([], { home: empty })).stdout).toStartWith('Usage: svc')
    expect(await readdir(empty)).not.toContain('.svc')
    const dir = await mkdtemp(join(home, 'data-'))
    await using _phone = await sandboxAlone(dir, home)
    await using idle = await startService({ dir, env: { HOME: home } })
    const ended = await svc(['--sandbox', '-d', idle.dir], { home })
    expect(ended).toMatchObject({ status: 0, stderr: '' })
    expect(ended.stdout).toMatch(/process \d+[\s\S]*\n {2}svc login --sandbox -d \S+ /)
    const bare = await svc([], { home, env: { SVC_SANDBOX: '1', SVC_BASE_PATH: idle.dir } })
    expect(bare).toMatchObject({ status: 0, stderr: '' })
    expect(bare.stdout).toMatch(/process \d+[\s\S]*\n {2}svc login --sandbox -d \S+ /)
  })
})
