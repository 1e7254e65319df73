import { expect, test } from 'bun:test'
import { resolveWrittenAt } from '../../src/receive/written-at.ts'

const hour = 3_600_000
const now = 1_800_000_000_000
const day = 24 * hour

test.each([
  ['a message that came live was written now, whatever upstream says', now - day, now - 50, true, now - 50],
  ['also one without a time', undefined, now - 50, true, now],
  ['a time between our last look and now is believed', now - 20, now - 50, true, now - 20],
  ['a backlog was written when upstream says', now - 5 * hour, undefined, true, now - 5 * hour],
  ['also one older than a window', now - 30 * hour, undefined, true, now - 30 * hour],
  ['nothing was written in the future', now + hour, undefined, true, now],
  ['a look in the future, by a clock that was set, is none', now - 5, now + hour, true, now],
  ['a time of another year is none', now - 400 * day, undefined, true, now],
  [
    'a message that comes again dates from when it was written',
    now - 5 * hour,
    now - 50,
    false,
    now - 5 * hour,
  ],
])('%s', (_, stated, earliest, isNew, expected) => {
  expect(resolveWrittenAt(stated, { now, earliest, isNew })).toEqual({ received_at: expected })
})

test.each([undefined, now - 400 * day])(
  'a message that comes again with the time %p dates nothing',
  stated => {
    expect(resolveWrittenAt(stated, { now, earliest: now, isNew: false })).toEqual({
      received_at: now,
      again: true,
    })
  },
)
