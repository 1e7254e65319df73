/** An agent program that speaks version 1 of the Agent Client Protocol, with one session. */
import type {
  AgentCapabilities,
  ClientConnection,
  InitializeResponse,
  ListSessionsResponse,
  McpServerStdio,
  NewSessionResponse,
  SessionInfo,
} from '@agentclientprotocol/sdk'
import { isSvcError, type KeptSession } from '../../index.ts'
import { type Clock, endsWithin } from '../../platform/clock.ts'
import { realPathOf } from '../../platform/files.ts'
import type { Log } from '../../platform/log.ts'
import { linkSignals, waitForAbort } from '../../platform/signals.ts'
import {
  type AgentOffers,
  type Choice,
  earlyEndOf,
  type Prompt,
  type SessionContext,
  type TurnContext,
  type TurnResult,
} from '../backend.ts'
import type { WantedMode } from '../config.ts'
import { type AgentProgram, agentError, type ProgramCommand, startProgram } from '../process.ts'
import { toOneLine } from '../question-text.ts'
import { RemindTool } from '../remind.ts'
import { chooseMode, describeMode, isAsking, type OfferedChoices, readOffer, toChoice } from './acp-modes.ts'
import { type OutputBudget, openMessages } from './acp-stream.ts'
import { AcpTurn, toBlocks } from './acp-turn.ts'

/** Bytes that an agent and its tools may print in a turn. */
const turnBytes = 64 * 1024 * 1024
/** A program that answers nothing for this time after its start is reported. */
const slowStartMs = 10_000
const loginNeeded = -32_000
const noSuchMethod = -32_601
/** A program that closed its output ends within this time, with everything that it started. */
const endedMs = 3000
/** How OpenCode calls a session in which nobody has said anything, such as those of a look at what it offers. */
const untouched = /^New session - \d/
/** How often to wait at most, `quietMs` each time, until an agent has replayed a loaded session. */
const maxQuietWaits = 20

export interface AcpOptions extends ProgramCommand {
  /** Mode of its sessions; by default one that asks. */
  readonly mode?: WantedMode
  readonly clock: Clock
  readonly log: Log
  readonly limits: AcpLimits
}

/** Times in milliseconds. */
export interface AcpLimits {
  /** Time limit for the answer to a request that is no prompt. The first start of a program may download it. */
  readonly answerMs: number
  /** An agent that printed nothing for this time has replayed the whole loaded session. */
  readonly quietMs: number
  /** Time for a cancelled turn to end. After it, the program is ended. */
  readonly cancelMs: number
  /** A program without a turn for this time is ended. */
  readonly idleMs: number
}

/** The tools that svc gives a program, and how it starts their servers. */
interface AgentTools {
  readonly remind: RemindTool | undefined
  readonly servers: McpServerStdio[]
}

export class AcpAgent {
  readonly #program: AgentProgram
  readonly #connection: ClientConnection
  readonly #options: AcpOptions & AgentTools
  readonly #budget: OutputBudget
  /** Absent until the agent has answered for the first time. */
  #capabilities: AgentCapabilities | undefined
  #session: string | undefined
  /** Whether the agent loaded the session and may replay what was said in it. Until the end of the next turn. */
  #isLoaded = false
  #turn: AcpTurn | undefined
  /** What it offers, what was last set as people chose it, and whether it has told its commands. */
  readonly #steer: {
    readonly offers: Record<'mode' | 'model', OfferedChoices>
    chosen?: Pick<SessionContext, 'mode' | 'model'>
    commands: readonly Choice[]
    readonly told: PromiseWithResolvers<void>
  } = {
    offers: { mode: { choices: [], current: undefined }, model: { choices: [], current: undefined } },
    commands: [],
    told: Promise.withResolvers<void>(),
  }
  /** The turn, until it has ended; a stopped turn takes a while. */
  #working: Promise<unknown> | undefined

  private constructor(
    program: AgentProgram,
    options: AcpOptions & AgentTools,
    acp: typeof import('@agentclientprotocol/sdk'),
  ) {
    this.#program = program
    this.#options = options
    this.#budget = { bytes: turnBytes }
    this.#connection = acp
      .client({ name: 'svc' })
      .onRequest('session/request_permission', ({ params, signal }) => {
        const turn = params.sessionId === this.#session ? this.#turn : undefined
        return turn?.ask(params, signal) ?? { outcome: { outcome: 'cancelled' } }
      })
      .onNotification('session/update', toUpdate, ({ params }) => {
        // Some agents tell their commands before the session.
        this.#note(params.update)
        if (params.sessionId === this.#session) this.#turn?.take(params.update)
      })
      .connect(openMessages(program, this.#budget))
  }

  /** Starts the program. @throws SvcError */
  static async start(
    { canPropose, folder }: Pick<SessionContext, 'canPropose' | 'folder'>,
    options: AcpOptions,
  ): Promise<AcpAgent> {
    const { command, env, given, isolatedFrom } = options
    const place = { folder, given, isolatedFrom, ...(env && { env }) }
    const remind = canPropose ? new RemindTool() : undefined
    try {
      const servers = remind ? [await remind.open()] : []
      const settings = [...command, ...servers.flatMap(({ args, command }) => [command, ...args])]
      const program = await startProgram({ command, settings, ...place })
      // Loading takes 100 ms the first time, in which the program starts.
      return new AcpAgent(program, { ...options, remind, servers }, await import('@agentclientprotocol/sdk'))
    } catch (error) {
      remind?.close()
      throw error
    }
  }

  /** The agent's id of the session. */
  get session(): string | undefined {
    return this.#session
  }

  /** The data directory that it does not see. */
  get isolatedFrom(): string | undefined {
    return this.#options.isolatedFrom
  }

  get isAlive(): boolean {
    return !this.#connection.signal.aborted
  }

  /** Resolves when the turn that runs has ended. */
  async whenFree(): Promise<void> {
    await this.#working
  }

  /**
   * Continues a session or begins one, in the wanted mode.
   *
   * @returns whether the known session goes on, and a note for people about its mode
   * @throws SvcError; the reason of the signal
   */
  async openSession(context: SessionContext): Promise<{ isSame: boolean; mode: string }> {
    const { agentSession: known, folder: cwd, signal } = context
    try {
      await this.#initialize(context)
      const continued = known === undefined ? undefined : await this.#continue(known, cwd, signal)
      if (continued) {
        this.#takeOffers(continued)
        const mode = await this.choose(context)
        if (this.#isLoaded) await this.#untilQuiet(signal)
        return { isSame: true, mode }
      }
      const input = { cwd, mcpServers: this.#options.servers }
      const begun = await this.#ask<NewSessionResponse>('session/new', input, signal)
      this.#session = begun.sessionId
      this.#takeOffers(begun)
      const mode = await this.choose(context)
      this.#options.log.info('an agent begins a session', { agent_session: begun.sessionId, mode })
      return { isSame: false, mode }
    } catch (error) {
      throw await this.#explain(error, signal)
    }
  }

  /**
   * Sets the model and then the mode, if a person chose others since: a model may change the mode, and in some modes an agent
   * asks nothing. What was chosen and the agent no longer offers is left out.
   *
   * @returns a note for people about the mode
   * @throws as `openSession`
   */
  async choose({ mode, model, signal }: SessionContext): Promise<string> {
    const offers = this.#steer.offers
    const has = ({ choices }: OfferedChoices, id?: string) => choices.some(one => one.id === id)
    const wanted = has(offers.mode, mode) ? { name: mode! } : (this.#options.mode ?? 'ask')
    const before = this.#steer.chosen
    try {
      if (!before || before.mode !== mode || before.model !== model) {
        if (has(offers.model, model) && model !== offers.model.current)
          await this.#set('model', model!, signal)
        const other = chooseMode(offers.mode, wanted)
        if (other) await this.#set('mode', other.id, signal)
        this.#steer.chosen = { mode, model }
      }
      return describeMode(offers.mode, wanted)
    } catch (error) {
      throw await this.#explain(error, signal)
    }
  }

  /** Returns what the agent offers in its session. Opens that if it has none. */
  async look(context: SessionContext): Promise<AgentOffers> {
    const { agentSession, signal } = context
    if (this.#session === undefined) await this.openSession(context)
    // Most agents tell their commands a moment after the session.
    await Promise.race([
      endsWithin(this.#options.limits.quietMs, this.#steer.told.promise),
      waitForAbort(signal),
    ])
    signal.throwIfAborted()
    const { mode, model } = this.#steer.offers
    const modes = { ...mode, choices: mode.choices.map(one => ({ ...one, asks: isAsking(one) })) }
    return { isSame: this.#session === agentSession, model, mode: modes, commands: this.#steer.commands }
  }

  /** Same as `Backend.listSessions`. */
  async listSessions(folders: readonly string[], context: SessionContext): Promise<KeptSession[]> {
    const { signal } = context
    try {
      await this.#initialize(context)
      if (!this.#capabilities?.sessionCapabilities?.list) return []
      const all = folders.map(async folder => {
        const cwd = await realPathOf(folder)
        const { sessions } = await this.#ask<ListSessionsResponse>('session/list', { cwd }, signal)
        const isOwn = (one: SessionInfo) =>
          [cwd, folder].includes(one.cwd) && !untouched.test(one.title ?? '')
        return sessions.filter(isOwn).map(({ sessionId, title, updatedAt }) => ({
          agent_session: sessionId,
          folder,
          at: Date.parse(updatedAt ?? '') || 0,
          ...(title && { title }),
        }))
      })
      return (await Promise.all(all)).flat()
    } catch (error) {
      throw await this.#explain(error, signal)
    }
  }

  /** Runs a turn to its end. @throws SvcError; the reason of the signal of the context */
  async prompt(prompt: Prompt, context: TurnContext): Promise<TurnResult> {
    const working = this.#run(prompt, context)
    this.#working = settled(working)
    return working
  }

  /** Ends the program. */
  async end(): Promise<void> {
    this.#options.remind?.close()
    this.#connection.close()
    await this.#program.end()
  }

  async #initialize({ noteStarting, signal }: SessionContext): Promise<void> {
    if (this.#capabilities) return
    const { clock, log } = this.#options
    const answered = new AbortController()
    void clock.sleep(slowStartMs, answered.signal).then(() => {
      if (answered.signal.aborted) return
      log.warn(
        'the program of the agent was started, and does not answer; if it is not being installed, it does not speak the Agent Client Protocol, as --acp says: it may need an option for that, such as gemini --acp',
      )
      noteStarting?.()
    })
    const input = {
      protocolVersion: 1,
      clientInfo: { name: 'svc', version: '1' },
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    }
    const asked = this.#ask<InitializeResponse>('initialize', input, signal)
    const answer = await asked.finally(() => answered.abort())
    if (answer.protocolVersion !== 1)
      throw agentError(`the agent speaks version ${answer.protocolVersion} of the protocol, svc version 1`)
    this.#capabilities = answer.agentCapabilities ?? {}
  }

  /** Notes what an update tells about the session. */
  #note({ availableCommands, currentModeId, sessionUpdate, ...update }: Record<string, unknown>): void {
    if (sessionUpdate === 'config_option_update') this.#takeOffers(update)
    if (sessionUpdate === 'current_mode_update') this.#steer.offers.mode.current = String(currentModeId)
    if (sessionUpdate !== 'available_commands_update' || !Array.isArray(availableCommands)) return
    this.#steer.commands = availableCommands.map(toChoice)
    this.#steer.told.resolve()
  }

  #takeOffers(answer: unknown): void {
    for (const kind of ['mode', 'model'] as const) {
      const offer = readOffer(answer, kind)
      if (offer.choices.length > 0) this.#steer.offers[kind] = offer
    }
  }

  async #set(kind: 'mode' | 'model', id: string, signal: AbortSignal): Promise<void> {
    const sessionId = this.#session!
    const { option: configId } = this.#steer.offers[kind]
    const [method, input] =
      configId === undefined
        ? [`session/set_${kind}`, { sessionId, [`${kind}Id`]: id }]
        : ['session/set_config_option', { sessionId, configId, value: id }]
    const answer = await this.#ask<unknown>(method, input, signal)
    this.#steer.offers[kind].current = id
    this.#takeOffers(answer)
  }

  /** Continues a session. @returns what the agent answers; undefined if it does not know the session */
  async #continue(sessionId: string, cwd: string, signal: AbortSignal): Promise<object | undefined> {
    const { loadSession, sessionCapabilities } = this.#capabilities ?? {}
    const input = { sessionId, cwd, mcpServers: this.#options.servers }
    const canResume = Boolean(sessionCapabilities?.resume)
    if (!canResume && !loadSession) return undefined
    try {
      const answer = await this.#ask(canResume ? 'session/resume' : 'session/load', input, signal)
      this.#session = sessionId
      this.#isLoaded = !canResume
      return Object(answer)
    } catch (error) {
      if (!isAnswer(error)) throw error
      this.#options.log.info('an agent does not know its session any more', {
        agent_session: sessionId,
        error,
      })
      return undefined
    }
  }

  /** Waits until an agent that answered `session/load` has also replayed what was said in the session. */
  async #untilQuiet(signal: AbortSignal): Promise<void> {
    let left = -1
    for (let nth = 0; nth < maxQuietWaits && left !== this.#budget.bytes; nth++) {
      left = this.#budget.bytes
      await endsWithin(this.#options.limits.quietMs, waitForAbort(signal))
      signal.throwIfAborted()
    }
  }

  async #run(prompt: Prompt, context: TurnContext): Promise<TurnResult> {
    const { agent } = this.#connection
    const turn = new AcpTurn(context, this.#isLoaded ? prompt.text : undefined)
    using linked = linkSignals(context.signal, turn.stopped)
    const { signal } = linked
    const sessionId = this.#session ?? ''
    const { remind } = this.#options
    if (remind) remind.propose = context.propose
    this.#turn = turn
    this.#budget.bytes = turnBytes
    try {
      const blocks = await toBlocks(prompt, context.folder, this.#capabilities?.promptCapabilities)
      signal.throwIfAborted()
      const answer = agent.request('session/prompt', { sessionId, prompt: blocks })
      const cancel = () => void agent.notify('session/cancel', { sessionId }).catch(() => {})
      signal.addEventListener('abort', cancel, { once: true })
      const isOver = settled(answer)
      await Promise.race([isOver, waitForAbort(signal)])
      if (signal.aborted) {
        if (!(await endsWithin(this.#options.limits.cancelMs, isOver))) {
          this.#options.log.warn('an agent does not end a turn that was cancelled; its program is ended')
          await this.end()
        }
        throw signal.reason
      }
      const { stopReason } = await answer
      if (stopReason === 'cancelled') throw agentError('the agent cancelled the turn by itself')
      const { files, leftOut, text } = await turn.finish()
      if (text === '' && files.length + leftOut === 0 && stopReason !== 'end_turn')
        throw agentError(`the agent ended its turn without an answer: ${stopReason}`)
      return { text, files, ...(leftOut > 0 && { leftOut }), early: earlyEndOf(stopReason) }
    } catch (error) {
      throw await this.#explain(error, signal)
    } finally {
      this.#turn = undefined
      if (remind) remind.propose = undefined
      this.#isLoaded = false
    }
  }

  /** Asks the agent, and waits for the answer, but not for ever. */
  async #ask<T>(method: string, input: object, signal: AbortSignal): Promise<T> {
    const { answerMs } = this.#options.limits
    const answer = this.#connection.agent.request<T>(method, input)
    const isInTime = await Promise.race([endsWithin(answerMs, settled(answer)), waitForAbort(signal)])
    signal.throwIfAborted()
    if (isInTime) return answer
    const problem = `the agent does not answer ${method} within ${answerMs / 1000} s`
    throw this.#capabilities ? agentError(problem) : notAcp(problem)
  }

  /** Turns a failure into an error that tells people what to do. */
  async #explain(error: unknown, signal: AbortSignal): Promise<unknown> {
    if (signal.aborted) return signal.reason
    if (isAnswer(error)) {
      if (!this.#capabilities && error.code === noSuchMethod) return notAcp('the agent knows no initialize')
      if (error.code === loginNeeded)
        return agentError('the agent wants a login', 'Run its program by hand once, and log in there.')
      const details = error.data === undefined ? '' : ` ${JSON.stringify(error.data)}`
      const whole = `${error.message}${details}`
      return agentError(`the agent answers with the error ${toOneLine(whole, 500)}`, undefined, {
        how: 'error',
        said: whole,
      })
    }
    if (this.isAlive || isSvcError(error)) return error
    // The stream ends a little before the program.
    if (!(await endsWithin(endedMs, this.#program.ended))) return agentError('the agent closed its output')
    const end = await this.#program.ended
    const failure = this.#program.failure(end)
    return this.#capabilities || (end.status !== 0 && failure.reason.said)
      ? failure
      : notAcp(`${failure.problem}; it has not answered`)
  }
}

/** An error that the agent answered. */
const isAnswer = (error: unknown): error is Error & { code: number; data?: unknown } =>
  error instanceof Error && error.name === 'RequestError' && 'code' in error

/** Error for a program that does not speak the protocol. */
const notAcp = (problem: string) =>
  agentError(problem, 'Without --acp, svc agent runs any program that prints its answer.', { how: 'acp' })

/** Resolves when a promise has ended, however it did. */
const settled = (promise: Promise<unknown>): Promise<unknown> => promise.catch(() => {})

/** Reads an update without the library's checks, which print on stderr what they do not know. */
function toUpdate(params: unknown): { sessionId: unknown; update: Record<string, unknown> } {
  const { sessionId, update } = Object(params) as { sessionId?: unknown; update?: unknown }
  return { sessionId, update: Object(update) }
}
