/** An agent that is a program of the Agent Client Protocol, on the simulated WeChat. */
import { join, resolve } from 'node:path'
import { runAgent } from '../../src/agent/agent.ts'
import { type AgentConfig, defaultAgent } from '../../src/agent/config.ts'
import { createBackend } from '../../src/agent/start.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { withAgents } from './support.ts'

const program = [process.execPath, resolve(import.meta.dir, '../support/acp-agent.ts')]

/** An owner and a guest, who talk with an agent that is a program of the Agent Client Protocol. */
export async function withAcp(settings: Partial<AgentConfig> = {}) {
  const agents = await withAgents()
  const { got, library, owner } = agents
  const { clock, dir, sandbox } = library
  const [bot] = library.bots.values()
  const guest = await sandbox.addUser('guest')
  const svc = await library.open({ store: true })
  const config: AgentConfig = {
    ...defaultAgent,
    gatherMs: 20,
    allow: 'everyone',
    ...settings,
    backend: { kind: 'acp', command: [...program, '--resume', '--store', join(dir, 'sessions.json')] },
  }
  const start = async () => {
    const stop = new AbortController()
    const folders = join(dir, 'folders')
    const ports = {
      agents: [config],
      clock,
      log: silentLog,
      dataFolder: dir,
      folders,
      tasks: new Tasks(clock),
    }
    const backend = await createBackend(config, ports)
    const ended = runAgent(svc, backend, config, ports, stop.signal)
    await library.until('the agent reads', () => agents.count("consumer WHERE name = 'agent-agent'") > 0)
    return async () => {
      stop.abort()
      await ended
    }
  }
  let end = await start()
  return {
    owner,
    guest,
    agents,
    library,
    svc,
    got,
    say: (text: string, from = owner) => sandbox.say(text, { from, to: bot!.bot_id }),
    /** Waits for a message of the bot. */
    gets: (pattern: RegExp, user = owner) =>
      library.until(`a message like ${pattern}`, async () => {
        for (const text of await got(user)) {
          const found = pattern.exec(text)
          if (found) return [...found]
        }
        return undefined
      }),
    async restart() {
      await end()
      end = await start()
    },
    async [Symbol.asyncDispose]() {
      await end()
      await agents[Symbol.asyncDispose]()
    },
  }
}
