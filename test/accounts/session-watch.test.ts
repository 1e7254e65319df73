/** How the sessions are, look after look. */
import { expect, test } from 'bun:test'
import { loggingInSession, SessionWatch, type WatchPorts } from '../../src/accounts/session-watch.ts'
import { systemClock } from '../../src/platform/clock.ts'
import type { SessionRecord } from '../../src/storage/state.ts'
import { bot } from '../storage/support.ts'
import { failure } from '../support/failure.ts'

test('a look that fails in between loses no change: the next one tells of it', async () => {
  const records: SessionRecord[] = ['a', 'b'].map(name => ({ name, bot: bot(name) }))
  let fails = false
  const accounts: WatchPorts = {
    clock: systemClock,
    sessions: {
      listChangedSince: async (since = 0) => ({
        revision: records.length,
        changed: new Map(records.slice(since).map(record => [record.name, record])),
      }),
    },
    pending: async () => new Set(),
    lastPoll: () => undefined,
    defaultName: async () => 'a',
    countSuspects: async () => new Map(),
    sortRecords: async listed => {
      if (fails) throw new Error('a file cannot be read now')
      return [...listed]
    },
    readWithUsers: async listed =>
      listed.map(({ name }) => ({
        session: { ...loggingInSession(name), users: [] },
        due: Number.POSITIVE_INFINITY,
      })),
  }
  const watch = new SessionWatch(accounts)
  expect(await watch.check()).toBe(true)
  records.push({ name: 'c', bot: bot('c') })
  fails = true
  expect(await failure(watch.check())).toBeDefined()
  fails = false
  expect(await watch.check()).toBe(true)
  expect(watch.sessions().map(({ name }) => name)).toEqual(['a', 'b', 'c'])
  expect(await watch.check()).toBe(false)
})
