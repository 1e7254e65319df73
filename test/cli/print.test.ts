import { expect, test } from 'bun:test'
import { hintOf } from '../../src/cli/print.ts'
import { SvcError } from '../../src/model/error.ts'

test('how long to wait is said once, in the error or in its hint', () => {
  const hint = (detail: string) => hintOf(new SvcError('rate_limited', detail, { retryAfter: 144 }))
  expect(hint('the pace allows the next send to this user in 144 s')).toBe(
    'Try again then; --pace sets how fast one may send.',
  )
  expect(hint('not tried, because an earlier part failed')).toBe(
    'Try again in 144 s; --pace sets how fast one may send.',
  )
})
