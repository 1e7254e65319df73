/** The simulated world, whole: people, logins, messages both ways, media, switches, time. */
import { type Between, Core, type SandboxOptions } from './core.ts'
import { Inbox } from './inbox.ts'
import { Logins } from './logins.ts'
import { Media } from './media.ts'
import { Outbox } from './outbox.ts'
import { People } from './people.ts'
import { openWorldFile } from './persistence.ts'

/** The parts, each with its own story. */
export type World = Awaited<ReturnType<typeof openWorld>>

/** Opens the world kept in this folder, or makes one with one user. @throws Error when the file cannot be used */
export async function openWorld(options: SandboxOptions) {
  const db = await openWorldFile(options.dir)
  const core = new Core({ ...options, db })
  const people = new People(core)
  const media = new Media(core)
  const between: Between = options.between ?? ((_asked, honest) => honest())
  await media.sweep()
  people.firstUser()
  return {
    ...{ core, people, media, between },
    logins: new Logins(core, people),
    inbox: new Inbox(core, people),
    outbox: new Outbox(core, people, media),
    close() {
      core.bells.ringAll()
      db.close()
    },
  }
}
