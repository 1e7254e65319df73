/** Programs that use the library on one data directory with the simulated WeChat. */

import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Svc, type SvcOptions } from '../../src/index.ts'
import { createLog } from '../../src/platform/log.ts'
import type { FileState } from '../../src/storage/sqlite/state/state.ts'
import { type TestClock, testClock } from './clock.ts'
import { openFiles, openOther, type TestBot } from './gateway.ts'
import { type TestSandbox, type TestSandboxOptions, withSandbox } from './sandbox.ts'
import { dropStoreOf, isOnPostgres, libraryStoreOf } from './shared-store.ts'
import { until } from './until.ts'

export interface TestLibrary extends AsyncDisposable {
  readonly sandbox: TestSandbox
  readonly dir: string
  /** All log lines of all programs. */
  readonly lines: string[]
  /** The session files as another process sees them. */
  readonly other: FileState
  /** The same for programs with a store, and for those without one. */
  otherOf(store: boolean): FileState
  readonly bots: ReadonlyMap<string, TestBot>
  /** Clock of all programs. */
  readonly clock: TestClock
  /**
   * Opens the library as another program would, with its own locks. Closed at the end. With `store: true` the store is
   * where the tests have theirs (`shared-store.ts`); one that is off, or a path, is what it says.
   */
  open(options?: SvcOptions, timing?: { graceMs: number }): Promise<Svc>
  connect(name: string): Promise<TestBot>
  /** Waits until `look` returns something. */
  until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>
  requests(endpoint: string): number
  /** Waits for `work`, and lets time pass quickly. */
  quickly<T>(work: Promise<T>): Promise<T>
}

const withinMs = 30_000

export async function withLibrary(
  options: { sessions?: string[]; switches?: TestSandboxOptions['switches']; pace?: 'on' } = {},
): Promise<TestLibrary> {
  const sandbox = await withSandbox({ ...(options.switches && { switches: options.switches }) })
  const dir = await realpath(await mkdtemp(join(tmpdir(), 'svc-library-')))
  const lines: string[] = []
  const clock = testClock()
  const opened: Svc[] = []
  const { state: other, close: closeOther } = await openOther(dir, clock)
  // A program without a store has its sessions in the directory, wherever the others have theirs.
  const files = isOnPostgres ? await openFiles(dir) : undefined
  const bots = new Map<string, TestBot>()
  const test: TestLibrary = {
    sandbox,
    dir,
    lines,
    other,
    otherOf: store => (store ? other : (files?.state ?? other)),
    bots,
    clock,
    async open({ store = false, ...more } = {}, { graceMs } = { graceMs: 100 }) {
      const svc = await Svc.open(
        {
          basePath: dir,
          upstreamUrl: sandbox.url,
          cdnUrl: sandbox.cdnUrl,
          ...(options.pace ? {} : { pace: 'off' }),
          ...(store === true ? await libraryStoreOf(dir) : { store }),
          log: createLog('DEBUG', line => void lines.push(line)),
          ...more,
        },
        { clock, graceMs },
      )
      opened.push(svc)
      return svc
    },
    async connect(name) {
      const bot = sandbox.bot(bots.size === 0 ? undefined : await sandbox.addUser(name))
      // Ages must differ, since sessions are listed by age.
      const created_at = clock.now() + bots.size
      for (const { sessions } of [other, ...(files ? [files.state] : [])])
        await sessions.save(name, { ...bot, cursor: '', created_at })
      bots.set(name, bot)
      return bot
    },
    until: (what, look) => until(what, withinMs, look, () => lines.join('')),
    requests: endpoint => sandbox.world.core.stats.requests[endpoint] ?? 0,
    quickly(work) {
      // Small steps with pauses for other work: a large step would look like a suspended machine.
      const passing = setInterval(() => clock.advance(100), 5)
      return work.finally(() => clearInterval(passing))
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(opened.map(svc => svc.close()))
      await closeOther()
      await files?.close()
      await sandbox[Symbol.asyncDispose]()
      await dropStoreOf(dir)
      await rm(dir, { recursive: true, force: true })
    },
  }
  for (const name of options.sessions ?? ['default']) await test.connect(name)
  return test
}

export const texts = (messages: readonly { text: string }[]): string[] => messages.map(({ text }) => text)
