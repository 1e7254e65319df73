/**
 * An MCP client in a process of its own: it takes one message and says what it read. Tests stop and kill it.
 *
 *   bun reading-client.ts KIND DOOR TARGET CONSUMER [LEAVE]
 *
 * DOOR is `stdio` (TARGET: the data directory), `http` or `bridge` (TARGET: the address). It prints `calling` when it
 * waits for a message, then each text that it read. With LEAVE it closes its connection in order, else it waits.
 */
import { writeSync } from 'node:fs'
import { bridgeCommand, type ClientKind, connectBridge, connectHttp, connectStdio } from './mcp.ts'

const [kind, door, target = '', consumer = '', leave] = process.argv.slice(2)
const options = { kind: kind as ClientKind }
const upstream = { url: process.env.TEST_UPSTREAM ?? '', cdnUrl: process.env.TEST_CDN ?? '' }
const address = () => {
  const url = new URL(target)
  url.searchParams.set('consumer', consumer)
  return url.href
}
const client =
  door === 'stdio'
    ? await connectStdio({ ...options, dir: target, sandbox: upstream, args: ['--consumer', consumer] })
    : door === 'http'
      ? await connectHttp(address(), options)
      : await connectBridge(target, {
          ...options,
          command: [...bridgeCommand, '--consumer', consumer],
        })

// A new consumer starts where its first call finds it.
const first = await client.value('recv', { timeout: 0 })
const tell = (messages: { text: string; redelivered?: boolean }[]) => {
  for (const { text, redelivered } of messages) writeSync(1, `${redelivered ? 'again' : 'read'} ${text}\n`)
}
tell(first)
writeSync(1, 'calling\n')
if (first.length === 0) tell(await client.value('recv', { timeout: 90 }))
if (leave) await client.close()
else await new Promise(() => {})
