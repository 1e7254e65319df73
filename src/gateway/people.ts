/** Erases people: what the store, the session files and the files of queued sends have about them. */
import type { Forgotten } from '../model/person.ts'
import { statOf } from '../platform/files.ts'
import type { Runtime } from '../platform/runtime.ts'
import type { ResolveTarget } from '../push/events.ts'
import type { MediaStore } from '../storage/media-store.ts'
import type { State } from '../storage/state.ts'
import type { Store } from '../storage/store.ts'

export interface PeoplePorts {
  store: Pick<Store, 'people' | 'backups'>
  state: Pick<State, 'forgetUser'>
  queued: Pick<MediaStore, 'discard'>
  resolveTarget: ResolveTarget
  /** Rewrites the store, as `PeopleStore.scrub`. A service does it in another process. */
  scrub(): Promise<void>
}

export class People {
  readonly #ports: PeoplePorts
  readonly #runtime: Runtime
  /** Ends with the last call: each rewrites the store. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(ports: PeoplePorts, runtime: Runtime) {
    this.#ports = ports
    this.#runtime = runtime
  }

  /**
   * Erases a user in all sessions. A repeated call completes a call that failed or was killed.
   *
   * @param user id or name
   * @throws SvcError `invalid_arguments` for a name of no user or of several; `store_unavailable` if
   *   free space of the store still has erased data: call again
   */
  forget(user: string): Promise<Forgotten> {
    const done = this.#last.catch(() => {}).then(() => this.#forget(user))
    this.#last = done
    return done
  }

  async #forget(given: string): Promise<Forgotten> {
    const { queued, resolveTarget, scrub, state, store } = this.#ports
    const { user = given } = await resolveTarget({ user: given })
    const hash = await store.people.hashOf(user)
    await state.forgetUser(user)
    await queued.discard(await store.people.listFiles(user))
    const { files, ...erased } = await store.people.erase(user)
    await queued.discard(files)
    await scrub()
    this.#runtime.log.info('user erased', { user: hash, messages: erased.messages })
    return { hash, ...erased, backups: await this.#listBackups() }
  }

  /** Returns the backups that exist: they still have the user. */
  async #listBackups(): Promise<Forgotten['backups']> {
    const known = await this.#ports.store.backups.list()
    const there = await Promise.all(known.map(({ path }) => statOf(path).catch(() => undefined)))
    return known.flatMap(({ path, created_at }, nth) => (there[nth] ? { path, created_at } : []))
  }
}
