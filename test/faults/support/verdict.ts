/** What a storm must not have done, checked against what was noted; and the numbers for the table. */
import type { Kill } from './fleet.ts'
import type { LoggedRow } from './log-file.ts'
import type { Received } from './readers.ts'
import type { Injected } from './world.ts'

/** By `lived`. An answer counts as in flight at a kill when its process was killed this soon, or before it was noted. */
const inFlightMs = 1000
/** Upstream hears so late, at the worst, that a client has ended: what is written before may be given to it. */
const hearsMs = 1000

export interface Missing {
  /** Never stored. */
  messages: Injected[]
  /** Messages that follow each other in one session, in upstream's order. */
  runs: Injected[][]
}

/** Which messages are not in the log, and which are there more than once. */
export function inHistory(
  injected: readonly Injected[],
  rows: readonly LoggedRow[],
): { missing: Missing; twice: string[]; foreign: string[] } {
  const received = rows.filter(row => !row.sent)
  const byText = new Map<string, number>()
  for (const { text } of received) byText.set(text, (byText.get(text) ?? 0) + 1)
  const known = new Set(injected.map(one => one.text))
  const messages: Injected[] = []
  const runs: Injected[][] = []
  const open = new Map<string, Injected[]>()
  for (const one of [...injected].sort((a, b) => a.seq - b.seq)) {
    if (byText.has(one.text)) {
      open.delete(one.bot)
      continue
    }
    messages.push(one)
    const run = open.get(one.bot)
    if (run) run.push(one)
    else {
      const begun = [one]
      open.set(one.bot, begun)
      runs.push(begun)
    }
  }
  return {
    missing: { messages, runs },
    twice: [...byText].filter(([, times]) => times > 1).map(([text]) => text),
    foreign: received.filter(row => !known.has(row.text)).map(row => row.text),
  }
}

/**
 * Whether all that is missing can have been in flight at the death of a poller: of each session at most one batch per
 * such death, each message written before upstream knew of it.
 */
export function beyondOneBatch(missing: Missing, kills: readonly Kill[], batch: number): string[] {
  const found: string[] = []
  const deaths = kills.filter(kill => kill.wasPoller)
  const used = new Map<string, number>()
  for (const run of missing.runs) {
    const { bot, at, text } = run[0]!
    const batches = Math.ceil(run.length / batch)
    used.set(bot, (used.get(bot) ?? 0) + batches)
    const later = deaths.filter(kill => kill.gone + hearsMs >= at).length
    if (later < batches) {
      const before = at - Math.max(...deaths.filter(({ gone }) => gone < at).map(({ gone }) => gone))
      found.push(
        `${run.length} missing from "${text}" on, and ${later} pollers died after; the last one before it ${before} ms earlier`,
      )
    }
  }
  for (const [bot, batches] of used) {
    if (batches > deaths.length)
      found.push(`${bot}: ${batches} batches missing, ${deaths.length} pollers died`)
  }
  return found
}

export interface Repeats {
  /** Handings beyond the first. */
  count: number
  /** What the law of delivery forbids, in words. */
  forbidden: string[]
}

/** Messages that came to one consumer more than once. */
export function repeatsOf(received: Received, kills: readonly Kill[]): Repeats {
  const deathOf = new Map(kills.map(kill => [kill.pid, kill.lived]))
  const forbidden: string[] = []
  let count = 0
  for (const [text, handings] of received.byText) {
    for (const [index, handed] of handings.entries()) {
      if (index === 0) continue
      count += 1
      const before = handings[index - 1]!
      const death = deathOf.get(before.pid)
      if (!handed.redelivered) forbidden.push(`${received.consumer}: "${text}" came again without a mark`)
      if (death === undefined || death - before.at > inFlightMs) {
        const when = death === undefined ? 'never' : `${death - before.at} ms later`
        forbidden.push(`${received.consumer}: "${text}" came again; who gave it before was killed ${when}`)
      }
    }
  }
  return { count, forbidden }
}

/** Where a reader stands that lacks something, for whoever looks at it: what, who broke off, who lives. */
export function lackOf(received: Received, rows: readonly LoggedRow[], kills: readonly Kill[]): string {
  const deathOf = new Map(kills.map(kill => [kill.pid, kill.lived]))
  const lacking = rows.filter(row => !row.sent && !received.byText.has(row.text)).map(row => row.id)
  const breaks = received.broken.map(
    ({ pid, at, error }) => `${pid} (${deathOf.has(pid) ? at - deathOf.get(pid)! : 'alive,'} ms): ${error}`,
  )
  return `lacks rows ${lacking.join(' ')}; broken calls ${breaks.join('; ')}`
}
