/** Whether a message may go now, with what the store knows of its lane: no database, no clock. */
import {
  admit,
  isFull,
  noneAhead,
  type SendFacts,
  type SendRules,
  type Verdict,
} from '../../model/admission.ts'
import { sessionKeyOf } from '../../model/session.ts'
import type { OutboxLane, WaitingLane } from '../outbox.ts'
import type { LaneFacts, SlotFacts } from './outbox-plan.ts'

/** For each message of mode `fail` of a living process that waits to be sent, whether it has no slot. */
export type AheadFacts = boolean[]

const aheadOf = (ahead: AheadFacts): SendFacts['ahead'] => ({
  messages: ahead.length,
  unslotted: ahead.filter(Boolean).length,
})

/** The lane as callers see it. */
export const shownLaneOf = ({
  id,
  session,
  user,
  counter,
  token,
  not_before,
  failures,
  busy,
  hold,
}: LaneFacts): OutboxLane => ({
  id,
  session,
  user,
  counter,
  token,
  not_before,
  failures,
  busy,
  ...(hold && { hold }),
})

/** What admission says. @param last the newest slot of the session, if the caller knows of one that is not taken yet */
export function judge(
  { counter: { received_at: receivedAt, used }, hold }: LaneFacts,
  {
    slots,
    ahead,
    slot,
    last,
    now,
  }: { slots: SlotFacts; now: number; last?: number } & Pick<SendFacts, 'ahead' | 'slot'>,
  count: number,
  rules: SendRules,
): Pick<WaitingLane, 'verdict' | 'crowded'> {
  const perWindow = rules.pace === 'off' ? 0 : rules.pace.perWindow
  const taken = { user: slots.user.slice(0, perWindow).reverse(), last: last ?? slots.session[0] }
  const verdict = admit({ now, receivedAt, used, ahead, hold, slots: taken, slot }, count, rules)
  const isLate = verdict.go === 'no' && verdict.why === 'pace'
  return { verdict, crowded: isLate && isFull(taken.last, now, rules) }
}

export const checkAdmission = (
  lane: LaneFacts,
  { slots, ahead, now }: { slots: SlotFacts; ahead: AheadFacts; now: number },
  count: number,
  rules: SendRules,
): Verdict => judge(lane, { slots, ahead: aheadOf(ahead), now }, count, rules).verdict

/** Lanes in which something waits, in order, each with the slot of its first part. */
export function judgeWaiting(
  lanes: readonly { lane: LaneFacts; slots: SlotFacts; slot?: number }[],
  rules: SendRules,
  now: number,
): WaitingLane[] {
  /** Newest slot of each session, including the slots that this call assigns. */
  const newest = new Map<string, number>()
  return lanes.map(({ lane, slots, slot }) => {
    const admission = judge(
      lane,
      { slots, ahead: noneAhead, slot, last: newest.get(sessionKeyOf(lane.session)), now },
      1,
      rules,
    )
    const { verdict } = admission
    if (verdict.go !== 'no' && verdict.slot !== undefined && slot === undefined && !lane.busy)
      newest.set(sessionKeyOf(lane.session), verdict.slot)
    return { ...shownLaneOf(lane), ...admission }
  })
}
