/** A program that answers users during a storm, and what the phones say of it afterwards. */
import type { Json } from '../../support/service.ts'
import type { Fleet } from './fleet.ts'
import type { LoggedRow } from './log-file.ts'
import type { Chance } from './random.ts'
import type { Account } from './world.ts'

export interface SentAnswer {
  text: string
  pid: number
  /** SendResult's status, a problem's code, or `broken` when the connection broke. */
  outcome: string
}

/** Sends through whoever is up, one at a time, until `stop`. Nothing is ever sent again. */
export async function answerOn(
  fleet: Fleet,
  accounts: readonly Account[],
  stop: AbortSignal,
  chance: Chance,
): Promise<SentAnswer[]> {
  const sent: SentAnswer[] = []
  for (let n = 0; !stop.aborted; n++) {
    const account = chance.pick(accounts)
    const service = chance.pick(fleet.doors)()
    await Bun.sleep(chance.between(5, 60))
    if (!service) continue
    const answer: SentAnswer = { text: `answer ${n}`, pid: service.pid, outcome: 'broken' }
    sent.push(answer)
    try {
      const { status, body } = await service.call('send', { to: account.user, text: answer.text })
      answer.outcome = status === 200 ? body.status : body.code
    } catch {
      // The process died, or was not reached any more.
    }
  }
  return sent
}

/** @returns what contradicts the law of sending, in words; nothing when all is well */
export async function contradictions(
  fleet: Fleet,
  sent: readonly SentAnswer[],
  rows: readonly LoggedRow[],
): Promise<string[]> {
  const found: string[] = []
  const { messages }: Json = await fleet.phone.get('messages?from=bot&limit=100000')
  const shown = new Map<string, number>()
  for (const { items } of messages) shown.set(items[0].text, (shown.get(items[0].text) ?? 0) + 1)
  const logged = new Map<string, LoggedRow[]>()
  for (const row of rows.filter(row => row.sent)) logged.set(row.text, [...(logged.get(row.text) ?? []), row])
  for (const { text, outcome } of sent) {
    const times = shown.get(text) ?? 0
    const of = logged.get(text) ?? []
    if (times > 1) found.push(`"${text}" was seen ${times} times`)
    if (of.length > 1) found.push(`"${text}" has ${of.length} rows`)
    if (times > 0 && of.length === 0) found.push(`"${text}" was seen and has no row`)
    if (outcome === 'accepted' && times !== 1) found.push(`"${text}" was accepted and seen ${times} times`)
    if (outcome === 'accepted' && of[0]?.status !== 'accepted') {
      found.push(`"${text}" was accepted and its row says ${of[0]?.status}`)
    }
    if (outcome !== 'accepted' && outcome !== 'broken' && outcome !== 'unknown' && times > 0) {
      found.push(`"${text}" ended as ${outcome} and was seen`)
    }
    if (of[0]?.status === 'accepted' && times === 0)
      found.push(`the row of "${text}" is accepted, nobody saw it`)
  }
  return found
}
