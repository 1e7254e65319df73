/** Runs the same random steps on both engines, and compares what each step returns and leaves. */
import { expect } from 'bun:test'
import fc from 'fast-check'
import { SvcError } from '../../../src/model/error.ts'
import type { LoggedEvent } from '../../../src/storage/events.ts'
import type { ReceivedMessage } from '../../../src/storage/messages.ts'
import type { BegunMessage } from '../../../src/storage/outbox.ts'
import type { Store } from '../../../src/storage/store.ts'
import { runs } from '../../support/properties.ts'
import { openPostgres } from '../postgres/support.ts'
import { openSqlite } from '../sqlite/support.ts'
import { lateId, message, type Opened, type Running, rename } from '../support.ts'

/** One engine under comparison, with what the steps so far noted about it. */
export interface Side<Notes> extends Opened {
  /** A second process on the same store; the same one in a comparison of a single process. */
  readonly other: Running
  readonly notes: Notes
}

/** A step that can be drawn: its arguments, and what it does. What it returns is compared. */
export interface Verb<Notes> {
  readonly weight: number
  readonly args: fc.Arbitrary<object>
  readonly run: (side: Side<Notes>, args: never) => unknown
}

/** Makes verbs whose steps share notes. */
export const verbsOf =
  <Notes>() =>
  <Args extends object>(
    args: { [Name in keyof Args]: fc.Arbitrary<Args[Name]> },
    run: (side: Side<Notes>, args: Args) => unknown,
    weight = 1,
  ): Verb<Notes> => ({ weight, args: fc.record(args, { noNullPrototype: true }), run })

/** True in one of five cases. */
export const rarely = fc.nat(4).map(one => one === 0)

/** The store of this process, or of the other one. */
export const storeOf = ({ store, other }: Running & { other: Running }, isOther: boolean): Store =>
  isOther ? other.store : store

/** An object without the fields that are undefined, as callers pass it. */
export const filled = <T extends object>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T

/** For lists in no order. */
export const sorted = (list: Iterable<unknown>): unknown[] =>
  [...list].sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))

/** A received message that is the same on both sides. */
export const received = (text: string, nth: number, more: Partial<ReceivedMessage> = {}): ReceivedMessage =>
  message(text, { message_id: `9${nth}`, timestamp: nth, raw: JSON.stringify(text), ...more })

/** A row id: one of the first, or 0, that of no row. */
export const rowId = (most: number): fc.Arbitrary<number> => fc.nat(most).map(nth => nth && lateId + nth)

/** An optional argument. */
export const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq: 1 })

/** The steps that every comparison may have. */
export const timePasses = (...ms: number[]): Verb<unknown> =>
  verbsOf<unknown>()({ ms: fc.constantFrom(...ms) }, ({ clock }, { ms }) => {
    clock.at += ms
  })

/** A session gets another name. */
export const renames = (
  from: fc.Arbitrary<string> = fc.constantFrom('s', 't'),
  to: fc.Arbitrary<string> = fc.constantFrom('s', 't', 'n'),
): Verb<unknown> =>
  verbsOf<unknown>()({ from, to }, (side, { from, to }) => (from === to ? idle : rename(side, from, to)))

/** A user gets a name, or loses it. */
export const namesUser = (session: fc.Arbitrary<string>, user: fc.Arbitrary<string>): Verb<unknown> =>
  verbsOf<unknown>()(
    { session, user, name: maybe(fc.constantFrom('Ann', 'Bob')) },
    ({ store }, { session, user, name }) => store.names.set(session, user, name),
  )

/** The newest message that was begun has its answer from upstream. */
export const settles = verbsOf<{ begun: BegunMessage[]; count: number }>()(
  { status: fc.constantFrom('accepted', 'refused', 'suspect', 'unknown') },
  async ({ store, notes }, { status }) => {
    const begun = notes.begun.pop()
    if (!begun) return idle
    const error = { code: 'window_closed', detail: 'late' }
    const more = status === 'accepted' ? { message_id: `up${++notes.count}` } : { error }
    await store.outbox.settle(begun, { status, spent: true, ...more })
    return status
  },
  2,
)

/** All events, without their cursors, which differ between the engines. */
export async function eventsOf({ events: log }: Store): Promise<Omit<LoggedEvent, 'cursor'>[]> {
  const { events } = await log.listAfter('', { limit: 1000, hidden: true })
  return events.map(({ cursor: _, ...event }) => event)
}

interface Comparison<Notes> {
  /** What the steps of one sequence note about a side. */
  notes: () => Notes
  verbs: Readonly<Record<string, Verb<Notes>>>
  /** Everything that the store shows, read after each step. */
  state: (side: Side<Notes>) => Promise<unknown>
  /** Before the first step. */
  given?: (side: Side<Notes>) => Promise<unknown>
  /** Most random steps of a sequence: half as many on average. One of each verb follows them. */
  steps?: number
  /** There is no second process. */
  isAlone?: boolean
  limits?: { maxAgeDays?: number; maxCount?: number }
}

/** How long the shortest sequence that fails is looked for. */
const shrinkMs = 120_000

interface Step {
  readonly verb: string
  readonly args: object
}

/**
 * Compares the engines by random sequences, each on stores of its own, and fails with the shortest sequence that has a
 * difference. Of twenty sequences and more, every verb must have worked at least once.
 */
export async function compare<Notes>({ verbs, steps = 50, ...of }: Comparison<Notes>): Promise<void> {
  const worked = new Set<string>()
  const numRuns = Number(process.env.SVC_TEST_RUNS ?? 1)
  const one = Object.entries(verbs).map(([verb, { weight, args }]) => ({
    weight,
    arbitrary: args.map((args): Step => ({ verb, args })),
  }))
  const random = fc.noBias(
    fc.array(fc.oneof(...one), { maxLength: numRuns < runsForEach ? 12 : steps, size: 'max' }),
  )
  const each = one.map(({ arbitrary }) => last(arbitrary))
  // Shrinking leaves out those of `each` first, then what follows the failure: it shortens arrays from their start.
  const sequence = fc
    .tuple(last(fc.tuple(...each)), random)
    .map(([rest = [], some]) => [...some.toReversed(), ...rest.filter(step => step !== undefined)])
  let taken = 0
  let failedAt = Number.POSITIVE_INFINITY
  const property = fc.asyncProperty(sequence, async drawn => {
    // Shorter ones are not looked for any longer.
    if (performance.now() - failedAt > shrinkMs) return
    const limits = { ...of.limits, after: lateId }
    await using sqlite = await openSqlite(limits)
    await using postgres = await openPostgres(limits)
    await using others = new AsyncDisposableStack()
    const sideOf = async (opened: Opened): Promise<Side<Notes>> => {
      const other = of.isAlone ? opened : others.use(await opened.second())
      return Object.assign(opened, { other, notes: of.notes() })
    }
    const sides = [await sideOf(sqlite), await sideOf(postgres)]
    const compared = async (what: string, read: (side: Side<Notes>) => unknown) => {
      const [expected, actual] = await Promise.all(sides.map(side => outcomeOf(read, side)))
      try {
        // SQLite's is the expected one; either may be wrong.
        expect(actual).toEqual(expected)
      } catch (error) {
        failedAt = Math.min(failedAt, performance.now())
        throw new Error(`${what}: ${(error as Error).message}`)
      }
      return expected
    }
    await compared('given', side => of.given?.(side))
    for (const [nth, { verb, args }] of drawn.entries()) {
      const after = `step ${nth}, ${verb}`
      const outcome = await compared(after, side => verbs[verb]!.run(side, args as never))
      if (!(outcome instanceof Failed) && outcome !== idle) worked.add(verb)
      await compared(`state after ${after}`, of.state)
      taken++
    }
  })
  await fc.assert(property, runs(numRuns))
  // One sequence takes each step, though a few may find nothing to do.
  if (numRuns < runsForEach) return expect(worked.size).toBeGreaterThan(Object.keys(verbs).length / 2)
  console.log(`${taken} steps of ${numRuns} sequences`)
  expect(Object.keys(verbs).filter(verb => !worked.has(verb))).toEqual([])
}

/** So many sequences make each step work. */
const runsForEach = 20

/** Something that is there until it is left out by shrinking. */
const last = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 1e9 })

/** Returned by a step that found nothing to do. */
export const idle = 'nothing to do'

class Failed {
  readonly code: string
  constructor(code: string) {
    this.code = code
  }
}

async function outcomeOf<Notes>(read: (side: Side<Notes>) => unknown, side: Side<Notes>): Promise<unknown> {
  try {
    return await read(side)
  } catch (error) {
    // Anything else is a fault of an engine, or of this test.
    if (error instanceof SvcError) return new Failed(error.code)
    throw error
  }
}
