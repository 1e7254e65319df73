/**
 * The events that an endpoint has in memory, in one lane per conversation. A lane delivers one event at a
 * time.
 *
 * The log is read once for all conversations. A lane falls behind if one of its events fails or its
 * deliveries are slow. The common reading then leaves out the lane's next events. Later the lane reads them
 * from the log itself. So few events are in memory, and no conversation blocks the others.
 */
import { cursorNumberOf } from '../storage/events.ts'
import type { WebhookConversation, WebhookLane, WebhookProgress } from '../storage/webhooks.ts'
import type { OutgoingEvent } from './body.ts'
import { remainingWaitOf } from './schedule.ts'

/** An event with its conversation. `data` creates its content on demand: undefined if it is no longer in the log. */
export interface LaneEvent extends Omit<OutgoingEvent, 'data'>, WebhookConversation {
  data(): Promise<object | undefined>
}

/** Events read from the log. */
export interface LanePage {
  events: readonly LaneEvent[]
  /** The log was read up to here. */
  cursor: string
}

/** A lane in memory: the delivery queue of one conversation. */
export interface LiveLane extends WebhookLane {
  /** Events to deliver, oldest first. */
  queue: LaneEvent[]
  /** True while it delivers an event or reads the log. */
  isBusy: boolean
  /** The event that is being delivered. */
  current?: LaneEvent
  /** True if the log may have events of this lane, before `readFrom`, that are not in its queue. */
  isBehind: boolean
  /** True if the store has a row of this lane. */
  isStored: boolean
}

/** Maximum queued events of one lane, and of all busy lanes together. */
const maxLaneEvents = 32
const maxHeldEvents = 1024

const keyOf = ({ session, user }: WebhookConversation) => `${session}\t${user}`

/** All lanes of one endpoint. */
export class WebhookLanes {
  /** The log was read up to here for all conversations. */
  readFrom: string
  /** Number of queued events, without the events that are being delivered. */
  queuedCount = 0
  /** Number of queued events in busy lanes. */
  #heldCount = 0
  /**
   * All events of conversations without a lane are done up to here. It is ahead of `readFrom` while a part of
   * the log is read again.
   */
  #doneCursor: string
  readonly #lanes = new Map<string, LiveLane>()
  /** Lanes that may start now. */
  readonly #readyLanes = new Set<LiveLane>()
  /** Lanes whose next event has failed before. */
  readonly #failedLanes = new Set<LiveLane>()
  /** Lanes without queued events whose position may be after `readFrom`. */
  readonly #aheadLanes = new Set<LiveLane>()
  /** What the store does not have yet: lanes whose rows are out of date, lanes that ended, a moved position. */
  readonly #unsaved = { lanes: new Set<LiveLane>(), ended: [] as WebhookConversation[], hasMoved: false }

  /** @param position the endpoint's stored position @param lanes its stored lanes */
  constructor(position: string, lanes: readonly WebhookLane[]) {
    this.readFrom = position
    this.#doneCursor = position
    for (const row of lanes) {
      const lane: LiveLane = {
        ...row,
        queue: [],
        isBusy: false,
        isBehind: !!row.trouble,
        isStored: true,
      }
      this.#lanes.set(keyOf(lane), lane)
      if (lane.trouble) this.#failedLanes.add(lane)
      else this.#aheadLanes.add(lane)
    }
    this.#rewind()
  }

  /** Whether there is progress to store. */
  get hasChanges(): boolean {
    const { ended, hasMoved, lanes } = this.#unsaved
    return hasMoved || lanes.size > 0 || ended.length > 0
  }

  /** Number of queued events in lanes that deliver nothing now. */
  get waitingCount(): number {
    return this.queuedCount - this.#heldCount
  }

  /** Adds the next page of the log, read after `readFrom`. */
  addPage({ events, cursor }: LanePage): void {
    const settled = cursorNumberOf(this.#doneCursor)
    for (const event of events) {
      const key = keyOf(event)
      const place = cursorNumberOf(event.id)
      const lane = this.#lanes.get(key) ?? (place > settled ? this.#createLane(key, event) : undefined)
      if (!lane || lane.isBehind || place <= cursorNumberOf((lane.current ?? { id: lane.position }).id))
        continue
      if (lane.queue.length >= maxLaneEvents || (lane.isBusy && this.#heldCount >= maxHeldEvents))
        lane.isBehind = true
      else this.#enqueue(lane, [event])
    }
    if (cursor !== this.readFrom) this.#unsaved.hasMoved = true
    this.readFrom = cursor
    if (cursorNumberOf(cursor) < settled) return
    this.#doneCursor = cursor
    for (const lane of [...this.#aheadLanes]) this.#removeIfDone(lane)
  }

  /**
   * Returns the place up to which every event is done once this event of a lane is: what comes after it may come again,
   * and what comes before does not.
   */
  getSafeCursor(lane: LiveLane, event: LaneEvent): string {
    // A lane may read ahead of the common reading.
    let safe = cursorNumberOf(this.readFrom) < cursorNumberOf(event.id) ? this.readFrom : event.id
    for (const other of this.#lanes.values()) {
      const isOpen = other.isBusy || other.isBehind || other.trouble || other.queue.length > 0
      if (other !== lane && isOpen && cursorNumberOf(other.position) < cursorNumberOf(safe))
        safe = other.position
    }
    return safe
  }

  /**
   * Returns a lane that may start now, for a call of `startNext`; undefined if there is none.
   *
   * @param probing true to test whether the receiver is back: then an event that has not failed goes first
   */
  pickNext(now: number, probing: boolean): LiveLane | undefined {
    const due = () => {
      for (const lane of this.#failedLanes)
        if (
          !lane.isBusy &&
          (lane.isBehind || lane.queue.length > 0) &&
          (probing || remainingWaitOf(lane.trouble!, now) <= 0)
        )
          return lane
      return undefined
    }
    const ready = () => this.#readyLanes.values().next().value
    return probing ? (ready() ?? due()) : (due() ?? ready())
  }

  /** Returns in how many ms the next retry is due; Infinity if there is none. */
  getDueInMs(now: number): number {
    let soonest = Number.POSITIVE_INFINITY
    for (const { isBusy, trouble } of this.#failedLanes)
      if (!isBusy) soonest = Math.min(soonest, remainingWaitOf(trouble!, now))
    return soonest
  }

  /** Marks a lane as busy. @returns its next event; undefined if it has to read the log first, see `addLanePage` */
  startNext(lane: LiveLane): LaneEvent | undefined {
    lane.isBusy = true
    this.#readyLanes.delete(lane)
    lane.current = lane.queue.shift()
    if (lane.current) this.queuedCount -= 1
    this.#heldCount += lane.queue.length
    return lane.current
  }

  /** Adds the events that a lane read for itself, after its position. */
  addLanePage(lane: LiveLane, { events, cursor }: LanePage): void {
    if (events.length > 0) this.#enqueue(lane, events)
    else {
      lane.position = cursor
      if (cursorNumberOf(cursor) >= cursorNumberOf(this.readFrom)) {
        lane.isBehind = false
        // The event that failed is no longer in the log.
        if (lane.trouble) this.#clearFailure(lane)
      }
      this.#unsaved.lanes.add(lane)
    }
    this.#release(lane)
  }

  /** Undoes `startNext`: the delivery had no result. */
  putBack(lane: LiveLane, event: LaneEvent | undefined): void {
    if (event && !lane.isBehind) {
      lane.queue.unshift(event)
      this.queuedCount += 1
      this.#heldCount += 1
    } else if (event) this.#clearQueue(lane)
    this.#release(lane)
  }

  /** Records that an event is done: delivered, or given up. */
  completeEvent(lane: LiveLane, event: LaneEvent): void {
    lane.position = event.id
    if (lane.trouble) this.#clearFailure(lane)
    this.#unsaved.lanes.add(lane)
    this.#release(lane)
  }

  /** Records that an event failed and will be retried. */
  recordFailure(lane: LiveLane, trouble: NonNullable<WebhookLane['trouble']>): void {
    this.#clearQueue(lane)
    lane.trouble = trouble
    lane.isBehind = true
    // Move it to the end: while the endpoint fails, the next attempt uses another lane.
    this.#failedLanes.delete(lane)
    this.#failedLanes.add(lane)
    this.#unsaved.lanes.add(lane)
    this.#release(lane)
  }

  /** Empties all queues when the endpoint fails. The events are read again when it works. */
  clearQueues(): void {
    for (const lane of this.#lanes.values()) {
      this.#clearQueue(lane)
      this.#readyLanes.delete(lane)
    }
    this.#rewind()
    for (const lane of [...this.#lanes.values()]) if (!lane.isBusy) this.#release(lane)
  }

  /** Returns the progress to store. It counts as stored from now on. */
  takeProgress(): Pick<WebhookProgress, 'position' | 'lanes' | 'ended'> {
    const unsaved = this.#unsaved
    const lanes = [...unsaved.lanes].map(({ session, user, position, trouble }) => {
      return { session, user, position, trouble }
    })
    for (const lane of unsaved.lanes) lane.isStored = true
    unsaved.lanes.clear()
    // A conversation that ended may have a new lane by now.
    const ended = unsaved.ended.filter(conversation => !this.#lanes.has(keyOf(conversation)))
    unsaved.ended = []
    unsaved.hasMoved = false
    return { position: this.#doneCursor, lanes, ended }
  }

  /** Moves `readFrom` back to the earliest position of the lanes that are not behind. */
  #rewind(): void {
    for (const lane of this.#lanes.values())
      if (!lane.isBehind && cursorNumberOf(lane.position) < cursorNumberOf(this.readFrom))
        this.readFrom = lane.position
  }

  #createLane(key: string, { session, user }: WebhookConversation): LiveLane {
    const lane: LiveLane = {
      session,
      user,
      position: this.readFrom,
      queue: [],
      isBusy: false,
      isBehind: false,
      isStored: false,
    }
    this.#lanes.set(key, lane)
    this.#unsaved.lanes.add(lane)
    this.#aheadLanes.add(lane)
    return lane
  }

  #enqueue(lane: LiveLane, events: readonly LaneEvent[]): void {
    lane.queue.push(...events)
    this.queuedCount += events.length
    if (lane.isBusy) this.#heldCount += events.length
    if (!lane.isBusy && !lane.trouble) this.#readyLanes.add(lane)
  }

  #clearQueue(lane: LiveLane): void {
    this.queuedCount -= lane.queue.length
    if (lane.isBusy) this.#heldCount -= lane.queue.length
    lane.queue = []
  }

  #clearFailure(lane: LiveLane): void {
    lane.trouble = undefined
    this.#failedLanes.delete(lane)
  }

  #release(lane: LiveLane): void {
    if (lane.isBusy) this.#heldCount -= lane.queue.length
    lane.isBusy = false
    lane.current = undefined
    if (lane.trouble) return
    if (lane.queue.length > 0 || lane.isBehind) this.#readyLanes.add(lane)
    else this.#removeIfDone(lane)
  }

  /** Removes a lane that is done with everything that was read. */
  #removeIfDone(lane: LiveLane): void {
    if (lane.isBusy || lane.isBehind || lane.trouble || lane.queue.length > 0) return
    this.#aheadLanes.add(lane)
    const read = cursorNumberOf(this.readFrom)
    if (read < cursorNumberOf(lane.position) || read < cursorNumberOf(this.#doneCursor)) return
    this.#aheadLanes.delete(lane)
    this.#lanes.delete(keyOf(lane))
    this.#unsaved.lanes.delete(lane)
    if (lane.isStored) this.#unsaved.ended.push({ session: lane.session, user: lane.user })
  }
}
