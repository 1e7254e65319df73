/** Runs an agent in front of WeChat: reads messages, decides who may talk, and lets the conversations work. */

import {
  type AgentWork,
  type ConversationKey,
  isSvcError,
  type Message,
  type OpenMessage,
  type Svc,
} from '../index.ts'
import { consumerOf } from '../model/agent.ts'
import { normalizeSessionName } from '../model/session.ts'
import { saidIn } from '../model/typed-answer.ts'
import { Permits } from '../platform/permits.ts'
import { followSignal } from '../platform/signals.ts'
import type { Repetition } from '../platform/tasks.ts'
import { Approvals } from './approvals.ts'
import type { Backend } from './backend.ts'
import { Choosing } from './choosing.ts'
import { findCommand } from './commands.ts'
import type { AgentConfig } from './config.ts'
import { UserConversation } from './conversation.ts'
import { type AgentBase, createDelivery } from './delivery.ts'
import { type QuestionPorts, Questions } from './questions.ts'
import { followSessions, type Standing } from './talkers.ts'
import { Times } from './times.ts'
import type { TurnPorts } from './turn.ts'

/** Turns that run at the same time. */
const maxTurns = 8
/**
 * How often the process looks for turns that it did not add itself: injected ones, and those of a process that died.
 */
const lookEveryMs = 1000
const renewEveryMs = 15_000

export interface AgentPorts extends Omit<AgentBase, 'names'> {
  /** The data directory, which an isolated agent does not see. */
  readonly dataFolder: string
  /** What asks the operator, in place of the agent's own. */
  readonly questions?: Pick<Questions, 'ask' | 'closeLost' | 'findAsker' | 'takeAnswer'>
}

/**
 * Runs an agent until the signal aborts. If another process runs it, waits until that one ends.
 *
 * @throws SvcError `session_not_found`, or `store_unavailable` if the directory cannot be used
 */
export async function runAgent(
  svc: Svc,
  backend: Backend,
  config: AgentConfig,
  ports: AgentPorts,
  closing: AbortSignal,
): Promise<void> {
  const { clock, log } = ports
  try {
    const names = await followSessions(ports.agents ?? [], await svc.workAsAgent())
    const own = { ...ports, names }
    for (let isWaiting = false; !closing.aborted; await clock.sleep(lookEveryMs, closing)) {
      const work = await svc.workAsAgent()
      if (await work.claimAgent(config.name, await sessionOf(config, own))) {
        isWaiting = false
        await new Agent(svc, work, backend, config, own).run(closing)
      } else if (!isWaiting) {
        isWaiting = true
        log.warn('another process runs an agent of this name; this one waits until it ends', {
          agent: config.name,
        })
      }
    }
  } catch (error) {
    if (!isSvcError(error, 'shutting_down')) throw error
  } finally {
    await backend.close()
  }
}

type OwnPorts = AgentPorts & AgentBase

/** Returns the only session that an agent answers in, as it is called now; undefined: all. */
const sessionOf = async ({ name, session }: AgentConfig, { names }: Pick<OwnPorts, 'names'>) =>
  (await names?.get(name)?.()) ?? (session && normalizeSessionName(session))

/** The agent, while this process has the claim on it. */
class Agent {
  readonly #svc: Svc
  readonly #ports: OwnPorts & TurnPorts
  readonly #approvals: Approvals
  readonly #choosing: Choosing
  readonly #conversations = new Map<string, UserConversation>()
  readonly #questions: Pick<Questions, 'ask' | 'closeLost' | 'findAsker' | 'takeAnswer'>
  /** Aborts when the claim is lost or given up. */
  readonly #over = new AbortController()

  constructor(svc: Svc, work: AgentWork, backend: Backend, config: AgentConfig, ports: OwnPorts) {
    const { clock, log } = ports
    const over = this.#over.signal
    const { delivery, people } = createDelivery(svc, work, config, ports, {
      over,
      approvals: {
        areNeeded: turn => this.#approvals.areNeeded(turn),
        propose: (turn, drafts) => this.#approvals.propose(turn, drafts),
      },
    })
    const show = delivery.show.bind(delivery)
    this.#approvals = new Approvals({ svc, work, people, config, show, clock })
    const times = new Times({ work, people, delivery, config, clock })
    const decide: QuestionPorts['decide'] = (question, ...answer) =>
      (question.drafts?.length ? this.#approvals : times).decide(question, ...answer)
    const asking = { svc, work, people, delivery, decide, pauseMs: config.gatherMs, clock, log }
    const questions = ports.questions ?? new Questions(asking)
    this.#questions = questions
    const findAsker = (message: Message) => questions.findAsker(message)
    const take = (open: OpenMessage) => this.#take(open)
    this.#choosing = new Choosing({ svc, work, people, delivery, config, findAsker, take, clock })
    this.#svc = svc
    const [permits, guestPermits] = [new Permits(maxTurns), new Permits(maxTurns / 2)]
    const parts = { svc, work, backend, config, people, delivery, questions, times, over }
    this.#ports = { ...ports, ...parts, permits, guestPermits }
  }

  /** Works until the process closes, or another one has the claim. */
  async run(closing: AbortSignal): Promise<void> {
    const { log } = this.#ports
    const { name, operator } = this.#ports.config
    const { signal } = this.#over
    const unlink = followSignal(closing, this.#over)
    await this.#questions.closeLost(name)
    // Others know of it before it decides about the first message.
    await this.#ports.work.begin(name)
    if (!(await this.#claim())) return unlink()
    const looking = this.#lookForWork(signal)
    try {
      for (const unowned of await this.#ports.people.listUnowned())
        log.warn('the owner of a session is not known; its users get no answer unless they are allowed', {
          session: unowned,
        })
      const session = await sessionOf(this.#ports.config, this.#ports)
      for (const unknown of await this.#ports.people.listUnknown())
        log.warn('nobody has this name; svc users name ID NAME gives it to a person', { name: unknown })
      // The operator may answer in another session.
      const only = session !== undefined && operator === undefined && { session }
      const reading = { consumer: consumerOf(name), signal, ...only }
      const missed = await this.#ports.work.listMissed(name)
      if (missed.length > 0)
        log.info('messages came while the agent did not run', { messages: missed.length })
      await this.#choosing.lookBack(missed)
      for await (const open of this.#svc.openMessages(reading)) await this.#take(open)
    } finally {
      unlink()
      this.#over.abort()
      await Promise.all([looking.done, ...[...this.#conversations.values()].map(one => one.close())])
      await this.#choosing.close()
      await this.#ports.work
        .releaseAgent(name)
        .catch(error => log.warn('agent not given up; its claim ends by itself', { error }))
    }
  }

  async #claim(): Promise<boolean> {
    const session = await sessionOf(this.#ports.config, this.#ports)
    return this.#ports.work.claimAgent(this.#ports.config.name, session, await this.#ports.people.describe())
  }

  /** Takes a message, or leaves it to another agent. */
  async #take(open: OpenMessage): Promise<void> {
    const { clock, log } = this.#ports
    const { name } = this.#ports.config
    const { from_user: user, session } = open.message
    try {
      const { agents, standing } = await this.#ports.people.findAgents(session, user)
      const isOwn = agents.some(one => one.name === name)
      const mayCommand = isOwn && standing === 'allowed'
      if (mayCommand && (await this.#choosing.obey(open.message, agents))) return await open.settle(true)
      const { about, agent } = await this.#choosing.find(open.message, agents)
      if (agent === name) return await this.#give(open, isOwn ? standing : 'operator', about)
      if (!mayCommand || agent === undefined) return await open.settle(true)
      if (this.#ports.config.commands && findCommand(saidIn(open.message))?.word === 'stop')
        this.#conversations.get(`${session}\0${user}`)?.stopToo(open.message)
      await this.#choosing.leave(open, agent)
    } catch (error) {
      if (!this.#over.signal.aborted)
        log.warn('message for an agent not taken; it comes again', { session, user, error })
      await clock.sleep(lookEveryMs, this.#over.signal)
      await open.settle(false)
    }
  }

  /** Hands a message to its conversation, unless it answers a question. @param about as in `Receiver` */
  async #give(open: OpenMessage, standing: Standing, about: string | undefined): Promise<void> {
    const { from_user: user, session } = open.message
    const key = { agent: this.#ports.config.name, session, user }
    const isOperator = standing === 'operator'
    const taken =
      standing === 'stranger' ? 'no' : await this.#questions.takeAnswer(open.message, isOperator || undefined)
    if (taken === 'taken' || isOperator || (standing === 'stranger' && (await this.#hasTurn(key))))
      await open.settle(true)
    else if (standing === 'stranger') this.#conversationOf(key).take(open, 'stranger')
    else this.#conversationOf(key).take(open, taken === 'later' ? 'answer' : undefined, about)
  }

  /** Whether a user already has a turn. A stranger gets one: running it tells the owner, and then the turn fails. */
  async #hasTurn(key: ConversationKey): Promise<boolean> {
    return (await this.#svc.agents.turns({ ...key, limit: 1 })).length > 0
  }

  /** Keeps the claim, and looks for turns that nobody works on, and for those that cannot be finished. */
  #lookForWork(signal: AbortSignal): Repetition {
    const { clock, log, tasks } = this.#ports
    const { name } = this.#ports.config
    const failure = 'turns of an agent cannot be worked on'
    let renewAt = 0
    return tasks.repeat(
      { name: `agent:${name}`, everyMs: lookEveryMs, failure, log, signal },
      async setAside => {
        this.#forgetIdle()
        for (const { error, key } of this.#conversations.values())
          if (error !== undefined) setAside({ row: key.session, error })
        if (clock.monotonic() >= renewAt) {
          if (!(await this.#claim())) return this.#over.abort()
          await this.#ports.work.renew()
          await this.#approvals.tidy()
          renewAt = clock.monotonic() + renewEveryMs
        }
        await this.#choosing.look(setAside)
        // A time that cannot be read holds up no turn.
        await this.#ports.times.run(setAside).catch(error => setAside({ row: 'times of agents', error }))
        for (const key of await this.#ports.work.listWork(name)) this.#conversationOf(key).run()
      },
    )
  }

  /** Gives up the conversations in which nothing is left to do. */
  #forgetIdle(): void {
    const { log } = this.#ports
    for (const [name, conversation] of this.#conversations) {
      if (!conversation.isIdle) continue
      this.#conversations.delete(name)
      this.#ports.work
        .release(conversation.key)
        .catch(error => log.warn('conversation not given up; its claim ends with the process', { error }))
    }
  }

  #conversationOf(key: ConversationKey): UserConversation {
    const name = `${key.session}\0${key.user}`
    const known = this.#conversations.get(name)
    if (known) return known
    const conversation = new UserConversation(key, this.#ports)
    this.#conversations.set(name, conversation)
    return conversation
  }
}
