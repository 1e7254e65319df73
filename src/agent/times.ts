/** What people want done at a time: their commands, and the turns that begin when it has come. */
import { machineZone } from '../config/time-zone.ts'
import {
  type AgentWork,
  isSvcError,
  type Message,
  type NewTime,
  type StoredQuestion,
  type StoredTime,
  type StoredTurn,
  SvcError,
} from '../index.ts'
import { formatRule, readTime } from '../model/spoken-time.ts'
import { dayMs, nextOf } from '../model/time-rule.ts'
import { plainOf, type Said } from '../model/typed-answer.ts'
import type { SetAside } from '../platform/apart.ts'
import type { Clock } from '../platform/clock.ts'
import { isVisible } from '../platform/escape-controls.ts'
import { createMutex } from '../platform/one-at-a-time.ts'
import { RoomPart } from '../platform/runtime.ts'
import { chooseByCode } from './approvals.ts'
import { newCode } from './asking.ts'
import type { AgentCommand } from './commands.ts'
import type { AgentConfig } from './config.ts'
import type { AnswerDelivery } from './delivery.ts'
import type { Chat, Talkers } from './talkers.ts'
import { type Texts, textsFor } from './texts.ts'
import { englishTimes } from './time-text.ts'

/** Longest prompt that an agent proposes, in characters: a person sees all of it. */
const longestProposal = 700
/** Proposals of a conversation that are not decided yet. */
const mostProposals = 5
/** What comes later than this after its time is not done. */
const lateMs = 60 * 60_000

const cannotAsk = 'Your user cannot be asked now. Propose it after the next message of your user.'
/** Why an agent cannot propose something, in words for it. */
const rejected = (why: string) => new SvcError('invalid_arguments', why)

export interface TimesPorts {
  readonly work: AgentWork
  readonly people: Talkers
  readonly delivery: AnswerDelivery
  readonly config: AgentConfig
  readonly clock: Clock
}

/** `agent`: named before the command; absent: the one that the person has chosen when the time comes. */
type TimeCommand = AgentCommand & { readonly agent?: string | undefined }
type Reply = (text: (texts: Texts) => string) => Promise<void>

export class Times extends RoomPart<TimesPorts> {
  /** Proposals are counted and asked one after another. */
  readonly #askAlone = createMutex()

  /** Does what a person commands about times. */
  async obey(command: TimeCommand, message: Message, reply: Reply): Promise<void> {
    const { people, work } = this.ports
    const { rest, word } = command
    const { from_user: user, session } = message
    if (!(await people.maySetTimes(session, user))) return reply(({ time }) => time.notYours)
    if (word === 'at') return this.#add(command, message, reply)
    const all = await this.#naming({ session, user_id: user }, await work.listTimes({ session, user }))
    if (word === 'times') return reply(({ time }) => time.listed(all))
    const id = Number(/\d{1,15}/.exec(plainOf(rest))?.[0])
    const known = all.find(one => one.id === id)
    if (known) await work.removeTime(id)
    await reply(({ time }) => (known ? time.cancelled(known) : time.unknown))
  }

  /** Same as `TurnContext.propose`. */
  async propose(turn: StoredTurn, when: string, prompt: string): Promise<string> {
    const { clock, config, delivery, people, work } = this.ports
    const { agent, session, user_id } = turn
    const to = await people.findOperator(session)
    if (to?.user_id !== user_id) throw rejected(englishTimes.notYours)
    const zone = config.zone ?? machineZone()
    const read = readTime(when.replace(/^\/(?:at\s+)?/i, ''), { now: clock.now(), zone })
    if ('why' in read) throw rejected(englishTimes.unclear(read.why, zone, read.as))
    if (read.rest !== '') throw rejected(englishTimes.form)
    if (!isVisible(prompt) || prompt.length > longestProposal)
      throw rejected(`The text must have 1 to ${longestProposal} characters.`)
    const { due: due_at, rule } = read
    const time: NewTime = { agent, session, user_id, prompt, rule, zone, due_at, made_by: `agent:${agent}` }
    const isOpen = (one: StoredQuestion) =>
      one.drafts?.length === 0 && one.agent === agent && one.session === session && one.user_id === user_id
    await this.#askAlone(async () => {
      if ((await work.listDrafts()).filter(isOpen).length >= mostProposals)
        throw rejected(`${mostProposals} proposals are open. Your user has to decide about them first.`)
      if (!(await delivery.hasRoom(to))) throw rejected(cannotAsk)
      const code = await newCode(work)
      const text = JSON.stringify(time)
      const expires_at = clock.now() + dayMs
      const id = await work.ask({ turn: turn.id, text, options: [], code, drafts: [], expires_at })
      const shown = await delivery.show(
        to,
        texts => texts.time.proposed(agent, time, code),
        `agent:proposal:${id}`,
      )
      if (!shown) await work.closeQuestion(id, 'discard')
      if (!shown) throw rejected(cannotAsk)
    })
    return `Proposed, and not set yet: ${englishTimes.moment(read, zone)}. Your user decides by a code in the chat. Do not propose it again.`
  }

  /** Sets a time that an agent proposed, or drops it, as the person answered. @returns whether the answer was clear */
  async decide({ code, id, session, text }: StoredQuestion, said: Said, message: Message): Promise<boolean> {
    const { delivery, work } = this.ports
    const choice = chooseByCode(said, message, textsFor(message.text).time.choices(code))
    if (!choice) return false
    const to = { session: message.session, user_id: message.from_user }
    const reply: Reply = text => delivery.tell(to, text, `agent:${message.id}:answer`)
    if (choice === 'send') await this.#store({ ...(JSON.parse(text) as NewTime), session }, reply)
    else await reply(({ time }) => time.declined)
    await work.closeQuestion(id, choice)
    return true
  }

  async #add({ agent, rest, written }: TimeCommand, message: Message, reply: Reply): Promise<void> {
    const { config } = this.ports
    const { from_user: user_id, session, timestamp } = message
    const head = ['/every', '/in'].includes(written) ? `${written.slice(1)} ` : ''
    const zone = config.zone ?? machineZone()
    // A message may come late, or again.
    const read = readTime(`${head}${rest}`, { now: timestamp, zone })
    if ('why' in read) return reply(({ time }) => time.unclear(read.why, zone, read.as))
    const { due: due_at, isMoved, rest: prompt, rule } = read
    if (prompt === '') return reply(({ time }) => time.unclear('words', zone, read))
    await this.#store(
      { agent, session, user_id, prompt, rule, zone, due_at, made_by: 'owner' },
      reply,
      isMoved,
    )
  }

  /** Adds a time that was read some time ago. */
  async #store(time: NewTime, reply: Reply, isMoved = false): Promise<void> {
    const { clock, work } = this.ports
    const { due_at: due = 0, rule, zone } = time
    const due_at = due > clock.now() ? due : nextOf(rule, zone, clock.now(), due)
    if (due_at === undefined) return reply(({ time }) => time.past)
    try {
      const [added] = await this.#naming(time, [await work.addTime({ ...time, due_at })])
      await reply(({ time }) => time.added(added!, isMoved))
    } catch (error) {
      if (!isSvcError(error, 'invalid_arguments')) throw error
      await reply(({ time }) => time.tooMany)
    }
  }

  /** Returns times of a person, without their agents where that is clear. */
  async #naming(chat: Chat, times: readonly StoredTime[]): Promise<StoredTime[]> {
    const { people } = this.ports
    const { agents } = await people.findAgents(chat.session, chat.user_id)
    const listens = await people.findListener(chat, agents)
    const isClear = (agent?: string) => agents.length < 2 && agent === listens
    return times.map(time => (isClear(time.agent) ? { ...time, agent: undefined } : time))
  }

  /** Begins the turns of times that have come, and tells their people what was missed. */
  async run(setAside: SetAside): Promise<void> {
    for (const time of await this.#listOwn('due'))
      await this.#pass(time).catch(error => setAside({ row: `time ${time.id}`, error }))
    const missed = Map.groupBy(
      await this.#listOwn('missed'),
      ({ session, user_id }) => `${session}\0${user_id}`,
    )
    for (const times of missed.values())
      await this.#tellMissed(times).catch(error => setAside({ row: `time ${times[0]!.id}`, error }))
  }

  /** Tells a person what was missed, in one message. */
  async #tellMissed(times: readonly StoredTime[]): Promise<void> {
    const { delivery, work } = this.ports
    const { id, session, user_id } = times[0]!
    const key = `agent:missed:${id}:${Math.max(...times.map(({ missed_at = 0 }) => missed_at))}`
    const shown = await this.#naming({ session, user_id }, times)
    // Another agent may go on with it.
    await delivery.tell({ session, user_id }, ({ time }) => time.missed(shown), key, 'common')
    for (const time of times) await work.passTime(time, { due_at: time.due_at })
  }

  /** Returns the times that name this agent, and those of people who have chosen it. */
  async #listOwn(only: 'due' | 'missed'): Promise<StoredTime[]> {
    const { config, people, work } = this.ports
    const own: StoredTime[] = []
    for (const time of await work.listTimes({ only })) {
      const { agents, standing } = await people.findAgents(time.session, time.user_id)
      const chosen = standing === 'allowed' ? await people.findListener(time, agents) : undefined
      if ((time.agent ?? chosen) === config.name) own.push(time)
    }
    return own
  }

  /** Goes on from a time that has come: with a turn, unless it is too late, or the answer before still waits. */
  async #pass(time: StoredTime): Promise<void> {
    const { clock, config, delivery, work } = this.ports
    const { due_at = 0, isWaiting, made_by, missed_at, rule, zone } = time
    if ('problem' in rule) {
      await delivery.tell(time, texts => texts.time.broken(time), `agent:time:${time.id}:broken`)
      await work.passTime(time, {})
      throw new Error(rule.problem)
    }
    const now = clock.now()
    const newest = nextOf(rule, zone, Math.max(due_at - 1, now - lateMs), due_at)
    const who = made_by.startsWith('agent:') ? 'proposed' : 'were asked'
    const prompt = `[${formatRule({ at: newest ?? now }, zone)}, as you ${who} before:]\n${time.prompt}`
    const isTurn = !isWaiting && newest !== undefined && newest <= now
    const isLate = !isWaiting && due_at <= now - lateMs
    await work.passTime(time, {
      due_at: nextOf(rule, zone, now, due_at),
      missed_at: isLate ? (missed_at ?? due_at) : missed_at,
      ...(isTurn && { turn: { agent: config.name, prompt } }),
    })
  }
}
