/** An agent on the simulated WeChat, with a backend that the test plays. */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { type AgentPorts, runAgent } from '../../src/agent/agent.ts'
import type { Backend, Prompt, TurnContext, TurnResult } from '../../src/agent/backend.ts'
import { type AgentConfig, defaultAgent } from '../../src/agent/config.ts'
import type { AgentTurn, Svc, SvcOptions } from '../../src/index.ts'
import { createLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import type { MessageView } from '../../src/sandbox/phone-view.ts'
import { type TestLibrary, withLibrary } from '../support/library.ts'
import { until } from '../support/until.ts'

/** One turn that the backend was asked to run. */
export interface Run {
  readonly prompt: Prompt
  readonly context: TurnContext
  /** When it was asked (`performance.now`). */
  readonly at: number
  /** Ends the turn. */
  answer(result: string | TurnResult): void
  fail(error: Error): void
}

/** A backend whose turns the test ends, unless it gave a script. */
export class PlayedBackend implements Backend {
  readonly runs: Run[] = []
  /** Turns that have not ended, and the largest number of them at a time. */
  atOnce = 0
  most = 0
  isClosed = false
  /** It goes on when it has to stop. */
  isStubborn = false
  readonly #script: ((prompt: Prompt, context: TurnContext) => TurnResult | string | undefined) | undefined

  constructor(script?: (prompt: Prompt, context: TurnContext) => TurnResult | string | undefined) {
    this.#script = script
  }

  async run(prompt: Prompt, context: TurnContext): Promise<TurnResult> {
    const { promise, resolve, reject } = Promise.withResolvers<TurnResult>()
    const answer = (result: string | TurnResult) =>
      resolve(typeof result === 'string' ? { text: result } : result)
    this.runs.push({ prompt, context, at: performance.now(), answer, fail: reject })
    this.atOnce += 1
    this.most = Math.max(this.most, this.atOnce)
    const abort = () => this.isStubborn || reject(context.signal.reason)
    context.signal.addEventListener('abort', abort, { once: true })
    const scripted = this.#script?.(prompt, context)
    if (scripted !== undefined) answer(scripted)
    return promise.finally(() => {
      this.atOnce -= 1
    })
  }

  async close(): Promise<void> {
    this.isClosed = true
  }

  get prompts(): string[] {
    return this.runs.map(({ prompt }) => prompt.text)
  }
}

/** Settings of an agent whose program a test plays. */
export const playedAgent: AgentConfig = {
  ...defaultAgent,
  gatherMs: 20,
  backend: { kind: 'command', command: ['none'] },
}

export interface RunningAgent extends AsyncDisposable {
  readonly svc: Svc
  readonly backend: PlayedBackend
  /** How many messages of people who may talk with it were given to their conversations. */
  readonly taken: number
  /** Ends it, as a signal does. */
  stop(): Promise<void>
}

export interface TestAgents extends AsyncDisposable {
  readonly library: TestLibrary
  /** The id of the owner of the first session. */
  readonly owner: string
  /** Folder of the working folders. */
  readonly folders: string
  /** Starts an agent in a process of its own, as far as svc can tell. */
  start(
    backend?: PlayedBackend,
    config?: Partial<AgentConfig>,
    ports?: Partial<Omit<AgentPorts, 'questions'>> & { questions?: Partial<AgentPorts['questions']> },
    options?: SvcOptions,
  ): Promise<RunningAgent>
  say(text: string, from?: string): Promise<unknown>
  /** The texts that a user got, oldest first. */
  got(user?: string): Promise<string[]>
  /** Waits until the user got so many messages. */
  gets(count: number, user?: string): Promise<string[]>
  until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>
  turns(user?: string): Promise<AgentTurn[]>
  /** Selects rows of the store. */
  rows<T>(what: string): T[]
  count(from: string): number
  /** What is ended before the store. */
  defer(end: () => Promise<void>): void
  /** Waits until the turns have these states, in the order in which they were added. */
  become(...states: AgentTurn['status'][]): Promise<AgentTurn[]>
}

export async function withAgents(options: Parameters<typeof withLibrary>[0] = {}): Promise<TestAgents> {
  const library = await withLibrary(options)
  const { clock, dir, sandbox } = library
  const [bot] = library.bots.values()
  const owner = bot!.user_id
  const folders = join(dir, '.agents')
  const running: RunningAgent[] = []
  const deferred: (() => Promise<void>)[] = []
  const looker = await library.open({ store: true })
  const got = async (user = owner) => {
    const messages = await sandbox.messages({ user, from: 'bot', limit: 1000 })
    return messages.map(textOf)
  }
  const test: TestAgents = {
    library,
    owner,
    folders,
    async start(backend = new PlayedBackend(), config = {}, { questions, ...ports } = {}, options = {}) {
      const svc = await library.open({ store: true, ...options })
      const stop = new AbortController()
      let taken = 0
      const settings: AgentConfig = { ...playedAgent, ...config }
      const ended = runAgent(
        svc,
        backend,
        settings,
        {
          clock,
          tasks: new Tasks(clock),
          log: createLog('DEBUG', line => void library.lines.push(line)),
          folders,
          dataFolder: dir,
          questions: {
            ask: async () => 'reject',
            takeAnswer: async () => {
              taken += 1
              return 'no'
            },
            findAsker: async () => undefined,
            closeLost: async () => {},
            ...questions,
          },
          ...ports,
        },
        stop.signal,
      )
      ended.catch(error => library.lines.push(`agent ended: ${error}\n`))
      const agent: RunningAgent = {
        svc,
        backend,
        get taken() {
          return taken
        },
        async stop() {
          stop.abort()
          await ended
        },
        [Symbol.asyncDispose]: () => agent.stop(),
      }
      running.push(agent)
      // A reader that is new begins with the messages from then on.
      await library.until(
        'the agent reads',
        () => test.count(`consumer WHERE name = 'agent-${settings.name}'`) > 0,
      )
      return agent
    },
    say: (text, from) => sandbox.say(text, { ...(from && { from }) }),
    got,
    gets: (count, user) =>
      library.until(`${count} messages for the user`, async () => {
        const texts = await got(user)
        return texts.length >= count && texts
      }),
    until: library.until,
    rows<T>(what: string) {
      using db = new Database(join(dir, 'messages.db'), { readonly: true })
      return db.query<T, []>(`SELECT ${what}`).all()
    },
    defer: end => void deferred.push(end),
    count: from => test.rows<{ n: number }>(`count(*) AS n FROM ${from}`)[0]!.n,
    async become(...states) {
      let turns: AgentTurn[] = []
      const wanted = JSON.stringify(states)
      const areSo = async () => {
        turns = await test.turns()
        return JSON.stringify(turns.map(({ status }) => status)) === wanted
      }
      await until(`turns ${wanted}`, 30_000, areSo, () => JSON.stringify(turns) + library.lines.join(''))
      return turns
    },
    turns: async user => (await looker.agents.turns({ ...(user && { user }), limit: 200 })).reverse(),
    async [Symbol.asyncDispose]() {
      for (const agent of running) await agent.stop()
      for (const end of deferred) await end()
      await library[Symbol.asyncDispose]()
    },
  }
  return test
}

export const textOf = ({ items }: MessageView): string =>
  items.map(({ file_name, kind, text }) => text ?? `[${kind} ${file_name ?? ''}]`).join('\n')
