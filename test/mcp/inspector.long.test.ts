/** The official Inspector's command line as a client: every tool, resource and prompt, over all three transports. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { toBuffer } from 'qrcode'
import type { Message } from '../../src/model/message.ts'
import { tools } from '../../src/operations/tools.ts'
import { ended } from '../support/ended.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { startMcp } from '../support/mcp.ts'
import { withSandbox } from '../support/sandbox.ts'

const inspector = fileURLToPath(
  new URL(
    'clients/launcher/build/index.js',
    import.meta.resolve('@modelcontextprotocol/inspector/package.json'),
  ),
)
const main = fileURLToPath(new URL('../../src/main.ts', import.meta.url))
const transports = ['http', 'sse', 'stdio'] as const
type Transport = (typeof transports)[number]

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely by the tests
type Json = any

const dir = folderOfFile()
const sandbox = forFile(await withSandbox())
let config: string
let picture: Message

beforeAll(async () => {
  const data = join(dir, 'data')
  {
    const spares = transports.flatMap(transport => [`spare-${transport}`, `gone-${transport}`])
    await using t = await withGateway({ sandbox, dir: data, sessions: ['工作', ...spares] })
    await sandbox.media('image', new Uint8Array(await toBuffer('a picture')), { name: 'code.png' })
    picture = (await t.receive(1))[0]!
  }
  // All three on one directory: the first one polls, the others follow it.
  const upstream = ['--upstream-url', sandbox.url, '--cdn-url', sandbox.cdnUrl]
  const servers: Record<Transport, object> = {
    http: { type: 'streamable-http', url: await served('http', data) },
    sse: { type: 'sse', url: await served('sse', data) },
    stdio: {
      command: process.execPath,
      args: [main, 'mcp', '-d', data, '--structured', ...upstream],
      env: { PATH: process.env.PATH ?? '', HOME: dir },
    },
  }
  config = join(dir, 'servers.json')
  await writeFile(config, JSON.stringify({ mcpServers: servers }))
})

async function served(transport: 'http' | 'sse', data: string): Promise<string> {
  return forFile(await startMcp(transport, { sandbox, dir: data, args: ['--structured'] })).url
}

/** What the Inspector prints as the result of a method. @throws Error with all it said when it fails */
async function inspect(transport: Transport, method: string, ...args: string[]): Promise<Json> {
  const command = [
    ...[process.execPath, '--bun', inspector, '--cli', '--config', config, '--server', transport],
    ...['--quiet', '--format', 'json', '--method', method, ...args],
  ]
  const env = { PATH: process.env.PATH ?? '', HOME: dir }
  const { stdout: out, stderr: err, status: code } = await ended(command, { cwd: dir, env, withinMs: 60_000 })
  if (code !== 0) throw new Error(`${method} ${args.join(' ')}: ${code}\n${out}\n${err}`)
  const answer = JSON.parse(out)
  return answer.result ?? answer
}

const call = async (transport: Transport, tool: string, input: object): Promise<Json> => {
  const answer = await inspect(
    transport,
    'tools/call',
    ...['--tool-name', tool, '--tool-args-json', JSON.stringify(input)],
  )
  if (answer.isError) throw new Error(`${tool}: ${JSON.stringify(answer)}`)
  return answer.structuredContent
}

/** Each call is a program started anew, and they come one after the other. */
const testWithManyCalls = (name: string, run: () => Promise<void>) => test(name, run, 180_000)

for (const transport of transports)
  describe(`the Inspector over ${transport}`, () => {
    testWithManyCalls('lists every tool and calls it', async () => {
      const listed = (await inspect(transport, 'tools/list')).tools as { name: string; title: string }[]
      expect(listed.map(({ name, title }) => [name, title])).toEqual(
        tools.map(({ name, title }) => [name, title]),
      )
      const user = picture.from_user
      const spare = `spare-${transport}`
      const calls: Record<string, [object, (answer: Json) => unknown]> = {
        recv: [{ timeout: 0, after: 0 }, answer => answer.result[0].message_id === picture.message_id],
        send: [
          { to: user, text: `over ${transport}`, session: '工作', idempotency_key: transport },
          answer => answer.status === 'accepted',
        ],
        download: [{ message_id: picture.message_id }, answer => answer.content_type === 'image/png'],
        history: [
          { text_contains: `over ${transport}` },
          answer => answer.messages[0].direction === 'sent' && answer.total === 1,
        ],
        sessions: [{}, answer => answer.result.some((one: Json) => one.name === '工作' && one.connected)],
        login: [
          { session_name: `new-${transport}`, timeout: 0 },
          answer => answer.status === 'waiting' && answer.qr_text.length > 100,
        ],
        logout: [{ session_name: `gone-${transport}` }, answer => answer.success],
        rename_session: [{ old_name: spare, new_name: `${spare}-2` }, answer => answer.success],
        set_default: [{ session_name: `${spare}-2` }, answer => answer.default_session === `${spare}-2`],
      }
      expect(Object.keys(calls).sort()).toEqual(tools.map(({ name }) => name).sort())
      for (const [name, [input, right]] of Object.entries(calls)) {
        const answer = await call(transport, name, input)
        if (!right(answer)) throw new Error(`${name}: ${JSON.stringify(answer)}`)
      }
      expect((await sandbox.messages({ from: 'bot' })).map(({ items }) => items[0]!.text)).toContain(
        `over ${transport}`,
      )
    })

    testWithManyCalls('reads every resource', async () => {
      const { resources } = await inspect(transport, 'resources/list')
      const { resourceTemplates } = await inspect(transport, 'resources/templates/list')
      expect(resourceTemplates).toHaveLength(3)
      const media = `svc://media/${encodeURIComponent(picture.message_id)}/0`
      const talk = `svc://conversations/${encodeURIComponent('工作')}/${encodeURIComponent(picture.from_user)}`
      const uris = [...(resources as { uri: string }[]).map(({ uri }) => uri), media]
      for (const uri of ['svc://sessions', 'svc://inbox', talk]) expect(uris).toContain(uri)
      // One of each kind; the sessions of the other tests have users as well.
      const read = uris.filter(
        uri => !/sessions.*\/users$/.test(uri) || uri.includes(encodeURIComponent('工作')),
      )
      expect(read).toHaveLength(6)
      for (const uri of read) {
        const { contents } = await inspect(transport, 'resources/read', '--uri', uri)
        expect(contents).toHaveLength(1)
        expect(contents[0].uri).toBe(uri)
        expect((contents[0].text ?? contents[0].blob).length).toBeGreaterThan(20)
      }
    })

    test('gets every prompt', async () => {
      const { prompts } = await inspect(transport, 'prompts/list')
      const given: Record<string, string[]> = {
        answer_newest: [`user=${picture.from_user}`],
        summarise_conversation: ['session=工作', `user=${picture.from_user}`],
      }
      expect((prompts as { name: string }[]).map(({ name }) => name)).toEqual(Object.keys(given))
      for (const [name, args] of Object.entries(given)) {
        const { messages } = await inspect(
          transport,
          'prompts/get',
          ...['--prompt-name', name, '--prompt-args', ...args],
        )
        expect(messages[1].content.text).toContain(`message_id ${picture.message_id}`)
      }
    })
  })
