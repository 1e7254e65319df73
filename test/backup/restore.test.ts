/** A backup of a gateway that runs, restored elsewhere: what goes on, and what stands still. */
import { Database } from 'bun:sqlite'
import { expect } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { makeBackup } from '../../src/backup/make.ts'
import { restoreBackup } from '../../src/backup/restore.ts'
import { claimDirectory } from '../../src/gateway/directory.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner } from '../../src/model/principal.ts'
import { failure, fieldsOf } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'

const it = given(() => withGateway({ sessions: ['work', 'home'] }))
const passphrase = 'a passphrase of many words'

const backUp = ({ clock, config }: TestGateway, path: string, encrypted = false) =>
  makeBackup({ path, config, clock, passphrase: encrypted ? passphrase : undefined, force: false })

/** Restores into a new folder. */
async function restoreTo({ clock, config }: TestGateway, path: string, more: Partial<Restore> = {}) {
  const basePath = join(folderOfTest(), 'restored')
  const at = { ...config, basePath, mediaRoot: join(basePath, 'media') }
  const done = await restoreBackup({
    path,
    config: at,
    clock,
    passphrase: undefined,
    keepKeys: false,
    ...more,
  })
  return { ...done, dir: basePath }
}
type Restore = Parameters<typeof restoreBackup>[0]

/** Opens the restored copy, once the original is gone. */
async function takeOver(t: TestGateway, dir: string): Promise<TestGateway> {
  await t.gateway.close()
  return withGateway({ sandbox: t.sandbox, dir, sessions: [], clock: t.clock })
}

const textsOf = (messages: readonly { text?: string }[]) => messages.map(({ text }) => text)

it('goes on with the conversation: nothing is lost, and nothing comes twice', async t => {
  const { bot_id, user_id } = t.bots.get('work')!
  await t.sandbox.say('before', { to: bot_id, from: user_id })
  expect(textsOf(await t.receive(1))).toEqual(['before'])
  await t.send({ to: user_id, text: 'answer before' })
  const path = join(folderOfTest(), 'svc.tar')
  const made = await backUp(t, path)
  expect(made).toMatchObject({ path, size: statSync(path).size })
  expect(statSync(path).mode & 0o777).toBe(0o600)
  using db = new Database(join(t.dir, 'messages.db'), { readonly: true })
  expect(db.query('SELECT * FROM backup').all()).toEqual([made])

  const { dir, manifest } = await restoreTo(t, path)
  expect(manifest.accounts.map(({ session }) => session).sort()).toEqual(['home', 'work'])
  await t.gateway.close()
  await t.sandbox.say('after', { to: bot_id, from: user_id })
  await using copy = await takeOver(t, dir)
  expect(textsOf(await copy.receive(1))).toEqual(['after'])
  await copy.send({ to: user_id, text: 'answer after' })
  await t.sandbox.seen(messages => messages.length === 2)
  const { messages } = await copy.gateway.history.page({ user_id, limit: 100, offset: 0 })
  expect(textsOf(messages).sort()).toEqual(['after', 'answer after', 'answer before', 'before'])
})

it('stands still: sends wait for a yes with their files, webhooks are paused, keys are revoked', async t => {
  const { bot_id } = t.bots.get('work')!
  const user = await t.sandbox.addUser('late')
  const queue = (request: object) => t.send({ to: user, session: 'work', when_closed: 'queue', ...request })
  await queue({ text: 'queued' })
  await queue({
    media: [{ kind: 'file', data: Buffer.from('a file').toString('base64'), file_name: 'a.txt' }],
  })
  await t.send({ to: user, session: 'work', text: 'drafted', when_closed: 'queue', approval: 'draft' })
  const webhook = await t.gateway.webhooks.add(owner, { url: 'https://example.org/hook' })
  const { key, id } = await t.gateway.keys.add({ name: 'bot', can: ['read'] }, owner)
  const { user_id: to } = t.bots.get('home')!
  const [secret, attach_private] = ['sixteen letters!', true]
  for (const settings of [{ secret }, { attach_private }, {}])
    await t.gateway.topics.add(owner, {
      name: Object.keys(settings).join() || 'plain',
      to: [to],
      ...settings,
    })
  const time = { session: 'work', user_id: user, prompt: 'Water', rule: { minutes: 60 }, zone: 'UTC' }
  await t.gateway.agents.addTime({ ...time, due_at: 1, made_by: 'owner' })
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)

  const { dir, still } = await restoreTo(t, path)
  expect(still).toEqual({ sends: 3, webhooks: 1, keys: 1, topics: 2 })
  expect(readdirSync(join(dir, 'media/outbox'))).toHaveLength(1)
  const kept = await restoreTo(t, path, { keepKeys: true })
  expect(kept.still).toEqual({ sends: 3, webhooks: 1, keys: 0, topics: 0 })

  await using copy = await takeOver(t, dir)
  expect(await copy.gateway.keys.authenticate(key)).toBeUndefined()
  expect(await copy.gateway.keys.hasAny()).toBe(true)
  const open = (await copy.gateway.topics.list(owner)).filter(topic => topic.signed || topic.attach_private)
  expect(open).toEqual([])
  expect((await copy.gateway.keys.get(id, owner)).name).toBe('bot')
  const { agents } = copy.gateway
  expect(await agents.listTimes({ only: 'due' })).toEqual([])
  const [stopped] = await agents.listTimes({})
  expect(stopped).toMatchObject(time)
  expect(stopped?.due_at).toBeUndefined()
  // The same once more goes on.
  expect(await agents.addTime({ ...time, due_at: 2, made_by: 'owner' })).toEqual({ ...stopped!, due_at: 2 })
  expect(await copy.gateway.webhooks.list(owner)).toMatchObject([{ id: webhook.id, status: 'paused' }])
  const waiting = await copy.gateway.outbox.list(owner)
  expect(waiting.map(({ waits_for }) => waits_for)).toEqual(['approval', 'approval', 'approval'])
  // The user writes: what waited may go now, and does not.
  await t.sandbox.say('hello', { to: bot_id, from: user })
  await copy.receive(1)
  await copy.pass(2000)
  expect(await t.sandbox.messages({ from: 'bot' })).toEqual([])
  for (const { outbox_id } of waiting) await copy.gateway.outbox.approve(owner, outbox_id)
  const seen = await t.sandbox.seen(messages => messages.length === 3)
  expect(seen.map(({ items }) => items[0]?.text ?? items[0]?.file_name).sort()).toEqual([
    'a.txt',
    'drafted',
    'queued',
  ])
})

it('leaves the files of the original alone, in a media root that both have', async t => {
  const to = await t.sandbox.addUser('late')
  const data = Buffer.from('a file').toString('base64')
  await t.send({ to, when_closed: 'queue', media: [{ kind: 'file', data, file_name: 'a.txt' }] })
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)
  const basePath = join(folderOfTest(), 'restored')
  const error = await failure(restoreTo(t, path, { config: { ...t.config, basePath } }))
  expect(fieldsOf(error)).toEqual(['--media-root'])
  expect(readdirSync(join(t.mediaRoot, 'outbox'))).toHaveLength(1)
  expect(existsSync(basePath)).toBe(false)
})

it('removes what a killed backup to the same file left', async t => {
  const folder = folderOfTest()
  for (const name of ['svc.tar', 'svcxtar']) writeFileSync(join(folder, `${name}.0123456789ab.tmp`), 'half')
  await backUp(t, join(folder, 'svc.tar'))
  expect(readdirSync(folder).sort()).toEqual(['svc.tar', 'svcxtar.0123456789ab.tmp'])
})

it('keeps keys and tokens only on request', async t => {
  const { key } = await t.gateway.keys.add({ name: 'bot', can: ['read'] }, owner)
  writeFileSync(join(t.dir, 'api_token'), 'the token of the service\n')
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)
  const { dir } = await restoreTo(t, path)
  expect(existsSync(join(dir, 'api_token'))).toBe(false)
  const kept = await restoreTo(t, path, { keepKeys: true })
  expect(readFileSync(join(kept.dir, 'api_token'), 'utf8')).toBe('the token of the service\n')
  await using copy = await takeOver(t, kept.dir)
  expect(await copy.gateway.keys.authenticate(key)).toMatchObject({ name: 'bot' })
})

it('gives up what was under way like a crash, and hands out again what nobody confirmed', async t => {
  const { bot_id, user_id } = t.bots.get('work')!
  await t.sandbox.say('one', { to: bot_id, from: user_id })
  const call = createDirectCall()
  const first = await t.gateway.inbox.recv({ timeout: 30, limit: 1, consumer: 'default' }, call)
  expect(textsOf(first)).toEqual(['one'])
  await t.sandbox.fail('sendmessage', 'hang')
  const sending = t.send({ to: user_id, text: 'under way' })
  sending.catch(() => {})
  await t.until('it is under way', () => t.requests('sendmessage') > 0)
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)
  call.done(true)
  await t.sandbox.mend()

  const { dir, still } = await restoreTo(t, path)
  expect(still.sends).toBe(0)
  await using copy = await takeOver(t, dir)
  expect(await copy.receive(1)).toMatchObject([{ text: 'one', redelivered: true }])
  const { messages } = await copy.gateway.history.page({ user_id, limit: 100, offset: 0 })
  expect(messages.find(({ text }) => text === 'under way')).toMatchObject({ status: 'unknown' })
})

it('hands out for the first time what waited and no reader saw', async t => {
  const { bot_id, user_id } = t.bots.get('work')!
  await t.sandbox.say('one', { to: bot_id, from: user_id })
  const call = createDirectCall()
  await t.gateway.inbox.recv({ timeout: 30, limit: 1, consumer: 'default' }, call)
  {
    // As a reader leaves it that gave back what it had not handed out.
    using db = new Database(join(t.config.basePath, 'messages.db'))
    db.run('UPDATE lease SET expires_at = -1')
  }
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)
  call.done(true)
  await using copy = await takeOver(t, (await restoreTo(t, path)).dir)
  const [one] = await copy.receive(1)
  expect([one?.text, one?.redelivered]).toEqual(['one', undefined])
})

it('is opened by nobody until it is complete, and starts over after an interruption', async t => {
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)
  const dir = join(folderOfTest(), 'half')
  mkdirSync(dir)
  writeFileSync(join(dir, '.restoring'), JSON.stringify(['gone/token.json', 'messages.db', '../outside']))
  mkdirSync(join(dir, 'gone'))
  writeFileSync(join(dir, 'gone/token.json'), '{}')
  writeFileSync(join(dir, 'messages.db'), 'half')
  const listed = readdirSync(dir)
  expect(await failure(claimDirectory({ basePath: dir, sandbox: false }))).toMatchObject({
    code: 'store_unavailable',
  })
  expect(readdirSync(dir)).toEqual(listed)
  const config = { ...t.config, basePath: dir, mediaRoot: join(dir, 'media') }
  const backup = {
    path: join(folderOfTest(), 'x'),
    config,
    clock: t.clock,
    passphrase: undefined,
    force: false,
  }
  expect(await failure(makeBackup(backup))).toMatchObject({ code: 'store_unavailable' })
  await restoreBackup({ path, config, clock: t.clock, passphrase: undefined, keepKeys: false })
  expect(
    readdirSync(dir)
      .filter(name => !name.startsWith('.'))
      .sort(),
  ).toEqual(['home', 'messages.db', 'work'])
  expect(existsSync(join(dir, '.restoring'))).toBe(false)
  await claimDirectory({ basePath: dir, sandbox: false })
  await using copy = await withGateway({ sandbox: t.sandbox, dir, sessions: [], start: false })
  expect((await copy.gateway.accounts.list()).length).toBe(2)
})

it('refuses a directory that has anything in it, except what a killed svc was writing', async t => {
  const path = join(folderOfTest(), 'svc.tar')
  await backUp(t, path)
  const dir = folderOfTest()
  writeFileSync(join(dir, 'a'), 'b')
  const config = { ...t.config, basePath: dir, mediaRoot: join(dir, 'media') }
  const restore = () =>
    restoreBackup({ path, config, clock: t.clock, passphrase: undefined, keepKeys: false })
  expect(fieldsOf(await failure(restore()))).toEqual(['--base-path'])
  expect(readdirSync(dir)).toEqual(['a'])
  renameSync(join(dir, 'a'), join(dir, '.restoring.0123456789ab.tmp'))
  expect((await restore()).manifest.accounts).toHaveLength(2)
})
