/** A poller without a gateway on the simulated WeChat. The test can delay its requests and commits. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Api } from '../../src/ilink/api.ts'
import type { Fetch } from '../../src/ilink/http.ts'
import { apiFetch } from '../../src/platform/fetch.ts'
import { createLog } from '../../src/platform/log.ts'
import { Permits } from '../../src/platform/permits.ts'
import { Poller, type PollerPorts } from '../../src/receive/poller.ts'
import { openStorage } from '../../src/storage/sqlite/open.ts'
import { type TestClock, testClock } from './clock.ts'
import { runtimeOf } from './runtime.ts'
import { type TestSandboxOptions, withSandbox } from './sandbox.ts'
import { until } from './until.ts'

type Ingest = PollerPorts['ingest']

/** Starts a poller of one session; `await using` ends it. */
export async function withPoller(
  options: {
    fetch?: (real: Fetch) => Fetch
    ingest?: (real: Ingest) => Ingest
    mayPoll?: () => boolean
    switches?: TestSandboxOptions['switches']
    clock?: TestClock
  } = {},
) {
  const dir = await mkdtemp(join(tmpdir(), 'svc-poller-'))
  const sandbox = await withSandbox(options.switches ? { switches: options.switches } : {})
  const clock = options.clock ?? testClock()
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const storage = await openStorage({ dir, log, clock, maxAgeDays: 0, maxCount: 0 })
  const { state, store } = storage
  const bot = sandbox.bot()
  await state.sessions.save('s', { ...bot, cursor: '', created_at: clock.now() })
  const { fetch = real => real, ingest = real => real } = options
  /**
   * Number of requests, commits and session writes in progress. While it is not 0, work that is due is not
   * finished.
   */
  let busy = 0
  const counted = async <T>(work: Promise<T>): Promise<T> => {
    busy += 1
    try {
      return await work
    } finally {
      busy -= 1
    }
  }
  const pollFetch = fetch(apiFetch)
  const ingesting = ingest(storage.ingest)
  const holds: number[] = []
  class Noting extends Api {
    override getUpdates(...args: Parameters<Api['getUpdates']>) {
      holds.push(args[2])
      return counted(super.getUpdates(...args))
    }
  }
  const api = new Noting({ fetch: pollFetch, channelVersion: '2.4.9', version: '0' })
  const stop = new AbortController()
  const runtime = runtimeOf({ clock, log, closing: stop.signal })
  const poller = new Poller(
    {
      upstream: { api, account: ({ token }) => ({ base_url: sandbox.url, token }) },
      sessions: new Proxy(state.sessions, {
        get(sessions, name) {
          const verb = Reflect.get(sessions, name)
          return typeof verb === 'function'
            ? (...args: unknown[]) => counted(Promise.resolve(verb.apply(sessions, args)))
            : verb
        },
      }),
      ingest: batch => counted(ingesting(batch)),
      permits: new Permits(100),
    },
    runtime,
  )
  const lost = new AbortController()
  const givenUp: string[] = []
  let isMoving = false
  let isMoveListed = false
  const lease = {
    lost: lost.signal,
    isShared: true,
    waitsForStore: true,
    async listOwned(revision?: number) {
      const changes = await counted(state.sessions.listChangedSince(revision))
      if (!isMoving) return changes
      const changed = new Map(isMoveListed ? [] : [['s', undefined] as const])
      isMoveListed = true
      return { ...changes, changed }
    },
    mayPoll: (session?: string) =>
      !lost.signal.aborted && !(isMoving && session !== undefined) && (options.mayPoll?.() ?? true),
    waitForChange: (ms: number, signal: AbortSignal) => clock.sleep(ms, signal),
    giveUp: (session: string) => void givenUp.push(session),
  }
  const running = poller.run(lease, stop.signal)
  return {
    poller,
    sandbox,
    clock,
    lines,
    /** Expected hold of each poll so far, in ms. */
    holds,
    /** Sessions that another process may poll from now on. */
    givenUp,
    /** Lets another process have the session. Resolves when the poller has seen that. */
    async move() {
      isMoving = true
      runtime.bus.notify('sessionsChanged')
      await until('it sees that', 30_000, () => isMoveListed)
    },
    /** Ends the lease. Resolves when nothing is polled any more. */
    async lose() {
      lost.abort()
      await running
    },
    /** Stores another login of the same bot, with the same token. */
    async login() {
      await state.sessions.save('s', { ...bot, cursor: '', created_at: clock.now() + 1 })
      runtime.bus.notify('sessionsChanged')
    },
    /** Requests a check of the session. */
    async check() {
      await state.sessions.mark('s', bot.token, { check_at: clock.now() })
      runtime.bus.notify('sessionsChanged')
    },
    atOnce: () => sandbox.pollsAtOnce[bot.bot_id] ?? 0,
    texts: async () => (await store.log.listAfter(0, { limit: 100 })).map(row => row.text),
    told: (words: string) => lines.filter(line => line.includes(words)).length,
    cursor: async () => (await state.sessions.get('s'))?.bot?.cursor,
    /**
     * Lets time pass in steps, until `look` returns true. A step is too short to count as a suspended
     * machine.
     */
    async pass(strides: number, look: () => boolean): Promise<void> {
      for (let n = 0; n < strides && !look(); n++) {
        clock.advance(20_000)
        await new Promise(resolve => setTimeout(resolve, 10))
      }
    },
    /**
     * Lets `ms` pass in steps, until `look` returns true. Work that is due at one step is finished before
     * the next step.
     *
     * @returns the ms that passed in steps, without the real time
     */
    async tick(
      ms: number,
      stepMs: number,
      look: () => boolean | Promise<boolean> = () => false,
    ): Promise<number> {
      let passed = 0
      for (; passed < ms && !(await look()); passed += stepMs) {
        clock.advance(stepMs)
        // Several event-loop turns lie between the end of one task and the start of the next.
        for (let turns = 0, idle = 0; idle < 5 && !(await look()) && turns < 2000; turns++) {
          idle = busy > 0 ? 0 : idle + 1
          await new Promise(resolve => (busy > 0 ? setTimeout(resolve, 1) : setImmediate(resolve)))
        }
      }
      return passed
    },
    until: (what: string, look: () => boolean | Promise<boolean>) =>
      until(what, 30_000, look, () => lines.join('')),
    async stop() {
      stop.abort()
      await running
    },
    async [Symbol.asyncDispose]() {
      stop.abort()
      await running
      await storage.close()
      await sandbox[Symbol.asyncDispose]()
      await rm(dir, { recursive: true, force: true })
    },
  }
}
