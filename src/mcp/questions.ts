/**
 * Tickets of open questions to people. In the revision of 2026 the client sends the answer with a second
 * request, and could use a yes to one message for another. So each question has a ticket. It is valid for one
 * call with exactly the same arguments, for a limited time. The SDK's codec for request state (2.4.0) signs
 * the state and stores nothing, so it cannot detect that a yes is used twice.
 */
import { createHash, randomBytes } from 'node:crypto'
import { shares } from '../model/shares.ts'

/** How long a ticket is valid, in milliseconds. */
const ticketLifetimeMs = 10 * 60_000
export class QuestionTickets {
  /** Ticket → digest of the arguments, and until when the ticket is valid. In the order of the questions. */
  readonly #open = new Map<string, { about: string; until: number; caller: unknown }>()
  readonly #now: () => number

  /** @param now monotonic clock in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * Creates a ticket for a question about these arguments. `parse` has put their keys into the order of the
   * schema. If there are too many, the oldest is dropped: of the caller, if those of the caller are too many.
   */
  createTicket(about: unknown, caller?: unknown): string {
    for (const [ticket, { until }] of this.#open) {
      if (until > this.#now()) break
      this.#open.delete(ticket)
    }
    const { each, most } = shares.mcpQuestions
    const own = caller ? [...this.#open].filter(([, one]) => one.caller === caller) : []
    const [oldest] = own.length >= each ? own : this.#open.size >= most ? this.#open : []
    if (oldest) this.#open.delete(oldest[0])
    const ticket = randomBytes(24).toString('base64url')
    this.#open.set(ticket, { about: digestOf(about), until: this.#now() + ticketLifetimeMs, caller })
    return ticket
  }

  /** Uses up a ticket. Returns whether it is valid for a question about exactly these arguments. */
  useTicket(ticket: string | undefined, about: unknown): boolean {
    const question = ticket === undefined ? undefined : this.#open.get(ticket)
    if (ticket === undefined || !question) return false
    this.#open.delete(ticket)
    return question.until > this.#now() && question.about === digestOf(about)
  }
}

const digestOf = (value: unknown) => createHash('sha256').update(JSON.stringify(value)).digest('base64url')
