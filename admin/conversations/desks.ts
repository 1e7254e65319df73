/** The desks of all conversations. They end when the person signs out. */
import { effect, untracked } from '@preact/signals'
import { signedOut } from '../live.ts'
import { Desk } from './outgoing.ts'

const desks = new Map<string, Desk>()

export function deskOf(session: string, userId: string): Desk {
  const key = JSON.stringify([session, userId])
  let desk = desks.get(key)
  if (!desk) {
    desk = new Desk(session, userId)
    desks.set(key, desk)
  }
  return desk
}

/** Goes on with the unsent messages of an earlier visit. */
export function sendOn(unsent: readonly (readonly [session: string, userId: string])[]): void {
  for (const [session, userId] of unsent) deskOf(session, userId)
}

effect(() => {
  if (!signedOut.value) return
  untracked(() => {
    for (const desk of desks.values()) desk.end()
  })
  desks.clear()
})
