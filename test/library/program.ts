/**
 * A program of somebody who uses svc, run by the tests under Bun and under Deno. It says what it gets, a line of JSON
 * each, and does what its input asks, a line each: `send <text>`, `login <session>`, `role`, `close`.
 */
import process from 'node:process'
import { createInterface } from 'node:readline'
import { Svc, type SvcOptions } from '../../src/index.ts'

const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)

await using svc = await Svc.open(JSON.parse(process.argv[2] ?? '{}') as SvcOptions)
let user = ''
svc.onMessage(
  message => {
    user = message.from_user
    say({ got: message.text, redelivered: message.redelivered ?? false })
  },
  process.argv[3] ? { consumer: process.argv[3] } : {},
)
createInterface({ input: process.stdin }).on('line', line => {
  const [verb, ...rest] = line.split(' ')
  const words = rest.join(' ')
  const work = {
    send: async () => say({ sent: await svc.send({ to: user, text: words }) }),
    login: async () => say({ login: await svc.login({ session_name: words, timeout: 30 }) }),
    role: async () => say({ role: (await svc.health()).role }),
    close: () => svc.close(),
  }[verb ?? '']
  work?.().catch((error: unknown) => say({ error: String(error) }))
})
const forever = svc.runForever()
say({ running: (await svc.runBackground().then(() => svc.health())).role })
await forever
say({ ended: true })
// Deno reads on from a pipe that was destroyed.
process.exit(0)
