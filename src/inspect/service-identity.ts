/** Whether a service that answers is one of a certain data directory: it names who polls, and the directory's lock does too. */
import { join } from 'node:path'
import type { Health } from '../gateway/gateway-api.ts'
import { dataFiles } from '../model/data-files.ts'
import { holdOf, lookAtLock } from '../platform/lock-look.ts'
import { askHealth, type HealthAnswer } from './healthz.ts'

/** What answered, and whether that is surely a service of another directory. */
export interface Identified {
  answer: HealthAnswer
  isElsewhere: boolean
}

/** Asks the service at `url` how it is, and whether it is one of `dir`; never throws. */
export async function askHealthOf(dir: string, url: string, deadlineMs: number): Promise<Identified> {
  const path = join(dir, dataFiles.pollLock)
  const hold = () => holdOf(path).catch(() => undefined)
  // Another process may begin to poll at this moment: then the service says one of the two.
  const before = await hold()
  const answer = await askHealth(url, deadlineMs)
  if (answer.kind !== 'svc') return { answer, isElsewhere: false }
  const after = await hold()
  // The lock cannot be read: then nothing is known of it.
  const held = await lookAtLock(path).then(
    lock => (lock ? lock.held : false),
    () => 'unreadable' as const,
  )
  const isElsewhere = held !== 'unreadable' && servesElsewhere(answer.seen, held, [before, after])
  return { answer, isElsewhere }
}

/** @param here who polls the directory, and just before; `held`: whether somebody surely does */
function servesElsewhere(health: Health, held: boolean | undefined, here: (string | undefined)[]): boolean {
  const works = health.store === 'ok'
  // A copy of the other directory bears the same name.
  if (works && health.role === 'poller' && held === false) return true
  if (health.poll_id !== undefined) return !here.includes(health.poll_id)
  // It cannot read its lock, as after its directory was removed; this one can be read.
  return !works && held === true
}
