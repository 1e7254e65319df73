/**
 * Knows who may talk with an agent (the owner of each account, the users who are allowed, and its guests), and who decides
 * for it. A guest joined by an invitation, and has that account alone: only the agent that the invitation names takes it.
 */

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { AgentEntry, AgentWork, KnownAgent, Session, Svc, SvcPart } from '../index.ts'
import { commonAgent } from '../model/agent.ts'
import { mostOnPage } from '../model/page.ts'
import { normalizeSessionName, sessionKeyOf } from '../model/session.ts'
import { isIssuedId, isUserId, matchUserId } from '../model/user-id.ts'
import type { Clock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import { type AgentConfig, describeBackend } from './config.ts'

/** Accounts and names are read again after this time. */
const keptMs = 5000

/** Settings that decide who may talk with an agent. */
export type AccessConfig = Pick<
  AgentConfig,
  'name' | 'session' | 'allow' | 'users' | 'operator' | 'folder' | 'commands'
>
type OwnConfig = AccessConfig & Pick<AgentConfig, 'backend' | 'folders'>

/** An agent of this process or of another one. */
export interface KnownReader
  extends AccessConfig,
    Pick<KnownAgent, 'about' | 'besides' | 'group' | 'isRunning' | 'place' | 'since'> {}

/** A chat of the bot with a person. */
export interface Chat {
  readonly session: string
  readonly user_id: string
}

/** A folder in which an agent may work for a person. */
export interface Place {
  /** Absent for one that the owner did not name. */
  readonly name?: string
  readonly folder: string
}

/** The person of an account that came by an invitation, and what the invitation says. */
export interface Guest {
  /** Absent: not known, so nobody is answered. */
  readonly user_id?: string | undefined
  /** The only agent that answers. */
  readonly agent?: string | undefined
  readonly trusted: boolean
  readonly turnsPerDay: number
}

/** How agents treat the messages of a user. operator: they can only be answers. */
export type Standing = 'allowed' | 'operator' | 'stranger'

export interface TalkersPorts {
  readonly svc: Pick<Svc, 'sessions' | 'users' | 'as' | 'invitations'>
  readonly work: Pick<AgentWork, 'listAgents' | 'listChoices'>
  readonly config: OwnConfig
  /** All agents of the process, in their order, this one among them. */
  readonly agents: readonly OwnConfig[]
  readonly clock: Pick<Clock, 'monotonic'>
  readonly names?: SessionNames | undefined
}

type SenderKind = 'common' | 'draft' | 'reply'

/** By the name of each agent that reads only one session: a function that returns the session's current name. */
export type SessionNames = ReadonlyMap<string, () => Promise<string>>

/** Follows the sessions of the agents through renames, from now on. */
export async function followSessions(
  agents: readonly AccessConfig[],
  work: Pick<AgentWork, 'followSession'>,
): Promise<SessionNames> {
  const found = agents.flatMap(({ name, session }) => {
    if (session === undefined) return []
    const follow = work.followSession(normalizeSessionName(session))
    return [[name, async () => (await follow()).session] as const]
  })
  for (const [, look] of found) await look()
  return new Map(found)
}

export class Talkers extends RoomPart<TalkersPorts> {
  /** The owner of each session that has one. */
  #owners: ReadonlyMap<string, string> = new Map()
  /** The guest of each other session. */
  #guests: ReadonlyMap<string, Guest> = new Map()
  /** By agent: the ids of the users who are allowed, each with the user's folder, if one is set. */
  #allowed: ReadonlyMap<string, ReadonlyMap<string, string | undefined>> = new Map()
  /** By agent that names an operator: the chat with that person. */
  #operators: ReadonlyMap<string, Chat> = new Map()
  #sessions: readonly string[] = []
  /** All agents, also of other processes, in the order in which they get messages. */
  #agents: readonly KnownReader[] = []
  /** By agent that reads only one session: the session's current name. */
  #names: ReadonlyMap<string, string> = new Map()
  #readAt = Number.NEGATIVE_INFINITY
  readonly #senders = new Map<SenderKind, { users: string; part: SvcPart }>()

  /**
   * Returns the chat of the person who decides what an agent may do in a session: its operator, else the user who scanned
   * the QR code. Undefined if that is not known or a guest, or if the operator has never written.
   */
  async findOperator(session: string, agent = this.ports.config.name): Promise<Chat | undefined> {
    await this.#read(session)
    const { operator } = this.#agents.find(({ name }) => name === agent) ?? {}
    if (operator !== undefined) return this.#operators.get(agent)
    const owner = this.#owners.get(session)
    return owner === undefined ? undefined : { session, user_id: owner }
  }

  /**
   * Returns the chat of the person who approves answers. The owner approves only for an agent that serves one
   * account.
   */
  async findApprover(session: string, agent = this.ports.config.name): Promise<Chat | undefined> {
    await this.#read(session)
    const config = this.#agents.find(({ name }) => name === agent)
    const own = config && this.#sessions.filter(one => this.#isOf(config, one) && !this.#guests.has(one))
    const isOne = own?.length === 1
    return config?.operator !== undefined || isOne ? this.findOperator(session, agent) : undefined
  }

  /** Returns the sessions of the agent whose owner is not known. */
  async listUnowned(): Promise<string[]> {
    await this.#read()
    const { config, svc } = this.ports
    const sessions = await svc.sessions()
    return sessions
      .filter(({ name, user_id }) => this.#isOf(config, name) && !user_id)
      .map(({ name }) => name)
  }

  /** Returns the names in the settings that no user has. */
  async listUnknown(): Promise<string[]> {
    const { allow, operator = '@', users } = this.ports.config
    const named = [...(allow === 'everyone' ? [] : allow), ...Object.keys(users ?? {}), operator]
    const known = await this.ports.svc.users({ limit: mostOnPage })
    return named.filter(who => !who.includes('@') && known.every(({ name }) => name !== who))
  }

  /** Whether a user may talk with the agent in a session. */
  async mayTalk(session: string, user: string): Promise<boolean> {
    await this.#read(session)
    return this.#isAllowed(this.ports.config, session, user)
  }

  /**
   * Returns the agents that a user may use in a session, in their order. If there is none, the one that treats the
   * user as its operator, or else as a stranger.
   */
  async findAgents(
    session: string,
    user: string,
  ): Promise<{ standing: Standing; agents: readonly KnownReader[] }> {
    await this.#read(session)
    const list = () => this.#agents.filter(one => this.#isAllowed(one, session, user))
    const known = list()
    // Nobody is refused by what was true some seconds ago.
    if (known.length === 0) await this.listAgents()
    const allowed = known.length > 0 ? known : list()
    if (allowed.length > 0) return { standing: 'allowed', agents: allowed }
    const firstOf = (all: readonly KnownReader[]) => all.filter(({ isRunning }) => isRunning).slice(0, 1)
    const decides = this.#agents.filter(({ name }) => this.#operators.get(name)?.user_id === user)
    if (decides.length > 0) return { standing: 'operator', agents: firstOf(decides) }
    // A guest whom no agent answers is no stranger: nobody is notified.
    const near = this.#agents.filter(one => this.#isOf(one, session))
    return { standing: 'stranger', agents: this.#guests.has(session) ? [] : firstOf(near) }
  }

  /** Returns all agents of this store as they are now. */
  async listAgents(): Promise<readonly KnownReader[]> {
    this.#readAt = Number.NEGATIVE_INFINITY
    await this.#read()
    return this.#agents
  }

  /**
   * Returns which of some agents a user has chosen.
   *
   * @param before row id: only by a message before this one
   */
  async findChosen(
    { session, user_id: user }: Chat,
    agents: readonly KnownReader[],
    before = Number.POSITIVE_INFINITY,
  ): Promise<string | undefined> {
    const choices = await this.ports.work.listChoices({ session, user })
    const chosen = choices.findLast(({ message }) => message < before)?.agent
    return agents.find(({ name }) => name === chosen)?.name
  }

  /** Returns which of some agents gets what a user writes now. */
  async findListener(chat: Chat, agents: readonly KnownReader[]): Promise<string | undefined> {
    return (await this.findChosen(chat, agents)) ?? agents.find(({ isRunning }) => isRunning)?.name
  }

  /** Returns the name of the agent if it has to be said: the user may use several, and another one listens. */
  async findMark(chat: Chat): Promise<string | undefined> {
    const { name } = this.ports.config
    const { agents } = await this.findAgents(chat.session, chat.user_id)
    const isClear = agents.length < 2 || (await this.findListener(chat, agents)) === name
    return isClear ? undefined : name
  }

  /** Returns what the processes of other agents have to know of this one. */
  async describe(): Promise<AgentEntry> {
    await this.#read()
    const { agents, config } = this.ports
    const { allow, backend, commands, name, operator, users } = config
    const ids = [...(this.#allowed.get(name)?.keys() ?? [])]
    return {
      about: describeBackend(backend),
      allow: users || allow !== 'everyone' ? ids : allow,
      ...(users && { users: ids }),
      ...(agents.length > 1 && { besides: this.#besidesOf(config) }),
      ...(operator !== undefined && { operator: this.#operators.get(name)?.user_id ?? '' }),
      commands,
      place: agents.findIndex(one => one.name === name),
      group: this.#agents.find(one => one.name === name)?.group ?? name,
    }
  }

  /** Returns the guest of a session; undefined if it has an owner. */
  async findGuest(session: string): Promise<Guest | undefined> {
    await this.#read(session)
    return this.#guests.get(session)
  }

  /**
   * Returns the folders in which the agent may work for a user. It begins in the first: the one that the settings name, or
   * one of the user's own. The others that the owner named are only for the person who decides. A guest always has one
   * folder of the guest's own.
   *
   * @param folders folder of the working folders of all agents
   */
  async listFolders({ session, user_id }: Chat, folders: string): Promise<Place[]> {
    const decides = await this.decides(session, user_id)
    const { config } = this.ports
    const isGuest = this.#guests.has(session)
    const given = isGuest ? undefined : (this.#allowed.get(config.name)?.get(user_id) ?? config.folder)
    const own = createHash('sha256').update(`${session}\0${user_id}`).digest('hex').slice(0, 16)
    const first = given ?? join(folders, config.name, own)
    if (!decides || isGuest) return [{ folder: first }]
    const named = Object.entries(config.folders ?? {}).map(([name, folder]) => ({ name, folder }))
    const isFirst = ({ folder }: Place) => folder === first
    return [named.find(isFirst) ?? { folder: first }, ...named.filter(one => !isFirst(one))]
  }

  /** Whether a user is the person who decides what the agent may do in a session. */
  async decides(session: string, user: string): Promise<boolean> {
    return (await this.findOperator(session))?.user_id === user
  }

  /** Whether a user may set times in a session: its owner, and the person who decides. */
  async maySetTimes(session: string, user: string): Promise<boolean> {
    return (await this.decides(session, user)) || this.#owners.get(session) === user
  }

  /** Returns the name of a user, or else the id. Also the id while the store fails. */
  async nameOf(session: string, user: string): Promise<string> {
    const [known] = await this.ports.svc.users({ session, user_id: user }).catch(() => [])
    return known?.name ?? user
  }

  /**
   * Returns the methods to send with: limited to the owners, the guests and those who are allowed.
   *
   * @param how draft: a person approves what is sent. common: no agent sends it, so their processes send it once
   */
  async getSender(how: SenderKind = 'reply'): Promise<SvcPart> {
    await this.#read()
    const { config, svc } = this.ports
    const owners = [...this.#owners].flatMap(([session, user]) => (this.#isOf(config, session) ? user : []))
    const guests = [...this.#guests.values()].flatMap(({ agent, user_id }) =>
      agent === config.name && user_id !== undefined ? [user_id] : [],
    )
    const operator = this.#operators.get(config.name)
    const allowed = this.#allowed.get(config.name)?.keys() ?? []
    const decides = operator ? [operator.user_id] : []
    const users = [...new Set([...owners, ...guests, ...allowed, ...decides])].sort()
    const known = this.#senders.get(how)
    if (known?.users === users.join('\n')) return known.part
    const part = svc.as({
      name: how === 'common' ? commonAgent : config.name,
      can: how === 'draft' ? [how] : ['reply', 'typing'],
      ...((config.users || config.allow !== 'everyone') && { users }),
    })
    this.#senders.set(how, { users: users.join('\n'), part })
    return part
  }

  /** Whether an agent reads the messages of a session. */
  #isOf({ name, session: given }: AccessConfig, session: string): boolean {
    const own = this.#names.get(name) ?? given
    return own === undefined || sessionKeyOf(own) === sessionKeyOf(session)
  }

  #isAllowed(config: AccessConfig, session: string, user: string): boolean {
    if (!this.#isOf(config, session)) return false
    const guest = this.#guests.get(session)
    if (guest) return guest.agent === config.name && guest.user_id === user
    if (this.#allowed.get(config.name)?.has(user)) return true
    if (config.users) return false
    const isOwner = this.#owners.get(session) === user
    if (isOwner && config.session !== undefined) return true
    const { sessions, users } = this.#besidesOf(config)
    const isForOthers =
      users.includes(user) || (isOwner && sessions.some(one => sessionKeyOf(one) === sessionKeyOf(session)))
    return !isForOthers && (config.allow === 'everyone' || isOwner)
  }

  /** Returns whom other agents of its process name. */
  #besidesOf({
    besides,
    name,
  }: AccessConfig & Pick<KnownAgent, 'besides'>): NonNullable<KnownAgent['besides']> {
    const { agents } = this.ports
    const others = agents.some(one => one.name === name) ? agents.filter(one => one.name !== name) : []
    const sessions = others.flatMap(({ name, session, users }) =>
      session === undefined || users ? [] : [this.#names.get(name) ?? session],
    )
    const users = others.flatMap(one => [...(this.#allowed.get(one.name)?.keys() ?? [])])
    return besides ?? { sessions, users }
  }

  /** @param session a session that may be new or renamed: then everything is read now */
  async #read(session?: string): Promise<void> {
    const { clock, names, svc, work } = this.ports
    const before = this.#names
    const now = [...(names ?? [])].map(async ([name, look]) => [name, await look()] as const)
    this.#names = new Map(await Promise.all(now))
    const isMoved = this.#names.entries().some(([name, own]) => before.get(name) !== own)
    const isKnown = session === undefined || this.#owners.has(session) || this.#guests.has(session)
    if (isKnown && !isMoved && clock.monotonic() - this.#readAt < keptMs) return
    const sessions = await svc.sessions()
    const guests = await readGuests(svc, sessions)
    const agents = joinAgents(this.ports.agents, await work.listAgents())
    const operators = agents.flatMap(({ name, operator }) =>
      operator === undefined ? [] : [{ name, operator }],
    )
    const named = agents.flatMap(({ allow, users }) => [
      ...Object.keys(users ?? {}),
      ...(allow === 'everyone' ? [] : allow),
    ])
    const isPlain = operators.length === 0 && named.every(isIssuedId)
    const known = isPlain ? [] : await svc.users({ limit: mostOnPage })
    const knownIds = new Set(known.map(({ user_id }) => user_id))
    /** Returns the ids for an id or a name. A guest’s name comes from the invitation, so it is not looked up here. */
    const idsOf = (who: string) =>
      isUserId(who)
        ? [matchUserId(who, knownIds, 'users')]
        : known.flatMap(({ name, session: place, user_id }) =>
            name === who && !guests.has(place) ? [user_id] : [],
          )
    const allowedOf = ({ allow, users }: AccessConfig) => {
      const folders = Object.entries(users ?? {}).map(([who, { folder }]) => [who, folder] as const)
      const others = users || allow === 'everyone' ? [] : allow.map(who => [who, undefined] as const)
      return [...folders, ...others].flatMap(([who, folder]) => idsOf(who).map(id => [id, folder] as const))
    }
    this.#allowed = new Map(agents.map(one => [one.name, new Map(allowedOf(one))]))
    const newestFirst = known.toSorted((a, b) => (b.last_received ?? 0) - (a.last_received ?? 0))
    this.#operators = new Map(
      operators.flatMap(({ name, operator }) => {
        const [id = ''] = idsOf(operator)
        const found = newestFirst.find(({ user_id }) => user_id === id)
        return found ? [[name, { session: found.session, user_id: id }]] : []
      }),
    )
    this.#agents = agents
    this.#sessions = sessions.map(({ name }) => name)
    const owned = sessions.filter(({ name }) => !guests.has(name))
    this.#owners = new Map(owned.flatMap(({ name, user_id }) => (user_id ? [[name, user_id]] : [])))
    this.#guests = guests
    this.#readAt = clock.monotonic()
  }
}

/** Returns the agents of this process and those of others, in their order. */
function joinAgents(own: readonly OwnConfig[], known: readonly KnownAgent[]): KnownReader[] {
  const find = (name: string) => known.find(one => one.name === name)
  const group = known.find(({ name }) => own.some(one => one.name === name))?.name ?? own[0]!.name
  // Others of this process are about to run. One that never ran reads nothing yet.
  const ofProcess = own.map(({ backend, ...config }, place) => {
    const since = find(config.name)?.since ?? Number.POSITIVE_INFINITY
    return { ...config, about: describeBackend(backend), isRunning: true, group, place, since }
  })
  const ofOthers = known
    .filter(({ name }) => own.every(one => one.name !== name))
    .map(({ users, ...one }) => ({ ...one, users: users && Object.fromEntries(users.map(id => [id, {}])) }))
  const ran = new Map(known.map(({ name }, nth) => [name, nth]))
  const ranOf = ({ group }: KnownReader) => ran.get(group) ?? known.length
  return [...ofProcess, ...ofOthers].sort((a, b) => ranOf(a) - ranOf(b) || a.place - b.place)
}

/** Returns the guests, by session. */
async function readGuests(
  svc: Pick<Svc, 'invitations'>,
  sessions: readonly Session[],
): Promise<ReadonlyMap<string, Guest>> {
  const joined = sessions.filter(({ invitation }) => invitation !== undefined)
  if (joined.length === 0) return new Map()
  const known = new Map((await svc.invitations.list()).map(one => [one.id, one]))
  return new Map(
    joined.map(({ invitation = '', name, user_id }) => {
      const { agent, trusted = false, turns_per_day = 0 } = known.get(invitation) ?? {}
      return [name, { user_id, agent, trusted, turnsPerDay: turns_per_day }]
    }),
  )
}
