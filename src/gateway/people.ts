/** Erases people: what the store, the session files and the files of queued sends have about them. */
import { rm } from 'node:fs/promises'
import { relative, sep } from 'node:path'
import { SvcError } from '../model/error.ts'
import type { Forgotten } from '../model/person.ts'
import { openFolderBelow } from '../platform/below.ts'
import { systemClock } from '../platform/clock.ts'
import { returnIfAbsent, statOf } from '../platform/files.ts'
import { createMutex } from '../platform/one-at-a-time.ts'
import { isOwnName, ownPath } from '../platform/own-names.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { ResolveTarget } from '../push/events.ts'
import type { MediaStore } from '../storage/media-store.ts'
import { freshMs } from '../storage/people.ts'
import type { State } from '../storage/state.ts'
import type { Store } from '../storage/store.ts'

/** Wait after the last step: data that was read before it is read again before it leaves a process. */
const settleMs = 4 * freshMs
/** Longest wait for the programs of agents, and how often this looks. */
const [agentsMs, lookEveryMs] = [30_000, 100]

export interface PeoplePorts {
  store: Pick<Store, 'people' | 'backups' | 'agents' | 'topics' | 'webhooks'>
  state: Pick<State, 'forgetUser' | 'sessions'>
  queued: Pick<MediaStore, 'discard'>
  /** Folder of the working folders of agents. */
  agentFolders: string
  resolveTarget: ResolveTarget
  /** Rewrites the store, as `PeopleStore.scrub`. A service does it in another process. */
  scrub(rewrite: boolean): Promise<void>
}

export class People extends RunningPart<PeoplePorts> {
  /** Runs calls one after another, because each rewrites the store. */
  readonly #forgetAlone = createMutex()

  /**
   * Erases a user in all sessions. A repeated call completes a call that failed or was killed.
   *
   * @param user id or name
   * @param rewrite as in `PeopleStore.scrub`
   * @throws SvcError `invalid_arguments` for a name of no user or of several; `store_unavailable` if
   *   free space of the store still has erased data: call again
   */
  forget(user: string, rewrite = false): Promise<Forgotten> {
    return this.#forgetAlone(() => this.#forget(user, rewrite))
  }

  /** Same as `PeopleStore.countErasures`. */
  countErasures(): Promise<number> {
    return this.ports.store.people.countErasures()
  }

  /** Returns the names of the agents that work for the account of a user, the owner: nobody owns them afterwards. */
  async listOwned(user: string): Promise<string[]> {
    const { state, store } = this.ports
    const sessions = (await state.sessions.list()).filter(({ bot }) => bot?.user_id === user)
    const found = sessions.map(({ name }) => store.agents.listConversations({ session: name, limit: 1000 }))
    return [...new Set((await Promise.all(found)).flat().map(({ agent }) => agent))].sort()
  }

  async #forget(given: string, rewrite: boolean): Promise<Forgotten> {
    const { queued, resolveTarget, scrub, state, store } = this.ports
    const { user = given } = await resolveTarget({ user: given })
    const hash = await store.people.hashOf(user)
    const agents = await this.listOwned(user)
    const remains = await this.#listRemains(user, rewrite)
    await store.people.begin(user)
    await this.#waitForAgents(user)
    await state.forgetUser(user)
    await queued.discard(await store.people.listFiles(user))
    await this.#removeFolders(user)
    const { files, ...erased } = await store.people.erase(user)
    // A poll that was under way may have written the user into the session files again.
    await state.forgetUser(user)
    await queued.discard(files)
    await systemClock.sleep(settleMs)
    await scrub(rewrite)
    this.runtime.log.info('user erased', { user: hash, messages: erased.messages })
    return { hash, ...erased, agents, backups: await this.#listBackups(), remains }
  }

  /** Waits until the programs of agents that worked for the user have stopped. */
  async #waitForAgents(user: string): Promise<void> {
    const until = systemClock.monotonic() + agentsMs
    while (await this.ports.store.agents.isWorkedOn(user)) {
      if (systemClock.monotonic() > until) throw agentRunsError()
      await systemClock.sleep(lookEveryMs)
    }
  }

  /** Removes the folders in which agents worked for the user. A folder that somebody else named stays. */
  async #removeFolders(user: string): Promise<void> {
    const { agentFolders, store } = this.ports
    const conversations = await store.agents.listConversations({ user, limit: 1000 })
    for (const { folder } of conversations) {
      const [agent = '', name = '', ...rest] = relative(agentFolders, folder ?? agentFolders).split(sep)
      if (rest.length > 0 || !isOwnName('agent', agent) || !isOwnName('conversation', name)) continue
      const opened = await openFolderBelow(agentFolders, agent).catch(returnIfAbsent(undefined, noFolder))
      if (!opened) continue
      await using held = opened
      await rm(ownPath(held.path, 'conversation', name), { recursive: true, force: true })
    }
  }

  /** Returns, in words for people, where data of the user may remain that svc does not reach. */
  async #listRemains(user: string, rewrite: boolean): Promise<string[]> {
    const { agents, people, topics, webhooks } = this.ports.store
    const worked = await agents.listConversations({ user, limit: 1000 })
    const names = [...new Set(worked.map(({ agent }) => agent))]
    const ids = (await webhooks.list()).map(({ id }) => id)
    const others = (await topics.list())
      .filter(({ people }) => people.some(({ user_id }) => user_id !== user))
      .map(({ name }) => name)
    return [
      ...(await people.listRemains(rewrite)),
      ...(names.length > 0 ? [`records that the programs of agents keep: ${names.join(', ')}`] : []),
      ...(others.length > 0
        ? [`what programs told others of the user, in these topics and in their names: ${others.join(', ')}`]
        : []),
      ...(ids.length > 0 ? [`what the receivers of webhooks got: ${ids.join(', ')}`] : []),
    ]
  }

  /** Returns the existing backups: they still contain the user. */
  async #listBackups(): Promise<Forgotten['backups']> {
    const known = await this.ports.store.backups.list()
    const there = await Promise.all(known.map(({ path }) => statOf(path).catch(() => undefined)))
    return known.flatMap(({ path, created_at }, nth) => (there[nth] ? { path, created_at } : []))
  }
}

/** Codes of the system where an agent has no folder, or a link stands in its place. */
const noFolder = ['ENOENT', 'ENOTDIR', 'ELOOP']

const agentRunsError = () =>
  new SvcError('store_unavailable', 'an agent still works for the user', {
    hint: 'Nothing more is told to the user. Stop svc agent, and call again: it erases the rest.',
  })
