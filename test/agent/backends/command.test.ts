/** Programs as agents, good and bad ones: scripts of a shell, in real processes. */
import { describe, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TurnContext, TurnResult } from '../../../src/agent/backend.ts'
import { createCommandBackend } from '../../../src/agent/backends/command.ts'
import { requireIsolation } from '../../../src/agent/isolation.ts'
import { findProgram, type ProgramCommand } from '../../../src/agent/process.ts'
import { isSvcError } from '../../../src/index.ts'
import { processState } from '../../../src/platform/other-process.ts'
import { folderOfFile, folderOfTest } from '../../support/folder.ts'
import { until } from '../../support/until.ts'

interface Asked extends Partial<Omit<ProgramCommand, 'command'>> {
  text?: string
  folder?: string
  signal?: AbortSignal
  agentSession?: string
}

/** Runs one turn of a command. */
async function ask(command: readonly string[], asked: Asked = {}): Promise<TurnResult> {
  const { folder = folderOfTest(), signal = new AbortController().signal, text = 'hello', ...rest } = asked
  const { agentSession, ...options } = rest
  const context: TurnContext = {
    folder,
    signal,
    agentSession,
    ask: () => Promise.reject(new Error('asks nobody')),
  }
  const backend = createCommandBackend({ command, ...options })
  return backend.run({ text, files: [] }, context)
}

const script = (lines: string) => ['sh', '-c', lines]

/** Returns the process ids that a script wrote into a file, one a line. */
const pidsIn = (path: string, count: number) =>
  until(`${count} processes`, 10_000, () => {
    const pids = existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').map(Number) : []
    return pids.length === count && pids.every(pid => pid > 0) ? pids : undefined
  })

const gone = (pids: readonly number[]) =>
  until('they have ended', 10_000, async () =>
    (await Promise.all(pids.map(processState))).every(state => state === 'gone'),
  )

const failureOf = (turn: Promise<unknown>) =>
  turn.then(
    () => undefined,
    (error: unknown) => (isSvcError(error) ? { code: error.code, message: error.message } : error),
  )

describe('a command', () => {
  test('reads the prompt from stdin, and answers on stdout', async () => {
    expect(await ask(['cat'], { text: '你好\nworld' })).toEqual({ text: '你好\nworld' })
  })

  test('gets the prompt as an argument, which is no option and no part of a script', async () => {
    const text = `--x '; echo "$HOME" \0`
    const said = await ask(['sh', '-c', 'printf "[%s]" "$@"; cat', 'sh', '{prompt}', '--to={prompt}'], {
      text,
    })
    expect(said.text).toBe(`[ --x '; echo "$HOME" ][--to=--x '; echo "$HOME" ]`)
    expect(await failureOf(ask(script('ask {prompt}')))).toMatchObject({ code: 'invalid_arguments' })
    const long = await failureOf(ask(['echo', '{prompt}'], { text: 'x'.repeat(200_000) }))
    expect(long).toMatchObject({ code: 'text_too_long' })
  })

  test('works in the folder, without the variables of svc', async () => {
    const folder = folderOfTest()
    const env = {
      PATH: process.env.PATH,
      HOME: '/home/x',
      SVC_SECRET_KEY: 's',
      CREDENTIALS_DIRECTORY: '/c',
      OWN: '1',
    }
    const { text } = await ask(script('pwd; env'), { folder, env })
    expect(text.split('\n')[0]).toBe(folder)
    expect(text).toContain('OWN=1')
    expect(text).not.toMatch(/SVC_|CREDENTIALS_DIRECTORY/)
  })

  test('that is absent is an error at once', async () => {
    expect(await failureOf(ask(['svc-no-such-program']))).toMatchObject({ code: 'invalid_arguments' })
    expect(await failureOf(ask(['./svc-no-such-program']))).toMatchObject({ code: 'invalid_arguments' })
    expect(await failureOf(ask([]))).toMatchObject({ code: 'invalid_arguments' })
  })

  test('that prints 1 GB ends, and its output is not kept', async () => {
    const folder = folderOfTest()
    const before = process.memoryUsage.rss()
    const failure = await failureOf(ask(script('echo $$ > pid; head -c 1000000000 /dev/zero'), { folder }))
    expect(failure).toMatchObject({ code: 'payload_too_large' })
    await gone(await pidsIn(join(folder, 'pid'), 1))
    const { text } = await ask(script('head -c 1000000000 /dev/zero >&2; echo done'))
    expect(text).toBe('done')
    expect(process.memoryUsage.rss() - before).toBeLessThan(500 * 1024 * 1024)
  })

  test('that never ends is stopped, with all that it started', async () => {
    const folder = folderOfTest()
    const stop = new AbortController()
    const turn = failureOf(
      ask(script('sleep 1000 & echo $$ $! | tr " " "\\n" > pids; wait'), { folder, signal: stop.signal }),
    )
    const pids = await pidsIn(join(folder, 'pids'), 2)
    stop.abort(new Error('stopped by a person'))
    expect(await turn).toEqual(new Error('stopped by a person'))
    await gone(pids)
  })

  test('that ignores SIGTERM is killed, and its children too', async () => {
    const folder = folderOfTest()
    const stop = new AbortController()
    const ignoring = `trap '' TERM; sleep 1000 & echo $$ $! | tr " " "\\n" > pids; wait; sleep 1000`
    const turn = failureOf(ask(script(ignoring), { folder, signal: stop.signal }))
    const pids = await pidsIn(join(folder, 'pids'), 2)
    const began = performance.now()
    stop.abort(new Error('stopped'))
    expect(await turn).toEqual(new Error('stopped'))
    expect(performance.now() - began).toBeGreaterThan(2900)
    await gone(pids)
  })

  test('that fails says why; one that dies too', async () => {
    expect(await failureOf(ask(script('echo no login >&2; exit 3')))).toMatchObject({
      message: expect.stringContaining('status 3: no login'),
    })
    expect(await failureOf(ask(script('echo on stdout; exit 1')))).toMatchObject({
      message: expect.stringContaining('on stdout'),
    })
    expect(await failureOf(ask(script('kill -KILL $$')))).toMatchObject({
      message: expect.stringContaining('SIGKILL'),
    })
  })

  test('that prints nothing, broken UTF-8, colours', async () => {
    expect(await ask(['true'])).toEqual({ text: '' })
    const { text } = await ask(script(`printf '\\033[31mred\\033[0m \\377\\000\\a|\\r\\n'`))
    expect(text).toBe('red \uFFFD|')
  })

  test('that prints GBK, as on Chinese Windows, is understood; broken UTF-8 stays that', async () => {
    const print = (...bytes: number[]) => {
      const text = bytes.map(byte => `\\x${byte.toString(16)}`).join('')
      return ask(['bash', '-c', `cat > /dev/null; printf '${text}'`])
    }
    expect((await print(0xc4, 0xe3, 0xba, 0xc3, 0xa3, 0xac, 0x6f, 0x6b)).text).toBe('你好，ok')
    expect((await print(...Buffer.from('你好世界'), 0xe4, 0xb8)).text).toBe('你好世界\ufffd')
    expect((await print(0x63, 0x61, 0x66, 0xe9)).text).toBe('caf\ufffd')
  })

  test('that draws on a terminal: the last state of its lines, also of sequences that come in two pieces', async () => {
    const pieces = [
      '\\033]0;ti',
      'tle\\a  10%%\\r 100%%\\033',
      '[0m\\r\\033[',
      'KIt is 7.\\n\\033]8;;http://a',
    ]
    const { text } = await ask(script(pieces.map(piece => `printf '${piece}'; sleep 0.05`).join('\n')))
    expect(text).toBe('It is 7.')
    expect(await ask(script(`printf '\\n  indented\\n    more\\n\\n'`))).toEqual({
      text: '  indented\n    more',
    })
  })

  test('that does not read its input', async () => {
    const text = 'x'.repeat(2_000_000)
    expect(await ask(script('exec <&-; echo closed'), { text })).toEqual({ text: 'closed' })
    expect(await ask(['echo', 'quick'], { text })).toEqual({ text: 'quick' })
  })

  test('that leaves a process behind, which holds its output: the answer comes, and the process ends', async () => {
    const folder = folderOfTest()
    const leaving = `(trap '' TERM; echo > on; sleep 1000) & echo $! > pid; until [ -e on ]; do :; done; echo answer`
    const { text } = await ask(script(leaving), { folder })
    expect(text).toBe('answer')
    await gone(await pidsIn(join(folder, 'pid'), 1))
  })

  test('ends when svc is killed, even if it ignores signals', async () => {
    const folder = folderOfTest()
    const module = join(import.meta.dir, '../../../src/agent/backends/command.ts')
    const lines = `trap '' HUP INT TERM; sleep 1000 & echo $$ $! | tr ' ' '\\n' > pids; wait; sleep 1000`
    writeFileSync(
      join(folder, 'run.ts'),
      `import { createCommandBackend } from ${JSON.stringify(module)}
       const signal = new AbortController().signal
       const backend = createCommandBackend({ command: ['sh', '-c', ${JSON.stringify(lines)}] })
       await backend.run({ text: 'x', files: [] }, { folder: ${JSON.stringify(folder)}, signal, ask: async () => '' })`,
    )
    const svc = Bun.spawn([process.execPath, 'run.ts'], { cwd: folder, stdout: 'ignore', stderr: 'ignore' })
    const pids = await pidsIn(join(folder, 'pids'), 2)
    svc.kill('SIGKILL')
    await gone(pids)
  })

  test('close ends what runs', async () => {
    const folder = folderOfTest()
    const backend = createCommandBackend({ command: script('echo $$ > pid; exec sleep 1000') })
    const { signal } = new AbortController()
    const turn = failureOf(backend.run({ text: '', files: [] }, { folder, signal, ask: async () => '' }))
    const pids = await pidsIn(join(folder, 'pid'), 1)
    await backend.close()
    expect(await turn).toMatchObject({ code: 'upstream_error' })
    await gone(pids)
  })
})

const isolation = await requireIsolation().then(
  () => true,
  () => false,
)

describe('the start of a script', () => {
  const folder = folderOfFile()
  const find = async (name: string, content: string | Uint8Array, mode = 0o755) => {
    const path = join(folder, name)
    writeFileSync(path, content)
    chmodSync(path, mode)
    return failureOf(findProgram(path, process.env.PATH))
  }

  test.each([
    ['CR LF', '#!/bin/sh\r\necho hi\r\n'],
    ['CR LF after an option', '#!/bin/sh -e\r\n'],
    ['CR LF of env', '#!/usr/bin/env sh\r\necho hi'],
    ['a byte order mark', '\ufeff#!/bin/sh\necho hi'],
    ['an interpreter that is absent', '#!/opt/nothing/here\n'],
    ['a folder as interpreter', '#!/bin\n'],
    ['a program of env that is absent', '#!/usr/bin/env no-such-program-here\n'],
  ])('with %s is refused', async (name, content) => {
    expect(await find(name.replaceAll(' ', '-'), content)).toMatchObject({ code: 'invalid_arguments' })
  })

  test.each([
    ['sh', '#!/bin/sh\necho hi\r\n'],
    ['env', '#!/usr/bin/env -S sh -e\n'],
    ['variable', '#!/usr/bin/env A=b\n'],
    ['spaces', '#! /bin/sh -e\n'],
    ['none', 'echo hi\r\n'],
    ['empty', ''],
    ['binary', new Uint8Array([127, 69, 76, 70, 13, 10])],
  ])('that is right is taken: %s', async (name, content) => {
    expect(await find(name, content)).toBeUndefined()
  })
})

describe('isolation', () => {
  test.skipIf(!isolation)(
    'hides the data directory and the home; the working folder is writable',
    async () => {
      const data = folderOfTest()
      const folder = join(data, '.agents', 'home', 'one')
      const other = join(data, '.agents', 'home', 'two')
      for (const path of [folder, other]) mkdirSync(path, { recursive: true })
      writeFileSync(join(data, 'api_token'), 'the token')
      writeFileSync(join(other, 'notes'), 'of another user')
      const spy = join(folderOfTest(), 'spy')
      writeFileSync(
        spy,
        `#!/bin/sh
       cat ${data}/api_token ${data}/.agents/home/two/notes; ls -a ${data}
       touch ${data}/written ${join(spy, '..')}/written
       ls ${process.env.HOME}; echo mine > mine; pwd; cat; exit 0`,
      )
      chmodSync(spy, 0o755)
      const env = { ...process.env, SVC_TOKEN: 'the token' }
      // Without isolation it reads what svc reads.
      expect((await ask([spy], { folder, env })).text).toContain('the token')
      for (const path of ['written', 'mine'])
        rmSync(join(path === 'mine' ? folder : data, path), { force: true })
      const { text } = await ask([spy], { folder, isolatedFrom: data, env, text: 'prompt' })
      expect(text).not.toContain('the token')
      expect(text).not.toContain('of another')
      expect(text).toEndWith(`${folder}\nprompt`)
      expect(readFileSync(join(folder, 'mine'), 'utf8')).toBe('mine\n')
      expect(existsSync(join(data, 'written'))).toBe(false)
    },
  )

  test.skipIf(!isolation)('ends with all that it started', async () => {
    const data = folderOfTest()
    const folder = join(data, 'work')
    mkdirSync(folder)
    const stop = new AbortController()
    // As no other process on this machine.
    const sleep = `sleep 9${process.pid}`
    const lines = `trap '' TERM; setsid ${sleep} & echo on > on; wait; ${sleep}`
    const turn = failureOf(ask(script(lines), { folder, isolatedFrom: data, signal: stop.signal }))
    await until('it runs', 10_000, () => existsSync(join(folder, 'on')))
    stop.abort(new Error('stopped'))
    expect(await turn).toEqual(new Error('stopped'))
    await until('nothing is left', 60_000, () => !Bun.spawnSync(['pgrep', '-fx', sleep]).stdout.length)
  })

  test.skipIf(!isolation)('refuses a working folder that holds the data directory', async () => {
    const folder = folderOfTest()
    const data = join(folder, 'data')
    mkdirSync(data)
    const refused = await failureOf(ask(['true'], { folder, isolatedFrom: data }))
    expect(refused).toMatchObject({ code: 'invalid_arguments' })
  })

  test('runs nothing where there is no bubblewrap', async () => {
    const folder = folderOfTest()
    const code = `
      import { requireIsolation } from ${JSON.stringify(join(import.meta.dir, '../../../src/agent/isolation.ts'))}
      await requireIsolation().catch(error => console.log(error.code, error.hint))`
    writeFileSync(join(folder, 'try.ts'), code)
    const { stdout } = Bun.spawnSync([process.execPath, 'try.ts'], { cwd: folder, env: { PATH: folder } })
    expect(String(stdout)).toStartWith('invalid_arguments')
  })
})
