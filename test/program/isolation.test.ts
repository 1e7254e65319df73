import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { type FaultKind, faultKinds } from '../support/faults.ts'
import { folderOfFile, forFile } from '../support/folder.ts'
import { withSandbox } from '../support/sandbox.ts'
import { type Json, logIn, startService } from '../support/service.ts'
import { stopwatch } from '../support/stopwatch.ts'

/** What upstream's getupdates can do wrong to one session. */
const troubles = (Object.keys(faultKinds) as FaultKind[]).filter(
  kind => !['201', 'no_param', 'corrupt'].includes(kind),
)

const dir = folderOfFile()
const sandbox = forFile(await withSandbox({ dir: join(dir, 'sandbox') }))
const service = forFile(await startService({ dir }))

describe('two sessions', () => {
  test('that receive in the same moment lose nothing', async () => {
    await using two = await twoSessions()
    const { a, b } = two
    const each = 50
    await Promise.all(Array.from({ length: each }, (_, n) => [a.say(`a${n}`), b.say(`b${n}`)]).flat())
    const texts = (await receive(2 * each)).map(message => `${message.session}:${message.text}`)
    const wanted = Array.from({ length: each }, (_, n) => [`${a.name}:a${n}`, `${b.name}:b${n}`]).flat()
    expect(texts.sort()).toEqual(wanted.sort())
  })

  for (const kind of troubles) {
    test(`where one meets "${kind}" on every poll: the other neither waits nor loses anything`, async () => {
      await using two = await twoSessions()
      const { a, b } = two
      await sandbox.fail('getupdates', kind, { times: 0, bot: a.bot })
      // The poll that is held now was asked before; this one is answered into the trouble, or after it.
      await a.say('held up')
      for (let n = 0; n < 5; n++) {
        using watch = stopwatch()
        await b.say(`b${n}`)
        const [message] = await receive(1, b.name)
        expect(message).toMatchObject({ session: b.name, text: `b${n}` })
        // Far below any back-off or hold of the session in trouble.
        expect(watch.ms).toBeLessThan(5000)
      }
      expect(service.log()).not.toContain('poll loop failed')
    })
  }

  test('the one in trouble receives what waited for it as soon as upstream is well again', async () => {
    await using two = await twoSessions()
    const { a } = two
    const before = service.log().length
    await sandbox.fail('getupdates', 'truncated', { times: 2, bot: a.bot })
    const texts: string[] = []
    for (const text of ['before', 'meanwhile']) {
      await a.say(text)
      texts.push(...(await receive(1, a.name)).map(message => message.text))
    }
    expect(texts).toEqual(['before', 'meanwhile'])
    const log = service.log().slice(before)
    expect(log).toContain('poll failed')
    expect(log).toContain('polling again')
  })
})

let pairs = 0
/** Two sessions with names and users of their own, logged out at the end. */
async function twoSessions() {
  pairs++
  const side = async (name: string) => {
    const { id } = await service.phone('users', { name })
    const { bot_id: bot } = await logIn(service, name, id)
    return { name, bot, say: (text: string) => service.phone('say', { from: id, to: bot, text }) }
  }
  const [a, b] = [await side(`one${pairs}`), await side(`two${pairs}`)]
  return {
    ...{ a, b },
    async [Symbol.asyncDispose]() {
      await sandbox.mend()
      for (const { name } of [a, b]) await service.call('logout', { session_name: name })
    },
  }
}

async function receive(wanted: number, session?: string): Promise<Json[]> {
  const received: Json[] = []
  using watch = stopwatch()
  while (received.length < wanted && watch.ms < 25_000) {
    const { body } = await service.call('recv', { timeout: 5, ...(session && { session }) })
    received.push(...body)
  }
  return received
}
