/** What becomes of sessions stands in the event log, whoever changes their files. */
import { expect, test } from 'bun:test'
import type { SessionChange } from '../../src/model/event.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'

const told = async ({ gateway }: Pick<TestGateway, 'gateway'>) => {
  const { events } = await gateway.events.readPage('', { types: ['session.status'], limit: 100 })
  return events.map(({ event }) => {
    const { change, name, previous_name } = event.data as SessionChange
    return [name, change, previous_name].filter(Boolean).join(' ')
  })
}

/** Waits until it is told, by a clock that goes on. */
const until = (t: TestGateway, last: string) =>
  t.until(last, async () => {
    t.clock.advance(1000)
    return (await told(t)).at(-1) === last
  })

test('a login, a rename, an expiry, a logout: each once, with the session as `sessions` shows it', async () => {
  await using t = await withGateway()
  await until(t, 'default connected')
  const { events } = await t.gateway.events.readPage('', { types: ['session.status'], limit: 1 })
  const [{ last_poll_at: _, ...shown }] = (await t.gateway.accounts.list()) as [SessionChange]
  expect(events[0]?.event.data).toMatchObject({ ...shown, change: 'connected' })
  expect(JSON.stringify(events)).not.toContain(t.bots.get('default')!.token)
  await t.gateway.accounts.rename('default', 'work')
  await until(t, 'work renamed default')
  await t.other.sessions.mark('work', t.bots.get('default')!.token, { expired_at: 1 })
  await until(t, 'work expired')
  await t.connect('more')
  await until(t, 'more connected')
  await t.gateway.accounts.logout('more')
  await until(t, 'more logged_out')
  expect((await told(t)).filter(line => line.startsWith('more'))).toEqual([
    'more connected',
    'more logged_out',
  ])
})

test('what another process did while nobody polled is told at the next start, and nothing twice', async () => {
  await using t = await withGateway({ sessions: ['default', 'b', 'c'] })
  const all = async (one: Pick<TestGateway, 'gateway'>, count: number) => {
    const lines = await told(one)
    return lines.length >= count && lines
  }
  await t.until('all three are told', () => all(t, 3))
  await t.gateway.close()
  await t.other.sessions.remove('b')
  await t.other.sessions.rename('c', 'd')
  const first = await t.beside()
  const found = await first.until('both are told', () => all(first, 5))
  expect(found.slice(3).sort()).toEqual(['b logged_out', 'd renamed c'])
  await first.gateway.close()
  const second = await t.beside()
  // Of a user of its own: a second bot of one user ends the first.
  await second.connect('late', await t.sandbox.addUser('late'))
  await until(second, 'late connected')
  expect(await told(second)).toHaveLength(6)
  await second.gateway.close()
})
