/** A person is erased while an agent works for this person. */
import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findTraces } from '../program/forget-world.ts'
import { PlayedBackend, withAgents } from './support.ts'

for (const [what, end] of [
  ['stops when it has to', 'stop'],
  ['fails at that moment', 'fail'],
  ['answers at that moment', 'answer'],
] as const)
  test(`an agent that ${what} tells nothing, and its folder goes after its program`, async () => {
    await using agents = await withAgents()
    const { library } = agents
    const user = await library.sandbox.addUser('o-gone')
    const { backend } = await agents.start(new PlayedBackend(), { allow: 'everyone', gatherMs: 200 })
    await agents.say('hush-hush', user)
    await agents.until('a turn runs', () => backend.runs.length === 1)
    backend.isStubborn = true
    const [{ answer, context, fail }] = backend.runs as [(typeof backend.runs)[0]]
    const { folder, signal } = context
    expect(existsSync(folder)).toBe(true)
    // A program writes into its folder as long as it runs.
    const ended = Promise.withResolvers<void>()
    signal.addEventListener('abort', async () => {
      await mkdir(folder, { recursive: true })
      await writeFile(join(folder, 'last words'), 'hush-hush')
      ended.resolve()
      fail(new Error('stopped'))
    })
    await agents.say('hush-hush again', user)
    const other = await library.open({ store: true })
    const erased = other.forget(user)
    await agents.until('the erasure has begun', () => agents.count('agent_turn') === 0)
    if (end === 'fail') fail(new Error('it failed'))
    if (end === 'answer') answer('hush-hush yourself')
    if (end === 'stop') await ended.promise
    expect((await erased).messages).toBeGreaterThan(0)
    expect(existsSync(folder)).toBe(false)
    // Another user is answered, so the agent works, and has told everything that it has to tell.
    backend.isStubborn = false
    await agents.say('hello')
    await agents.until('the next turn runs', () => backend.prompts.includes('hello'))
    backend.runs.at(-1)!.answer('hi')
    expect(await agents.gets(1)).toEqual(['hi'])
    expect(await agents.got(user)).toEqual([])
    expect(await agents.turns(user)).toEqual([])
    expect(agents.count('agent_conversation WHERE peer <> ""')).toBe(1)
    expect(await findTraces(library.dir, [user, 'hush-hush'])).toEqual([])
    expect(library.lines.filter(line => line.includes('WARN') && line.includes(user))).toEqual([])
  }, 60_000)
