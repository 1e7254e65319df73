/**
 * What of the event log an endpoint has in hand: the next events of each conversation, one of them under way at a time.
 *
 * The log is read once for all conversations. One that cannot keep up, since an event of it fails while others go on or it is
 * slow, falls behind: its events are passed over, and it reads its own part of the log when it is its turn. So what is in
 * memory stays small, and no conversation holds up the others.
 */
import { placeOf } from '../storage/events.ts'
import type { Conversation, WebhookLane, WebhookProgress } from '../storage/webhooks.ts'
import type { OutsideEvent } from './body.ts'
import { dueInMs } from './schedule.ts'

/** An event with the conversation that it belongs to; what it says is made when it is asked for. */
export interface LaneEvent extends Omit<OutsideEvent, 'data'>, Conversation {
  data(): Promise<object>
}

export interface LanePage {
  events: readonly LaneEvent[]
  /** Read up to here. */
  cursor: string
}

export interface Lane extends WebhookLane {
  queue: LaneEvent[]
  busy: boolean
  /** Under way. */
  current?: LaneEvent
  /** There may be events of it between what it has and what was read for all. */
  behind: boolean
  /** It has a row in the store, and whether that says something else. */
  kept: boolean
  dirty: boolean
}

/** Events that one conversation has in hand at most, and all that have one under way. */
const laneEvents = 32
const heldEvents = 1024

const keyOf = ({ session, user }: Conversation) => `${session}\t${user}`

export class Lanes {
  /** The log was read up to here for all conversations. */
  readFrom: string
  /** Events in memory that are not under way. */
  inHand = 0
  /** Those of them whose conversation has one under way. */
  #held = 0
  /** Conversations without a lane are done up to here; ahead of `readFrom` while it is read again what was read before. */
  #settled: string
  readonly #lanes = new Map<string, Lane>()
  /** May begin now. */
  readonly #ready = new Set<Lane>()
  /** Stand at an event that failed. */
  readonly #troubled = new Set<Lane>()
  /** Have nothing to do, and are further than what was read for all. */
  readonly #ahead = new Set<Lane>()
  readonly #dirty = new Set<Lane>()
  #ended: Conversation[] = []
  #moved = false

  /** As it was kept. */
  constructor(position: string, lanes: readonly WebhookLane[]) {
    this.readFrom = position
    this.#settled = position
    for (const kept of lanes) {
      const lane = { ...kept, queue: [], busy: false, behind: !!kept.trouble, kept: true, dirty: false }
      this.#lanes.set(keyOf(lane), lane)
      if (lane.trouble) this.#troubled.add(lane)
      else this.#ahead.add(lane)
    }
    this.#readAgain()
  }

  /** Whether there is something to keep. */
  get changed(): boolean {
    return this.#moved || this.#dirty.size > 0 || this.#ended.length > 0
  }

  /** Events that do not wait for one before them. */
  get waiting(): number {
    return this.inHand - this.#held
  }

  /** The next events of the log, read after `readFrom`. */
  take({ events, cursor }: LanePage): void {
    const settled = placeOf(this.#settled)
    for (const event of events) {
      const key = keyOf(event)
      const place = placeOf(event.id)
      const lane = this.#lanes.get(key) ?? (place > settled ? this.#open(key, event) : undefined)
      if (!lane || lane.behind || place <= placeOf((lane.current ?? { id: lane.position }).id)) continue
      if (lane.queue.length >= laneEvents || (lane.busy && this.#held >= heldEvents)) lane.behind = true
      else this.#queue(lane, [event])
    }
    if (cursor !== this.readFrom) this.#moved = true
    this.readFrom = cursor
    if (placeOf(cursor) < settled) return
    this.#settled = cursor
    for (const lane of [...this.#ahead]) this.#sweep(lane)
  }

  /** A conversation that may go on, to be given to `begin`. @param probing only to see whether the receiver is back: an event that has not failed yet goes first */
  next(now: number, probing: boolean): Lane | undefined {
    const due = () => {
      for (const lane of this.#troubled)
        if (
          !lane.busy &&
          (lane.behind || lane.queue.length > 0) &&
          (probing || dueInMs(lane.trouble!, now) <= 0)
        )
          return lane
      return undefined
    }
    const ready = () => this.#ready.values().next().value
    return probing ? (ready() ?? due()) : (due() ?? ready())
  }

  /** In how many ms the next one that failed is due; Infinity when there is none. */
  dueInMs(now: number): number {
    let soonest = Number.POSITIVE_INFINITY
    for (const { busy, trouble } of this.#troubled)
      if (!busy) soonest = Math.min(soonest, dueInMs(trouble!, now))
    return soonest
  }

  /** It is under way. @returns its next event; undefined: it has to read first, see `feed` */
  begin(lane: Lane): LaneEvent | undefined {
    lane.busy = true
    this.#ready.delete(lane)
    lane.current = lane.queue.shift()
    if (lane.current) this.inHand -= 1
    this.#held += lane.queue.length
    return lane.current
  }

  /** What a conversation read for itself, after its position. */
  feed(lane: Lane, { events, cursor }: LanePage): void {
    if (events.length > 0) this.#queue(lane, events)
    else {
      lane.position = cursor
      if (placeOf(cursor) >= placeOf(this.readFrom)) {
        lane.behind = false
        // What it stood at is not in the log any more.
        if (lane.trouble) this.#healed(lane)
      }
      this.#touch(lane)
    }
    this.#free(lane)
  }

  /** Nothing came of it: it goes on as if it had not begun. */
  back(lane: Lane, event: LaneEvent | undefined): void {
    if (event && !lane.behind) {
      lane.queue.unshift(event)
      this.inHand += 1
      this.#held += 1
    } else if (event) this.#drop(lane)
    this.#free(lane)
  }

  /** The event is done with. */
  done(lane: Lane, event: LaneEvent): void {
    lane.position = event.id
    if (lane.trouble) this.#healed(lane)
    this.#touch(lane)
    this.#free(lane)
  }

  /** The event failed and comes again. */
  failed(lane: Lane, trouble: NonNullable<WebhookLane['trouble']>): void {
    this.#drop(lane)
    Object.assign(lane, { trouble, behind: true })
    // To the end: the next one that is tried while the endpoint fails is another.
    this.#troubled.delete(lane)
    this.#troubled.add(lane)
    this.#touch(lane)
    this.#free(lane)
  }

  /** The endpoint fails: what is in hand is let go, and read again when it works. */
  letGo(): void {
    for (const lane of this.#lanes.values()) {
      this.#drop(lane)
      this.#ready.delete(lane)
    }
    this.#readAgain()
    for (const lane of [...this.#lanes.values()]) if (!lane.busy) this.#free(lane)
  }

  /** What is to be kept; it counts as kept from now on. */
  progress(): Pick<WebhookProgress, 'position' | 'lanes' | 'ended'> {
    const lanes = [...this.#dirty].map(({ session, user, position, trouble }) => {
      return { session, user, position, trouble }
    })
    for (const lane of this.#dirty) Object.assign(lane, { kept: true, dirty: false })
    this.#dirty.clear()
    // One that has begun anew since then has a lane again.
    const ended = this.#ended.filter(one => !this.#lanes.has(keyOf(one)))
    this.#ended = []
    this.#moved = false
    return { position: this.#settled, lanes, ended }
  }

  /** From the first event that a conversation in step with the log is not done with. */
  #readAgain(): void {
    for (const lane of this.#lanes.values())
      if (!lane.behind && placeOf(lane.position) < placeOf(this.readFrom)) this.readFrom = lane.position
  }

  #open(key: string, { session, user }: Conversation): Lane {
    const lane = { session, user, position: this.readFrom, queue: [], busy: false, behind: false }
    const opened: Lane = { ...lane, kept: false, dirty: false }
    this.#lanes.set(key, opened)
    this.#touch(opened)
    this.#ahead.add(opened)
    return opened
  }

  #queue(lane: Lane, events: readonly LaneEvent[]): void {
    lane.queue.push(...events)
    this.inHand += events.length
    if (lane.busy) this.#held += events.length
    if (!lane.busy && !lane.trouble) this.#ready.add(lane)
  }

  #drop(lane: Lane): void {
    this.inHand -= lane.queue.length
    if (lane.busy) this.#held -= lane.queue.length
    lane.queue = []
  }

  #healed(lane: Lane): void {
    lane.trouble = undefined
    this.#troubled.delete(lane)
  }

  #touch(lane: Lane): void {
    lane.dirty = true
    this.#dirty.add(lane)
  }

  #free(lane: Lane): void {
    if (lane.busy) this.#held -= lane.queue.length
    Object.assign(lane, { busy: false, current: undefined })
    if (lane.trouble) return
    if (lane.queue.length > 0 || lane.behind) this.#ready.add(lane)
    else this.#sweep(lane)
  }

  /** It is done as far as was read: it needs no lane. */
  #sweep(lane: Lane): void {
    if (lane.busy || lane.behind || lane.trouble || lane.queue.length > 0) return
    this.#ahead.add(lane)
    const passed = placeOf(this.readFrom)
    if (passed < placeOf(lane.position) || passed < placeOf(this.#settled)) return
    this.#ahead.delete(lane)
    this.#lanes.delete(keyOf(lane))
    this.#dirty.delete(lane)
    if (lane.kept) this.#ended.push({ session: lane.session, user: lane.user })
  }
}
