/** How long svc takes before the agent starts, and what an idle conversation costs a process of svc. */
import { expect, test } from 'bun:test'
import { until } from '../support/until.ts'
import { startAgentProcess, untilReading } from './agent-process.ts'
import { PlayedBackend, withAgents } from './support.ts'

test('after the pause, the agent starts within 50 ms (the fastest of ten)', async () => {
  const gatherMs = 50
  await using agents = await withAgents()
  const { backend } = await agents.start(new PlayedBackend(() => 'hi'), { gatherMs })
  const tookMs: number[] = []
  for (let nth = 0; nth < 10; nth++) {
    const saidAt = performance.now()
    await agents.say(`message ${nth}`)
    await agents.gets(nth + 1)
    tookMs.push(backend.runs[nth]!.at - saidAt - gatherMs)
  }
  console.log('ms to the agent', tookMs.map(Math.round))
  // The others waited for the processor too.
  expect(Math.min(...tookMs)).toBeLessThan(50)
})

test('200 users with idle conversations cost at most 20 KB each', async () => {
  await using agents = await withAgents()
  await using agent = startAgentProcess(agents, { allow: 'everyone' })
  await untilReading(agents, agent)
  const { sandbox } = agents.library
  const users = await Promise.all(Array.from({ length: 600 }, (_, nth) => sandbox.addUser(`user ${nth}`)))
  const heaps: number[] = []
  for (let nth = 200; nth <= 600; nth += 200) {
    for (const user of users.slice(nth - 200, nth)) await agents.say('hello', user)
    const count = () => agents.count("agent_turn WHERE status = 'answered'")
    await until('all have ended', 120_000, () => count() === nth)
    // An idle conversation is forgotten after a second; timers of requests end later.
    await Bun.sleep(20_000)
    heaps.push(await agent.measure())
  }
  console.log('bytes in memory after 200, 400, 600 users', heaps)
  expect(heaps[2]! - heaps[1]!).toBeLessThan(200 * 20 * 1024)
}, 600_000)
