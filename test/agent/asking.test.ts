/** A whole conversation with a program of the Agent Client Protocol: turns, questions and stops, on the simulated WeChat. */
import { expect, test } from 'bun:test'
import { join, resolve } from 'node:path'
import { type AgentConfig, defaultAgent } from '../../src/agent/config.ts'
import { createBackend, startAgent } from '../../src/agent/start.ts'
import { silentLog } from '../../src/platform/log.ts'
import { Tasks } from '../../src/platform/tasks.ts'
import { withAgents } from './support.ts'

const program = [process.execPath, resolve(import.meta.dir, '../support/acp-agent.ts')]

async function withAcp() {
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
    const ended = startAgent(svc, backend, config, ports, stop.signal)
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

test('an approval goes on in the same session, and its code is worth nothing later', async () => {
  await using t = await withAcp()
  await t.say('permit')
  const [, code] = await t.gets(/^(\w{4}) 1 = /m)
  await t.say('permission granted')
  await t.say(`${code} 1`)
  await t.gets(/^yes$/)
  await t.say(`${code} 1`)
  await t.gets(/No open question/)
  await t.say('prompts')
  await t.gets(/^\["permit","permission granted","prompts"\]$/)
})

test("a question of another user's turn reaches the owner alone", async () => {
  await using t = await withAcp()
  await t.say('say hello')
  await t.gets(/^hello$/)
  await t.say('permit', t.guest)
  const [, code] = await t.gets(/^(\w{4}) 1 = /m)
  expect((await t.got()).at(-1)).toContain(t.guest)
  await t.say(`${code} 1`, t.guest)
  await t.say(`${code} 3`)
  await t.gets(/^no$/, t.guest)
  expect(await t.got(t.guest)).toEqual(['no'])
})

test('a stop cancels the turn and what it asks; the session lives on, also after a restart', async () => {
  await using t = await withAcp()
  await t.say('permit')
  await t.gets(/^(\w{4}) 1 = /m)
  await t.say('/stop')
  await t.gets(/Stopped/)
  expect(await t.svc.agents.questions()).toEqual([])
  await t.say('prompts')
  await t.gets(/^\["permit","prompts"\]$/)
  await t.restart()
  await t.say('prompts')
  await t.gets(/^\["permit","prompts","prompts"\]$/)
})
