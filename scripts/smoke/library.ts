/**
 * `bun scripts/smoke/library.ts DIR -- COMMAND…`: has a conversation with `talk.mjs`, which COMMAND starts with any runtime.
 * DIR is the new data directory as that program sees it.
 */
import process from 'node:process'
import { end, family } from '../../test/support/family.ts'
import { overhear } from '../../test/support/overheard.ts'
import { withSandbox } from '../../test/support/sandbox.ts'
import { until } from '../../test/support/until.ts'
import { listen, speak } from '../../test/support/voice.ts'
import { picture } from './conversation.ts'
import { expectMatch } from './expected.ts'

const [dir = '', ...command] = process.argv.slice(2).filter(word => word !== '--')
await using sandbox = await withSandbox()
const child = Bun.spawn([...command, sandbox.url, dir, picture.toString('base64')], {
  stdin: 'ignore',
  stdout: 'pipe',
  stderr: 'pipe',
})
const output = overhear(child)
const errors = () => output.stderr
try {
  await sandbox.scanAndConfirm({ withinMs: 30_000 })
  await until('it polls', 30_000, () => sandbox.world.core.stats.requests.getupdates, errors)
  console.log('ok logs in by QR code')
  await sandbox.say('Hello')
  const seen = () => sandbox.messages({ from: 'bot' })
  const answer = await until('text and picture', 30_000, async () => (await seen())[1] && seen(), errors)
  const items = answer.flatMap(message => message.items)
  expectMatch(items, [{ kind: 'text', text: 'You said: Hello' }, { kind: 'image' }])
  console.log('ok sends a text and a picture')
  await sandbox.media('voice', new Uint8Array(await speak(1)))
  await until('it ends', 30_000, () => child.exitCode !== null, errors)
  expectMatch([child.exitCode, output.stderr], [0, ''])
  expectMatch(listen(Buffer.from(output.stdout, 'base64')).seconds, 1)
  console.log('ok receives a voice message as WAV')
} finally {
  for (const pid of family(child.pid)) end(pid, 'SIGKILL')
}
