/**
 * Agents that speak the Agent Client Protocol over stdio. Each conversation has a program of its own, so that one that
 * hangs or dies stops no other. A program that has nothing to do ends; the session goes on in a new one.
 */
import { type KeptSession, SvcError } from '../../index.ts'
import { RoomPart } from '../../platform/runtime.ts'
import type { AgentOffers, Backend, Prompt, SessionContext, TurnContext, TurnResult } from '../backend.ts'
import { AcpAgent, type AcpLimits, type AcpOptions } from './acp-agent.ts'
import { withLostNote } from './lost.ts'

/** Programs without a turn that are kept. */
const maxIdle = 8
const defaultLimits: AcpLimits = { answerMs: 120_000, quietMs: 500, cancelMs: 5000, idleMs: 600_000 }

/** Makes the backend. Nothing is started before the first turn. */
export const createAcpBackend = (
  options: Omit<AcpOptions, 'limits'> & { limits?: Partial<AcpLimits> },
): Backend => new AcpBackend({ ...options, limits: { ...defaultLimits, ...options.limits } })

class AcpBackend extends RoomPart<AcpOptions> implements Backend {
  /** Every program, those with the oldest turns first. The controller of an idle program stops its timer. */
  readonly #agents = new Map<AcpAgent, AbortController | undefined>()
  #isClosed = false

  async run(prompt: Prompt, context: TurnContext): Promise<TurnResult> {
    const { agent, isLost } = await this.#open(context)
    try {
      await agent.choose(context)
      if (agent.session !== undefined) context.keepSession?.(agent.session)
      const { text, ...result } = await agent.prompt(prompt, context)
      return { ...result, text: isLost ? withLostNote(text, prompt.text) : text, agentSession: agent.session }
    } finally {
      this.#rest(agent)
    }
  }

  async describe(folder: string, signal: AbortSignal): Promise<string> {
    const agent = await AcpAgent.start({ folder }, this.ports)
    try {
      return (await agent.openSession({ folder, signal })).mode
    } finally {
      await agent.end()
    }
  }

  look(context: SessionContext): Promise<AgentOffers> {
    return this.#askApart(context, agent => agent.look(context))
  }

  listSessions(context: SessionContext, folders: readonly string[]): Promise<KeptSession[]> {
    return this.#askApart(context, agent => agent.listSessions(folders, context))
  }

  /** Asks the program of the session, beside its turn, or a new one. That stays for the next turn if it has the session. */
  async #askApart<T>(context: SessionContext, ask: (agent: AcpAgent) => Promise<T>): Promise<T> {
    const known = this.#agentOf(context)
    if (known?.isAlive) return ask(known)
    const agent = await this.#start(context)
    try {
      return await ask(agent)
    } finally {
      const isOf = agent.session !== undefined && agent.session === context.agentSession
      // A turn may have begun meanwhile, with another program.
      if (isOf && !this.#agentOf(context)) this.#rest(agent)
      else await agent.end()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#agents.keys()].map(agent => this.#end(agent)))
  }

  /** Returns the program that has the session, or a new one. */
  async #open(context: TurnContext): Promise<{ agent: AcpAgent; isLost: boolean }> {
    const { agentSession, signal } = context
    const known = await this.#find(context)
    signal.throwIfAborted()
    if (known) return { agent: known, isLost: false }
    const agent = await this.#start(context)
    this.#agents.set(agent, undefined)
    try {
      if (this.#isClosed) throw new SvcError('shutting_down', 'svc stops')
      const { isSame } = await agent.openSession(context)
      return { agent, isLost: agentSession !== undefined && !isSame }
    } catch (error) {
      await this.#end(agent)
      throw error
    }
  }

  #start(context: SessionContext): Promise<AcpAgent> {
    const { isolatedFrom = this.ports.isolatedFrom } = context
    return AcpAgent.start(context, { ...this.ports, isolatedFrom })
  }

  /** Returns the program that has the session. It may have a turn, or be ending. */
  #agentOf({ agentSession, isolatedFrom = this.ports.isolatedFrom }: SessionContext): AcpAgent | undefined {
    const isSame = (one: AcpAgent) => one.session === agentSession && one.isolatedFrom === isolatedFrom
    return agentSession === undefined ? undefined : [...this.#agents.keys()].find(isSame)
  }

  async #find(context: SessionContext): Promise<AcpAgent | undefined> {
    const agent = this.#agentOf(context)
    // The previous turn may have been stopped: then the agent is still ending it.
    await agent?.whenFree()
    if (!agent?.isAlive) return undefined
    this.#agents.get(agent)?.abort()
    this.#agents.set(agent, undefined)
    return agent
  }

  /** Keeps an idle program for the next turn, for a while. */
  #rest(agent: AcpAgent): void {
    if (!agent.isAlive || this.#isClosed) return void this.#end(agent)
    const { clock, limits } = this.ports
    const rest = new AbortController()
    // Moves it to the end.
    this.#agents.delete(agent)
    this.#agents.set(agent, rest)
    void clock.sleep(limits.idleMs, rest.signal).then(() => {
      if (!rest.signal.aborted) void this.#end(agent)
    })
    const idle = [...this.#agents].filter(([, resting]) => resting)
    if (idle.length > maxIdle) void this.#end(idle[0]![0])
  }

  async #end(agent: AcpAgent): Promise<void> {
    this.#agents.get(agent)?.abort()
    this.#agents.delete(agent)
    await agent.end()
  }
}
