/** What the parts of the message log have in common. */
import type { Clock } from '../../platform/clock.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { Messages } from './messages.ts'
import type { Owner } from './owner.ts'

export interface Ground {
  readonly db: Database
  readonly messages: Messages
  readonly clock: Clock
  /** This process. */
  readonly owner: Owner
}

export abstract class EnginePart implements Ground {
  readonly db: Database
  readonly messages: Messages
  readonly clock: Clock
  readonly owner: Owner

  constructor({ db, messages, clock, owner }: Ground) {
    this.db = db
    this.messages = messages
    this.clock = clock
    this.owner = owner
  }
}
