/**
 * What an engine that is durable and shared owes to those who use it from several processes: a process that is killed between
 * any two verbs leaves what it had done and nothing half done, and of many at once none takes from another.
 */
import { expect, test } from 'bun:test'
import type { PolledMessage } from '../../src/storage/messages.ts'
import type { PolledBatch, Storage } from '../../src/storage/storage.ts'
import { onEachShared } from './engines.ts'
import { bot, open as openRules, type Place } from './support.ts'

/** A new place, which has been opened and closed. */
async function made(newPlace: () => Place): Promise<Place> {
  const place = newPlace()
  await (await place.open()).close()
  return place
}

/** A process of its own with the storage of a place and the `rules` of these tests at hand. */
const start = (place: Place, body: string) =>
  place.start(`const rules = ${JSON.stringify(openRules)}\n${body}`)

let ids = 0
const texts = (...all: string[]): PolledMessage[] =>
  all.map(text => ({
    message_id: `${++ids}`,
    derived_id: '',
    from_user: 'u',
    msg_type: 'TEXT',
    text,
    raw: '{}',
    timestamp: ids,
    timed: true,
    contentHash: text,
    written_at: ids,
    contextToken: `t ${text}`,
    repeated: { received_at: ids },
  }))

const batches: PolledBatch[] = ['first', 'second', 'third'].map((text, nth) => ({
  id: text,
  session: 's',
  token: bot('b').token,
  botId: 'b@im.bot',
  now: 1_000_000,
  cursorFrom: nth === 0 ? '' : `c${nth}`,
  cursorTo: `c${nth + 1}`,
  messages: texts(`${text} 1`, `${text} 2`),
}))

const out = (client_id: string) => ({
  client_id,
  to_user: 'u',
  msg_type: 'TEXT',
  text: client_id,
  timestamp: 1,
  raw: '{}',
})
const entry = { session: 's', bot_id: 'b@im.bot', user: 'u', made_by: 'owner' }

/** What the process does, a verb each; `made` holds what they resolved with. */
const script: readonly [name: string, verb: string][] = [
  ['save', `storage.state.sessions.save('s', ${JSON.stringify(bot('b'))})`],
  ['reader', `storage.store.consumers.claim('reader', { limit: 1 })`],
  ['ingest 1', `storage.ingest(${JSON.stringify(batches[0])})`],
  ['claim', `storage.store.consumers.claim('reader', { limit: 1 })`],
  ['claim all', `storage.store.consumers.claim('default', { limit: 9 })`],
  ['ack', `storage.store.consumers.ack(made['claim all'].lease)`],
  [
    'send',
    `storage.store.outbox.enqueue(${JSON.stringify({ ...entry, mode: 'fail', key: 'sent', parts: [{ kind: 'text' }] })}, rules, ${JSON.stringify(out('one'))})`,
  ],
  [
    'settle',
    `storage.store.outbox.settle(made.send.begun, { status: 'accepted', message_id: '77', spent: true })`,
  ],
  [
    'queue',
    `storage.store.outbox.enqueue(${JSON.stringify({ ...entry, mode: 'queue', key: 'queued', parts: [{ kind: 'text', waiting: { message: out('two') } }] })}, rules)`,
  ],
  ['ingest 2', `storage.ingest(${JSON.stringify(batches[1])})`],
  [
    'begin',
    `storage.store.outbox.begin([made.queue.entry.parts[0].id], 'b@im.bot', rules, ${JSON.stringify(out('three'))})`,
  ],
  ['name', `storage.store.names.set('s', 'u', 'Ann')`],
  ['rename', `storage.state.sessions.rename('s', 'x')`],
  ['ingest 3', `storage.ingest(${JSON.stringify({ ...batches[2], session: 'x' })})`],
  ['default', `storage.state.sessions.save('y', ${JSON.stringify(bot('y'))})`],
  ['logout', `storage.state.sessions.remove('x')`],
]

/** What must be true after the first `count` of these verbs, seen from another process. */
async function check(storage: Storage, count: number): Promise<void> {
  const did = new Set(script.slice(0, count).map(([name]) => name))
  const { state, store } = storage
  const session = did.has('rename') ? 'x' : 's'
  const rows = await store.log.listAfter(0, { limit: 100, direction: 'received' })
  const stored = batches.filter((_, nth) => did.has(`ingest ${nth + 1}`))
  expect(rows.map(row => row.text)).toEqual(
    stored.flatMap(({ messages }) => messages.map(({ text }) => text)),
  )
  for (const row of rows) expect(row).toMatchObject({ session, ...(did.has('name') && { user_name: 'Ann' }) })
  const bots = await state.sessions.list()
  const names = [did.has('save') && !did.has('logout') && session, did.has('default') && 'y'].filter(Boolean)
  expect(bots.map(({ name }) => name).sort()).toEqual(names.map(String).sort())
  expect(await state.sessions.getDefaultName()).toBe(
    names[0] === false ? undefined : (names[0] as string | undefined),
  )
  if (did.has('save') && !did.has('logout')) {
    expect((await state.sessions.get(session))?.bot?.cursor).toBe(stored.at(-1)?.cursorTo ?? '')
    const last = stored.at(-1)?.messages.at(-1)
    expect((await state.contexts.find(session, 'u'))?.token).toBe(last?.contextToken)
  }
  // What was begun and not settled is unknown, and nobody sends it again.
  await store.outbox.reap(0)
  const status = async (key: string) => (await store.outbox.findByKey(key))?.parts[0]?.status
  expect(await status('sent')).toBe(!did.has('send') ? undefined : did.has('settle') ? 'accepted' : 'unknown')
  expect(await status('queued')).toBe(!did.has('queue') ? undefined : did.has('begin') ? 'unknown' : 'queued')
  expect((await store.outbox.listWaiting(openRules)).lanes.length).toBe(
    did.has('queue') && !did.has('begin') ? 1 : 0,
  )
  const sent = await store.log.listAfter(0, { limit: 100, direction: 'sent' })
  expect(sent.length).toBe(Number(did.has('send')) + Number(did.has('queue')))
  // What was handed out and not acknowledged comes again, and first; what was acknowledged does not.
  const again = await store.consumers.claim('reader', { limit: 9 })
  const unread = !did.has('reader') ? [] : did.has('claim') ? rows.slice(0, 1) : rows
  expect((again?.rows ?? []).map(row => row.text)).toEqual(unread.map(row => row.text))
  expect(again?.redelivered.size ?? 0).toBe(did.has('claim') ? 1 : 0)
  const next = await store.consumers.claim('default', { limit: 9 })
  const read = did.has('ack') ? 2 : 0
  const waiting = did.has('claim all') && !did.has('ack') ? rows.slice(0, 2) : rows.slice(read)
  expect((next?.rows ?? []).map(row => row.text)).toEqual(waiting.map(row => row.text))
  // Every batch again, as upstream gives it: each message stays there once, the cursor goes where it belongs.
  for (const batch of batches) {
    if (!did.has('save') || did.has('logout')) break
    const { rows: results } = await storage.ingest({ ...batch, session })
    expect(results.every(one => one === 'duplicate')).toBe(stored.includes(batch))
  }
  const all = await store.log.listAfter(0, { limit: 100, direction: 'received' })
  expect(new Set(all.map(row => row.message_id)).size).toBe(all.length)
}

onEachShared(newPlace => {
  test('a process killed between any two calls leaves everything it had done, and no more', async () => {
    const killed = async (count: number) => {
      const place = await made(newPlace)
      const verbs = script
        .slice(0, count)
        .map(([name, verb]) => `made[${JSON.stringify(name)}] = await ${verb}`)
      const body = [
        'const made = {}',
        ...verbs,
        `console.log('ready')`,
        'await new Promise(() => setInterval(() => {}, 1000))',
      ]
      const child = start(place, body.join('\n'))
      const reader = child.stdout.getReader()
      const told = await reader.read()
      child.kill('SIGKILL')
      await child.exited
      expect([count, new TextDecoder().decode(told.value)]).toEqual([count, 'ready\n'])
      await place.noticeDeaths()
      await using storage = await place.open()
      await check(storage, count)
    }
    for (let count = 0; count <= script.length; count++) await killed(count)
  }, 300_000)

  test('three processes at once: one order without gaps, each row to one reader, each session to its batches', async () => {
    const place = await made(newPlace)
    const one = (name: string) => {
      const own = { session: name, token: bot(name).token, botId: `${name}@im.bot`, now: 1_000_000 }
      return start(
        place,
        `await storage.state.sessions.save('${name}', ${JSON.stringify(bot(name))})
      let read = []
      for (let n = 0; n < 20; n++) {
        const messages = [0, 1, 2].map(m => ({
          message_id: '${name}' + n + '.' + m, derived_id: '', from_user: 'u', msg_type: 'TEXT', text: '${name} ' + n,
          raw: '{}', timestamp: n, timed: true, contentHash: '${name}' + n + '.' + m, written_at: n + 1,
          contextToken: 't' + n, repeated: { received_at: n + 1 },
        }))
        const cursors = { id: '' + n, cursorFrom: n === 0 ? '' : 'c' + n, cursorTo: 'c' + (n + 1) }
        const { cursor } = await storage.ingest({ ...${JSON.stringify(own)}, ...cursors, messages })
        if (cursor !== 'moved') throw new Error('not moved')
        const claim = await storage.store.consumers.claim('default', { limit: 4 })
        if (claim) { read.push(...claim.rows.map(row => row.id)); await storage.store.consumers.ack(claim.lease) }
      }
      console.log(JSON.stringify(read))
      await storage.close()`,
      )
    }
    const children = ['a', 'b', 'c'].map(one)
    const reads = await Promise.all(
      children.map(async child => JSON.parse(await new Response(child.stdout).text()) as number[]),
    )
    await using storage = await place.open()
    const { state, store } = storage
    const rows = await store.log.listAfter(0, { limit: 1000 })
    expect(rows.map(row => row.id)).toEqual(Array.from({ length: 180 }, (_, nth) => nth + 1))
    const rest: number[] = []
    for (let claim = await store.consumers.claim('default', { limit: 100 }); claim; ) {
      rest.push(...claim.rows.map(row => row.id))
      await store.consumers.ack(claim.lease)
      claim = await store.consumers.claim('default', { limit: 100 })
    }
    const read = [...reads.flat(), ...rest].sort((one, other) => one - other)
    expect(read).toEqual(rows.map(row => row.id))
    for (const name of ['a', 'b', 'c']) {
      const own = rows.filter(row => row.session === name).map(row => row.text)
      expect(own).toEqual(Array.from({ length: 60 }, (_, nth) => `${name} ${Math.floor(nth / 3)}`))
      expect((await state.sessions.get(name))?.bot?.cursor).toBe('c20')
      expect(await state.contexts.find(name, 'u')).toMatchObject({ token: 't19', received_at: 20 })
    }
  }, 300_000)
})
