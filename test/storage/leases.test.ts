/** What every engine's leases must do (`src/storage/leases.ts`), on those there are. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { openLock } from '../../src/platform/lock.ts'
import { createLog } from '../../src/platform/log.ts'
import type { Lease, Leases } from '../../src/storage/leases.ts'
import { openLeases } from '../../src/storage/sqlite/leases.ts'
import { openState } from '../../src/storage/sqlite/state/state.ts'
import type { SessionRecord } from '../../src/storage/state.ts'
import { testClock } from '../support/clock.ts'
import { folderOfTest } from '../support/folder.ts'
import { until } from '../support/until.ts'
import { startProcess } from './sqlite/support.ts'

/** Several that share what is stored. */
interface Shared extends AsyncDisposable {
  /** One more of them, as of a process of its own. */
  another(): Promise<Leases>
  login(name: string): Promise<void>
  /** A process of its own that has joined; absent where an engine is of one process alone. */
  killable?(): Promise<{ kill(): Promise<void> }>
}

const bot = { bot_id: 'b@im.bot', token: 'b:1', base_url: 'http://127.0.0.1:1', cursor: '', created_at: 1 }

/** As simple as the interface allows: one process, nothing written. */
async function inMemory(): Promise<Shared> {
  let records: readonly SessionRecord[] = []
  let holder: { lost: AbortController } | undefined
  const another = async (): Promise<Leases> => {
    let mine: typeof holder
    const give = async (one: typeof holder) => {
      if (one && holder === one) holder = undefined
    }
    return {
      async join() {
        if (holder) return undefined
        const own = { lost: new AbortController() }
        holder = own
        mine = own
        const lease: Lease = {
          lost: own.lost.signal,
          owned: async () => records,
          mayPoll: () => holder === own,
          release: () => give(own),
        }
        return lease
      },
      // Whoever stands still here stands still with everybody.
      stalled: async () => false,
      holder: async () => holder && process.pid,
      close: () => give(mine),
    }
  }
  return {
    another,
    async login(name) {
      records = [...records, { name, bot }]
    },
    async [Symbol.asyncDispose]() {},
  }
}

async function onOneMachine(): Promise<Shared> {
  const dir = folderOfTest()
  const clock = testClock()
  const log = createLog('ERROR', () => {})
  const lock = await openLock(join(dir, '.data.lock'))
  const path = join(dir, '.poll.lock')
  const { sessions } = openState({ dir, lock, log })
  const opened: Leases[] = []
  return {
    async another() {
      const leases = await openLeases(path, { sessions, clock, log })
      opened.push(leases)
      return leases
    },
    login: name => sessions.save(name, bot),
    async killable() {
      const child = startProcess(
        { openLeases: 'storage/sqlite/leases.ts', systemClock: 'platform/clock.ts' },
        `const parts = { sessions: { list: async () => [] }, clock: systemClock, log: console }
        const leases = await openLeases(${JSON.stringify(path)}, parts)
        console.log((await leases.join()) ? 'joined' : 'refused')
        setInterval(() => {}, 1000)`,
      )
      const said = await child.stdout.getReader().read()
      expect(new TextDecoder().decode(said.value).trim()).toBe('joined')
      return {
        async kill() {
          child.kill('SIGKILL')
          await child.exited
        },
      }
    },
    async [Symbol.asyncDispose]() {
      for (const leases of opened) await leases.close()
      await lock.close()
    },
  }
}

for (const [name, open] of [
  ['SQLite', onOneMachine],
  ['in memory', inMemory],
] as const)
  describe(`leases, ${name}`, () => {
    test('what one holds another does not get, until it is given back', async () => {
      await using shared = await open()
      const [one, other] = [await shared.another(), await shared.another()]
      const lease = await one.join()
      expect(lease!.mayPoll('s')).toBe(true)
      expect(await other.join()).toBeUndefined()
      await lease!.release()
      expect(lease!.mayPoll('s')).toBe(false)
      const next = await other.join()
      expect(next!.mayPoll('s')).toBe(true)
      await lease!.release()
      expect(next!.mayPoll('s')).toBe(true)
      expect(await one.join()).toBeUndefined()
      await next!.release()
    })

    test('one that joins again has a lease of its own: the one before grants nothing', async () => {
      await using shared = await open()
      const leases = await shared.another()
      const before = await leases.join()
      await before!.release()
      const again = await leases.join()
      expect([before!.mayPoll('s'), again!.mayPoll('s')]).toEqual([false, true])
      expect(again!.lost.aborted).toBe(false)
    })

    test('closing gives back what is held', async () => {
      await using shared = await open()
      const [one, other] = [await shared.another(), await shared.another()]
      await one.join()
      await one.close()
      await one.close()
      expect(await other.join()).toBeDefined()
    })

    test('owned are the sessions of now', async () => {
      await using shared = await open()
      const lease = await (await shared.another()).join()
      expect(await lease!.owned()).toEqual([])
      await shared.login('a')
      await shared.login('b')
      const owned = await lease!.owned()
      expect(owned.map(({ name }) => name).sort()).toEqual(['a', 'b'])
    })

    test('who has just taken the right is not stalled for the others', async () => {
      await using shared = await open()
      const [one, other] = [await shared.another(), await shared.another()]
      expect(await other.holder()).toBeUndefined()
      const lease = (await one.join())!
      expect(await other.join()).toBeUndefined()
      expect(await other.stalled()).toBe(false)
      expect(await other.holder()).toBe(process.pid)
      await lease.release()
      expect(await other.holder()).toBeUndefined()
    })
  })

test('SQLite: a killed holder leaves its right to the next at once', async () => {
  await using shared = await onOneMachine()
  const leases = await shared.another()
  for (let round = 0; round < 3; round++) {
    const holder = await shared.killable!()
    expect(await leases.join()).toBeUndefined()
    await holder.kill()
    let lease: Lease | undefined
    await until('the right is free', 10_000, async () => {
      lease = await leases.join()
      return lease !== undefined
    })
    await lease!.release()
  }
})
