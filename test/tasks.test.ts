/** Work in the background is registered in one place, so that somebody hears when it fails. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const src = join(import.meta.dir, '../src')

/** Where a pair of brackets ends that opens at `from`. */
function endOf(text: string, from: number): number {
  const [open, close] = text[from] === '{' ? ['{', '}'] : ['(', ')']
  let depth = 0
  for (let at = from; at < text.length; at++) {
    if (text[at] === open) depth++
    else if (text[at] === close && --depth === 0) return at + 1
  }
  return text.length
}

/** A loop that waits, such as `while (…) { … await clock.sleep(ms) }`, also in its head; or a timer that repeats itself. */
function countRepeated(raw: string): number {
  const texts = /('(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g
  const code = raw.replace(texts, (_all, text?: string) => (text ? "''" : ' '))
  const waits = /\b(?:sleep|wait|pause)\(|\.wait\w*\(|\bsetTimeout\(/
  let count = code.match(/\bsetInterval\(/g)?.length ?? 0
  for (const { 1: name = '', index } of code.matchAll(/\bsetTimeout\((\w+)\b/g)) {
    const begun = code.search(new RegExp(`\\b(?:const ${name} = (?:async )?\\(|function ${name}\\()`))
    if (begun >= 0 && begun < index && endOf(code, code.indexOf('{', begun)) > index) count++
  }
  for (const { 0: head, index } of code.matchAll(/\b(?:while|for|for await) \(|\bdo\b(?=[^\n]*\n? )/g)) {
    const begin = index + head.length
    const body = head === 'do' ? begin : endOf(code, begin - 1)
    const isBlock = /^\s*\{/.test(code.slice(body))
    const line = code.slice(body).search(/\n\s*\n|;|\n {0,4}\}/)
    const end = isBlock ? endOf(code, code.indexOf('{', body)) : line < 0 ? code.length : body + line
    if (waits.test(code.slice(begin, end))) count++
  }
  return count
}

test('it is known what repeats', () => {
  const samples: [number, string][] = [
    [1, 'while (!over) {\n  await clock.sleep(1000)\n}'],
    [1, 'for (; !over; await clock.sleep(1000, signal)) await look()'],
    [1, 'while (!over) await this.#clock.sleep(5)'],
    [1, 'const timer = setInterval(look, 1000)'],
    [1, 'const look = () => {\n  read()\n  setTimeout(look, everyMs)\n}'],
    [
      1,
      'for (let a = 1; ; ) {\n  if (a) { read() }\n  await new Promise(resolve => setTimeout(resolve, 5))\n}',
    ],
    [0, 'for (const one of all) {\n  await read(one)\n}\nawait clock.sleep(5)'],
    [0, '// while (true) { sleep(1) }\nconst done = () => {}\nsetTimeout(done, 5)'],
  ]
  expect(samples.map(([, code]) => countRepeated(code))).toEqual(samples.map(([count]) => count))
})

/** These rooms are no service: a command prints its error, and the sandbox is for tests. */
const otherPrograms = /^(client|cli|doctor|migrate|sandbox|service)\//

/** Why work that is repeated is not registered, and how often a file does it. */
const exceptions: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'a wait of one call or one login, which gets the error': {
    'accounts/login-driver.ts': 4,
    'accounts/login-records.ts': 1,
    'gateway/asks.ts': 1,
    'gateway/people.ts': 1,
    'gateway/relays.ts': 1,
    'access/relay-logins.ts': 1,
    'ilink/cdn.ts': 1,
    'mcp/call.ts': 1,
    'push/events.ts': 1,
    'receive/inbox.ts': 3,
    'receive/one-shot.ts': 2,
    'receive/polling-notice.ts': 1,
    'receive/token-check.ts': 1,
    'receive/waits.ts': 1,
    'send/delivery-attempt.ts': 1,
    'send/send.ts': 3,
    'send/typing.ts': 1,
    'storage/postgres/state.ts': 1,
    'storage/postgres/messages.ts': 1,
    'storage/postgres/people.ts': 1,
    'storage/postgres/rotate.ts': 1,
    'storage/sqlite/inspection.ts': 1,
  },
  'a wait of one turn of an agent, which its conversation tries again': {
    'agent/asking.ts': 1,
    'agent/burst.ts': 1,
    'agent/delivery.ts': 1,
    'agent/notices.ts': 1,
    'agent/turn.ts': 2,
  },
  'a conversation that fails is named by the task of its agent': {
    'agent/conversation.ts': 1,
  },
  'an agent that waits for its name ends the program if that fails': {
    'agent/agent.ts': 1,
  },
  'one open connection or stream, whose client notices': {
    'mcp/events.ts': 1,
    'mcp/sse.ts': 1,
    'server/admin/events.ts': 1,
    'server/body.ts': 1,
    'server/event-readers.ts': 2,
    'platform/serve-on-bun.ts': 2,
    'platform/listeners.ts': 1,
    'platform/postgres-pool.ts': 2,
  },
  'steps of one piece of work, with pauses for others': {
    'gateway/housekeeping.ts': 2,
    'platform/clock.ts': 1,
    'push/delivery.ts': 1,
    'push/pacer.ts': 1,
    'storage/nouns/people.ts': 2,
    'storage/nouns/retention.ts': 1,
    'storage/postgres/changes.ts': 1,
    'storage/sqlite/history.ts': 1,
    'storage/sqlite/scrub.ts': 2,
    'storage/sqlite/time-range.ts': 1,
    'platform/sqlite.ts': 1,
  },
  'it is registered where it begins, and runs at another pace': {
    'storage/postgres/leases.ts': 2,
    'storage/sqlite/commits.ts': 1,
  },
  'who holds a lock looks whether it is lost, and whoever uses the lock asks': {
    'platform/lock.ts': 3,
    'platform/lock-folder.ts': 2,
  },
  'shown by sessions or by webhooks, one by one': {
    'receive/ingest.ts': 2,
    'push/endpoint.ts': 1,
  },
  'the clock of the sandbox': {
    'gateway/sandbox-fetch.ts': 1,
  },
}

test('work that is repeated in the background is registered, or it is said why not', () => {
  const found = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .map(path => path.replaceAll('\\', '/'))
    .filter(path => path.endsWith('.ts') && path !== 'platform/tasks.ts' && !otherPrograms.test(path))
    .flatMap(path => {
      const count = countRepeated(readFileSync(join(src, path), 'utf8'))
      return count > 0 ? [[path, count] as const] : []
    })
  expect(found.length).toBeGreaterThan(20)
  expect(Object.fromEntries(found)).toEqual(Object.assign({}, ...Object.values(exceptions)))
})

test('a command that runs until a signal, on a data directory, notes which of its tasks fail', () => {
  const texts = readdirSync(join(src, 'cli')).map(path =>
    path.endsWith('.ts') ? readFileSync(join(src, 'cli', path), 'utf8') : '',
  )
  const lasting = texts.filter(
    text => text.includes('waitForStop(') && /openGateway\(|Svc\.open\(/.test(text),
  )
  expect(lasting.length).toBe(2)
  for (const text of lasting) expect(text).toContain('noteFailingTasks(')
})
