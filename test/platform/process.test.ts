import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folderOfFile } from '../support/folder.ts'

const folder = folderOfFile()
const room = new URL('../../src/platform/process.ts', import.meta.url).pathname

function script(name: string, text: string): string {
  const path = join(folder, `${name}.ts`)
  writeFileSync(path, text)
  return path
}

function run(path: string, args: string[] = [], env: Record<string, string> = {}) {
  const { BUN_CONFIG_MAX_HTTP_REQUESTS: _limit, ...rest } = process.env
  return Bun.spawn([process.execPath, path, ...args], {
    env: { ...rest, ...env },
    stdout: 'pipe',
    stdin: 'pipe',
  })
}

test('the process starts itself anew once, with its pid, arguments and input, and then fetches beyond 256 at a time', async () => {
  const path = script(
    'limit',
    `import { readArguments, raiseFetchLimit } from ${JSON.stringify(room)}
     raiseFetchLimit()
     // Answers nobody until 300 requests are there at once.
     const waiting: (() => void)[] = []
     const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Promise<Response>(resolve => {
       waiting.push(() => resolve(new Response('x')))
       if (waiting.length === 300) for (const answer of waiting) answer()
     }) })
     const all = await Promise.all(Array.from({ length: 300 }, () => fetch(server.url).then(r => r.text())))
     console.log(JSON.stringify({ pid: process.pid, args: readArguments(), answers: all.length, stdin: await Bun.stdin.text() }))
     server.stop(true)`,
  )
  const child = run(path, ['send', '--to', 'a b'])
  child.stdin.write('hello')
  child.stdin.end()
  expect(JSON.parse(await new Response(child.stdout).text())).toEqual({
    pid: child.pid,
    args: ['send', '--to', 'a b'],
    answers: 300,
    stdin: 'hello',
  })
  expect(await child.exited).toBe(0)
})

test('a process whose program is no longer there goes on as it is', async () => {
  const path = script(
    'replaced',
    `import { raiseFetchLimit } from ${JSON.stringify(room)}
     process.execPath = ${JSON.stringify(join(folder, 'absent'))}
     raiseFetchLimit()
     console.log(process.execPath, process.env.BUN_CONFIG_MAX_HTTP_REQUESTS)`,
  )
  const child = run(path)
  expect(await new Response(child.stdout).text()).toBe(`${join(folder, 'absent')} undefined\n`)
  expect(await child.exited).toBe(0)
})

test('requests to this machine go past a proxy of the environment', async () => {
  const path = script(
    'proxy',
    `import { bypassProxyForLoopback } from ${JSON.stringify(room)}
     bypassProxyForLoopback()
     const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('direct') })
     console.log(await fetch(server.url).then(r => r.text(), error => error.code))
     server.stop(true)`,
  )
  const environments: Record<string, string>[] = [
    { HTTP_PROXY: 'http://127.0.0.1:9' },
    { http_proxy: 'http://127.0.0.1:9', no_proxy: 'intranet.test' },
    { ALL_PROXY: 'http://127.0.0.1:9', NO_PROXY: 'intranet.test', BUN_CONFIG_MAX_HTTP_REQUESTS: '60000' },
  ]
  for (const env of environments) {
    const child = run(path, [], env)
    expect((await new Response(child.stdout).text()).trim()).toBe('direct')
  }
})

test('the first signal asks to stop, the second one ends the process', async () => {
  const path = script(
    'signals',
    `import { onStopSignals } from ${JSON.stringify(room)}
     onStopSignals(signal => console.log('stopping', signal))
     // Of a Ctrl-C the terminal tells the process, and so does a wrapper that passes it on.
     process.once('SIGTERM', () => process.emit('SIGTERM'))
     setInterval(() => {}, 1000)
     console.log('ready')`,
  )
  const child = run(path)
  const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader()
  expect((await lines.read()).value).toBe('ready\n')
  child.kill('SIGTERM')
  expect((await lines.read()).value).toBe('stopping SIGTERM\n')
  child.kill('SIGINT')
  expect(await child.exited).toBe(130)
})
