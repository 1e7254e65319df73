/** Erasing people, on every engine. */
import { describe, expect } from 'bun:test'
import { onEach } from './engines.ts'
import { bot, insert, message, type Opened, open, outgoing, sending, webhook } from './support.ts'

const [gone, other] = ['o-gone@im.wechat', 'o-other@im.wechat']

const from = (user: string, text: string) => message(text, { from_user: user })

/** A session with messages of both users, in turn. @returns the row ids of both */
async function talk(t: Opened) {
  const rows = await insert(t, [
    from(gone, '你好 secret'),
    from(other, 'hello'),
    from(gone, 'more'),
    from(other, 'bye'),
  ])
  const ids = rows.map(Number)
  return { own: [ids[0]!, ids[2]!], others: [ids[1]!, ids[3]!] }
}

const endpoint = webhook('a', { position: 'at-0' })

const grantOf = (users: string[]) => ({ rights: ['history' as const], users })
const keyOf = (id: string, users: string[]) => ({
  id,
  name: id,
  hash: id,
  grant: grantOf(users),
  can: ['read'],
  made_by: 'owner',
  created_at: 1,
})

onEach(it => {
  describe('what is left', () => {
    it('has no lane that a delivery stored while the messages were still there', async t => {
      await talk(t)
      const { people, webhooks } = t.store
      await webhooks.add(endpoint)
      const { progress } = webhooks
      const save = async () => {
        const { epoch } = (await webhooks.get(endpoint.id))!
        const lanes = [gone, other].map(user => ({ session: 'default', user, position: 'at-1' }))
        const own = { epoch, position: 'at-1', lanes, ended: [], tries: [], health: {} }
        expect(await progress.save(endpoint.id, own)).toBe(true)
        return own
      }
      let late = await save()
      const { sleep } = t.clock
      t.clock.sleep = async (ms, signal) => {
        // Only the pauses of the erasure itself: they wait for no signal.
        if (signal === undefined) late = await save()
        await sleep(ms, signal)
      }
      const before = late
      await people.erase(gone)
      expect(late).not.toBe(before)
      expect((await progress.listLanes(endpoint.id)).map(({ user }) => user)).toEqual([other])
      expect(await progress.save(endpoint.id, late)).toBe(false)
    })

    it('has no answer of a webhook but those to stored messages of others', async t => {
      const { own, others } = await talk(t)
      const { events, people, webhooks } = t.store
      await webhooks.add(endpoint)
      const all = (await events.listAfter('', { limit: 10 })).events
      const eventOf = (id: number) => all.find(({ message }) => message === id)!.cursor
      const attempt = { at: 1, outcome: 'done' as const, took_ms: 1, type: 'message.received' }
      const kept = { ...attempt, event: eventOf(others[0]!), answer: 'to another' }
      const tries = [
        kept,
        { ...attempt, event: eventOf(own[0]!), answer: `hello ${gone}` },
        // Its message is no longer stored: nobody knows whose it was.
        { ...attempt, event: eventOf(own[0]!).replace(/\d+$/, '999000000'), answer: `hello ${gone}` },
        { ...attempt, event: kept.event, type: 'session.joined', answer: `joined: ${gone}` },
      ]
      const progress = { epoch: 0, position: kept.event, lanes: [], ended: [], tries, health: {} }
      expect(await webhooks.progress.save(endpoint.id, progress)).toBe(true)
      await people.erase(gone)
      const answers = await Promise.all(
        tries.map(({ event }) => webhooks.progress.listTries(endpoint.id, 10, undefined, event)),
      )
      expect([...new Set(answers.flat().map(({ answer }) => answer))]).toEqual([undefined, 'to another'])
      expect((await t.dump()).includes(gone)).toBe(false)
    })

    it('keeps nothing that is called meanwhile or later, until the user writes again', async t => {
      await talk(t)
      await using other = await t.second()
      const line = { at: 1, principal: 'owner', operation: 'name_user', subject: `s ${gone}` }
      const begun = await t.store.audit.add(line)
      await t.store.webhooks.add(endpoint)
      const conversation = { agent: 'a', session: 's', user: gone }
      let nth = 0
      const [received] = (await t.store.events.listAfter('', { limit: 1 })).events
      let epoch = 0
      let isErasing = true
      /** What processes do that have the user's id, or something of the user, in memory. */
      const callAll = async ({ storage: { store } }: Pick<Opened, 'storage'>) => {
        nth += 1
        const part = {
          kind: 'text' as const,
          waiting: { message: outgoing(`later ${nth}`, { to_user: gone }) },
        }
        const entry = { session: 's', bot_id: 'b', user: gone, made_by: 'owner', parts: [part] }
        // A delivery that began before the end of the erasure.
        if (isErasing) epoch = (await store.webhooks.get(endpoint.id))!.epoch
        const attempt = {
          at: 1,
          event: received!.cursor,
          type: 'message.received',
          outcome: 'failed' as const,
        }
        const progress = { epoch, position: 'at-1', ended: [], health: { last_error: `not to ${gone}` } }
        const lanes = [{ session: 's', user: gone, position: 'at-1' }]
        const tries = [{ ...attempt, took_ms: 1, detail: `not to ${gone}`, answer: 'hush' }]
        const time = {
          session: 's',
          user_id: gone,
          rule: { at: 1 },
          zone: 'UTC',
          due_at: 1,
          made_by: 'owner',
        }
        const calls = [
          () => store.outbox.enqueue({ ...entry, mode: 'queue' }, open),
          () => sending(store, 's', 'b', outgoing(`now ${nth}`, { to_user: gone })),
          () => store.names.set('s', gone, 'Mum'),
          () => store.conversations.markRead('s', gone, 1),
          () => store.conversations.markRead('s', gone, 1, 'key'),
          () => store.agents.addTurn({ ...conversation, source: 'inject', messages: [], prompt: 'hush' }),
          () => store.agents.addTime({ ...time, prompt: 'hush' }),
          () => store.agents.claim(conversation),
          () => store.agents.saveState(conversation, { folder: '/hush' }),
          () => store.webhooks.add({ ...endpoint, id: `own${nth}`, user: gone }),
          () => store.webhooks.add({ ...endpoint, id: `few${nth}`, grant: grantOf([gone]) }),
          () => store.keys.add(keyOf(`key${nth}`, [gone])),
          () => store.webhooks.progress.save(endpoint.id, { ...progress, lanes, tries }),
          () => store.audit.add({ ...line, outcome: 'done' }),
          () => store.audit.settle(begun, 'done', `s ${gone}`),
        ]
        return Promise.all(
          calls.map(call =>
            call().then(
              () => 'done',
              error => error.details ?? error,
            ),
          ),
        )
      }
      await callAll(t)
      const { sleep } = t.clock
      let isCalling = false
      t.clock.sleep = async (ms, signal) => {
        if (signal === undefined && !isCalling) {
          isCalling = true
          for (const process of [t, other]) await callAll(process)
          isCalling = false
        }
        await sleep(ms, signal)
      }
      await t.store.people.begin(gone)
      await t.store.people.erase(gone)
      expect(nth).toBeGreaterThan(2)
      t.clock.sleep = sleep
      isErasing = false
      const [refused, quiet] = [{ erased: true }, 'done']
      for (const process of [t, other])
        expect(await callAll(process)).toEqual([
          ...[refused, refused, refused, quiet, quiet, refused, refused],
          // A claim of the conversation that is gone gives nothing; a new one is refused.
          ...[expect.anything(), quiet, refused, refused, refused],
          ...[quiet, quiet, quiet],
        ])
      const left = await t.dump()
      const words = [gone, 'hush', 'later', 'now ', '你好', 'Mum']
      expect(words.filter(word => left.includes(word))).toEqual([])
      await insert(t, [from(gone, 'again')])
      await t.store.names.set('s', gone, 'Mum')
      expect((await t.dump()).includes(gone)).toBe(true)
    })

    it('erases what the user writes meanwhile, and no turn begins of it', async t => {
      await talk(t)
      const { sleep } = t.clock
      let isCalling = false
      const turns: unknown[] = []
      t.clock.sleep = async (ms, signal) => {
        if (signal === undefined && !isCalling) {
          isCalling = true
          const [id] = await insert(t, [from(gone, 'still here')])
          const turn = {
            agent: 'a',
            session: 's',
            user: gone,
            source: 'message',
            messages: [id as number],
          } as const
          turns.push(await t.store.agents.addTurn(turn).catch(error => error.details))
          isCalling = false
        }
        await sleep(ms, signal)
      }
      await t.store.people.begin(gone)
      await insert(t, [from(gone, 'still here')])
      await t.store.people.erase(gone)
      t.clock.sleep = sleep
      expect(turns.length).toBeGreaterThan(0)
      expect(turns.filter(turn => !Bun.deepEquals(turn, { erased: true }))).toEqual([])
      const left = await t.dump()
      expect([gone, 'still here'].filter(word => left.includes(word))).toEqual([])
    })

    it('shows no message of the user anywhere, and all of the others', async t => {
      const { own, others } = await talk(t)
      const before = await t.store.log.search({ limit: 10, offset: 0, user_id: other })
      expect((await t.store.people.erase(gone)).messages).toBe(2)
      const { log, conversations, backlog, events } = t.store
      expect((await log.getByIds([...own, ...others])).map(({ id }) => id)).toEqual(others)
      expect((await log.getByMessageIds([`forgotten:${own[0]}`])).rows).toEqual([])
      expect((await log.listAfter(0, { limit: 1 })).map(({ id }) => id)).toEqual([others[0]!])
      expect(await backlog.listRecent(0, { limit: 10 })).toEqual(others)
      for (const filter of [{}, { direction: 'received' }, { msg_type: 'TEXT' }, { bot_id: 'b' }] as const) {
        const page = await log.search({ ...filter, limit: 10, offset: 0 })
        expect(page.rows.map(({ id }) => id)).toEqual(others.toReversed())
        expect(page.total).toBe(2)
      }
      expect((await log.search({ text_contains: '你好', limit: 10, offset: 0 })).total).toBe(0)
      expect(await log.search({ limit: 10, offset: 0, user_id: other })).toEqual(before)
      expect((await conversations.listThreads({ limit: 10 })).threads.map(({ user }) => user)).toEqual([
        other,
      ])
      expect(await conversations.sessionsOf(gone)).toEqual([])
      for (const wanted of [{}, { hidden: true }] as const)
        expect((await events.listAfter('', { limit: 10, ...wanted })).events.map(one => one.message)).toEqual(
          others,
        )
    })

    it('goes on with row ids, positions and events', async t => {
      await talk(t)
      const read = await t.store.consumers.claim('default', { limit: 10 })
      await t.store.consumers.ack(read!.lease)
      const reached = await t.store.events.getHead()
      await t.store.people.erase(gone)
      const head = await t.store.log.getHead()
      expect((await t.store.events.listAfter(reached, { limit: 10 })).gone).toBeUndefined()
      const [id] = await insert(t, [from(gone, 'again')])
      expect(id).toBe(head + 1)
      expect((await t.store.events.listAfter(reached, { limit: 10 })).events.map(e => e.message)).toEqual([
        id as number,
      ])
      const claim = await t.store.consumers.claim('default', { limit: 10 })
      expect(claim?.rows.map(row => row.id)).toEqual([id as number])
    })

    it('begins anew with a user who writes again', async t => {
      await talk(t)
      await t.store.names.set('s', gone, 'Mum')
      await t.store.conversations.markRead('s', gone, 1)
      await t.store.people.erase(gone)
      await insert(t, [from(gone, 'again')])
      const { threads } = await t.store.conversations.listThreads({ limit: 10, user: gone })
      expect(threads.map(({ unread }) => unread)).toEqual([1])
      expect(threads[0]!.last.user_name).toBeUndefined()
      expect((await t.store.outbox.getCounters('s', gone)).get(gone)?.used ?? 0).toBe(0)
    })

    it('puts the hash in place of the user in the audit log', async t => {
      await t.store.names.set('s', gone, 'Mum')
      const line = { at: 1, principal: 'owner', operation: 'name_user', outcome: 'done' }
      for (const subject of [gone, 'mum', `s ${gone}`, other]) await t.store.audit.add({ ...line, subject })
      const hash = await t.store.people.hashOf(gone)
      expect(hash).toMatch(/^user:[0-9a-f]{16}$/)
      await t.store.people.erase(gone)
      const subjects = (await t.store.audit.list({ after: 0, limit: 10 })).map(({ subject }) => subject)
      expect(subjects).toEqual([hash, hash, `s ${hash}`, other])
      const { events } = await t.store.events.listAfter('', { limit: 10, types: ['audit.line'] })
      expect(JSON.stringify(events)).not.toContain(gone)
    })
  })

  it('erases who logged an account in from its events', async t => {
    const data = {
      name: 's',
      user_id: gone,
      bot_id: 'b',
      status: 'connected',
      change: 'connected',
      connected: true,
      is_default: true,
      created_at: 1,
      user_count: 0,
    } as const
    await t.store.events.append([{ type: 'session.status', session: 's', data: { ...data } }])
    const reached = await t.store.events.getHead()
    await t.store.people.erase(gone)
    const { events } = await t.store.events.listAfter('', { limit: 10 })
    expect(events.map(one => one.type)).toEqual(['session.status'])
    expect(JSON.stringify(events)).toContain('"bot_id":"b"')
    expect(JSON.stringify(events)).not.toContain(gone)
    expect(await t.store.events.getHead()).toBe(reached)
  })

  it('takes leased rows from a lease, and the rest of it comes again', async t => {
    const { others } = await talk(t)
    const claim = await t.store.consumers.claim('default', { limit: 10 })
    await t.store.people.erase(gone)
    await t.store.consumers.nack(claim!.lease)
    const again = await t.store.consumers.claim('default', { limit: 10 })
    expect(again!.rows.map(({ id }) => id)).toEqual(others)
  })

  it('cancels what waits, and names its files', async t => {
    const file = { name: 'f.queued', file_name: 'a.png', size: 1, md5: 'x' }
    const part = { kind: 'text' as const, waiting: { message: outgoing('later', { to_user: gone }), file } }
    const entry = { session: 's', bot_id: 'b', user: gone, mode: 'queue' as const, made_by: 'owner' }
    await t.store.outbox.enqueue({ ...entry, parts: [part] }, open)
    const kept = { kind: 'text' as const, waiting: { message: outgoing('kept', { to_user: other }) } }
    await t.store.outbox.enqueue({ ...entry, user: other, parts: [kept] }, open)
    expect(await t.store.people.listFiles(gone)).toEqual(['f.queued'])
    expect(await t.store.people.erase(gone)).toMatchObject({ sends: 1, files: ['f.queued'], messages: 1 })
    expect((await t.store.outbox.list()).map(({ user }) => user)).toEqual([other])
    expect((await t.store.outbox.listWaiting(open)).lanes.map(({ user }) => user)).toEqual([other])
  })

  it('leaves a row blank whose message was being sent', async t => {
    const begun = await sending(t.store, 's', 'b', outgoing('in flight', { to_user: gone }))
    await t.store.people.erase(gone)
    const settled = await t.store.outbox.settle(begun, {
      status: 'accepted',
      message_id: 'from-wechat',
      spent: true,
    })
    expect(settled).toEqual({ entries: [], files: [] })
    expect((await t.store.log.getByMessageIds(['from-wechat'])).rows).toEqual([])
    expect((await t.store.log.getByIds([begun.row])).length).toBe(0)
  })

  it('removes the endpoints of the user, and the user from grants', async t => {
    const webhook = { ...endpoint, position: await t.store.events.getHead() }
    await t.store.webhooks.add({ ...webhook, id: 'own', user: gone })
    await t.store.webhooks.add({ ...webhook, id: 'scoped', grant: grantOf([gone, other]) })
    await t.store.keys.add(keyOf('both', [gone, other]))
    await t.store.keys.add(keyOf('only', [gone]))
    await t.store.keys.add(keyOf('none', [other]))
    await t.store.keys.add({ ...keyOf('named', [other]), name: `for ${gone}` })
    const { revision } = await t.store.keys.listChangedSince(0)
    const erased = await t.store.people.erase(gone)
    expect(erased).toMatchObject({ webhooks: ['own'], keys: ['both', 'only'] })
    expect(
      (await t.store.webhooks.list()).map(({ id, grant, epoch }) => [id, grant?.users, epoch > 0]),
    ).toEqual([['scoped', [other], true]])
    const changed = (await t.store.keys.listChangedSince(revision)).keys
    expect(changed.map(({ id, grant }) => [id, grant.users]).sort()).toEqual([
      ['both', [other]],
      ['named', [other]],
      ['only', []],
    ])
    expect(changed.find(({ id }) => id === 'named')?.name).toBe(`for ${await t.store.people.hashOf(gone)}`)
  })

  it('refuses the progress of a delivery that began before', async t => {
    await talk(t)
    const position = await t.store.events.getHead()
    const { store } = t
    await store.webhooks.add({ ...endpoint, id: 'w', position })
    await store.people.erase(gone)
    const lane = { session: 's', user: gone, position }
    const progress = { epoch: 0, position, lanes: [lane], ended: [], tries: [], health: {} }
    expect(await store.webhooks.progress.save('w', progress)).toBe(false)
    expect(await store.webhooks.progress.listLanes('w')).toEqual([])
  })

  it('tells those who keep the names of the users of a session', async t => {
    const { sessions } = t.storage.state
    await sessions.save('s', bot('s'))
    await t.store.names.set('s', gone, 'Mum')
    const { revision } = await sessions.listChangedSince()
    await t.store.people.erase(gone)
    expect([...(await sessions.listChangedSince(revision)).changed.keys()]).toContain('s')
  })

  it('forgets the contexts and who logged an account in', async t => {
    const { sessions } = t.storage.state
    await sessions.save('s', bot('s', { user_id: gone }))
    await t.storage.ingest({
      id: 'one',
      session: 's',
      token: bot('s').token,
      botId: 's@im.bot',
      cursorFrom: '',
      cursorTo: 'c',
      messages: [gone, other].map(user => ({
        ...from(user, `from ${user}`),
        contextToken: `token of ${user}`,
        written_at: 1_800_000_000_000,
        repeated: { received_at: 1_800_000_000_000 },
      })),
      now: 1_800_000_000_000,
    })
    await t.storage.state.forgetUser(gone)
    await t.store.people.erase(gone)
    const { contexts } = t.storage.state
    expect((await contexts.listUsers(['s'])).get('s')?.map(({ user_id }) => user_id)).toEqual([other])
    expect(await contexts.find('s', gone)).toBeUndefined()
    expect((await sessions.get('s'))?.bot?.user_id).toBeUndefined()
    expect((await sessions.get('s'))?.bot?.cursor).toBe('c')
  })

  it('answers zero for a user who was erased, or never there', async t => {
    await talk(t)
    await t.store.people.erase(gone)
    expect(await t.store.people.erase(gone)).toEqual({
      messages: 0,
      sends: 0,
      webhooks: [],
      keys: [],
      files: [],
    })
    await t.store.people.scrub()
  })
})
