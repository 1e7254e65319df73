/** The desks of all conversations. They end when the person signs out. */
import { effect, untracked } from '@preact/signals'
import { signedOut } from '../live.ts'
import { forgetUser } from './kept.ts'
import { Desk } from './outgoing.ts'
import { reloadThreads } from './thread.ts'

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

/** Drops what this browser has of a user who was erased: drafts, unsent messages, loaded messages. */
export async function forgetDesks(userId: string): Promise<void> {
  for (const [key, desk] of desks) {
    if (desk.userId !== userId) continue
    desk.end()
    desks.delete(key)
  }
  reloadThreads(userId)
  await forgetUser(userId)
}

effect(() => {
  if (!signedOut.value) return
  untracked(() => {
    for (const desk of desks.values()) desk.end()
  })
  desks.clear()
})
