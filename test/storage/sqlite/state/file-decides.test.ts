/** What another program writes into contexts.json counts, once the file has had what svc knows. */
import { expect, test } from 'bun:test'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { UserContext } from '../../../../src/model/session.ts'
import { folderOfTest } from '../../../support/folder.ts'
import { bot, message, outgoing, sending, testClock } from '../../support.ts'
import { openDirectory } from '../support.ts'

/** Within a turn of the event loop, files are read once. */
const nextTurn = () => new Promise(resolve => setImmediate(resolve))

/** A user wrote at 1000, and got three answers. */
async function answered() {
  const dir = folderOfTest()
  const storage = await openDirectory(dir, testClock())
  await storage.state.sessions.save('s', bot('b'))
  let cursor = 0
  const hear = (at: number, token: string) =>
    storage.ingest({
      ...{ id: token, session: 's', token: bot('b').token, botId: bot('b').bot_id, now: 10_000 },
      ...{ cursorFrom: cursor === 0 ? '' : `${cursor}`, cursorTo: `${++cursor}` },
      messages: [
        {
          ...message(token, { message_id: token, from_user: 'u', timestamp: at, written_at: at }),
          contextToken: token,
          repeated: { received_at: at },
        },
      ],
    })
  const send = () => sending(storage.store, 's', bot('b').bot_id, outgoing(crypto.randomUUID()))
  await hear(1000, 'own')
  for (let sent = 0; sent < 3; sent++) await send()
  const path = join(dir, 's', 'contexts.json')
  const inFile = JSON.parse(await readFile(path, 'utf8')).u as UserContext
  expect(inFile).toMatchObject({ token: 'own', received_at: 1000 })
  return {
    ...{ storage, dir, path, hear, send, inFile },
    write: (u: unknown) => writeFile(path, JSON.stringify(u === undefined ? {} : { u })),
    [Symbol.asyncDispose]: () => storage[Symbol.asyncDispose](),
  }
}

const base = { token: 'new', received_at: 1000, used: 0, first_seen: 1 }
/** What the file says, and what the next send is begun with: its token, and the count with this send. */
const cases: [string, unknown, { token?: string; received_at?: number; used: number }][] = [
  ['another token of the same time', base, { token: 'new', received_at: 1000, used: 4 }],
  ['a bare token, which says nothing of the time', 'new', { token: 'new', received_at: 1000, used: 4 }],
  ['a token without a time', { token: 'new' }, { token: 'new', received_at: 1000, used: 4 }],
  ['a smaller time', { ...base, received_at: 400 }, { token: 'new', received_at: 400, used: 4 }],
  ['a later time', { ...base, received_at: 2000 }, { token: 'new', received_at: 2000, used: 1 }],
  [
    'a later time, after answers',
    { ...base, received_at: 2000, used: 6 },
    { token: 'new', received_at: 2000, used: 7 },
  ],
  ['more answers', { ...base, used: 8 }, { token: 'new', received_at: 1000, used: 9 }],
  // svc knows better how many it has sent.
  ['fewer answers', { ...base, used: 1 }, { token: 'new', received_at: 1000, used: 4 }],
  ['no token', { received_at: 1000, used: 0, first_seen: 1 }, { received_at: 1000, used: 4 }],
  ['not this user', undefined, { used: 4 }],
]

for (const [what, written, begun] of cases)
  test(`the file says ${what}`, async () => {
    await using t = await answered()
    await t.write(written)
    const { token, counter } = await t.send()
    expect({ token, received_at: counter.received_at, used: counter.used }).toEqual({
      token: undefined,
      received_at: undefined,
      ...begun,
    })
    const found = await t.storage.state.contexts.find('s', 'u')
    expect(found?.token).toBe(begun.token!)
    // The next message counts whatever the file says.
    await t.hear(3000, 'next')
    expect(await t.send()).toMatchObject({ token: 'next', counter: { received_at: 3000, used: 1 } })
    expect(JSON.parse(await readFile(t.path, 'utf8')).u).toMatchObject({ token: 'next', received_at: 3000 })
  })

test('a file that was removed says that nobody has written', async () => {
  await using t = await answered()
  await rm(t.path)
  await nextTurn()
  expect(await t.storage.state.contexts.find('s', 'u')).toBeUndefined()
  const contacts = await t.storage.state.contexts.listUsers(['s'])
  expect(contacts.get('s')).toEqual([])
  expect((await t.send()).token).toBeUndefined()
})

test('so it is after a restart, and in another process', async () => {
  await using t = await answered()
  await using other = await openDirectory(t.dir, testClock())
  await t.write(base)
  for (const { state } of [t.storage, other]) expect((await state.contexts.find('s', 'u'))?.token).toBe('new')
  await t.storage.close()
  await using again = await openDirectory(t.dir, testClock())
  expect((await again.state.contexts.find('s', 'u'))?.token).toBe('new')
})

test('other fields stay, and a later time of the last send shows', async () => {
  await using t = await answered()
  const last_sent_at = testClock().now() + 5000
  await t.write({ ...base, last_sent_at, mood: 'good' })
  await nextTurn()
  expect((await t.storage.store.outbox.getCounters('s', 'u')).get('u')).toMatchObject({
    used: 3,
    last_sent_at,
  })
  await t.hear(3000, 'next')
  expect(JSON.parse(await readFile(t.path, 'utf8')).u).toMatchObject({ mood: 'good', first_seen: 1 })
})

test('a user whom another program adds is found in every session', async () => {
  const dir = folderOfTest()
  await using storage = await openDirectory(dir, testClock())
  for (const name of ['s', 'other']) await storage.state.sessions.save(name, bot(name))
  expect(await storage.state.contexts.findKnowing('u')).toEqual([])
  await writeFile(join(dir, 'other', 'contexts.json'), JSON.stringify({ u: 'a token' }))
  await nextTurn()
  expect(await storage.state.contexts.findKnowing('u')).toMatchObject([
    { record: { name: 'other' }, context: { token: 'a token' } },
  ])
})
