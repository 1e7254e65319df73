/** Parts of an answer one by one: what cannot be sent, a stop, an old answer, a lost claim. */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ClaimLost } from '../../src/agent/claim.ts'
import { AnswerDelivery, type DeliveryPorts } from '../../src/agent/delivery.ts'
import { textsFor } from '../../src/agent/texts.ts'
import {
  type AnswerPart,
  type CallOptions,
  type SendInput,
  type StoredTurn,
  SvcError,
  type TurnChange,
} from '../../src/index.ts'
import { silentLog } from '../../src/platform/log.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import { folderOfFile } from '../support/folder.ts'

function play({
  left = 10,
  fail,
  wrote = '你好',
  ...more
}: Partial<DeliveryPorts> & {
  left?: number
  fail?: (input: SendInput) => SvcError | undefined
  /** What the user wrote last. */
  wrote?: string
} = {}) {
  const sent: SendInput[] = []
  const limits: (string | undefined)[] = []
  const changes: TurnChange[] = []
  const world = {
    hasClaim: true,
    sent,
    limits,
    changes,
    last: () => Object.assign({}, ...changes) as TurnChange,
  }
  const send = async (input: SendInput, options?: CallOptions) => {
    limits.push(options?.below)
    const error = fail?.(input)
    if (error) throw error
    sent.push(input)
    return { waits_for: 'approval' }
  }
  const ports = {
    svc: { history: async () => ({ messages: [{ text: wrote }] }), outbox: { list: async () => [] } },
    work: {
      changeTurn: async (_id: number, change: TurnChange) => {
        if (world.hasClaim) changes.push(change)
        return world.hasClaim
      },
    },
    people: {
      getSender: async () => ({ send, users: async () => [{ remaining: Math.max(0, left - sent.length) }] }),
      findOperator: async () => ({ session: 's', user_id: 'owner' }),
      findMark: async () => undefined,
    },
    findFolder: async () => folder,
    clock: testClock({ runs: false }),
    log: silentLog,
    ...more,
  } as unknown as DeliveryPorts
  return { ...world, world, delivery: new AnswerDelivery(ports), now: ports.clock.now() }
}

const turn = (parts: AnswerPart[], others: Partial<StoredTurn> = {}): StoredTurn => ({
  id: 7,
  agent: 'agent',
  session: 'default',
  user_id: 'u@im.wechat',
  status: 'running',
  source: 'message',
  messages: [3, 4],
  created_at: 0,
  isFresh: false,
  answer: { parts },
  ...others,
})
const texts = (count: number): AnswerPart[] =>
  Array.from({ length: count }, (_, nth) => ({ text: `part ${nth}` }))
const folder = folderOfFile()
const file = { path: join(folder, 'a.txt'), kind: 'file' } as const
writeFileSync(file.path, 'a')

test('keys count from the first message; the last part that fits says how many wait', async () => {
  const { delivery, last, sent } = play({ left: 4 })
  await delivery.deliver(turn(texts(5)))
  expect(sent.map(({ idempotency_key }) => idempotency_key)).toEqual(['agent:3:0', 'agent:3:1', 'agent:3:2'])
  expect(sent.at(-1)?.text).toBe('part 2\n\n（还有 2 条，回复「更多」）')
  expect(last()).toMatchObject({ status: 'more', parts_sent: 3 })
})

test('after a file, the line about the rest is a message of its own, and fits too', async () => {
  const { delivery, last, sent } = play({ left: 4 })
  await delivery.deliver(turn([file, file, file, file, file]))
  expect(sent).toHaveLength(2)
  expect(last()).toMatchObject({ status: 'more', parts_sent: 2 })
})

test('a file that cannot be sent is named; the rest goes on', async () => {
  const { delivery, last, sent } = play({
    fail: ({ media }) => (media ? new SvcError('invalid_arguments', 'no such file') : undefined),
  })
  await delivery.deliver(turn([{ text: 'look' }, file, { text: 'end' }]))
  expect(sent.map(({ text }) => text)).toEqual(['look', expect.stringContaining('a.txt'), 'end'])
  expect(last()).toMatchObject({ status: 'answered', parts_sent: 3 })
})

test('a file is sent from the folder of the agent only', async () => {
  const { delivery, limits } = play()
  // As a version before the first release stored it, or somebody who changed the store.
  const foreign = { path: '/etc/hostname', folder: '/etc', kind: 'file' } as typeof file
  await delivery.deliver(turn([{ text: 'look' }, file, foreign]))
  expect(limits).toEqual([undefined, folder, folder])
})

test('a text that cannot be sent at all waits for /more; a store that fails leaves the turn as it is', async () => {
  const gone = play({ fail: () => new SvcError('not_connected', 'logged out') })
  await gone.delivery.deliver(turn(texts(2)))
  expect(gone.last()).toMatchObject({ status: 'more', error: 'logged out' })
  const full = play({ fail: () => new SvcError('store_unavailable', 'disk full') })
  expect(await failure(full.delivery.deliver(turn(texts(2))))).toMatchObject({ code: 'store_unavailable' })
  expect(full.changes).toEqual([])
})

test('a stop ends it after the part that is being sent', async () => {
  const { delivery, last, sent } = play()
  await delivery.deliver(turn(texts(5)), () => sent.length === 2)
  expect(last()).toMatchObject({ status: 'more', parts_sent: 2 })
})

test('an answer that was being sent a day ago is not sent again by itself', async () => {
  const { delivery, last, now, sent } = play()
  const started_at = now - 21 * 60 * 60_000
  await delivery.deliver(turn(texts(3), { status: 'answering', started_at, parts_sent: 1 }))
  expect(sent).toEqual([])
  expect(last()).toMatchObject({ status: 'more' })
  await delivery.deliver(turn(texts(3), { status: 'more', started_at, parts_sent: 1 }))
  expect(sent.map(({ text }) => text)).toEqual(['part 1', 'part 2'])
  expect(last()).toMatchObject({ status: 'answered', parts_sent: 3 })
})

test('without the claim it sends nothing more', async () => {
  const { delivery, sent, world } = play()
  world.hasClaim = false
  expect(await failure(delivery.deliver(turn(texts(3))))).toBeInstanceOf(ClaimLost)
  expect(sent).toHaveLength(1)
})

for (const wrote of ['Hello', '你好'])
  test(`the last two answers say how many are left: ${wrote}`, async () => {
    const { left: line, more } = textsFor(wrote)
    /** Answers left, the parts, and what the text of each message ends with. */
    const cases: readonly [left: number, parts: AnswerPart[], ends: (string | undefined)[]][] = [
      [10, texts(1), ['part 0']],
      [3, texts(1), ['part 0']],
      [2, texts(1), [line(1)]],
      [1, texts(1), [line(0)]],
      // It waits until the user writes.
      [0, texts(1), ['part 0']],
      [10, texts(9), [...Array.from({ length: 8 }, (_, nth) => `part ${nth}`), line(1)]],
      [10, texts(10), [...Array.from({ length: 8 }, (_, nth) => `part ${nth}`), more(1)]],
      [2, texts(2), [more(1)]],
      [1, texts(2), [more(1)]],
      // A file would need a message for the line.
      [3, [...texts(1), file], [line(1), undefined]],
      [4, [...texts(1), file], ['part 0', undefined]],
      [4, [...texts(1), file, file], [line(1), undefined, undefined]],
      [2, [file], [undefined]],
    ]
    for (const [left, parts, ends] of cases) {
      const { delivery, sent } = play({ left, wrote })
      await delivery.deliver(turn(parts))
      expect(sent).toHaveLength(ends.length)
      for (const [nth, end] of ends.entries())
        if (end === undefined) expect(sent[nth]!.text).toBeUndefined()
        else expect(sent[nth]!.text).toEndWith(end)
      // Once at most.
      expect(sent.filter(({ text }) => text?.includes(line(1)) || text?.includes(line(0))).length).toBe(
        Number(ends.includes(line(1)) || ends.includes(line(0))),
      )
    }
  })

test('the line about the last answers: notices have it, drafts and questions do not, and the pace comes first', async () => {
  const { left: line, nextIn, silent } = textsFor('你好')
  const notices = play({ left: 2 })
  await notices.delivery.tell(turn([]), texts => texts.silent, 'key')
  await notices.delivery.show(turn([]), texts => texts.silent, 'question')
  expect(notices.sent.map(({ text }) => text)).toEqual([`${silent}\n\n${line(1)}`, silent])
  const proposed: (readonly number[])[] = []
  const propose = async (_turn: StoredTurn, drafts: readonly number[]) => void proposed.push(drafts)
  const drafts = play({ left: 2, approvals: { areNeeded: async () => true, propose } })
  await drafts.delivery.deliver(turn(texts(1)))
  expect(drafts.sent.map(({ text }) => text)).toEqual(['part 0'])
  expect(proposed).toHaveLength(1)
  const paced = play({ left: 2, pace: { perSecond: 1, perWindow: 1, windowMs: 60_000 } })
  await paced.delivery.tell(turn([]), texts => texts.silent, 'key')
  expect(paced.sent.map(({ text }) => text)).toEqual([`${silent}\n\n${nextIn(1)}`])
})

test('a part that an earlier process sent with another line at its end is not sent again', async () => {
  const conflict = new SvcError('idempotency_conflict', 'used for another message')
  const { delivery, last, now, sent } = play({
    left: 3,
    fail: ({ idempotency_key }) => (idempotency_key === 'agent:3:0' ? conflict : undefined),
  })
  await delivery.deliver(turn([...texts(1), file], { status: 'answering', started_at: now }))
  expect(sent.map(({ idempotency_key }) => idempotency_key)).toEqual(['agent:3:1'])
  expect(last()).toMatchObject({ status: 'answered', parts_sent: 2 })
})
