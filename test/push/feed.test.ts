/** The event log as endpoints read it, where not all of a page can be read at once. */
import { expect, test } from 'bun:test'
import { Feed, type FeedPorts } from '../../src/push/feed.ts'
import { cursorNumberOf } from '../../src/storage/events.ts'

/** A log of events of these messages; so many rows are read at a time, and showing one fails so often. */
function feedOf(messages: readonly number[], { rows = 10, failures = 0, status = '', now = {} } = {}) {
  let shown = 0
  const all = messages.map((message, nth) => ({
    ...{ cursor: `s-${nth + 1}`, type: 'message.received', at: nth, message },
    ...(status && { status }),
  }))
  return new Feed({
    events: {
      listAfter: async (cursor: string, { limit }: { limit: number }) => {
        const events = all.filter(one => cursorNumberOf(one.cursor) > cursorNumberOf(cursor)).slice(0, limit)
        return { events, cursor: events.at(-1)?.cursor ?? cursor }
      },
    },
    log: {
      getByIds: async (ids: readonly number[]) =>
        ids.slice(0, rows).map(id => ({ id, session: 's', from_user: 'u', direction: 'received', ...now })),
    },
    views: {
      toMessage: async (row: object) => {
        if (shown++ < failures) throw new Error('busy')
        return row
      },
    },
  } as unknown as FeedPorts)
}

const all = { types: [] }

test('what has no room is read the next time, also before another event of what had room', async () => {
  const feed = feedOf([1, 2, 1, 3], { rows: 1 })
  const ids: string[] = []
  for (let cursor = 's-0'; ; ) {
    const page = await feed.readAfter(cursor, all, 10)
    ids.push(...page.events.map(({ id }) => id))
    if (page.cursor === cursor) break
    cursor = page.cursor
  }
  expect(ids).toEqual(['s-1', 's-2', 's-3', 's-4'])
})

test('what could not be shown is shown when it is asked for again', async () => {
  const { events } = await feedOf([1], { failures: 1 }).readAfter('s-0', all, 10)
  expect(await events[0]!.data().catch(() => 'failed')).toBe('failed')
  expect(await events[0]!.data()).toMatchObject({ id: 1 })
})

test('a status that is told late is told as it was', async () => {
  const now = { status: 'refused', reason: 'why', reason_code: 'held' }
  const { events } = await feedOf([1], { status: 'queued', now }).readAfter('s-0', all, 10)
  const shown = await events[0]!.data()
  expect(shown).toMatchObject({ status: 'queued' })
  expect(Object.keys(shown)).not.toContain('reason')
})
