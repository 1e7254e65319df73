/** Approved sends that go in a moment, and can be taken back until then. */
import { signal } from '@preact/signals'
import { askOutboxAgain, decided } from '../answers.ts'
import { call, type OutboxEntry } from '../api.ts'

/** How long an approval can be taken back, in ms. */
const takeBackMs = 5000

/** The approved sends that go in a moment, by id; `go` lets one go now. */
export const leaving = signal<ReadonlyMap<string, { entry: OutboxEntry; go(): void }>>(new Map())

/** Approves a send in a moment. If the page is left, it goes at once. @param text replaces the text of the send */
export function approveSoon(
  entry: OutboxEntry,
  text: string | undefined,
  failed: (error: unknown) => void,
): void {
  const { outbox_id: id } = entry
  const go = () => {
    clearTimeout(timer)
    forget(id)
    call('approve_outbox', { id, ...(text !== undefined && { text }) }, { keepalive: true })
      .catch(error => {
        noteDecided(id, false)
        failed(error)
      })
      .finally(askOutboxAgain)
  }
  const timer = setTimeout(() => leaving.value.has(id) && go(), takeBackMs)
  leaving.value = new Map(leaving.value).set(id, { entry, go })
  noteDecided(id, true)
}

/** Takes an approval back. */
export function takeBack(id: string): void {
  forget(id)
  noteDecided(id, false)
}

const forget = (id: string): void => {
  leaving.value = new Map([...leaving.value].filter(([other]) => other !== id))
}

/** Notes whether a send was decided about in this page. */
export function noteDecided(id: string, yes: boolean): void {
  const all = new Set(decided.value)
  if (yes) all.add(id)
  else all.delete(id)
  decided.value = all
}

addEventListener('pagehide', () => {
  for (const { go } of leaving.value.values()) go()
})
