/** The gateway as a key sees it: nothing of other accounts, users and keys, in any answer, count or error. */
import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { randomUUID } from 'node:crypto'
import type { Gateway } from '../../src/gateway/gateway-api.ts'
import { viewFor } from '../../src/gateway/scoped.ts'
import { type Grant, presets, type Right, type Scope } from '../../src/model/access.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { failure } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { countStatements } from '../support/statements.ts'

let keys = 0
/** Returns a caller with a key of its own. */
const keyWith = (scope: Scope, rights: readonly Right[] = presets.all): Principal & { grant: Grant } => ({
  kind: 'key',
  id: `key0000${keys++}`,
  name: 'test',
  grant: { rights, ...scope },
})

/** A caller whose key is stored: what a key begins ends with it. */
async function storedKeyWith({ gateway }: Pick<TestGateway, 'gateway'>, scope: Scope) {
  const caller = keyWith(scope)
  const stored = await gateway.keys.add({ name: caller.id!, can: ['all'] }, owner)
  return { ...caller, id: stored.id }
}

const { signal } = new AbortController()
const image = () => new Blob([new Uint8Array([0x47, 0x49, 0x46, 0x38, 0x39, 0x61, 1, 0, 1, 0])])
const upload = (kind?: 'image') => ({ body: image().stream(), file_name: 'cat.gif', ...(kind && { kind }) })

/** What each user wrote to each account. */
const said = { workAnna: 'Zebra', workBert: 'Yak', homeAnna: 'Walrus', homeCarl: 'Vulture' }

/** Two accounts with two users each; one user writes to both. The gateway is not started any more. */
async function setUp(count: { statements: number }) {
  const t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  const [anna, carl, bert] = [work.user_id, home.user_id, await t.sandbox.addUser('bert')]
  // WeChat knows her, but she wrote to nobody here.
  const dora = await t.sandbox.addUser('dora')
  const messages = new Map<string, string>()
  for (const [text, from, to] of [
    [said.workAnna, anna, work.bot_id],
    [said.workBert, bert, work.bot_id],
    [said.homeAnna, anna, home.bot_id],
    [said.homeCarl, carl, home.bot_id],
  ] as const) {
    await t.sandbox.say(text, { from, to })
    const [message] = await t.receive(1)
    messages.set(text, message!.message_id)
  }
  await t.until('all may be answered', async () => (await t.gateway.users.list()).length === 4)
  for (const [user_id, session, name] of [
    [anna, 'work', 'Nightingale'],
    [bert, 'work', 'Oriole'],
    [anna, 'home', 'Pelican'],
    [carl, 'home', 'Quail'],
  ] as const)
    await t.gateway.users.name({ user_id, session, name })
  for (const [to, session, text] of [
    [anna, 'work', 'Iris'],
    [bert, 'work', 'Jasmine'],
    [anna, 'home', 'Kerria'],
    [carl, 'home', 'Lilac'],
  ] as const)
    await t.send({ to, session, text, approval: 'nobody' })
  for (const user of [anna, bert, carl])
    await t.gateway.webhooks.add(owner, { url: `https://hooks.example/${user}`, user })
  const outbox = await t.gateway.outbox.list(owner)
  await t.gateway.close()
  const idle = await t.beside({ start: false })
  const viewOf = (by: Principal) => viewFor(idle.gateway, by)
  return { ...{ anna, bert, carl, dora, work, home }, ...{ t, idle, messages, outbox, viewOf, count } }
}

type World = Awaited<ReturnType<typeof setUp>>
let counting: ReturnType<typeof countStatements>
let world: World
beforeAll(async () => {
  counting = countStatements()
  world = await setUp(counting)
})
afterAll(async () => {
  await world.idle[Symbol.asyncDispose]()
  await world.t[Symbol.asyncDispose]()
  counting[Symbol.dispose]()
})

type Passed =
  | 'keys'
  | 'invitations'
  | 'topics'
  | 'audit'
  | 'backups'
  | 'people'
  | 'agents'
  | 'relays'
  | 'relayClients'
  | 'relayLogins'
  | 'asks'
  | 'metrics'
  | 'signIns'
  | 'clock'
  | 'health'
  | 'nodes'
  | 'pollerPid'
  | 'pollsSince'
  | 'tasks'
/** A call of each method, without the ids of others. A new method needs one here. */
type Walk = { [R in Exclude<keyof Gateway, Passed>]: { [M in keyof Gateway[R]]: () => unknown } }

/** Reads an iterator up to its end, or for as long as something comes immediately. */
async function collect<T>(of: AsyncGenerator<T, void, void>): Promise<T[]> {
  const found: T[] = []
  for await (const one of of) found.push(one)
  return found
}

const byRow = { limit: 100, offset: 0 }

/** Calls every method, as a key whose own account is `work` and whose own user is Anna. */
function walk(view: Gateway, by: Principal, { anna, messages, outbox }: World): Walk {
  const own = { message_id: messages.get(said.workAnna)!, item: 0 }
  const call = () => createDirectCall({ by })
  const received = { timeout: 0, limit: 100, consumer: 'all', after: 0 }
  const leaving = AbortSignal.timeout(300)
  const webhook = async () =>
    (await view.webhooks.add(by, { url: 'https://hooks.example/own', user: anna })).id
  const entry = () => outbox.find(({ session, to_user }) => session === 'work' && to_user === anna)!.outbox_id
  return {
    inbox: {
      begin: () => view.inbox.begin('reader'),
      getHead: () => view.inbox.getHead(),
      follow: () => collect(view.inbox.follow({ from: 0 }, leaving)),
      open: () => collect(view.inbox.open({ consumer: 'reader' }, leaving)),
      recv: () => view.inbox.recv(received, call()),
      countWaiting: () => view.inbox.countWaiting(received, 100),
      lease: () => view.inbox.lease({ ...received, consumer: 'leases' }, call()),
      renewLeases: () => view.inbox.renewLeases('leases', [1]),
      settleLeases: () => view.inbox.settleLeases('leases', [1], true),
    },
    consumers: {
      list: () => view.consumers.list(),
      remove: () => failure(view.consumers.remove('nobody')),
    },
    sender: {
      send: () => view.sender.send({ to: anna, text: 'Hello', media: [], session: 'work' }, call()),
      foresee: () => view.sender.foresee({ to: anna, text: 'Hello', media: [] }, call()),
    },
    outbox: {
      list: () => view.outbox.list(by),
      get: () => view.outbox.get(by, entry()),
      approve: () => view.outbox.approve(by, '999'),
      cancel: () => view.outbox.cancel(by, '999'),
    },
    media: {
      accept: () => view.media.accept(upload(), signal),
      download: () => failure(view.media.download(own, call())),
      open: () => failure(view.media.open(own, signal)),
      show: () => failure(view.media.show({ row: 1 }, signal)),
    },
    history: {
      page: () => view.history.page(byRow),
      walk: () => collect(view.history.walk({ upTo: 1000 }, signal)),
    },
    conversations: {
      list: () => view.conversations.list(),
      markRead: () => view.conversations.markRead('work', anna, 1),
      markUnread: () => view.conversations.markUnread('work', anna),
      countPerHour: () => view.conversations.countPerHour(2),
    },
    accounts: {
      list: () => view.accounts.list(),
      getReceiving: () => view.accounts.getReceiving(),
      listUsers: () => view.accounts.listUsers('work'),
      listWithUsers: () => view.accounts.listWithUsers(),
      check: () => view.accounts.check('nothing'),
      logout: () => view.accounts.logout('nothing'),
      rename: () => view.accounts.rename('nothing', 'something'),
      setDefault: () => view.accounts.setDefault('work'),
    },
    users: {
      list: () => view.users.list(),
      name: () => view.users.name({ user_id: anna, name: 'Nightingale', session: 'work' }),
    },
    logins: {
      login: () =>
        view.logins.login(by, { session_name: 'work', timeout: 0, force: false, verify_code: '1' }, signal),
      isFollowed: () => view.logins.isFollowed(by, 'work'),
      begin: () => view.logins.begin(by, 'work', false, signal),
      callOff: () => view.logins.callOff(by, 'nothing'),
      follow: () => view.logins.follow(by, { session: 'work' }, 0, signal),
      forget: () => view.logins.forget(by, 'work'),
      giveCode: () => view.logins.giveCode(by, 'nothing', '1', signal),
      leave: () => view.logins.leave(by, 'nothing'),
    },
    webhooks: {
      list: () => view.webhooks.list(by),
      add: webhook,
      get: async () => view.webhooks.get(by, await webhook()),
      pause: async () => view.webhooks.pause(by, await webhook()),
      resume: async () => view.webhooks.resume(by, await webhook()),
      rotate: async () => view.webhooks.rotate(by, await webhook()),
      replay: async () => view.webhooks.replay(by, await webhook(), { since: 0 }),
      remove: async () => view.webhooks.remove(by, await webhook()),
      listAttempts: async () => view.webhooks.listAttempts(by, await webhook()),
      sendTest: () => view.webhooks.sendTest(by, 'nothing', signal),
      isLinkValid: () => view.webhooks.isLinkValid({ webhook: 'x', message_id: 'y', item: '0' }, '1', 'z'),
      getMessage: () => view.webhooks.getMessage(own.message_id),
    },
    subscriptions: {
      subscribe: () =>
        view.subscriptions.subscribe(
          by,
          { type: 'message.received', url: 'https://1.1.1.1/', secret: '' },
          signal,
        ),
      unsubscribe: () =>
        view.subscriptions.unsubscribe(by, { type: 'message.received', url: 'https://1.1.1.1/' }),
    },
    events: {
      getHead: () => view.events.getHead(),
      wait: () => view.events.wait('', AbortSignal.abort()),
      startReader: () => view.events.startReader(undefined, 'reader'),
      markActive: () => view.events.markActive('reader'),
      resolveFilter: () => view.events.resolveFilter({ session: 'work', user: anna }),
      followSession: () => view.events.followSession('work')(),
      readPage: () => view.events.readPage('0', { limit: 1000 }),
      follow: () => collect(view.events.follow('0', {}, signal, { toEnd: true })),
    },
    changes: { subscribe: () => view.changes.subscribe({})() },
  }
}

/** Texts, names and ids that this caller must not see. */
const foreignOf = ({ anna, bert, carl, home, messages, outbox }: World, isLimitedToAccount: boolean) => {
  const ids = (...texts: string[]) => texts.map(text => messages.get(text)!)
  const entries = outbox.flatMap(({ outbox_id, session, to_user }) =>
    (isLimitedToAccount ? session === 'home' : to_user !== anna) ? `"outbox_id":"${outbox_id}"` : [],
  )
  return isLimitedToAccount
    ? [
        home.bot_id,
        '"home"',
        carl,
        said.homeAnna,
        said.homeCarl,
        'Pelican',
        'Quail',
        'Kerria',
        'Lilac',
      ].concat(ids(said.homeAnna, said.homeCarl), entries)
    : [bert, carl, said.workBert, said.homeCarl, 'Oriole', 'Quail', 'Jasmine', 'Lilac'].concat(
        ids(said.workBert, said.homeCarl),
        entries,
      )
}

/** Calls every method, and returns what each answered, as JSON. */
async function answersOf(by: Principal): Promise<Map<string, string>> {
  const answers = new Map<string, string>()
  for (const [room, methods] of Object.entries(walk(world.viewOf(by), by, world)))
    for (const [method, run] of Object.entries<() => unknown>(methods)) {
      const answer = await Promise.resolve()
        .then(run)
        .catch(error => ({ error, hint: error.hint }))
      answers.set(`${room}.${method}`, JSON.stringify(answer) ?? '')
    }
  return answers
}

describe('no answer contains anything of others', () => {
  for (const kind of ['account', 'user'] as const) {
    test(`for a key that is limited to one ${kind}`, async () => {
      const by = keyWith(kind === 'account' ? { bots: [world.work.bot_id] } : { users: [world.anna] })
      const foreign = foreignOf(world, kind === 'account')
      const own = await answersOf(by)
      for (const [method, text] of own)
        for (const word of foreign)
          if (text.includes(word)) throw new Error(`${method} shows ${word}: ${text}`)
      const every = [...own.values()].join('\n')
      for (const word of [said.workAnna, 'Nightingale', 'Iris', world.anna, world.work.bot_id])
        expect(every).toContain(word)
      if (kind === 'user') expect(every).toContain(said.homeAnna)
      // The owner gets all of it by the same calls.
      const all = [...(await answersOf(owner)).values()].join('\n')
      for (const word of foreign) expect(all).toContain(word)
    })
  }
})

test('counts and lists have only what is in the scope', async () => {
  const bot = world.viewOf(keyWith({ bots: [world.work.bot_id] }))
  const ofCarl = keyWith({ users: [world.carl] })
  const user = world.viewOf(ofCarl)
  expect(await bot.accounts.list()).toMatchObject([{ name: 'work', user_count: 2, is_default: true }])
  expect(await bot.health()).toMatchObject({ sessions: 1, connected: 1 })
  expect(await world.idle.gateway.health()).toMatchObject({ sessions: 2, connected: 2 })
  // Carl wrote to one account, and scanned its code.
  expect(await user.accounts.list()).toMatchObject([
    { name: 'work', user_count: 0 },
    { name: 'home', user_count: 1, user_id: world.carl },
  ])
  expect((await user.accounts.list())[0]).not.toHaveProperty('user_id')
  const { messages } = await world.idle.gateway.history.page(byRow)
  const ofWork = messages.filter(({ session }) => session === 'work').length
  expect((await bot.history.page(byRow)).total).toBe(ofWork)
  expect(ofWork).toBeLessThan(messages.length)
  expect((await user.history.page(byRow)).total).toBe(2)
  expect((await bot.conversations.list()).map(({ user_id }) => user_id).sort()).toEqual(
    [world.anna, world.bert].sort(),
  )
  expect((await user.outbox.list(ofCarl)).map(({ parts }) => parts[0]!.text)).toEqual(['Lilac'])
  const sum = (await bot.conversations.countPerHour(2)).reduce((all, { received }) => all + received, 0)
  expect(sum).toBe(2)
  // A key limited to another account than the default one has a default of its own.
  const home = world.viewOf(keyWith({ bots: [world.home.bot_id] }))
  expect(await home.accounts.list()).toMatchObject([{ name: 'home', is_default: true }])
  expect((await home.accounts.listUsers('')).length).toBe(2)
})

test('an empty scope is nothing', async () => {
  for (const scope of [{ bots: [] }, { users: [] }]) {
    const by = keyWith(scope)
    const view = world.viewOf(by)
    expect(await view.users.list()).toEqual([])
    expect((await view.history.page(byRow)).messages).toEqual([])
    expect(await view.outbox.list(by)).toEqual([])
    expect(await view.conversations.list()).toEqual([])
  }
  expect(await world.viewOf(keyWith({ bots: [] })).accounts.list()).toEqual([])
})

interface Trial {
  name: string
  /** The id of something foreign, and of something that does not exist. */
  ids: readonly [foreign: string, unknown: string]
  run(view: Gateway, id: string, by: Principal): Promise<unknown>
}

/** Runs with a foreign and an unknown id: both answers must be equal, after the same number of statements. */
async function expectSame({ idle, count }: World, by: Principal, { name, ids, run }: Trial): Promise<void> {
  const view = viewFor(idle.gateway, by)
  const seen = ids.map(() => ({ answer: '', statements: Number.POSITIVE_INFINITY }))
  // What is read for the first time may be kept, and a slow machine may need more steps: the fewest count.
  for (let rounds = 0; rounds < 4; rounds++)
    for (const [nth, id] of ids.entries()) {
      const before = count.statements
      const answer = await run(view, id, by).then(
        value => JSON.stringify({ value }),
        error => JSON.stringify({ code: error.code, message: error.message, ...error }),
      )
      const statements = Math.min(count.statements - before, seen[nth]!.statements)
      seen[nth] = { answer: answer.replaceAll(id, 'ID'), statements }
    }
  expect({ name, ...seen[0]! }).toEqual({ name, ...seen[1]! })
}

const call = (by: Principal) => createDirectCall({ by })

/** Calls about a session. */
const sessionTrials: Record<string, Trial['run']> = {
  recv: (view, session, by) =>
    view.inbox.recv({ timeout: 0, limit: 1, consumer: 'c', after: 0, session }, call(by)),
  countWaiting: (view, session) => view.inbox.countWaiting({ consumer: 'c', session }, 10),
  send: (view, session, by) => view.sender.send({ to: world.anna, text: 'x', media: [], session }, call(by)),
  'send to a name': (view, session, by) =>
    view.sender.send({ to: 'Nightingale', text: 'x', media: [], session }, call(by)),
  outbox: (view, session, by) => view.outbox.list(by, { session }),
  history: (view, session) => view.history.page({ ...byRow, session }),
  conversations: (view, session) => view.conversations.list({ session }),
  markRead: (view, session) => view.conversations.markRead(session, world.anna, 1),
  markUnread: (view, session) => view.conversations.markUnread(session, world.anna),
  listUsers: (view, session) => view.accounts.listUsers(session),
  getReceiving: (view, session) => view.accounts.getReceiving(session),
  check: (view, session) => view.accounts.check(session),
  logout: (view, session) => view.accounts.logout(session),
  rename: (view, session) => view.accounts.rename(session, 'another'),
  setDefault: (view, session) => view.accounts.setDefault(session),
  users: (view, session) => view.users.list({ session }),
  name: (view, session) => view.users.name({ session, user_id: world.anna, name: 'x' }),
  login: (view, session_name, by) => view.logins.login(by, { session_name, timeout: 0, force: true }, signal),
  begin: (view, session, by) => view.logins.begin(by, session, true, signal),
  follow: (view, session, by) => view.logins.follow(by, { session }, 0, signal),
  webhook: (view, session, by) => view.webhooks.add(by, { url: 'https://hooks.example/x', session }),
  events: (view, session) => view.events.resolveFilter({ session }),
  page: (view, session) => view.events.readPage('0', { limit: 10, session }),
}

test('a foreign session is the same as an unknown one', async () => {
  const by = keyWith({ bots: [world.work.bot_id] })
  for (const [name, run] of Object.entries(sessionTrials))
    await expectSame(world, by, { name, run, ids: ['home', 'hut'] })
})

/** Calls about a user, by id or name. */
const userTrials: Record<string, Trial['run']> = {
  outbox: (view, user_id, by) => view.outbox.list(by, { user_id }),
  history: (view, user_id) => view.history.page({ ...byRow, user_id }),
  conversations: (view, user_id) => view.conversations.list({ user_id }),
  users: (view, user_id) => view.users.list({ user_id }),
  name: (view, user_id) => view.users.name({ user_id, name: 'Robin' }),
  webhook: (view, user, by) =>
    view.webhooks.add(by, { url: 'https://hooks.example/x', user }).then(() => 'added'),
  events: (view, user) => view.events.resolveFilter({ user }),
  page: (view, user) => view.events.readPage('0', { limit: 10, user }),
  // Last, since they leave messages.
  send: (view, to, by) => view.sender.send({ to, text: 'x', media: [] }, call(by)),
  foresee: (view, to, by) => view.sender.foresee({ to, text: 'x', media: [] }, call(by)),
  typing: (view, to, by) => view.sender.send({ to, media: [], typing: true }, call(by)),
}

test('a foreign user is the same as an unknown one, by id and by name', async () => {
  for (const scope of [{ bots: [world.work.bot_id] }, { users: [world.anna] }])
    for (const [name, run] of Object.entries(userTrials))
      for (const ids of [
        [world.carl, world.dora],
        ['Quail', 'Sparrow'],
      ] as const)
        await expectSame(world, keyWith(scope), { name, run, ids })
})

test('a foreign message, entry or file is the same as an unknown one', async () => {
  const { idle, messages, outbox } = world
  const message = [messages.get(said.homeCarl)!, '7999999999999999999'] as const
  const foreign = outbox.find(({ parts }) => parts[0]!.text === 'Lilac')!
  const entry = [foreign.outbox_id, '99999'] as const
  const row = [String(foreign.parts[0]!.id), '99999'] as const
  const owned = await idle.gateway.media.accept(upload(), signal)
  const { id: by } = await storedKeyWith(idle, {})
  const other = await idle.gateway.media.accept({ ...upload(), by }, signal)
  const send = (view: Gateway, upload_id: string, by: Principal) =>
    view.sender.send({ to: world.anna, media: [{ kind: 'file', upload_id }], session: 'work' }, call(by))
  const trials: Trial[] = [
    {
      name: 'open',
      ids: message,
      run: (view, message_id) => view.media.open({ message_id, item: 0 }, signal),
    },
    {
      name: 'download',
      ids: message,
      run: (view, message_id, by) => view.media.download({ message_id, item: 0 }, call(by)),
    },
    // A row id in place of a message id leads to the right id only where the message may be seen.
    { name: 'row', ids: row, run: (view, message_id) => view.media.open({ message_id, item: 0 }, signal) },
    { name: 'show', ids: row, run: (view, id) => view.media.show({ row: Number(id) }, signal) },
    { name: 'get', ids: entry, run: (view, id, by) => view.outbox.get(by, id) },
    { name: 'cancel', ids: entry, run: (view, id, by) => view.outbox.cancel(by, id) },
    { name: 'approve', ids: entry, run: (view, id, by) => view.outbox.approve(by, id) },
    { name: "the owner's upload", ids: [owned.upload_id, randomUUID()], run: send },
    { name: "another key's upload", ids: [other.upload_id, randomUUID()], run: send },
  ]
  for (const scope of [{ bots: [world.work.bot_id] }, { users: [world.anna] }])
    for (const trial of trials) await expectSame(world, keyWith(scope), trial)
  // Nothing was cancelled.
  expect((await idle.gateway.outbox.list(owner)).length).toBe(outbox.length)
})

test('webhooks belong to the key that added them', async () => {
  const { idle } = world
  const stored = async (can: ('all' | 'webhooks' | 'recv')[]) => {
    const { key } = await idle.gateway.keys.add({ name: randomUUID(), can }, owner)
    return (await idle.gateway.keys.authenticate(key))!
  }
  const [one, two] = [await stored(['all']), keyWith({ bots: [world.work.bot_id] })]
  const url = 'https://hooks.example/mine'
  const { id } = await viewFor(idle.gateway, one).webhooks.add(one, { url })
  expect(await viewFor(idle.gateway, one).webhooks.list(one)).toMatchObject([
    { id, made_by: `key:${one.id}` },
  ])
  // The panel, signed in with the same key, is the same caller.
  const panel: Principal = { ...one, kind: 'panel' }
  expect(await viewFor(idle.gateway, panel).webhooks.get(panel, id)).toMatchObject({ id })
  expect(await viewFor(idle.gateway, two).webhooks.list(two)).toEqual([])
  const ids = [id, 'wh_0000000000000000'] as const
  const runs: Record<string, Trial['run']> = {
    get: (view, id, by) => view.webhooks.get(by, id),
    pause: (view, id, by) => view.webhooks.pause(by, id),
    resume: (view, id, by) => view.webhooks.resume(by, id),
    rotate: (view, id, by) => view.webhooks.rotate(by, id),
    replay: (view, id, by) => view.webhooks.replay(by, id, { since: 0 }),
    remove: (view, id, by) => view.webhooks.remove(by, id),
    listAttempts: (view, id, by) => view.webhooks.listAttempts(by, id),
    sendTest: (view, id, by) => view.webhooks.sendTest(by, id, signal),
  }
  for (const [name, run] of Object.entries(runs)) await expectSame(world, two, { name, run, ids })
  expect(await idle.gateway.webhooks.get(owner, id)).toMatchObject({
    made_by: `key:${one.id}`,
    status: 'active',
  })
  const readers = await stored(['webhooks', 'recv'])
  const reader = viewFor(idle.gateway, readers)
  expect(await failure(reader.webhooks.add(readers, { url, replies: true }))).toMatchObject({
    code: 'forbidden',
    details: { right: 'send' },
  })
  expect(await reader.webhooks.add(readers, { url })).toMatchObject({ replies: false })
})

test('a key that may only send sees and cancels its own sends', async () => {
  const { idle, outbox } = world
  const by = keyWith({ bots: [world.work.bot_id] }, presets.reply)
  const view = viewFor(idle.gateway, by)
  expect(await view.outbox.list(by)).toEqual([])
  const request = { to: world.bert, session: 'work', text: 'mine', media: [], approval: 'nobody' as const }
  const { outbox_id = '' } = await view.sender.send(request, call(by))
  expect(await view.outbox.list(by)).toMatchObject([{ outbox_id }])
  const another = outbox.find(({ session }) => session === 'work')!.outbox_id
  await expectSame(world, by, {
    name: 'get',
    ids: [another, '99999'],
    run: (view, id, by) => view.outbox.get(by, id),
  })
  expect(await viewFor(idle.gateway, { ...by, kind: 'panel' }).outbox.cancel(by, outbox_id)).toMatchObject({
    cancelled: 1,
  })
})

test('idempotency keys, consumers and readers of two keys are apart', async () => {
  const { idle } = world
  const [one, two] = [keyWith({ bots: [world.work.bot_id] }), keyWith({ users: [world.anna] })]
  const send = (by: Principal, text: string) =>
    viewFor(idle.gateway, by).sender.send(
      {
        ...{ to: world.anna, session: 'work', text, media: [] },
        ...{ when_closed: 'queue' as const, approval: 'nobody' as const, idempotency_key: 'same' },
      },
      call(by),
    )
  const first = await send(one, 'one')
  expect(await send(two, 'two')).not.toMatchObject({ repeated: true })
  expect(await send(owner, 'three')).not.toMatchObject({ repeated: true })
  expect(await send(one, 'one')).toMatchObject({ repeated: true, outbox_id: first.outbox_id })

  const recv = (by: Principal) =>
    viewFor(idle.gateway, by).inbox.recv({ timeout: 0, limit: 1, consumer: 'mine', ack: 0 }, call(by))
  for (const by of [one, two, owner]) await recv(by)
  const head = await idle.gateway.events.getHead()
  await viewFor(idle.gateway, one).events.startReader(head, 'mine')
  using db = new Database(`${idle.dir}/messages.db`, { readonly: true })
  const readers = db.query<{ name: string }, []>('SELECT name FROM event_reader').all()
  expect(readers.map(({ name }) => name)).toContain(`${one.id}/mine`)
  expect(readers.map(({ name }) => name)).not.toContain('mine')
  const consumers = db.query<{ consumer: string }, []>('SELECT consumer FROM acknowledged').all()
  expect(consumers.map(({ consumer }) => consumer).sort()).toEqual(
    ['mine', `${one.id}/mine`, `${two.id}/mine`].sort(),
  )
})

test('logins: each key follows its own, within its accounts', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const [work] = [t.bots.get('work')!]
  const one = await storedKeyWith(t, {})
  const two = await storedKeyWith(t, {})
  const limited = await storedKeyWith(t, { bots: [work.bot_id] })
  const [a, b, c] = [one, two, limited].map(by => viewFor(t.gateway, by)) as [Gateway, Gateway, Gateway]
  const { login_id } = await a.logins.begin(one, 'new', false, signal)
  expect(await a.logins.follow(one, { login_id }, 0, signal)).toMatchObject({ session: 'new' })
  expect(await t.gateway.logins.follow(owner, { login_id }, 0, signal)).toMatchObject({ session: 'new' })
  for (const follow of [{ login_id }, { session: 'new' }])
    expect(await failure(b.logins.follow(two, follow, 0, signal))).toMatchObject({ code: 'not_found' })
  expect(await failure(b.logins.giveCode(two, login_id, '1', signal))).toMatchObject({ code: 'not_found' })
  expect(await b.logins.callOff(two, login_id)).toBe(false)
  expect(await failure(b.logins.begin(two, 'new', false, signal))).toMatchObject({ code: 'forbidden' })
  expect(await failure(c.logins.begin(limited, 'new', false, signal))).toMatchObject({
    code: 'session_not_found',
  })
  expect(await failure(c.logins.begin(limited, 'home', true, signal))).toMatchObject({
    code: 'session_not_found',
  })
  expect(await c.logins.begin(limited, 'work', false, signal)).toMatchObject({ notice: 'already_connected' })
  const ofUser = keyWith({ users: [work.user_id] })
  const users = viewFor(t.gateway, ofUser)
  expect(await failure(users.logins.begin(ofUser, 'work', true, signal))).toMatchObject({ code: 'forbidden' })
  // A name that is left out means the caller's own login.
  expect(await b.logins.login(two, { timeout: 0, force: false }, signal)).toMatchObject({
    session: 'default',
  })
  expect(await a.logins.callOff(one, login_id)).toBe(true)
})

/** Subscribes, and returns what came. */
function listen(t: TestGateway, by: Principal) {
  const texts: string[] = []
  const marks: unknown[] = []
  const everything: unknown[] = []
  const stop = viewFor(t.gateway, by).changes.subscribe({
    message: message => void texts.push(message.text),
    event: event => void everything.push(event),
    sessions: (now, before) => void everything.push(now, before),
    marked: mark => void marks.push(mark),
  })
  return { texts, marks, everything, [Symbol.dispose]: stop }
}

test('changes: messages, sessions and marks of the scope alone', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  const [byBot, byUser] = [keyWith({ bots: [work.bot_id] }), keyWith({ users: [work.user_id] })]
  using bot = listen(t, byBot)
  using user = listen(t, byUser)
  using all = listen(t, owner)
  await t.until('it follows', async () => (await t.gateway.events.getHead()) !== '')
  await t.sandbox.say('to work', { from: work.user_id, to: work.bot_id })
  await t.receive(1)
  await t.sandbox.say('from Anna to home', { from: work.user_id, to: home.bot_id })
  await t.receive(1)
  await t.sandbox.say('to home', { from: home.user_id, to: home.bot_id })
  await t.receive(1)
  await t.soon('all came', () => all.texts.length === 3)
  expect(bot.texts).toEqual(['to work'])
  expect(user.texts).toEqual(['to work', 'from Anna to home'])
  await viewFor(t.gateway, byBot).conversations.markRead('work', work.user_id, 1)
  await t.gateway.conversations.markRead('home', home.user_id, 3)
  expect(bot.marks).toEqual([{ session: 'work', user_id: work.user_id, up_to: 1 }])
  expect(user.marks).toEqual([])
  expect(all.marks).toEqual([{ session: 'home', user_id: home.user_id, up_to: 3 }])
  await t.gateway.accounts.rename('home', 'house')
  await t.soon('the sessions came', () => JSON.stringify(all.everything).includes('house'))
  for (const word of [home.bot_id, 'house', 'to home'])
    expect(JSON.stringify(bot.everything)).not.toContain(word)
  expect(JSON.stringify(user.everything)).not.toContain(home.user_id)
})

test('a key follows its account, not the name of the session', async () => {
  await using t = await withGateway({ sessions: ['work', 'home'] })
  const [work, home] = [t.bots.get('work')!, t.bots.get('home')!]
  const view = viewFor(t.gateway, keyWith({ bots: [work.bot_id] }))
  const names = async () => (await view.accounts.list()).map(({ name }) => name)
  await t.sandbox.say('before', { from: work.user_id, to: work.bot_id })
  await t.receive(1)
  await t.gateway.accounts.rename('work', 'office')
  expect(await names()).toEqual(['office'])
  expect((await view.history.page({ ...byRow, session: 'office' })).total).toBe(1)
  // Another account gets the name.
  await t.gateway.accounts.logout('office')
  await t.gateway.accounts.rename('home', 'office')
  await t.sandbox.say('after', { from: home.user_id, to: home.bot_id })
  await t.receive(1)
  expect(await names()).toEqual([])
  expect(await failure(view.accounts.listUsers('office'))).toMatchObject({ code: 'session_not_found' })
  const { messages } = await view.history.page({ ...byRow, session: 'office' })
  expect(messages.map(({ text }) => text)).toEqual(['before'])
})
