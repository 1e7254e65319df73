/** Kills the process of an agent at the steps of its turns, and checks what its user got in the end. */
import { expect } from 'bun:test'
import type { AgentConfig } from '../../src/agent/config.ts'
import { type AgentTurn, Svc } from '../../src/index.ts'
import { until } from '../support/until.ts'
import { startAgentProcess, untilReading } from './agent-process.ts'
import { bitsPerMessage } from './crash-plan.ts'
import { type TestAgents, withAgents } from './support.ts'

const roundMs = 60_000
const openStates = ['waiting', 'running', 'answering']

/** What happened in the rounds. */
export interface Crashes {
  killed: number
  answered: number
  interrupted: number
  unknown: number
}

/**
 * Sends a message in each round, to a process that dies at the step of that round, and lets the next process go on.
 *
 * @param steps the step of each round at which the process dies
 */
export async function crash(steps: readonly number[], settings: Partial<AgentConfig> = {}): Promise<Crashes> {
  await using agents = await withAgents()
  const areEnded = async (messages: number) => {
    const turns = await agents.turns()
    return (
      new Set(turns.flatMap(turn => turn.messages)).size >= messages &&
      turns.every(({ status }) => !openStates.includes(status))
    )
  }
  {
    await using first = startAgentProcess(agents, settings)
    await untilReading(agents, first)
  }
  let killed = 0
  for (const [round, dieAt] of steps.entries()) {
    await agents.say(`round-${String(round).padStart(4, '0')}`)
    await using agent = startAgentProcess(agents, settings, dieAt)
    const isOver = async () => !agent.isRunning || (await areEnded(round + 1))
    await until(`round ${round}, step ${dieAt}`, roundMs, isOver, () => agent.log)
    if (agent.signal === 'SIGKILL') killed += 1
  }
  await using last = startAgentProcess(agents, settings)
  const log = () => JSON.stringify(agents.rows("* FROM agent_turn WHERE status <> 'answered'")) + last.log
  await until('all turns have ended', roundMs, () => areEnded(steps.length), log)
  // What exceeds the answers to a message waits for the next one, which may not have room for all of it either.
  const hasRest = () => agents.count("agent_turn WHERE status = 'more'") > 0
  const countSent = () => agents.rows<{ n: number }>('sum(parts_sent) AS n FROM agent_turn')[0]!.n
  while (hasRest()) {
    const before = countSent()
    await agents.say('/more')
    const isSent = () => !hasRest() || countSent() > before
    await until('more was sent', roundMs, async () => isSent() && areEnded(steps.length), log)
  }
  await drain(agents, () => last.log)
  expect(await last.end('SIGTERM')).toBe(0)
  const turns = await agents.turns()
  const unknown = agents.rows<{ text: string }>("text FROM message WHERE status = 'unknown'")
  const lost = unknown.map(({ text }) => text)
  if (settings.long === 'file') {
    const { files, openings, texts } = await readFiles(agents)
    // A message of which nobody knows whether it arrived may be either.
    if (lost.length === 0) expect([...files.keys()].sort()).toEqual(openings.sort())
    check(turns, [...files.values(), ...texts], lost)
  } else check(turns, await agents.got(), lost)
  const inState = (state: AgentTurn['status']) => turns.filter(turn => turn.status === state).length
  return {
    killed,
    answered: inState('answered'),
    interrupted: inState('interrupted'),
    unknown: unknown.length,
  }
}

/**
 * Writes until nothing is on its way: a queued part may wait for the next message of its user. What waits for anything
 * else goes by itself.
 */
async function drain(agents: TestAgents, log: () => string): Promise<void> {
  const { dir, sandbox } = agents.library
  // With the clock of the agents, not that of the test.
  const svc = await Svc.open({ basePath: dir, store: true, upstreamUrl: sandbox.url, cdnUrl: sandbox.cdnUrl })
  const countReceived = () => agents.count('message WHERE sent = 0')
  const isOpen = () => agents.count("message WHERE status IN ('sending', 'queued')") > 0
  let waits: unknown
  const isDone = async () => {
    const waiting = await svc.outbox.list()
    waits = waiting.map(({ outbox_id, waits_for, not_before }) => ({ outbox_id, waits_for, not_before }))
    const needUser = waiting.every(({ waits_for }) => waits_for === 'user' || waits_for === 'refusal')
    return !isOpen() || (waiting.length > 0 && needUser)
  }
  try {
    do {
      const before = countReceived()
      await agents.say('/help')
      await until('it is received', roundMs, () => countReceived() > before, log)
      await until('nothing is on its way', roundMs, isDone, () => JSON.stringify(waits) + log())
    } while (isOpen())
  } finally {
    await svc.close()
  }
}

/** Returns the contents of the files that the user got, by their names, the names that texts have, and other texts. */
async function readFiles({ library: { sandbox }, owner }: TestAgents) {
  const messages = await sandbox.messages({ user: owner, from: 'bot', limit: 1000 })
  const files = new Map<string, string>()
  const [openings, texts]: [string[], string[]] = [[], []]
  for (const { file_name = '', media_id, text } of messages.flatMap(({ items }) => items)) {
    const name = text && /📎 (.+)/.exec(text)?.[1]
    if (name) openings.push(name)
    else if (text !== undefined) texts.push(text)
    else {
      // Each comes once.
      expect(files.has(file_name)).toBe(false)
      files.set(file_name, new TextDecoder().decode(await sandbox.mediaBytes(media_id!)))
    }
  }
  return { files, openings, texts }
}

/** Each bit of each answer arrived once, except what was being sent when the process died. */
function check(turns: readonly AgentTurn[], texts: readonly string[], unknown: readonly string[]): void {
  const messages = turns.flatMap(turn => turn.messages)
  // Each message is in one turn.
  expect(new Set(messages).size).toBe(messages.length)
  expect(turns.filter(({ status }) => status !== 'answered' && status !== 'interrupted')).toEqual([])
  const cut = turns.filter(({ status }) => status === 'interrupted')
  const isInterrupted = new Set(cut.flatMap(turn => turn.messages))
  const rounds = [...messages].sort((a, b) => a - b)
  const arrived = texts.join('\n')
  // A file is known by its name only, which has the round in it.
  const isLost = (bit: string) =>
    unknown.some(text => text.includes(bit) || text.startsWith(bit.slice(0, 10).replace('-', ' ')))
  for (const [round, message] of rounds.entries())
    for (let nth = 0; nth < bitsPerMessage; nth++) {
      const bit = `round-${String(round).padStart(4, '0')}-${nth} `
      const times = arrived.split(bit).length - 1
      expect([bit, times]).toEqual([bit, isInterrupted.has(message) || isLost(bit) ? Math.min(times, 1) : 1])
      if (isInterrupted.has(message)) expect([bit, times]).toEqual([bit, 0])
    }
  const apology = 'I was restarted'
  const apologies = arrived.split(apology).length - 1
  expect(apologies).toBeLessThanOrEqual(cut.length)
  expect(apologies + unknown.join('\n').split(apology).length - 1).toBeGreaterThanOrEqual(cut.length)
}
