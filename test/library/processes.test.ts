/** A program beside the service, each a process of its own on one data directory. */
import { describe, expect, test } from 'bun:test'
import { fileURLToPath } from 'node:url'
import type { SvcOptions } from '../../src/index.ts'
import { deno, denoRun } from '../support/deno.ts'
import { folderOfTest } from '../support/folder.ts'
import { jsonLines, overhear } from '../support/overheard.ts'
import { withSandbox } from '../support/sandbox.ts'
import { type Json, startService } from '../support/service.ts'
import { stopwatch, stopwatchOf } from '../support/stopwatch.ts'

const program = fileURLToPath(new URL('./program.ts', import.meta.url))
const runtimes: Record<string, string[]> = {
  Bun: [process.execPath, program],
  ...(deno && { Deno: denoRun(program) }),
}

interface Program extends AsyncDisposable {
  ask(line: string): void
  /** The first line said so far that fits, waited for; each is given once. */
  said<T = Json>(key: string): Promise<T>
  kill(signal: NodeJS.Signals): Promise<number>
  exited: Promise<number>
}

async function startProgram(runtime: string, options: SvcOptions, consumer = ''): Promise<Program> {
  const child = Bun.spawn([...runtimes[runtime]!, JSON.stringify(options), consumer], {
    stdin: 'pipe',
    stdout: 'pipe',
    stderr: 'pipe',
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' },
  })
  let more = Promise.withResolvers<void>()
  const heard = overhear(child, () => {
    more.resolve()
    more = Promise.withResolvers()
  })
  const given = new Set<number>()
  const running: Program = {
    exited: child.exited,
    ask: line => {
      child.stdin.write(`${line}\n`)
      child.stdin.flush()
    },
    async said(key) {
      using watch = stopwatch()
      for (;;) {
        const lines = jsonLines<Json>(heard)
        const at = lines.findIndex((line, nth) => !given.has(nth) && key in line)
        if (at >= 0) {
          given.add(at)
          return lines[at][key]
        }
        if (watch.ms > 30_000 || child.exitCode !== null)
          throw new Error(`the program never said ${key}: ${heard.stdout}\n${heard.stderr}`)
        await Promise.race([more.promise, Bun.sleep(5)])
      }
    },
    kill(signal) {
      child.kill(signal)
      return child.exited
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
  return running
}

describe('a program beside the service', () => {
  test.each(Object.keys(runtimes))(
    'on %s: follows it, sends, takes over when it is killed, and ends by a signal',
    async runtime => {
      await using upstream = await withSandbox()
      const dir = folderOfTest()
      const urls = { upstreamUrl: upstream.url, cdnUrl: upstream.cdnUrl }
      await using service = await startService({
        dir,
        sandbox: false,
        args: ['--upstream-url', urls.upstreamUrl, '--cdn-url', urls.cdnUrl],
      })
      // With the phone of the test's own sandbox.
      const login = service.call('login', { session_name: 'work' })
      await upstream.scanAndConfirm()
      await login
      await service.call('login', { session_name: 'work', timeout: 30 })

      await using bot = await startProgram(
        runtime,
        { basePath: dir, store: true, pace: 'off', ...urls },
        'bot',
      )
      expect(await bot.said('running')).toBe('watcher')
      const role = () => {
        bot.ask('role')
        return bot.said<string>('role')
      }
      {
        await using said = stopwatchOf(() => Promise.all([role(), fetch(`${service.url}/healthz`)]))
        await upstream.say('hello')
        expect(await bot.said('got')).toBe('hello')
        expect(said.ms).toBeLessThan(2000)
      }
      // The service got it too.
      expect((await service.call('recv', { timeout: 30 })).body).toMatchObject([{ text: 'hello' }])
      bot.ask('send hi from the program')
      expect(await bot.said('sent')).toMatchObject({ success: true, session: 'work' })
      await upstream.seen(messages => messages.some(({ items }) => items[0]?.text === 'hi from the program'))

      await service.kill('SIGKILL')
      await upstream.say('anybody there?')
      {
        await using killed = stopwatchOf(role)
        expect(await bot.said('got')).toBe('anybody there?')
        expect(killed.ms).toBeLessThan(3000)
      }
      expect(await role()).toBe('poller')
      expect(Math.max(...Object.values(upstream.pollsAtOnce))).toBe(1)

      expect(await bot.kill('SIGTERM')).toBe(0)
      expect(await bot.said('ended')).toBe(true)
    },
  )

  test('killed in the middle and started again, a handler with a name misses nothing', async () => {
    await using upstream = await withSandbox()
    const dir = folderOfTest()
    const options = { basePath: dir, store: true, sandboxUrl: upstream.url }
    {
      await using bot = await startProgram('Bun', options, 'bot')
      expect(await bot.said('running')).toBe('poller')
      bot.ask('login work')
      await bot.said('login')
      await upstream.scanAndConfirm()
      bot.ask('login work')
      expect(await bot.said('login')).toMatchObject({ status: 'confirmed' })
      await upstream.say('1')
      expect(await bot.said('got')).toBe('1')
      await bot.kill('SIGKILL')
    }
    await upstream.say('2')
    await upstream.say('3')
    await using bot = await startProgram('Bun', options, 'bot')
    const got: string[] = []
    // What was being confirmed at the kill may come again.
    while (!got.includes('3')) got.push(await bot.said('got'))
    expect(got.filter(text => text !== '1')).toEqual(['2', '3'])
  })
})
