/** MCP Events while svc and its subscribers are killed: each event at least once, in order per conversation, in each mode. */
import { expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Svc } from '../../src/library/svc.ts'
import { openSite } from '../faults/support/upstream.ts'
import { makeCertificate } from '../support/events-receiver.ts'
import type { Json } from '../support/mcp-events.ts'
import { freePort } from '../support/port.ts'
import { until } from '../support/until.ts'

const modes = ['poll', 'push', 'webhook'] as const
const messages = 1000
const rounds = 20
const users = 5
const subscriber = join(import.meta.dir, '../support/events-subscriber.ts')

test('1,000 messages, svc and its subscribers killed again and again', async () => {
  await using site = await openSite()
  const { dir, sandbox } = site
  const { caFile, folder } = makeCertificate()
  const port = freePort()
  const address = join(folder, 'address')
  const callback = ['--events-callback', `https://127.0.0.1:${port}/`, '--events-callback-ca', caFile]
  const from = [site.user]
  while (from.length < users) from.push(await sandbox.addUser())
  let key = ''
  {
    await using svc = await Svc.open({ basePath: dir, store: true, upstreamUrl: sandbox.url })
    key = (await svc.keys.add({ name: 'subscriber', can: ['events', 'webhooks'] })).key
  }
  const start = async () => {
    const program = await site.start({ args: callback })
    writeFileSync(address, program.url)
    return program
  }
  let service = await start()
  const begin = (mode: string) =>
    Bun.spawn(
      [
        process.execPath,
        subscriber,
        join(folder, mode),
        mode,
        address,
        key,
        String(port),
        caFile,
        join(folder, 'key.pem'),
      ],
      { stdin: 'ignore', stdout: 'ignore', stderr: 'inherit' },
    )
  const linesOf = (mode: string): Json[] => {
    try {
      return readFileSync(join(folder, mode), 'utf8')
        .split('\n')
        .filter(line => line.endsWith('}'))
        .map(line => JSON.parse(line))
    } catch {
      return []
    }
  }
  const textsOf = (mode: string) => linesOf(mode).filter(({ text }) => text !== undefined)
  const running = new Map(modes.map(mode => [mode, begin(mode)]))
  await using _ = {
    async [Symbol.asyncDispose]() {
      for (const child of running.values()) child.kill('SIGKILL')
      rmSync(folder, { recursive: true })
    },
  }
  await until('all have begun', 30_000, () => modes.every(mode => linesOf(mode).length > 0))
  let said = 0
  for (let round = 0; round < rounds; round++) {
    for (let nth = 0; nth < messages / rounds; nth++, said++)
      await sandbox.say(String(said), { from: from[said % users]! })
    const mode = modes[round % modes.length]!
    const before = said - messages / rounds
    await until('some of it', 60_000, () => textsOf(mode).length > before + 5)
    running.get(mode)!.kill('SIGKILL')
    await running.get(mode)!.exited
    if (round % 2 === 0) {
      await service.kill('SIGKILL')
      service = await start()
    }
    running.set(mode, begin(mode))
  }
  const counts = () =>
    JSON.stringify(modes.map(mode => [mode, new Set(textsOf(mode).map(({ text }) => text)).size]))
  for (const mode of modes)
    await until(
      `all of it by ${mode}`,
      // The subscriber renews each second, and a renewal tries again what failed.
      120_000,
      () => new Set(textsOf(mode).map(({ text }) => text)).size === messages,
      counts,
    )
  for (const mode of modes)
    for (const user of from) {
      const own = textsOf(mode).filter(one => one.user === user)
      const first = [...new Set(own.map(({ text }) => Number(text)))]
      expect([mode, first]).toEqual([mode, [...first].sort((a, b) => a - b)])
      expect(first).toHaveLength(messages / users)
    }
  if (process.env.SVC_SHOW) console.log(modes.map(mode => [mode, textsOf(mode).length - messages, 'repeats']))
}, 900_000)
