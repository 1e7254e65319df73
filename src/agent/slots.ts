/**
 * The slots of the pace that are left for a user. The outbox sends in order, so answers wait here instead. A message
 * that must not wait for minutes, such as a question, the answer to a command or the end of a turn, then finds a free
 * slot.
 */

import type { Svc } from '../index.ts'
import type { PaceRules } from '../model/admission.ts'
import type { Clock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import type { Chat } from './talkers.ts'

/** A third of the slots, at most this many, are kept for messages other than answers. */
const mostKept = 3
/** Longest page of the history. */
const longestPage = 200

export interface Slots {
  /**
   * Number of free slots now, without those that messages in the outbox will take; below 0 if these have to wait too.
   */
  readonly free: number
  /** Returns when this number of slots is free (Unix ms). */
  freeAt(count: number): number
}

export interface SlotPorts {
  readonly svc: Pick<Svc, 'history'>
  readonly clock: Clock
  /** The pace of sending; absent: off. */
  readonly pace?: PaceRules | 'off' | undefined
}

export class PaceSlots extends RoomPart<SlotPorts> {
  /** How many slots an answer leaves free. */
  get kept(): number {
    const { pace = 'off' } = this.ports
    return pace === 'off' ? 0 : Math.min(mostKept, Math.floor(pace.perWindow / 3))
  }

  async look({ session, user_id }: Chat): Promise<Slots> {
    const { clock, pace = 'off', svc } = this.ports
    const now = clock.now()
    if (pace === 'off' || !Number.isFinite(pace.perWindow))
      return { free: Number.POSITIVE_INFINITY, freeAt: () => now }
    const { perWindow, windowMs } = pace
    const limit = Math.min(longestPage, 3 * perWindow)
    const { messages } = await svc.history({ session, user_id, direction: 'sent', limit })
    // Texts that were joined took one slot. A draft takes none.
    const own = messages.filter(({ reason_code, sent_with }) => !sent_with && reason_code !== 'approval')
    const waiting = own.filter(({ status }) => status === 'queued').length
    const taken = own
      .filter(
        ({ status, timestamp }) => status !== 'queued' && status !== 'refused' && timestamp > now - windowMs,
      )
      .map(({ timestamp }) => timestamp)
      .sort((a, b) => a - b)
    const free = perWindow - taken.length - waiting
    const freeAt = (count: number) => (count <= free ? now : (taken[count - free - 1] ?? now) + windowMs)
    return { free, freeAt }
  }
}
