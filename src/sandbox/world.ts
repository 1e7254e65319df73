/** The simulated world, whole: people, logins, messages both ways, media, faults, switches, time. */
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { Core } from './core.ts'
import { Faults } from './faults.ts'
import { Inbox } from './inbox.ts'
import { Logins } from './logins.ts'
import { Media } from './media.ts'
import { Outbox } from './outbox.ts'
import { People } from './people.ts'
import { openWorldFile } from './persistence.ts'

/** The parts, each with its own story. */
export interface World {
  readonly core: Core
  readonly people: People
  readonly logins: Logins
  readonly inbox: Inbox
  readonly outbox: Outbox
  readonly media: Media
  /** Not persisted: a fault is over when the sandbox stops. */
  readonly faults: Faults
  close(): void
}

/** Opens the world kept in this folder, or makes one with one user. @throws Error when the file cannot be used */
export async function openWorld(options: {
  dir: string
  clock: Clock
  log: Log
  keepFreeBytes?: number | undefined
}): Promise<World> {
  const db = await openWorldFile(options.dir)
  const core = new Core({ ...options, db })
  const people = new People(core)
  const media = new Media(core)
  await media.sweep()
  people.firstUser()
  return {
    core,
    people,
    media,
    logins: new Logins(core, people),
    inbox: new Inbox(core, people),
    outbox: new Outbox(core, people, media),
    faults: new Faults(),
    close() {
      core.bells.ringAll()
      db.close()
    },
  }
}
