/**
 * An agent in a process of its own that kills itself at a step: before or after a call of the store or of a send, or in
 * the middle of a send. Started by `crashes.ts`.
 */
import process from 'node:process'
import { runAgent } from '../../src/agent/agent.ts'
import { defaultAgent } from '../../src/agent/config.ts'
import { Svc, type SvcPart } from '../../src/index.ts'
import { systemClock } from '../../src/platform/clock.ts'
import { createLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { bitsPerMessage, type CrashPlan } from './crash-plan.ts'

const plan: CrashPlan = JSON.parse(process.argv[2]!)
let steps = 0
const step = () => {
  steps += 1
  if (steps === plan.dieAt) process.kill(process.pid, 'SIGKILL')
}

/** Returns the object with methods that count as steps. */
const counted = <T extends object>(object: T): T =>
  new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name)
      // These are called again and again while nothing happens.
      if (
        typeof value !== 'function' ||
        ['claimAgent', 'listTimes', 'listWork', 'renew', 'getTurn'].includes(String(name))
      )
        return typeof value === 'function' ? value.bind(target) : value
      return async (...args: unknown[]) => {
        step()
        const result = value.apply(target, args)
        if (name === 'send') setTimeout(step, Math.random() * 4)
        await result
        step()
        return result
      }
    },
  })

const log = createLog('INFO', line => process.stderr.write(line))
const svc = await Svc.open({ ...plan.options, log })
const watched = new Proxy(svc, {
  get(target, name) {
    if (name === 'workAsAgent') return async () => counted(await target.workAsAgent())
    if (name === 'as') return (grant: Parameters<Svc['as']>[0]): SvcPart => counted(target.as(grant))
    if (name === 'openMessages')
      return async function* (reading: Parameters<Svc['openMessages']>[0]) {
        for await (const open of target.openMessages(reading)) yield counted(open)
      }
    const value = Reflect.get(target, name)
    return typeof value === 'function' ? value.bind(target) : value
  },
})
const stop = new AbortController()
process.on('SIGTERM', () => stop.abort())
// Reports what it has in memory.
process.on('SIGUSR2', () => {
  Bun.gc(true)
  process.stdout.write(`${process.memoryUsage().heapUsed}\n`)
})
await runAgent(
  watched,
  {
    async run({ text }, { agentSession = '0' }) {
      step()
      const bits = text
        .split(/\s+/)
        .flatMap(word => Array.from({ length: bitsPerMessage }, (_, nth) => `${word}-${nth} `))
      // Long enough that the answer is a file, if it may be; else short enough that the answer to many messages is none.
      const length = plan.settings.long === 'file' ? 2998 : Math.min(998, Math.floor(30_000 / bits.length))
      const answer = bits.map(bit => bit.padEnd(length, 'word ')).join('\n\n')
      return { text: answer, agentSession: String(Number(agentSession) + 1) }
    },
    async close() {},
  },
  {
    ...defaultAgent,
    gatherMs: 10,
    long: 'split',
    ...plan.settings,
    backend: { kind: 'command', command: [] },
  },
  {
    clock: systemClock,
    tasks: new Tasks(systemClock),
    log,
    folders: plan.folders,
    dataFolder: plan.folders,
    questions: {
      ask: async () => '',
      takeAnswer: async () => 'no',
      findAsker: async () => undefined,
      closeLost: async () => {},
    },
  },
  stop.signal,
)
await svc.close()
