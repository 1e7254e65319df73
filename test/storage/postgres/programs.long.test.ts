/** Two nodes on one database, as the compiled program and under Deno: one conversation over HTTP. */
import { describe, expect, test } from 'bun:test'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { findTarget } from '../../../scripts/build/targets.ts'
import type { Message } from '../../../src/model/message.ts'
import { receiver } from '../../push/receiver.ts'
import { buildBinary, canBuild } from '../../support/binary.ts'
import { clusterSecret, startCluster } from '../../support/cluster.ts'
import { deno, denoEnv, denoOrNone, denoRun } from '../../support/deno.ts'
import { ended } from '../../support/ended.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { until } from '../../support/until.ts'

const main = fileURLToPath(new URL('../../../src/main.ts', import.meta.url))

/** Logs in, receives, sends, sends a file, reads the history and gets a webhook, each on another node than the call before. */
async function converse(command: readonly string[], env: Record<string, string> = {}): Promise<void> {
  await using cluster = await startCluster({ nodes: 2, command, env })
  using hook = receiver()
  const { nodes, phone } = cluster
  const [first, second] = nodes as [(typeof nodes)[0], (typeof nodes)[0]]
  await cluster.logIn('work')
  const [{ user_id: user, bot_id: bot }] = (await second.call('sessions')).body
  // Over HTTP none of this machine can be added.
  const added = await ended(
    [...command, 'webhook', 'add', hook.url, '--types=message.received', '--allow-private', '-d', first.dir],
    {
      cwd: first.dir,
      env: {
        PATH: process.env.PATH ?? '',
        HOME: first.dir,
        SVC_SECRET_KEY: clusterSecret,
        ...env,
        SVC_STORE_URL: cluster.postgres.url(cluster.databaseName),
      },
    },
  )
  expect([added.status, added.stderr]).toEqual([0, ''])
  await phone('say', { text: 'hello', from: user, to: bot })
  for (const node of [second, first]) {
    const received = await node.call<Message[]>('recv', { timeout: 20, after: 0 })
    expect(received.body.map(({ text }) => text)).toEqual(['hello'])
  }
  await until('the webhook is called', 30_000, () => hook.got.length === 1)
  expect((await second.call('send', { to: user, text: 'hi' })).body.status).toBe('accepted')
  const uploaded = await fetch(`${first.url}/media?file_name=a.txt`, { method: 'POST', body: 'the bytes' })
  const { upload_id } = (await uploaded.json()) as { upload_id: string }
  const media = [{ kind: 'file', upload_id }]
  expect((await second.call('send', { to: user, media })).body.status).toBe('accepted')
  const { messages } = (await first.call<{ messages: Message[] }>('history', {})).body
  expect(messages.map(({ direction, msg_type }) => `${direction} ${msg_type}`)).toEqual([
    'sent FILE',
    'sent TEXT',
    'received TEXT',
  ])
}

const target = findTarget(process.arch === 'arm64' ? 'bun-linux-arm64' : 'bun-linux-x64')
const canCompile = isPostgresThere() && (await canBuild([target]))

describe.skipIf(!isPostgresThere())('on PostgreSQL', () => {
  test.skipIf(!canCompile)(
    'the compiled program',
    async () => {
      using binary = await buildBinary(target)
      await converse([binary.path])
    },
    300_000,
  )

  test.skipIf(!deno)(`${denoOrNone}`, () => converse(denoRun(main), denoEnv), 300_000)
})
