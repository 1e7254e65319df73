/**
 * Questions whose answer comes with another request: what a yes was asked for. In the revision of 2026 the client brings the
 * answer along when it calls again, and could bring a yes to one message with another: so each question has a ticket,
 * good for one call, with exactly these arguments, within a time. The SDK's codec for request state (2.4.0) signs and keeps
 * nothing, so it cannot tell that a yes was used before.
 */
import { createHash, randomBytes } from 'node:crypto'

/** People take their time; the ticket of an older question is not taken any more. */
const goodForMs = 10 * 60_000
/** Questions that nobody answers are forgotten, the oldest first. */
const mostOpen = 1000

export class Questions {
  /** Ticket → what was asked about, and until when an answer counts; in the order asked. */
  readonly #open = new Map<string, { about: string; until: number }>()
  readonly #now: () => number

  /** @param now milliseconds that never jump */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** A ticket for a question about these arguments, as `parse` gave them: their keys stand in the order of the schema. */
  ask(about: unknown): string {
    for (const [ticket, { until }] of this.#open) {
      if (until > this.#now() && this.#open.size < mostOpen) break
      this.#open.delete(ticket)
    }
    const ticket = randomBytes(24).toString('base64url')
    this.#open.set(ticket, { about: digestOf(about), until: this.#now() + goodForMs })
    return ticket
  }

  /** Whether it is the ticket of a question about these very arguments. It is used up, whatever the answer is. */
  take(ticket: string | undefined, about: unknown): boolean {
    const asked = ticket === undefined ? undefined : this.#open.get(ticket)
    if (ticket === undefined || !asked) return false
    this.#open.delete(ticket)
    return asked.until > this.#now() && asked.about === digestOf(about)
  }
}

const digestOf = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('base64url')
