/**
 * Which agent gets a message of a person who may use several. The process of each agent reads every message, and decides
 * by what all of them know: the message, the choices of the person, and who runs. The agent that is decided takes it. The
 * others keep it open until that one has read it to the end, and decide again meanwhile, so none is lost. Should two take
 * it, the store lets one of them have the turn.
 */
import type { AgentWork, Message, MissedMessage, OpenMessage, Svc } from '../index.ts'
import { formatPrincipal } from '../model/principal.ts'
import { saidIn } from '../model/typed-answer.ts'
import type { SetAside } from '../platform/apart.ts'
import type { Clock } from '../platform/clock.ts'
import { RoomPart } from '../platform/runtime.ts'
import { findCommand, findName, guessName, readMention, withoutMention } from './commands.ts'
import { type AgentConfig, defaultAgent } from './config.ts'
import type { AnswerDelivery } from './delivery.ts'
import { findQuoted } from './prompt.ts'
import type { KnownReader, Talkers } from './talkers.ts'
import type { Texts } from './texts.ts'

/** A shorter absence of an agent, such as a restart, is not told. */
const awayMs = 15_000
/** Messages before a picture in which the name of an agent is looked for. */
const lookedAt = 10
/** Messages for other agents that are kept open. They read further ones without this process. */
const mostLeft = 500

/** What decides about a message. Names of agents; absent: none. */
export interface Facts {
  /** Those that the person may use, in their order. hasRead: it has read the message to the end, so it was answered. */
  readonly agents: readonly { name: string; isRunning: boolean; hasRead?: boolean | undefined }[]
  /** Stands in front of it, behind `@`. */
  readonly named?: string | undefined
  /** Wrote the message that it quotes. */
  readonly quoted?: string | undefined
  /** Was chosen before it. */
  readonly chosen?: string | undefined
}

/** Returns the agent that gets a message. */
export function chooseAgent({ agents, chosen, named, quoted }: Facts): string | undefined {
  const meant = [named, quoted, chosen].find(name => agents.some(one => one.name === name))
  const first = agents.find(one => one.hasRead) ?? agents.find(one => one.isRunning) ?? agents[0]
  return meant ?? first?.name
}

export interface ChoosingPorts {
  readonly svc: Pick<Svc, 'history'>
  readonly work: Pick<AgentWork, 'chooseAgent' | 'listMissed' | 'takesAsAnswer'>
  readonly people: Pick<Talkers, 'findAgents' | 'findChosen' | 'findListener' | 'listAgents'>
  readonly delivery: Pick<AnswerDelivery, 'reply' | 'tell'>
  readonly config: Pick<AgentConfig, 'name'>
  /** Returns the agent whose question a message answers. */
  findAsker(message: Message): Promise<string | undefined>
  /** Takes a message that this agent gets after all. */
  take(open: OpenMessage): Promise<void>
  readonly clock: Pick<Clock, 'monotonic'>
}

/** Who gets a message. about: the agent for which it is a command, if that does not run. Absent: none. */
export interface Receiver {
  readonly agent: string | undefined
  readonly about?: string | undefined
}

/** A message that another agent gets. */
interface LeftMessage {
  readonly open: OpenMessage
  readonly at: number
  agent: string
}

export class Choosing extends RoomPart<ChoosingPorts> {
  readonly #left = new Map<number, LeftMessage>()
  /** By message that waited when this agent started: the others that had read it to the end. */
  readonly #readBy = new Map<number, Set<string>>()

  /** Notes which other agents have read what waited for this one. */
  async lookBack(missed: readonly MissedMessage[]): Promise<void> {
    const { config, people, work } = this.ports
    const ids = missed.map(({ id }) => id)
    for (const { name, since } of ids.length > 0 ? await people.listAgents() : []) {
      if (name === config.name) continue
      const unread = new Set((await work.listMissed(name, ids)).map(({ id }) => id))
      for (const id of ids.filter(id => since < id && !unread.has(id)))
        this.#readBy.set(id, (this.#readBy.get(id) ?? new Set()).add(name))
    }
  }

  /**
   * Returns the agent that gets a message. A command for one that does not run is answered by one that runs, and by no
   * other one later.
   *
   * @param agents those that its user may use
   */
  async find(message: Message, agents: readonly KnownReader[]): Promise<Receiver> {
    const { config, findAsker, people } = this.ports
    const { from_user: user_id, id, session } = message
    const asker = await findAsker(message)
    if (asker !== undefined) return { agent: asker }
    const there = agents.filter(({ name, since }) => name === config.name || since < id)
    if (there.length < 2) return { agent: there[0]?.name }
    const names = there.map(({ name }) => name)
    const facts = there.map(one => ({ ...one, hasRead: this.#readBy.get(id)?.has(one.name) }))
    const sentBy = message.ref_msg && (await findQuoted(message, this.ports))?.sent_by
    const agent = chooseAgent({
      agents: facts,
      named: await this.#findNamed(message, names),
      quoted: names.find(name => sentBy === formatPrincipal({ kind: 'agent', id: name })),
      chosen: await people.findChosen({ session, user_id }, there, id),
    })
    const meant = facts.find(({ name }) => name === agent)
    const others = facts.filter(({ commands }) => commands && meant?.commands)
    const other = others.find(one => one.hasRead) ?? others.find(one => one.isRunning && !meant?.isRunning)
    const isCommand = other && findCommand(withoutMention(saidIn(message), meant!.name))
    return isCommand ? { agent: other.name, about: agent } : { agent }
  }

  /** Returns the agent that a message names, or the text right before it if it says nothing itself, such as a picture. */
  async #findNamed(message: Message, names: readonly string[]): Promise<string | undefined> {
    const { from_user: user_id, id, session } = message
    const isMute = ({ items, ref_msg, text }: Message) =>
      !text && !ref_msg && items.every(({ transcript }) => !transcript)
    if (!isMute(message)) return readMention(message.text, names)?.name
    const wanted = { session, user_id, direction: 'received', before: id, limit: lookedAt } as const
    let next = message
    for (const one of (await this.ports.svc.history(wanted)).messages) {
      if (next.timestamp - one.timestamp > defaultAgent.gatherMs) break
      if (!isMute(one)) return readMention(one.text, names)?.name
      next = one
    }
    return undefined
  }

  /**
   * Does what `/use` and `/agents` say, whichever agent the person has chosen. Each process does; one of them answers.
   *
   * @returns false for another message
   */
  async obey(message: Message, agents: readonly KnownReader[]): Promise<boolean> {
    const { delivery, people, work } = this.ports
    const { from_user: user_id, id, session } = message
    const names = agents.map(({ name }) => name)
    const said = saidIn(message)
    const { rest = '', word } = findCommand(readMention(said, names)?.rest || said) ?? {}
    if ((word !== 'use' && word !== 'agents') || !agents.some(({ commands }) => commands)) return false
    const chosen = findName(rest, names)
    if (chosen !== undefined)
      await work.chooseAgent({ session, user: user_id }, { message: id, agent: chosen })
    // Another process has answered.
    if (this.#readBy.has(id)) return true
    const listens = await people.findListener({ session, user_id }, agents)
    const text = (texts: Texts) => describeChoice(texts, agents, { chosen, listens, rest })
    await delivery.reply({ session, user_id }, text, `agent:${id}:${word}`)
    return true
  }

  /** Leaves a message to another agent. */
  async leave(open: OpenMessage, agent: string): Promise<void> {
    if (this.#left.size >= mostLeft) return open.settle(true)
    this.#left.set(open.message.id, { open, agent, at: this.ports.clock.monotonic() })
  }

  /** Looks after the messages that were left to others. */
  async look(setAside: SetAside): Promise<void> {
    // What comes from now on was not asked about: the next look does.
    const all = [...this.#left.values()]
    if (all.length === 0) return
    const { people, work } = this.ports
    const unread = new Set<number>()
    // Before it is decided again: an agent that has settled a message knew by then whose it is.
    for (const [agent, left] of Map.groupBy(all, ({ agent }) => agent)) {
      const ids = left.map(({ open }) => open.message.id)
      for (const { id } of await work.listMissed(agent, ids)) unread.add(id)
    }
    const running = new Set((await people.listAgents()).flatMap(one => (one.isRunning ? one.name : [])))
    for (const left of all) {
      const { id } = left.open.message
      if (this.#left.get(id) !== left) continue
      await this.#decide(id, left, unread.has(id), running).catch(error =>
        setAside({ row: `message ${id}`, error }),
      )
    }
  }

  async #decide(id: number, left: LeftMessage, isUnread: boolean, running: ReadonlySet<string>) {
    const { clock, config, people, take } = this.ports
    const { at, open } = left
    const { agents } = await people.findAgents(open.message.session, open.message.from_user)
    const { agent = left.agent } = await this.find(open.message, agents)
    const isSame = agent === left.agent
    left.agent = agent
    if (agent === config.name) {
      this.#left.delete(id)
      await take(open)
    } else if (isSame && (!isUnread || (!running.has(agent) && clock.monotonic() - at >= awayMs))) {
      if (isUnread) await this.#tellAway(open.message, agent, agents)
      this.#left.delete(id)
      await open.settle(true)
    }
  }

  /** Tells a person that an agent does not run: once until it has read what waits. */
  async #tellAway(message: Message, agent: string, agents: readonly KnownReader[]): Promise<void> {
    const { delivery, work } = this.ports
    const { from_user: user_id, id, session } = message
    // The question of another program needs no agent.
    if (['over', 'taken'].includes(await work.takesAsAnswer(message))) return
    const missed = await work.listMissed(agent, undefined, user_id)
    const first = missed.find(one => one.session === session)?.id ?? id
    const other = agents.find(({ isRunning }) => isRunning)?.name
    const text = ({ agents: texts }: Texts) => texts.away(agent, other)
    await delivery.tell({ session, user_id }, text, `agent:${first}:away`, 'common')
  }

  /** Gives back what is open. */
  async close(): Promise<void> {
    await Promise.all([...this.#left.values()].map(({ open }) => open.settle(false)))
    this.#left.clear()
  }
}

/** Says which agent was chosen, or was perhaps meant, or which ones there are. @param rest what stood after the command */
function describeChoice(
  { agents: texts }: Texts,
  agents: readonly KnownReader[],
  { chosen, listens, rest }: { chosen: string | undefined; listens: string | undefined; rest: string },
): string {
  const names = agents.map(({ name }) => name)
  const found = agents.find(({ name }) => name === chosen)
  if (found) return texts.chosen(found.name, !found.isRunning)
  const guess = guessName(rest, names)
  if (guess !== undefined) return texts.unsure(guess, 'use')
  const lines = agents.map(one => texts.line(one.name, one.about, one.name === listens, !one.isRunning))
  return [rest && texts.unknown(rest.slice(0, 50)), ...lines, agents.length > 1 && texts.howTo]
    .filter(Boolean)
    .join('\n')
}
