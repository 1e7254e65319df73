/** The decisions of the outbox without a database: the facts, which a plan changes, are the state. */
import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { SendRules } from '../../../src/model/admission.ts'
import type { BegunMessage, EntryPart, SendMode, StoredEntry } from '../../../src/storage/outbox.ts'
import { begin, enqueue, settle } from '../../../src/storage/rules/outbox.ts'
import { approve, askAgain, end, endOrphan } from '../../../src/storage/rules/outbox-ends.ts'
import { type LaneFacts, OutboxPlan } from '../../../src/storage/rules/outbox-plan.ts'
import { runs } from '../../support/properties.ts'
import { open, outgoing } from '../support.ts'

const paced: SendRules = { ...open, pace: { perSecond: 1, perWindow: 4, windowMs: 60_000 } }
const cancelled = { code: 'cancelled', detail: 'cancelled' }

/** One lane of a store that is nothing but the facts. */
class World {
  now = 1_800_000_000_000
  readonly lane: LaneFacts = {
    id: 1,
    session: 's',
    user: 'u',
    counter: { used: 0, received_at: 1 },
    not_before: 0,
    failures: 0,
    busy: false,
    isTaken: false,
    lease_until: 0,
  }
  readonly entries = new Map<number, StoredEntry>()
  readonly slots: number[] = []
  readonly begun: BegunMessage[] = []
  readonly #rules: SendRules
  #rows = 0

  constructor(rules: SendRules) {
    this.#rules = rules
  }

  /** Writes what is decided. */
  decide<T>(work: (plan: OutboxPlan) => T): T {
    const plan = new OutboxPlan(this.now)
    const result = work(plan)
    for (const slot of plan.slots) {
      if ('taken' in slot) this.slots.push(slot.taken)
      else {
        const at = this.slots.indexOf(slot.given_back)
        // A slot is given back once.
        expect(at).toBeGreaterThanOrEqual(0)
        this.slots.splice(at, 1)
      }
    }
    for (const { part } of plan.newRows) part.message = ++this.#rows
    for (const { entry } of plan.newEntries) this.entries.set(entry.id, entry)
    for (const { id } of plan.ended) this.entries.get(id)!.ended = true
    for (const id of plan.removed) this.entries.delete(id)
    return result
  }

  /** Admission, as it would be read now. */
  get admission() {
    const session = [...this.slots].sort((a, b) => b - a)
    return { lane: this.lane, slots: { session, user: [...session] }, ahead: [] }
  }

  enqueue(id: number, mode: SendMode, count: number, more: { asked?: SendMode; key?: string } = {}) {
    const parts = Array.from({ length: count }, () => ({
      kind: 'text' as const,
      ...(mode === 'queue' && { waiting: { message: outgoing('x') } }),
    }))
    const entry = { session: 's', bot_id: 'b', user: 'u', mode, made_by: 'owner', parts, ...more }
    const first = mode === 'fail' ? outgoing('f') : undefined
    const facts = { ...this.admission, unsent: [], asked: [], keys: [] }
    const call = { entry, maker: 'owner', id, rules: this.#rules, first, owner: 'me' }
    const result = this.decide(plan => enqueue(facts, call, plan))()
    if (result.state === 'new' && result.begun) this.begun.push(result.begun)
    return result
  }

  begin(entry: StoredEntry, more: { owner?: string; unapproved?: boolean } = {}) {
    const part = entry.parts.find(({ status }) => status === 'queued')!
    const unapproved = more.unapproved ? [{ entry, lane: this.lane }] : []
    const parts = [{ part, hasRow: true }]
    const facts = { ...this.admission, mode: entry.mode, owner: more.owner ?? 'me', parts, unapproved }
    const how = { count: 1, botId: 'b', rules: this.#rules, message: outgoing('m'), owner: 'me' }
    const result = this.decide(plan => begin(facts, how, plan))()
    if (result.go === 'begun') this.begun.push(result.begun)
    return result
  }

  settle(begun: BegunMessage, settlement: Parameters<typeof settle>[2], again = false) {
    const entry = this.entries.get(Math.floor(begun.parts[0]! / 1000))
    const entries = entry ? [{ entry, lane: this.lane }] : []
    return this.decide(plan => settle({ lane: this.lane, entries, again }, begun, settlement, plan))
  }

  end = (entry: StoredEntry, only?: SendMode) =>
    this.decide(plan => end({ entry, lane: this.lane }, cancelled, { ...(only && { only }), by: 'o' }, plan))

  approve = (entry: StoredEntry, edited?: { text: string; raw: string }) =>
    this.decide(plan =>
      approve({ entry, ...this.admission }, { rules: this.#rules, by: 'owner', edited }, plan),
    )
}

const statusesOf = ({ parts }: { parts: readonly EntryPart[] }) => parts.map(({ status }) => status)

/** A world with one message that is being sent. */
function sending(rules: SendRules, mode: SendMode, parts = 1) {
  const world = new World(rules)
  world.enqueue(1, mode, parts)
  const entry = world.entries.get(1)!
  if (mode === 'queue') world.begin(entry)
  return { world, entry, begun: world.begun[0]! }
}

describe('properties', () => {
  const step = fc.record({
    kind: fc.constantFrom(
      'enqueue',
      'enqueue',
      'begin',
      'begin',
      'settle',
      'end',
      'orphan',
      'ask',
      'approve',
    ),
    ms: fc.constantFrom(1, 300, 1000, 5000),
    nth: fc.nat(50),
    parts: fc.integer({ min: 1, max: 3 }),
    isQueued: fc.boolean(),
    isSpent: fc.boolean(),
    isUnseen: fc.boolean(),
  })

  test.each([
    ['without a pace', open],
    ['with a pace', paced],
  ] as const)('answers are counted once, slots are used once, and what ended stays: %s', (_name, rules) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), steps => {
        const world = new World(rules)
        const ended = new Map<number, string>()
        let counted = 0
        for (const [at, { isQueued, isSpent, isUnseen, kind, ms, nth, parts }] of steps.entries()) {
          world.now += ms
          const entry = [...world.entries.values()][nth % (world.entries.size || 1)]
          const before = world.begun.length
          if (kind === 'enqueue') world.enqueue(at + 1, isQueued ? 'queue' : 'fail', parts)
          else if (kind === 'settle') {
            const [begun] = world.begun.splice(nth % (before || 1), 1)
            if (!begun) continue
            const mayWait = world.entries.get(Math.floor(begun.parts[0]! / 1000))?.mode === 'queue'
            const status = isQueued && mayWait ? 'queued' : parts === 1 ? 'refused' : 'accepted'
            world.settle(begun, { status, spent: isSpent, unseen: isUnseen })
            if (!isSpent) counted -= 1
            continue
          } else if (!entry) continue
          else if (kind === 'begin') {
            if (entry.parts.some(({ status }) => status === 'queued')) world.begin(entry)
          } else if (kind === 'end') world.end(entry)
          else if (kind === 'orphan' && nth % 4 === 0)
            world.decide(plan => endOrphan({ entry, lane: world.lane }, { lost: [], isOver: true }, plan))
          else if (kind === 'ask' && entry.mode === 'queue' && !entry.ended)
            world.decide(plan => askAgain({ entry, lane: world.lane }, world.now + 60_000, plan))
          else if (kind === 'approve') world.approve(entry)
          counted += Math.max(0, world.begun.length - before)
          expect(world.lane.counter.used).toBe(counted)
          expect(new Set(world.slots).size).toBe(world.slots.length)
          for (const one of world.entries.values()) {
            if (!one.ended) continue
            ended.set(one.id, ended.get(one.id) ?? JSON.stringify(one.parts))
            expect(JSON.stringify(one.parts)).toBe(ended.get(one.id)!)
          }
        }
      }),
      runs(400),
    )
  })
})

describe('a call', () => {
  test.each([
    { mode: 'fail', parts: 2, statuses: ['sending', 'queued'], used: 1 },
    { mode: 'queue', parts: 2, statuses: ['queued', 'queued'], used: 0 },
    { mode: 'queue', parts: 1, asked: 'queue', statuses: ['asked'], used: 0 },
    { mode: 'queue', parts: 1, asked: 'fail', statuses: ['asked'], used: 0 },
  ] as const)('of mode $mode with $parts parts, asked $asked', ({ mode, parts, statuses, used, ...more }) => {
    const world = new World(open)
    world.enqueue(1, mode, parts, more)
    expect(statusesOf(world.entries.get(1)!)).toEqual([...statuses])
    expect(world.lane.counter.used).toBe(used)
  })

  test('that must not wait is not stored while the answers are used up; one that may wait is', () => {
    const world = new World({ ...open, quota: 0 })
    expect(world.enqueue(1, 'fail', 1)).toMatchObject({ state: 'closed', verdict: { why: 'quota' } })
    expect(world.enqueue(2, 'queue', 1)).toMatchObject({ state: 'new', verdict: { why: 'quota' } })
    expect([...world.entries.keys()]).toEqual([2])
  })
})

describe('a message begins', () => {
  test('not for another process, in a lane of another process, or when it was ended meanwhile', () => {
    const world = new World(open)
    world.enqueue(1, 'fail', 2)
    const entry = world.entries.get(1)!
    expect(world.begin(entry, { owner: 'another' })).toEqual({ go: 'gone' })
    world.enqueue(2, 'queue', 1)
    Object.assign(world.lane, { isTaken: true })
    expect(world.begin(world.entries.get(2)!)).toEqual({ go: 'gone' })
    const facts = { ...world.admission, mode: 'fail', owner: 'me', parts: [], unapproved: [] } as const
    const how = { count: 1, botId: 'b', rules: open, message: outgoing('m'), owner: 'me' }
    expect(world.decide(plan => begin(facts, how, plan))()).toEqual({ go: 'gone' })
    expect(world.lane.counter.used).toBe(1)
  })

  test('of a key that ended waits for a yes instead, at most a day', () => {
    const world = new World(open)
    world.enqueue(1, 'queue', 2)
    const entry = world.entries.get(1)!
    expect(world.begin(entry, { unapproved: true })).toEqual({ go: 'gone' })
    expect(statusesOf(entry)).toEqual(['asked', 'asked'])
    expect(entry.expires_at).toBe(world.now + 24 * 60 * 60_000)
  })

  test('later than its slot gets another one', () => {
    const world = new World(paced)
    world.enqueue(1, 'queue', 1)
    world.enqueue(2, 'queue', 1)
    const [first, second] = [...world.entries.values()] as [StoredEntry, StoredEntry]
    expect(world.begin(first).go).toBe('begun')
    expect(world.begin(second)).toMatchObject({ go: 'later' })
    const missed = second.parts[0]!.slot
    world.now += 60_000
    expect(world.begin(second).go).toBe('begun')
    expect(second.parts[0]!.slot).not.toBe(missed)
    expect(world.slots).not.toContain(missed)
  })
})

describe('a message is settled', () => {
  test.each([
    { mode: 'fail', status: 'accepted', spent: true, statuses: ['accepted'], used: 1, stays: false },
    { mode: 'fail', status: 'refused', spent: false, statuses: ['refused'], used: 0, stays: false },
    { mode: 'fail', status: 'unknown', spent: true, statuses: ['unknown'], used: 1, stays: false },
    { mode: 'queue', status: 'accepted', spent: true, statuses: ['accepted'], used: 1, stays: true },
    { mode: 'queue', status: 'queued', spent: false, statuses: ['queued'], used: 0, stays: true },
    { mode: 'queue', status: 'queued', spent: true, statuses: ['queued'], used: 1, stays: true },
  ] as const)('$mode: $status, spent $spent', ({ mode, status, spent, statuses, used, stays }) => {
    const { begun, world } = sending(open, mode)
    const { entries } = world.settle(begun, { status, spent })
    expect(statusesOf(entries[0]!)).toEqual([...statuses])
    expect(world.lane.counter.used).toBe(used)
    expect(world.entries.has(1)).toBe(stays)
    if (status === 'queued') expect(entries[0]!.parts[0]!.tries).toBe(spent ? 1 : 0)
  })

  test.each([
    [true, false, 1],
    [false, false, 1],
    [false, true, 0],
  ])('spent %p, unseen %p: %d slots stay taken', (spent, unseen, slots) => {
    const { begun, world } = sending(paced, 'queue')
    world.settle(begun, { status: 'refused', spent, unseen })
    expect(world.slots).toHaveLength(slots)
  })

  test('after its user wrote: the new count stays', () => {
    const { begun, world } = sending(open, 'fail')
    world.lane.counter = { used: 0, received_at: 2 }
    world.settle(begun, { status: 'refused', spent: false })
    expect(world.lane.counter.used).toBe(0)
  })

  test('twice: the second time changes neither counter nor entry', () => {
    const { begun, world } = sending(open, 'queue', 2)
    world.settle(begun, { status: 'accepted', spent: false })
    const before = JSON.stringify(world.entries.get(1))
    expect(world.settle(begun, { status: 'refused', spent: false }, true).entries).toEqual([])
    expect(JSON.stringify(world.entries.get(1))).toBe(before)
    expect(world.lane.counter.used).toBe(0)
  })

  test('with an end for the rest: what waits in its entry is refused', () => {
    const { begun, entry, world } = sending(open, 'fail', 3)
    world.settle(begun, { status: 'refused', spent: true, rest: cancelled })
    expect(statusesOf(entry)).toEqual(['refused', 'refused', 'refused'])
  })
})

describe('a call ends', () => {
  test('what waits is refused, what is being sent goes on', () => {
    const { begun, entry, world } = sending(open, 'queue', 3)
    expect(world.end(entry)).toMatchObject({ ended: 2, entry: { ended: false } })
    expect(statusesOf(entry)).toEqual(['sending', 'refused', 'refused'])
    world.settle(begun, { status: 'accepted', spent: true })
    expect(entry.ended).toBe(true)
  })

  test('only if it is of the mode that is meant, and has not ended', () => {
    const { entry, world } = sending(open, 'fail', 2)
    expect(world.end(entry, 'queue')).toBeUndefined()
    world.enqueue(2, 'queue', 1)
    const other = world.entries.get(2)!
    expect(world.end(other, 'queue')).toMatchObject({ ended: 1 })
    expect(world.end(other, 'queue')).toBeUndefined()
    expect(other.ended_by).toBe('o')
  })

  test.each([
    [true, [], ['unknown', 'refused'], 0],
    [true, [1000], ['unknown', 'refused'], 1],
    [false, [1000], ['unknown', 'queued'], 1],
    [false, [1001], ['sending', 'queued'], 0],
  ] as const)('with a process that died, over %p, lost %p', (isOver, lost, statuses, unknown) => {
    const { entry, world } = sending(open, 'fail', 2)
    const found = { entry, lane: world.lane }
    expect(world.decide(plan => endOrphan(found, { lost, isOver }, plan))).toBe(unknown)
    expect(statusesOf(entry)).toEqual([...statuses])
  })
})

describe('an approval', () => {
  const asking = (asked: SendMode, rules = open) => {
    const world = new World(rules)
    world.enqueue(1, 'queue', 1, { asked })
    return { world, entry: world.entries.get(1)! }
  }

  test('lets a send wait like any other, with the text that a person wrote', () => {
    const { entry, world } = asking('queue')
    expect(world.approve(entry, { text: 'better', raw: '{}' })).toMatchObject({ state: 'approved' })
    expect(entry.parts[0]).toMatchObject({ status: 'queued', text: 'better' })
    expect(entry.approved_by).toBe('owner')
    expect(world.approve(entry)).toBeUndefined()
  })

  test('comes too late, or finds no text to edit', () => {
    const { entry, world } = asking('queue')
    entry.parts[0]!.kind = 'image'
    expect(world.approve(entry, { text: 'better', raw: '{}' })).toBeUndefined()
    world.now = entry.expires_at
    expect(world.approve(entry)).toBeUndefined()
    expect(statusesOf(entry)).toEqual(['asked'])
  })

  test('of a send that must not wait: refused while it cannot go', () => {
    const { entry, world } = asking('fail', { ...open, quota: 0 })
    expect(world.approve(entry)).toMatchObject({ state: 'closed', verdict: { why: 'quota' } })
    expect(statusesOf(entry)).toEqual(['asked'])
  })
})
