/** A real store on a real file, with a clock that the test moves. */
import { onTestFinished } from 'bun:test'
import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { createLog, type Log, silentLog } from '../../src/platform/log.ts'
import type { ReceivedMessage, SentMessage } from '../../src/storage/messages.ts'
import type { Begun, Terms } from '../../src/storage/outbox.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import { type LogHalf, SqliteStore, type StoreOptions } from '../../src/storage/sqlite/store.ts'
import type { Store } from '../../src/storage/store.ts'

/** A store by itself, with what `Storage` does to it of sessions. */
export type EngineStore = Store &
  Pick<LogHalf, 'intake'> & { upkeep: Pick<LogHalf['upkeep'], 'renameSession' | 'close'> }

export interface TestStore extends AsyncDisposable {
  store: SqliteStore
  readonly path: string
  readonly dir: string
  /** `at` moves with the time that passes, `off` is how far the clock on the wall was set ahead. */
  readonly clock: Clock & { at: number; off: number }
  /** Log lines so far. */
  readonly lines: string[]
  /** Closes and opens the file again, as a restarted service does. */
  reopen(): Promise<void>
}

/** `at` moves with the time that passes, `off` is how far the clock on the wall was set ahead. */
export function testClock(): TestStore['clock'] {
  const clock = {
    ...systemClock,
    at: 1_800_000_000_000,
    off: 0,
    now: () => clock.at + clock.off,
    monotonic: () => clock.at + performance.now(),
  }
  return clock
}

export async function openStore(options: Partial<StoreOptions> = {}): Promise<TestStore> {
  const dir = await mkdtemp(join(tmpdir(), 'svc-store-'))
  const path = join(dir, 'messages.db')
  const clock = testClock()
  const lines: string[] = []
  const log: Log = createLog('DEBUG', line => void lines.push(line))
  const open = () => SqliteStore.open({ path, clock, log, maxAgeDays: 0, maxCount: 0, ...options })
  const test: TestStore = {
    store: await open(),
    path,
    dir,
    clock,
    lines,
    async reopen() {
      await test.store.upkeep.close()
      test.store = await open()
    },
    async [Symbol.asyncDispose]() {
      await test.store.upkeep.close()
      await rm(dir, { recursive: true, force: true })
    },
  }
  return test
}

/** The row of that id, if there is one. */
export const byId = async ({ log }: Store, id: number) => (await log.byIds([id]))[0]
export const byMessageId = async ({ log }: Store, id: string) => (await log.byMessageIds([id])).rows[0]

/** Everything may go. */
export const open: Terms = {
  context: { used: 0 },
  rules: { quota: 1e9, windowMs: 1e15, pace: 'off', patienceMs: 30_000 },
}

/** A call of send whose message is on its way. */
export async function sending(
  store: Store,
  session: string,
  bot_id: string,
  message: SentMessage,
  more: { key?: string; terms?: Terms } = {},
): Promise<Begun> {
  const { terms = open, key } = more
  const entry = {
    session,
    bot_id,
    user: message.to_user,
    mode: 'fail',
    made_by: 'owner',
    parts: [{ kind: 'text' }],
  } as const
  const enqueued = await store.outbox.enqueue(key === undefined ? entry : { ...entry, key }, terms, message)
  if (enqueued.state !== 'new' || !enqueued.begun)
    throw new Error(`not on its way: ${JSON.stringify(enqueued)}`)
  return enqueued.begun
}

let count = 0

/** A received message; unlike every other one unless told otherwise. */
export function message(text: string, more: Partial<ReceivedMessage> = {}): ReceivedMessage {
  count += 1
  return {
    message_id: String(9_300_000_000_000_000_000n + BigInt(count)),
    derived_id: '',
    from_user: 'u@im.wechat',
    msg_type: 'TEXT',
    text,
    timestamp: 1_800_000_000_000 + count,
    timed: true,
    contentHash: createHash('sha256').update(text).digest('base64url'),
    raw: JSON.stringify({ text, count }),
    ...more,
  }
}

/** A text to send, which is its id too unless told otherwise. */
export const outgoing = (text: string, more: Partial<SentMessage> = {}): SentMessage => ({
  client_id: text,
  to_user: 'u',
  msg_type: 'TEXT',
  text,
  timestamp: 1,
  raw: '{}',
  ...more,
})

/** Stores a batch of received messages. @returns their row ids */
export const insert = (
  { intake }: EngineStore,
  messages: readonly ReceivedMessage[],
  session = 's',
  bot = 'b',
) => intake.insertReceived(session, bot, messages)

/** One without an upstream id. */
export const nameless = (derived: string, text = 'x') => {
  const { message_id: _, ...rest } = message(text, { derived_id: `derived:${derived}` })
  return rest
}

/** Runs `body` in a second process, with `Store`, `path` and `systemClock` at hand; its stdout. */
export async function inOtherProcess(path: string, body: string, kill?: NodeJS.Signals): Promise<string> {
  const child = startOther(path, body)
  const reader = child.stdout.getReader()
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    text += new TextDecoder().decode(value)
    // A process that is to be killed says when it is ready.
    if (kill && text.includes('ready')) child.kill(kill)
  }
  await child.exited
  return text
}

/** The same process, still running. */
export const startOther = (path: string, body: string) =>
  startProcess(
    {
      SqliteStore: 'storage/sqlite/store.ts',
      systemClock: 'platform/clock.ts',
      silentLog: 'platform/log.ts',
    },
    `const path = ${JSON.stringify(path)}
    const open = () => SqliteStore.open({ path, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 })
    const hold = () => new Promise(() => setTimeout(() => process.exit(9), 30_000))
    ${body}`,
  )

/**
 * Another process that runs `body`, with these names at hand, each by the file below `src/` that it comes from. It ends with the
 * test at the latest.
 */
export function startProcess(names: Readonly<Record<string, string>>, body: string) {
  const from = (file: string) => JSON.stringify(fileURLToPath(new URL(`../../src/${file}`, import.meta.url)))
  const imports = Object.entries(names).map(
    ([name, file]) => `const { ${name} } = await import(${from(file)})\n`,
  )
  const command = [process.execPath, '-e', imports.join('') + body]
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'inherit', stdin: 'pipe' })
  onTestFinished(() => child.kill('SIGKILL'))
  return child
}

/** One that has the storage of a directory at hand. */
export const startOnDirectory = (dir: string, body: string) =>
  startProcess(
    { openStorage: 'storage/sqlite/open.ts', systemClock: 'platform/clock.ts', silentLog: 'platform/log.ts' },
    `const options = { dir: ${JSON.stringify(dir)}, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
    const storage = await openStorage(options)
    ${body}`,
  )

/** The storage of a directory, closed at the end of its block. */
export async function openDirectory(dir: string, clock: Clock = systemClock) {
  const storage = await openStorage({ dir, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 })
  return Object.assign(storage, { [Symbol.asyncDispose]: () => storage.close() })
}
