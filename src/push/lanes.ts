/**
 * The events that an endpoint has in memory, in one lane per conversation. A lane delivers one event at a
 * time.
 *
 * The log is read once for all conversations. A lane falls behind if one of its events fails or its
 * deliveries are slow. Its next events are then skipped, and later the lane reads its own part of the log.
 * So few events are in memory, and no conversation blocks the others.
 */
import { placeOf } from '../storage/events.ts'
import type { Conversation, WebhookLane, WebhookProgress } from '../storage/webhooks.ts'
import type { OutsideEvent } from './body.ts'
import { dueInMs } from './schedule.ts'

/** An event with its conversation. `data` creates its content on demand. */
export interface LaneEvent extends Omit<OutsideEvent, 'data'>, Conversation {
  data(): Promise<object>
}

/** Events read from the log. */
export interface LanePage {
  events: readonly LaneEvent[]
  /** The log was read up to here. */
  cursor: string
}

/** A lane in memory: the delivery queue of one conversation. */
export interface Lane extends WebhookLane {
  /** Events to deliver, oldest first. */
  queue: LaneEvent[]
  /** True while it delivers an event or reads the log. */
  busy: boolean
  /** The event that is being delivered. */
  current?: LaneEvent
  /** True if the log may have events of this lane, before `readFrom`, that are not in its queue. */
  behind: boolean
  /** True if the store has a row of this lane. */
  kept: boolean
  /** True if its row in the store is out of date. */
  dirty: boolean
}

/** Maximum queued events of one lane, and of all busy lanes together. */
const laneEvents = 32
const heldEvents = 1024

const keyOf = ({ session, user }: Conversation) => `${session}\t${user}`

/** All lanes of one endpoint. */
export class Lanes {
  /** The log was read up to here for all conversations. */
  readFrom: string
  /** Number of queued events, without those that are being delivered. */
  inHand = 0
  /** Number of queued events in busy lanes. */
  #held = 0
  /**
   * All events of conversations without a lane are done up to here. It is ahead of `readFrom` while a part of
   * the log is read again.
   */
  #settled: string
  readonly #lanes = new Map<string, Lane>()
  /** Lanes that may start now. */
  readonly #ready = new Set<Lane>()
  /** Lanes whose next event has failed before. */
  readonly #troubled = new Set<Lane>()
  /** Lanes without queued events whose position may be after `readFrom`. */
  readonly #ahead = new Set<Lane>()
  readonly #dirty = new Set<Lane>()
  #ended: Conversation[] = []
  #moved = false

  /** @param position the endpoint's stored position @param lanes its stored lanes */
  constructor(position: string, lanes: readonly WebhookLane[]) {
    this.readFrom = position
    this.#settled = position
    for (const row of lanes) {
      const lane: Lane = {
        ...row,
        queue: [],
        busy: false,
        behind: !!row.trouble,
        kept: true,
        dirty: false,
      }
      this.#lanes.set(keyOf(lane), lane)
      if (lane.trouble) this.#troubled.add(lane)
      else this.#ahead.add(lane)
    }
    this.#readAgain()
  }

  /** Whether there is progress to store. */
  get changed(): boolean {
    return this.#moved || this.#dirty.size > 0 || this.#ended.length > 0
  }

  /** Number of queued events that wait for no other event of their lane. */
  get waiting(): number {
    return this.inHand - this.#held
  }

  /** Adds the next page of the log, read after `readFrom`. */
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

  /**
   * Returns a lane that may start now, for a call of `begin`; undefined if there is none.
   *
   * @param probing true to test whether the receiver is back: then an event that has not failed goes first
   */
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

  /** Returns in how many ms the next retry is due; Infinity if there is none. */
  dueInMs(now: number): number {
    let soonest = Number.POSITIVE_INFINITY
    for (const { busy, trouble } of this.#troubled)
      if (!busy) soonest = Math.min(soonest, dueInMs(trouble!, now))
    return soonest
  }

  /** Marks a lane as busy. @returns its next event; undefined if it has to read the log first, see `feed` */
  begin(lane: Lane): LaneEvent | undefined {
    lane.busy = true
    this.#ready.delete(lane)
    lane.current = lane.queue.shift()
    if (lane.current) this.inHand -= 1
    this.#held += lane.queue.length
    return lane.current
  }

  /** Adds the events that a lane read for itself, after its position. */
  feed(lane: Lane, { events, cursor }: LanePage): void {
    if (events.length > 0) this.#queue(lane, events)
    else {
      lane.position = cursor
      if (placeOf(cursor) >= placeOf(this.readFrom)) {
        lane.behind = false
        // The event that failed is no longer in the log.
        if (lane.trouble) this.#healed(lane)
      }
      this.#touch(lane)
    }
    this.#free(lane)
  }

  /** Undoes `begin`: the delivery had no result. */
  back(lane: Lane, event: LaneEvent | undefined): void {
    if (event && !lane.behind) {
      lane.queue.unshift(event)
      this.inHand += 1
      this.#held += 1
    } else if (event) this.#drop(lane)
    this.#free(lane)
  }

  /** Records that an event is done: delivered, or given up. */
  done(lane: Lane, event: LaneEvent): void {
    lane.position = event.id
    if (lane.trouble) this.#healed(lane)
    this.#touch(lane)
    this.#free(lane)
  }

  /** Records that an event failed and will be retried. */
  failed(lane: Lane, trouble: NonNullable<WebhookLane['trouble']>): void {
    this.#drop(lane)
    lane.trouble = trouble
    lane.behind = true
    // Move it to the end: while the endpoint fails, the next attempt uses another lane.
    this.#troubled.delete(lane)
    this.#troubled.add(lane)
    this.#touch(lane)
    this.#free(lane)
  }

  /** Empties all queues when the endpoint fails. The events are read again when it works. */
  letGo(): void {
    for (const lane of this.#lanes.values()) {
      this.#drop(lane)
      this.#ready.delete(lane)
    }
    this.#readAgain()
    for (const lane of [...this.#lanes.values()]) if (!lane.busy) this.#free(lane)
  }

  /** Returns the progress to store. It counts as stored from now on. */
  progress(): Pick<WebhookProgress, 'position' | 'lanes' | 'ended'> {
    const lanes = [...this.#dirty].map(({ session, user, position, trouble }) => {
      return { session, user, position, trouble }
    })
    for (const lane of this.#dirty) {
      lane.kept = true
      lane.dirty = false
    }
    this.#dirty.clear()
    // A conversation that ended may have a new lane by now.
    const ended = this.#ended.filter(conversation => !this.#lanes.has(keyOf(conversation)))
    this.#ended = []
    this.#moved = false
    return { position: this.#settled, lanes, ended }
  }

  /** Moves `readFrom` back to the earliest position of the lanes that are not behind. */
  #readAgain(): void {
    for (const lane of this.#lanes.values())
      if (!lane.behind && placeOf(lane.position) < placeOf(this.readFrom)) this.readFrom = lane.position
  }

  #open(key: string, { session, user }: Conversation): Lane {
    const lane: Lane = {
      session,
      user,
      position: this.readFrom,
      queue: [],
      busy: false,
      behind: false,
      kept: false,
      dirty: false,
    }
    this.#lanes.set(key, lane)
    this.#touch(lane)
    this.#ahead.add(lane)
    return lane
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
    lane.busy = false
    lane.current = undefined
    if (lane.trouble) return
    if (lane.queue.length > 0 || lane.behind) this.#ready.add(lane)
    else this.#sweep(lane)
  }

  /** Removes a lane that is done with everything that was read. */
  #sweep(lane: Lane): void {
    if (lane.busy || lane.behind || lane.trouble || lane.queue.length > 0) return
    this.#ahead.add(lane)
    const read = placeOf(this.readFrom)
    if (read < placeOf(lane.position) || read < placeOf(this.#settled)) return
    this.#ahead.delete(lane)
    this.#lanes.delete(keyOf(lane))
    this.#dirty.delete(lane)
    if (lane.kept) this.#ended.push({ session: lane.session, user: lane.user })
  }
}
