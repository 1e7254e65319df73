/**
 * A conversation of a user with an agent: gathers the messages of a burst into a turn, obeys the commands, and runs the
 * turns one after another.
 */
import {
  type ConversationKey,
  type ConversationState,
  isSvcError,
  type Message,
  type OpenMessage,
  type StoredTurn,
} from '../index.ts'
import { saidIn } from '../model/typed-answer.ts'
import { createMutex } from '../platform/one-at-a-time.ts'
import { linkSignals } from '../platform/signals.ts'
import { Burst } from './burst.ts'
import { ClaimLost } from './claim.ts'
import { type AgentCommand, findCommand, withoutMention } from './commands.ts'
import { TurnNotices } from './notices.ts'
import { beginNew } from './sessions.ts'
import { Steering } from './steering.ts'
import type { Texts } from './texts.ts'
import { type RunnerPorts, type TurnPlace, type TurnPorts, TurnRunner, TurnStopped } from './turn.ts'

/** Wait before a turn or message is tried again after an error, such as a full disk. */
const retryMs = 5000

export class UserConversation {
  readonly key: ConversationKey
  readonly #ports: TurnPorts
  readonly #runner: TurnRunner
  readonly #burst: Burst
  /**
   * Marked messages of the burst. answer: it answers a question if nothing else comes. old: it is too old for an
   * answer.
   */
  readonly #marks = new Map<OpenMessage, 'answer' | 'old'>()
  /**
   * Messages and commands are taken one after another, and beside them commands that ask the agent, and changes of the
   * state. `open`: steps of the first two that are not done yet.
   */
  readonly #alone = { take: createMutex(), ask: createMutex(), change: createMutex(), open: 0 }
  /** Give up what the agent is asked by commands. */
  readonly #asking = new Set<AbortController>()
  #current: (TurnPlace & { id: number; hasBegun: boolean }) | undefined
  /** Turns that the user stopped before they began, with the reason. */
  readonly #dropped = new Map<number, TurnStopped>()
  /** Turns run one after another: whether to look for more, why the last one was not finished, and what runs. */
  #turns: { isWanted: boolean; error?: unknown; working?: Promise<void> | undefined } = { isWanted: false }

  constructor(key: ConversationKey, ports: TurnPorts) {
    const { clock, config } = ports
    this.key = key
    this.#ports = ports
    this.#runner = new TurnRunner({ ...ports, key, change: this.#change.bind(this) })
    this.#burst = new Burst(clock, config.gatherMs, () => this.#do(() => this.#storeBurst()))
  }

  /** Why its turn was not finished. It is tried again. */
  get error(): unknown {
    return this.#turns.error
  }

  /** Whether it can be forgotten. */
  get isIdle(): boolean {
    return this.#burst.isEmpty && this.#alone.open === 0 && this.#turns.working === undefined
  }

  /**
   * Takes a message of the user: as a command, or as a part of a turn. It is settled once that is stored.
   *
   * @param as stranger: it is no command. answer: it is one if nothing else comes within the pause
   * @param about as in `Receiver`
   */
  take(open: OpenMessage, as?: 'stranger' | 'answer', about?: string): void {
    this.#do(() => this.#take(open, as, about))
  }

  /** Works on open turns until there are none. */
  run(): void {
    this.#turns.isWanted = true
    this.#turns.working ??= this.#work()
  }

  /** Gives back the messages that are in no turn, and waits for the running turn to stop. */
  async close(): Promise<void> {
    await Promise.all(this.#burst.take().map(open => open.settle(false)))
    await this.#alone.take(async () => {})
    await Promise.all([this.#alone.ask(async () => {}), this.#turns.working])
  }

  #do(step: () => Promise<void>, runAlone = this.#alone.take): void {
    this.#alone.open += 1
    void runAlone(step).finally(() => {
      this.#alone.open -= 1
    })
  }

  /** Obeys a command that asks the agent. That may not answer: only such commands, and turns, wait for it. */
  #ask(open: OpenMessage, obey: (steering: Steering) => Promise<void>): void {
    const stop = new AbortController()
    this.#asking.add(stop)
    this.#do(async () => {
      using either = linkSignals(this.#ports.over, stop.signal)
      const change = this.#change.bind(this)
      const steering = new Steering({ ...this.#ports, key: this.key, change, over: either.signal })
      const asked = async () =>
        obey(steering).catch(error => {
          if (!stop.signal.aborted) throw error
        })
      await this.#settle([open], asked)
      this.#asking.delete(stop)
    }, this.#alone.ask)
  }

  async #take(open: OpenMessage, as: 'stranger' | 'answer' | undefined, about?: string): Promise<void> {
    const { clock, config, over } = this.#ports
    const { message } = open
    if (over.aborted) return open.settle(false)
    const { commands, skipOlderMs = Number.POSITIVE_INFINITY } = config
    const mark = as !== 'stranger' && clock.now() - message.timestamp > skipOlderMs ? 'old' : as
    const said = withoutMention(saidIn(message), about ?? config.name)
    const command = commands && mark === undefined ? findCommand(said) : undefined
    if (command === undefined) {
      this.#burst.add(open)
      if (mark === 'answer' || mark === 'old') this.#marks.set(open, mark)
      else if (config.interrupt && this.#current?.hasBegun)
        this.#current.stop.abort(new TurnStopped('message', 'a new message came'))
      return
    }
    await this.#storeBurst()
    const { rest, word } = command
    const tell = (text: (texts: Texts) => string) => this.#reply(message, word, text)
    if (word === 'help') return this.#ask(open, steering => this.#tellHelp(steering, tell))
    if (about === undefined && isSteering(word))
      return this.#ask(open, async steering =>
        tell(await steering.obey(word === 'sessions' ? 'resume' : word, rest)),
      )
    await this.#settle([open], () =>
      this.#obey(command, message, { about, isForAll: said === saidIn(message) }),
    )
  }

  /** Stops what runs, and says so, for a command to stop that another agent got. */
  stopToo(message: Message): void {
    this.#do(async () => {
      await this.#storeBurst()
      await this.#settle([], async () => {
        const { isRunning, waiting } = await this.#stop()
        if (isRunning || waiting > 0) await this.#reply(message, 'stop', texts => texts.stopped(waiting))
      })
    })
  }

  /** Makes turns of the messages so far. Messages that were written further apart than the pause get a turn each. */
  async #storeBurst(): Promise<void> {
    const burst = this.#burst.take()
    const old = burst.filter(open => this.#marks.get(open) === 'old')
    if (old.length > 0) await this.#skip(old)
    for (const near of splitByPause(burst, this.#ports.config.gatherMs)) {
      const rest: OpenMessage[] = []
      for (const open of near) {
        const mark = this.#marks.get(open)
        this.#marks.delete(open)
        if (mark !== 'old' && !(mark && (await this.#takeAnswer(open, near.length === 1)))) rest.push(open)
      }
      if (rest.length === 0) continue
      const messages = rest.map(({ message }) => message.id)
      await this.#settle(rest, () => this.#ports.work.addTurn({ ...this.key, source: 'message', messages }))
      this.#current?.notices.noteWaiting()
      this.run()
    }
  }

  /** Leaves out messages that are too old, and says so. */
  async #skip(old: readonly OpenMessage[]): Promise<void> {
    const { config, delivery, log } = this.#ports
    const { user: user_id, ...place } = this.key
    const minutes = Math.round((config.skipOlderMs ?? 0) / 60_000)
    // Another agent may have taken them too.
    const key = `agent:${old[0]?.message.id}:skipped`
    log.info('messages that are too old left out', { ...this.key, messages: old.length })
    await this.#settle(old, () =>
      delivery.tell({ ...place, user_id }, ({ skipped }) => skipped(minutes), key, 'common'),
    )
  }

  /** Takes a message that may answer a question. @returns false if it does not */
  async #takeAnswer(open: OpenMessage, isAlone: boolean): Promise<boolean> {
    const taken = this.#ports.questions.takeAnswer(open.message, isAlone)
    const isNone = await taken.then(
      how => how !== 'taken',
      () => false,
    )
    if (!isNone) await this.#settle([open], () => taken)
    return !isNone
  }

  /** Settles messages as read after `work`. If that fails, they come again. */
  async #settle(opened: readonly OpenMessage[], work: () => Promise<unknown>): Promise<void> {
    const { clock, log, over } = this.#ports
    let done = false
    try {
      await work()
      done = true
    } catch (error) {
      // The user was erased: the messages are gone.
      done = isSvcError(error) && error.details?.erased === true
      if (!over.aborted && !done)
        log.warn('message for an agent not taken; it comes again', { ...this.key, error })
      if (!done) await clock.sleep(retryMs, over)
    }
    await Promise.all(opened.map(open => open.settle(done)))
  }

  /** Answers a command. */
  #reply({ id }: Message, word: AgentCommand['word'], text: (texts: Texts) => string): Promise<void> {
    const { session, user: user_id } = this.key
    return this.#ports.delivery.reply({ session, user_id }, text, `agent:${id}:${word}`)
  }

  /**
   * Does what the user commands. No agent sees it.
   *
   * @param isForAll the command names no agent
   */
  async #obey(
    command: AgentCommand,
    message: Message,
    { about, isForAll }: { about: string | undefined; isForAll: boolean },
  ): Promise<void> {
    const { clock, config, delivery, log, times, work } = this.#ports
    const { rest, word } = command
    const tell = (text: (texts: Texts) => string) => this.#reply(message, word, text)
    if (word === 'at' || word === 'times' || word === 'cancel')
      return times.obey({ ...command, ...(!isForAll && { agent: about ?? config.name }) }, message, tell)
    if (about !== undefined && !(word === 'stop' && isForAll)) return tell(await this.#answerFor(about, word))
    if (word === 'status') return this.#tellStatus(tell)
    if (word === 'more') {
      const turn = await work.findMore(this.key)
      if (!turn) return tell(({ noMore }) => noMore)
      await work.claim(this.key)
      return delivery.deliver(turn)
    }
    const { isRunning, waiting } = await this.#stop(
      word === 'new' ? 'the user began a new conversation' : stoppedByUser,
    )
    if (word === 'new') {
      await this.#change(state => beginNew(state, rest, clock.now()))
      const isStopped = isRunning || waiting > 0
      return tell(({ begun, stopped }) => (isStopped ? `${stopped(waiting)} ${begun}` : begun))
    }
    log.info('the user stopped the agent', { ...this.key, turns: waiting + Number(isRunning) })
    // Another agent of the person may have stopped something.
    const isStopped = isRunning || waiting > 0 || (isForAll && (await this.#isOneOfMany()))
    const away = (texts: Texts) => (about === undefined ? '' : ` ${texts.agents.away(about, config.name)}`)
    return tell(texts => (isStopped ? texts.stopped(waiting) : texts.nothingToStop) + away(texts))
  }

  /** Answers a command for an agent that does not run, by what is stored. */
  async #answerFor(agent: string, word: AgentCommand['word']): Promise<(texts: Texts) => string> {
    const { config, work } = this.#ports
    if (word === 'status') return ({ agents }) => agents.away(agent, config.name)
    if (word !== 'sessions') return ({ agents }) => agents.undone(agent, config.name)
    const key = { ...this.key, agent }
    try {
      const change: RunnerPorts['change'] = one => this.#change(one, false, key)
      return await new Steering({ ...this.#ports, key, change }).listStored()
    } finally {
      await work.release(key)
    }
  }

  /** @param isChoice a person chose something: the change has a line in the audit log */
  #change(
    change: (state: ConversationState) => ConversationState,
    isChoice = false,
    key = this.key,
  ): Promise<void> {
    const { work } = this.#ports
    return this.#alone.change(async () => {
      const claimed = await work.claim(key)
      if (claimed) await work[isChoice ? 'steer' : 'saveState'](key, change(claimed.state))
    })
  }

  /** Whether the person has other agents too. */
  async #isOneOfMany(): Promise<boolean> {
    return (await this.#ports.people.findAgents(this.key.session, this.key.user)).agents.length > 1
  }

  async #tellHelp(
    steering: Steering,
    tell: (text: (texts: Texts) => string) => Promise<void>,
  ): Promise<void> {
    const isOneOfMany = await this.#isOneOfMany()
    const commands = await steering.listCommands()
    return tell(({ help, steer }) => {
      const agent = isOneOfMany ? `${help.agent}\n${help.agents}` : help.agent
      const own = commands ? [steer.commands, ...commands].join('\n') : steer.untold
      return [help.conversation, agent, help.times, ...(commands?.length === 0 ? [] : [own])].join('\n\n')
    })
  }

  async #tellStatus(tell: (text: (texts: Texts) => string) => Promise<void>): Promise<void> {
    const { delivery, work } = this.#ports
    const waiting = ((await work.claim(this.key))?.turns ?? []).filter(({ id }) => id !== this.#current?.id)
    const current = this.#current
    if (!current) return tell(({ idle }) => idle)
    const minutesToWait = delivery.minutesToWait(current)
    await tell(texts =>
      minutesToWait === undefined
        ? texts.working(current.notices.minutes, waiting.length)
        : texts.waitsFor(minutesToWait, waiting.length),
    )
  }

  /**
   * Stops the running turn, those that wait, and what the agent is asked. The user is notified by the answer to the command.
   */
  async #stop(why = stoppedByUser): Promise<{ isRunning: boolean; waiting: number }> {
    const { work } = this.#ports
    const isAsking = this.#asking.size > 0
    for (const asking of this.#asking) asking.abort()
    const { turns } = (await work.claim(this.key)) ?? { turns: [] }
    const current = this.#current
    const reason = new TurnStopped('user', why)
    current?.stop.abort(reason)
    const waiting = turns.map(({ id }) => id).filter(id => id !== current?.id)
    for (const id of waiting) this.#dropped.set(id, reason)
    for (const id of waiting) await work.stopTurn(id)
    this.run()
    return { isRunning: current !== undefined || isAsking, waiting: waiting.length }
  }

  async #work(): Promise<void> {
    const { clock, log, over } = this.#ports
    while (this.#turns.isWanted && !over.aborted) {
      this.#turns.isWanted = false
      try {
        const wasThere = await this.#runNext()
        this.#turns.isWanted ||= wasThere
        this.#turns.error = undefined
      } catch (error) {
        if (over.aborted || error instanceof ClaimLost) break
        this.#turns.isWanted = true
        this.#turns.error = error
        log.warn('turn of an agent not finished; it is tried again', { ...this.key, error })
        await clock.sleep(retryMs, over)
      }
    }
    this.#turns.working = undefined
  }

  /** Messages whose answers would wait for one another's slots are one turn: it begins when a slot is free. */
  async #awaitSlot(turn: StoredTurn, stop: AbortSignal): Promise<StoredTurn> {
    const { delivery, work } = this.#ports
    const hasBegun = turn.status !== 'waiting' || turn.source !== 'message' || stop.aborted
    if (hasBegun || !(await delivery.awaitTurn(turn, () => stop.aborted)) || stop.aborted) return turn
    const { turns } = (await work.claim(this.key)) ?? { turns: [] }
    await work.joinTurns(turns.map(({ id }) => id))
    return (await work.getTurn(turn.id)) ?? turn
  }

  /** Runs the oldest open turn. @returns whether there was one */
  async #runNext(): Promise<boolean> {
    const { clock, work } = this.#ports
    // What was chosen before counts for it.
    await this.#alone.ask(async () => {})
    const { turns } = (await work.claim(this.key)) ?? { turns: [] }
    const [turn] = turns
    if (!turn) return false
    const stop = new AbortController()
    const dropped = this.#dropped.get(turn.id)
    if (dropped) stop.abort(dropped)
    this.#dropped.delete(turn.id)
    const createPlace = () => ({ stop, notices: new TurnNotices(clock), isLast: turns.length === 1 })
    try {
      this.#current = { id: turn.id, ...createPlace(), hasBegun: false }
      const joined = await this.#awaitSlot(turn, stop.signal)
      const place = createPlace()
      this.#current = { id: turn.id, ...place, hasBegun: true }
      await this.#runner.run(joined, place)
    } finally {
      this.#current = undefined
    }
    return true
  }
}

const isSteering = (word: AgentCommand['word']) =>
  word === 'sessions' || word === 'resume' || word === 'model' || word === 'mode' || word === 'cd'

const stoppedByUser = 'the user stopped it'

/**
 * Splits messages, oldest first, where more time than the pause lies between them: after downtime they all come at
 * once.
 */
function splitByPause(burst: readonly OpenMessage[], pauseMs: number): OpenMessage[][] {
  const groups: OpenMessage[][] = []
  let lastAt = Number.NEGATIVE_INFINITY
  for (const open of burst) {
    const { timestamp } = open.message
    if (timestamp - lastAt > pauseMs) groups.push([])
    groups.at(-1)?.push(open)
    lastAt = timestamp
  }
  return groups
}
