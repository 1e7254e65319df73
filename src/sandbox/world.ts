/** The simulated world, whole: people, logins, messages both ways, media, switches, time. */
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import { Core } from './core.ts'
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
  readonly between: Between
  close(): void
}

/**
 * Stands between each request of the API or the CDN and its answer, which `honest` gives; so tests make upstream fail.
 *
 * @returns undefined when the client went away
 */
export type Between = (
  asked: { endpoint: string; bot: string | undefined; signal: AbortSignal },
  honest: () => Promise<Response | undefined>,
) => Promise<Response | undefined>

/** Opens the world kept in this folder, or makes one with one user. @throws Error when the file cannot be used */
export async function openWorld(options: {
  dir: string
  clock: Clock
  log: Log
  keepFreeBytes?: number | undefined
  between?: Between
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
    between: options.between ?? ((_asked, honest) => honest()),
    close() {
      core.bells.ringAll()
      db.close()
    },
  }
}
