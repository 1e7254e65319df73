/** Starts an agent as a process of its own, on the directory of a test. */
import { fileURLToPath } from 'node:url'
import type { AgentConfig } from '../../src/agent/config.ts'
import { until } from '../support/until.ts'
import type { CrashPlan } from './crash-plan.ts'
import type { TestAgents } from './support.ts'

const program = fileURLToPath(new URL('./crashing.ts', import.meta.url))

export interface AgentProcess extends AsyncDisposable {
  readonly pid: number
  /** Absent while it runs. */
  readonly signal: NodeJS.Signals | number | null
  readonly isRunning: boolean
  /** What it logged so far. */
  readonly log: string
  /** Returns the bytes that it has in memory after a collection. */
  measure(): Promise<number>
  /** @returns its exit status */
  end(signal: NodeJS.Signals): Promise<number>
}

/** @param dieAt step at which it kills itself; 0: it does not */
export function startAgentProcess(
  { folders, library: { dir, sandbox } }: TestAgents,
  settings: Partial<AgentConfig> = {},
  dieAt = 0,
): AgentProcess {
  const urls = { upstreamUrl: sandbox.url, cdnUrl: sandbox.cdnUrl }
  const plan: CrashPlan = {
    options: { basePath: dir, store: true, pace: 'off', ...urls },
    folders,
    dieAt,
    settings,
  }
  const child = Bun.spawn([process.execPath, program, JSON.stringify(plan)], {
    stdout: 'pipe',
    stderr: 'pipe',
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TMPDIR: process.env.TMPDIR ?? '' },
  })
  let log = ''
  const reading = (async () => {
    for await (const bytes of child.stderr) log += new TextDecoder().decode(bytes)
  })()
  const numbers = child.stdout.getReader()
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal)
    await reading
    return child.exited
  }
  return {
    pid: child.pid,
    get signal() {
      return child.signalCode
    },
    get isRunning() {
      return child.exitCode === null && child.signalCode === null
    },
    get log() {
      return log
    },
    async measure() {
      child.kill('SIGUSR2')
      const { value } = await numbers.read()
      return Number(new TextDecoder().decode(value))
    },
    end,
    [Symbol.asyncDispose]: async () => void (await end('SIGKILL')),
  }
}

/** Waits until the reader of the agent has its place in the log: a new one begins with the messages from then on. */
export const untilReading = (agents: TestAgents, { log }: AgentProcess) =>
  until(
    'it reads',
    30_000,
    () => agents.count("consumer WHERE name = 'agent-agent'") > 0,
    () => log,
  )
