/** What an endpoint has in hand of the log: a model of the log and of a receiver stands for the world. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type LaneEvent, type LanePage, type LiveLane, WebhookLanes } from '../../src/push/lanes.ts'
import { cursorNumberOf } from '../../src/storage/events.ts'
import type { WebhookConversation, WebhookLane } from '../../src/storage/webhooks.ts'
import { runs } from '../support/properties.ts'

/** A log whose event n is of the conversation that stands there. */
const logOf = (conversations: readonly number[]): LaneEvent[] =>
  conversations.map((user, nth) => ({
    ...{ id: `s-${nth + 1}`, type: 'message.received', at: nth, session: 's', user: `u${user}` },
    data: async () => ({}),
  }))

const pageOf = (log: readonly LaneEvent[], cursor: string, limit: number, user?: string): LanePage => {
  const after = log.filter(
    one => cursorNumberOf(one.id) > cursorNumberOf(cursor) && (user === undefined || one.user === user),
  )
  const events = after.slice(0, limit)
  const end = `s-${log.length}`
  return { events, cursor: after.length > limit ? events.at(-1)!.id : end }
}

/** What the store has of it. */
class Kept {
  position = 's-0'
  readonly lanes = new Map<string, WebhookLane>()
  keep({
    position,
    lanes,
    ended,
  }: {
    position: string
    lanes: readonly WebhookLane[]
    ended: readonly WebhookConversation[]
  }) {
    this.position = position
    for (const lane of lanes) this.lanes.set(lane.user, lane)
    for (const { user } of ended) this.lanes.delete(user)
  }
  open = () => new WebhookLanes(this.position, [...this.lanes.values()])
}

type Step = 'read' | 'begin' | 'done' | 'fail' | 'back' | 'letGo' | 'keep' | 'crash' | 'time'
const steps: readonly Step[] = ['read', 'begin', 'done', 'fail', 'back', 'letGo', 'keep', 'crash', 'time']
const weighted = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom<Step>('read', 'begin', 'done', 'keep') },
  { weight: 1, arbitrary: fc.constantFrom(...steps) },
)

test('whatever fails, and wherever it dies: each event is delivered, in order per conversation, repeats apart', () => {
  const users = fc.array(fc.nat(4), { minLength: 1, maxLength: 120, size: 'max' })
  fc.assert(
    fc.property(
      users,
      fc.array(fc.tuple(weighted, fc.nat()), { maxLength: 400, size: 'max' }),
      fc.nat(20),
      (of, plan, size) => {
        const log = logOf(of)
        const kept = new Kept()
        let lanes = kept.open()
        let now = 0
        let underWay: { lane: LiveLane; event: LaneEvent }[] = []
        const delivered = new Map<string, string[]>()
        const begin = (probing: boolean) => {
          const lane = lanes.pickNext(now, probing)
          if (!lane) return false
          const event = lanes.startNext(lane)
          if (event) {
            underWay.push({ lane, event })
            const safe = cursorNumberOf(lanes.getSafeCursor(lane, event))
            const before = log.slice(0, safe).filter(one => one !== event)
            expect(before.filter(one => !delivered.get(one.user)?.includes(one.id))).toEqual([])
          } else lanes.addLanePage(lane, pageOf(log, lane.position, 3, lane.user))
          return true
        }
        const done = (nth: number) => {
          const [one] = underWay.splice(nth % underWay.length, 1)
          if (!one) return
          delivered.set(one.event.user, [...(delivered.get(one.event.user) ?? []), one.event.id])
          lanes.completeEvent(one.lane, one.event)
        }
        const act = (step: Step, nth: number) => {
          if (step === 'read') lanes.addPage(pageOf(log, lanes.readFrom, size + 1))
          if (step === 'begin') begin(nth % 2 === 0)
          if (step === 'time') now += 10_000
          if (step === 'letGo') lanes.clearQueues()
          if (step === 'keep' && lanes.hasChanges) kept.keep(lanes.takeProgress())
          if (step === 'crash') {
            underWay = []
            lanes = kept.open()
          }
          if (underWay.length === 0) return
          if (step === 'done') done(nth)
          if (step === 'back' || step === 'fail') {
            const [{ lane, event } = underWay[0]!] = underWay.splice(nth % underWay.length, 1)
            const trouble = { event: event.id, tries: 1, failed_at: now, retry_at: now + 5000 }
            if (step === 'back') lanes.putBack(lane, event)
            else lanes.recordFailure(lane, trouble)
          }
          expect(new Set(underWay.map(({ event }) => event.user)).size).toBe(underWay.length)
        }
        for (const [step, nth] of plan) act(step, nth)
        // In the end all goes well.
        for (let round = 0; round < 2000; round++) {
          now += 10_000
          act('read', 0)
          while (begin(false));
          if (underWay.length === 0 && lanes.readFrom === `s-${log.length}`) break
          while (underWay.length > 0) done(0)
        }
        kept.keep(lanes.takeProgress())
        expect(kept.lanes.size).toBe(0)
        expect(kept.position).toBe(`s-${log.length}`)
        expect([lanes.waitingCount, lanes.queuedCount]).toEqual([0, 0])
        for (const user of new Set(log.map(one => one.user))) {
          const expected = log.filter(one => one.user === user).map(one => one.id)
          const got = delivered.get(user) ?? []
          // First deliveries are in order and without a gap.
          expect([...new Set(got)]).toEqual(expected)
          // A repeat goes on in order from there.
          for (const [nth, id] of got.entries()) {
            const next = got[nth + 1]
            if (next !== undefined)
              expect(expected.indexOf(next)).toBeLessThanOrEqual(expected.indexOf(id) + 1)
          }
        }
      },
    ),
    runs(400),
  )
})

test('a conversation that cannot keep up is not held in memory, nor does it hold up others', () => {
  const log = logOf([...Array.from({ length: 500 }, () => 0), 1])
  const lanes = new Kept().open()
  const slow = () => lanes.startNext(lanes.pickNext(0, false)!)
  lanes.addPage(pageOf(log, lanes.readFrom, 10))
  slow()
  lanes.addPage(pageOf(log, lanes.readFrom, 1000))
  expect(lanes.queuedCount).toBeLessThan(50)
  expect(slow()?.user).toBe('u1')
})

test('many conversations that are slow let the log be read on for others, and not all of theirs is in memory', () => {
  const slow = 60
  const log = logOf([...Array.from({ length: slow * 40 }, (_, nth) => nth % slow), slow])
  const lanes = new Kept().open()
  const read = () => lanes.addPage(pageOf(log, lanes.readFrom, 128))
  read()
  for (let nth = 0; nth < slow; nth++) lanes.startNext(lanes.pickNext(0, false)!)
  while (lanes.readFrom !== log.at(-1)!.id) {
    expect(lanes.waitingCount).toBeLessThan(64)
    read()
  }
  expect(lanes.queuedCount).toBeLessThan(1200)
  expect(lanes.startNext(lanes.pickNext(0, false)!)?.user).toBe(`u${slow}`)
})

test('while an endpoint fails, what did not fail is tried first, and what did takes turns', () => {
  const log = logOf([0, 1, 2])
  const lanes = new Kept().open()
  lanes.addPage(pageOf(log, lanes.readFrom, 10))
  const fail = () => {
    const lane = lanes.pickNext(0, true)!
    const event = lanes.startNext(lane)
    if (!event) {
      lanes.addLanePage(lane, pageOf(log, lane.position, 3, lane.user))
      return undefined
    }
    lanes.recordFailure(lane, { event: event.id, tries: 1, failed_at: 0, retry_at: 5000 })
    return event.user
  }
  const tried: string[] = []
  while (tried.length < 6) tried.push(...[fail() ?? []].flat())
  expect(tried).toEqual(['u0', 'u1', 'u2', 'u0', 'u1', 'u2'])
  expect(lanes.pickNext(0, false)).toBeUndefined()
  expect(lanes.getDueInMs(0)).toBe(5000)
})

test('a conversation that ended and began anew between two keeps is kept', () => {
  const log = logOf([0, 0])
  const kept = new Kept()
  const lanes = kept.open()
  lanes.addPage(pageOf(log.slice(0, 1), lanes.readFrom, 10))
  kept.keep(lanes.takeProgress())
  const lane = lanes.pickNext(0, false)!
  lanes.completeEvent(lane, lanes.startNext(lane)!)
  lanes.addPage(pageOf(log, lanes.readFrom, 10))
  kept.keep(lanes.takeProgress())
  expect([...kept.lanes.values()]).toMatchObject([{ user: 'u0', position: 's-1' }])
})
