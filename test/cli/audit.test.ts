/** `svc audit`, and who sent a message in `svc history`. */
import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Svc } from '../../src/index.ts'
import type { AuditLine } from '../../src/model/audit.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import { verbs } from '../../src/operations/tools.ts'
import { nameUser } from '../../src/operations/users.ts'
import { type Clock, systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { findSystemUser } from '../../src/platform/process.ts'
import { svc, svcProcess, svcRunning } from '../support/command.ts'
import { newDatabase, secret } from '../support/databases.ts'
import { folderOfFile } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { jsonLines } from '../support/overheard.ts'
import { isPostgresThere, sharedPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const home = folderOfFile()

/** A service with a user who has written, and a key that may answer and rename. */
async function withKey() {
  const t = await withGateway()
  await t.sandbox.say('hi')
  const [hi] = await t.receive(1)
  const { id } = await t.gateway.keys.add({ name: 'support', can: ['reply', 'names'] }, owner)
  const { grant } = { grant: { rights: ['send', 'names'] } } as const
  const by: Principal = { kind: 'key', id, name: 'support', grant }
  const call = { ...createDirectCall({ by }), address: '10.0.0.7' }
  const user = hi!.from_user
  return {
    ...t,
    id,
    user,
    send: (text: string) => invoke(verbs.send, t.gateway, { to: user, text }, call, silentLog),
    name: (name: string) => invoke(nameUser, t.gateway, { user_id: user, name }, call, silentLog),
    logout: () => invoke(verbs.logout, t.gateway, {}, call, silentLog).catch(() => undefined),
    audit: async (...words: string[]): Promise<AuditLine[]> =>
      JSON.parse((await svc(['audit', '--json', '-d', t.dir, ...words], { home })).stdout),
    run: (...words: string[]) => svc([...words, '-d', t.dir], { home }),
  }
}

const it = given(withKey)

it('calls of a key are listed, by its name or id, with what they were about and how they ended', async t => {
  await t.send('hello')
  await t.name('Mum')
  await t.logout()
  await invoke(nameUser, t.gateway, { user_id: t.user, name: 'Ma' }, createDirectCall(), silentLog)
  const own = { principal: `key:${t.id}`, name: 'support', address: '10.0.0.7' }
  const lines = await t.audit('--key', 'support')
  expect(lines).toMatchObject([
    { ...own, operation: 'logout', outcome: 'denied' },
    { ...own, operation: 'name_user', subject: t.user, outcome: 'done' },
    { ...own, operation: 'send', subject: `default ${t.user}`, outcome: 'accepted' },
  ])
  expect(JSON.stringify(lines)).not.toMatch(/hello|Mum/)
  expect(await t.audit('--key', t.id, '-n', '1', '--operation', 'send')).toEqual([lines[2]!])
  expect(await t.audit('--key', t.id, '--since', '1h', '--before', `${lines[1]!.id}`)).toEqual([lines[2]!])
  expect((await t.audit('--principal', 'owner')).map(({ operation }) => operation)).toEqual(['name_user'])
  expect(await t.audit('--outcome', 'denied')).toEqual([lines[0]!])
  expect(await t.audit('--outcome', 'done', '--key', t.id)).toEqual(lines.slice(1))
  expect(await t.audit('--outcome', 'failed')).toEqual([])
  // A line that is followed has no outcome yet.
  expect(await t.run('audit', '--follow', '--outcome', 'done')).toMatchObject({ status: 2, stdout: '' })
  const text = (await t.run('audit')).stdout
  for (const shown of [`key:${t.id} (support)`, 'owner', 'denied', t.user, '10.0.0.7'])
    expect(text).toContain(shown)
})

it('every view shows the principal of a key beside its name, and no name of a key for an agent of that name', async t => {
  await t.send('an answer')
  const drafts = await t.gateway.keys.add({ name: 'Dora', can: ['draft'] }, owner)
  const { id } = drafts
  const grant = { rights: ['draft'] } as const
  const draft = createDirectCall({ by: { kind: 'key', id, name: 'Dora', grant } })
  await invoke(verbs.send, t.gateway, { to: t.user, text: 'a draft' }, draft, silentLog)
  const agent = createDirectCall({ by: { kind: 'agent', id: t.id, name: t.id, grant: { rights: ['send'] } } })
  await invoke(verbs.send, t.gateway, { to: t.user, text: 'of an agent' }, agent, silentLog)
  // Of a send, the message is the event.
  await t.logout()
  await invoke(verbs.logout, t.gateway, {}, agent, silentLog).catch(() => undefined)
  const lines = async (...words: string[]) => (await t.run(...words)).stdout.split('\n')
  for (const words of [
    ['audit'],
    ['history'],
    ['events', '--types', 'audit.line', '-n', '9', '--after', '0'],
  ]) {
    const shown = await lines(...words)
    const count = (text: string) => shown.filter(line => line.includes(text)).length
    const [ofKey, ofAgent] = [count(`key:${t.id} (support)`), count(`agent:${t.id}`)]
    expect([words, ofKey, ofAgent, count('support')]).toEqual([words, ofAgent, ofKey, ofKey])
    expect([words, ofKey]).toEqual([words, words[0] === 'audit' ? 2 : 1])
  }
  expect((await lines('approvals')).join()).toContain(`key:${id} (Dora)`)
  const page = (await t.run('export')).stdout
  expect(page).toContain(`"sent_by":"key:${t.id}"`)
})

it('the life of a message is one record: who drafted, changed, approved, sent or declined it', async t => {
  const { id } = await t.gateway.keys.add({ name: 'Dora', can: ['draft'] }, owner)
  const by: Principal = { kind: 'key', id, name: 'Dora', grant: { rights: ['draft'] } }
  const draft = { ...createDirectCall({ by }), address: '10.0.0.8', requestId: 'req-1' }
  const write = async (text: string) => {
    const { outbox_id } = await invoke(verbs.send, t.gateway, { to: t.user, text }, draft, silentLog)
    const { parts } = await t.gateway.outbox.get(owner, outbox_id!)
    return { outbox_id: outbox_id!, message: String(parts[0]!.id) }
  }
  const [changed, same, declined] = [await write('frist'), await write('second'), await write('third')]
  await t.run('approvals', 'yes', changed.outbox_id, '--text', 'first')
  await t.run('approvals', 'yes', same.outbox_id)
  await t.run('approvals', 'no', declined.outbox_id)
  const recordOf = async ({ message }: { message: string }) =>
    (await t.audit('--message', message)).map(({ operation, principal, outcome, changed, draft_by_name }) => [
      ...[operation, principal, outcome, changed, draft_by_name],
    ])
  await until('it was sent', 30_000, async () => (await recordOf(changed))[1]?.[2] === 'accepted')
  expect(await recordOf(changed)).toEqual([
    ['approve_outbox', 'owner', 'done', 'text', 'Dora'],
    ['send', `key:${id}`, 'accepted', undefined, undefined],
  ])
  expect((await recordOf(same))[0]).toEqual(['approve_outbox', 'owner', 'done', undefined, 'Dora'])
  expect(await recordOf(declined)).toEqual([
    ['decline_outbox', 'owner', 'done', undefined, 'Dora'],
    ['send', `key:${id}`, 'refused', undefined, undefined],
  ])
  const decisions = await t.audit('--session', 'default', '--user', t.user, '--operation', 'approve_outbox')
  expect(decisions).toHaveLength(2)
  expect(decisions[0]).toMatchObject({ subject: `default ${t.user}`, messages: [Number(same.message)] })
  expect(await t.audit('--request', 'req-1', '--address', '10.0.0.8', '--until', '2000-01-01')).toEqual([])
  expect(await t.audit('--request', 'req-1', '--address', '10.0.0.8')).toHaveLength(3)
  expect(await t.audit('--request', 'req')).toEqual([])
  expect(await t.audit('--user', 'o-unknown@im.wechat')).toEqual([])
  expect(await t.run('audit', '--since', '1h', '--until', '2h')).toMatchObject({ status: 2 })
  expect(JSON.stringify(await t.audit())).not.toMatch(/first|frist|second|third/)
})

it('the name of a key stands for all keys that had it', async t => {
  await t.name('Mum')
  await t.gateway.keys.revoke(t.id, owner)
  const { id } = await t.gateway.keys.add({ name: 'support', can: ['names'] }, owner)
  const by: Principal = { kind: 'key', id, name: 'support', grant: { rights: ['names'] } }
  await invoke(nameUser, t.gateway, { user_id: t.user, name: 'Ma' }, createDirectCall({ by }), silentLog)
  const principals = async (key: string) => (await t.audit('--key', key)).map(({ principal }) => principal)
  expect(await principals('support')).toEqual([`key:${id}`, `key:${t.id}`])
  expect(await principals(t.id)).toEqual([`key:${t.id}`])
})

it('an unknown key, a key beside a caller, and a directory without lines', async t => {
  expect(await t.run('audit', '--key', 'nobody')).toMatchObject({ status: 1, stdout: '' })
  expect(await t.run('audit', '--key', 'support', '--principal', 'owner')).toMatchObject({ status: 2 })
  expect(await t.audit('--key', 'support')).toEqual([])
  expect(await t.run('audit', '--key', 'support')).toMatchObject({ status: 0, stdout: '' })
})

it('--follow shows new lines as they come', async t => {
  await t.name('before')
  const running = svcRunning(['audit', '--follow', '--json', '-n', '2', '-d', t.dir], { home })
  const seen = () => jsonLines<AuditLine>(running)
  // It starts with the first line after its own start.
  await until('one came', 30_000, async () => {
    await t.name('after')
    return seen().length > 0
  })
  await t.send('hello')
  expect((await running.exited).status).toBe(0)
  expect(seen().map(({ operation }) => operation)[0]).toBe('name_user')
  expect(seen()).toHaveLength(2)
})

it('--follow with --since starts with what was, and Ctrl-C ends it', async t => {
  await t.name('Mum')
  await t.send('hello')
  const running = svcRunning(['audit', '-f', '--json', '--since', '1h', '-d', t.dir], { home })
  await until('two came', 30_000, () => jsonLines(running).length >= 2)
  running.stop('SIGINT')
  await running.exited
  expect(jsonLines<AuditLine>(running).map(({ operation }) => operation)).toEqual(['name_user', 'send'])
})

it('history says who sent a message, unless it was the owner', async t => {
  await t.send('from the key')
  await t.gateway.sender.send({ to: t.user, text: 'mine', media: [] }, createDirectCall())
  const found = JSON.parse((await t.run('history', '--direction', 'sent', '--json')).stdout).messages
  expect(found).toMatchObject([
    { text: 'mine', sent_by: 'owner' },
    { text: 'from the key', sent_by: `key:${t.id}`, sent_by_name: 'support' },
  ])
  const { stdout } = await t.run('history', '--direction', 'sent')
  expect(stdout.match(/ by \S+ \S+/g)).toEqual([` by key:${t.id} (support)`])
})

it('what waits says who asked for it', async t => {
  await t.gateway.sender.send(
    { to: t.user, text: 'may I?', media: [], approval: 'nobody' },
    createDirectCall({ by: { kind: 'key', id: t.id } }),
  )
  const waiting = JSON.parse((await t.run('outbox', '--json')).stdout)
  expect(waiting).toMatchObject([{ made_by: `key:${t.id}`, made_by_name: 'support' }])
})

it('a call of this machine names the user of the system, whatever the environment says', async t => {
  // Not from Bun, which believes the environment.
  const user = Bun.spawnSync(['id', '-un']).stdout.toString().trim()
  const address = (door: string) => `${door}:${user}`
  const names = ['users', 'name', t.user]
  const env = { USER: 'mallory', LOGNAME: 'mallory', USERNAME: 'mallory' }
  await svcProcess([...names, 'Mum', '-d', t.dir], { home, env })
  await t.run('users', 'name', t.user, 'Mama')
  await using library = await Svc.open({ basePath: t.dir, store: true, upstreamUrl: t.sandbox.url })
  await library.nameUser(t.user, 'Ma')
  const agent = library.as({ name: 'claude', can: ['reply'] })
  await agent.send({ to: t.user, text: 'by an agent' })
  expect((await t.audit()).toReversed()).toMatchObject([
    { principal: 'owner', operation: 'name_user', address: address('cli') },
    { principal: 'owner', operation: 'name_user', address: address('cli') },
    { principal: 'owner', operation: 'name_user', address: address('library') },
    { principal: 'agent:claude', operation: 'send', address: address('library') },
  ])
})

/** Runs commands that must succeed. @returns what the log says then, the oldest line first */
const logOf = async (dir: string, flags: readonly string[]) => {
  const { stdout } = await ran(['audit', '--json', '-d', dir, ...flags])
  const lines: AuditLine[] = JSON.parse(stdout)
  const address = `cli:${findSystemUser()}`
  for (const line of lines) expect(line).toMatchObject({ principal: 'owner', outcome: 'done', address })
  return lines.map(({ operation, subject }) => `${operation} ${subject}`).reverse()
}
async function ran(args: readonly string[], options: { clock?: Clock } = {}) {
  const done = await svc(args, { home, ...options })
  expect({ args, ...done }).toMatchObject({ args, status: 0 })
  return done
}

test('each change of keys, secrets and stores has a line, also while no service runs', async () => {
  const dir = join(home, 'stopped')
  const [key, next, tar, copy] = ['key', 'next', 'svc.tar', 'copy'].map(name => join(home, name)) as [
    string,
    string,
    string,
    string,
  ]
  const on = JSON.parse((await ran(['secrets', 'on', '--secret-key-file', key, '-d', dir, '--json'])).stdout)
  const own = ['--secret-key-file', next]
  const rotating = ['--secret-key-file', key, '--new-secret-key-file', next]
  const rotated = JSON.parse((await ran(['secrets', 'rotate', ...rotating, '-d', dir, '--json'])).stdout)
  // Nothing is changed, and nothing is said.
  await ran(['secrets', 'rotate', ...rotating, '-d', dir])
  const added = JSON.parse(
    (await ran(['key', 'add', 'bot', '--can', 'read', '--json', '-d', dir, ...own])).stdout,
  )
  await ran(['key', 'rotate', added.id, '-d', dir, ...own])
  await ran(['backup', tar, '-d', dir, ...own])
  await ran(['restore', tar, '-d', copy])
  await ran(['key', 'revoke', added.id, '-d', dir, ...own])
  await ran(['secrets', 'off', ...own, '-d', dir])
  const before = [
    `encrypt_secrets ${on.key_id}`,
    `rotate_secrets ${rotated.key_id}`,
    `add_key ${added.id}`,
    `rotate_key ${added.id}`,
  ]
  const lines = await logOf(dir, [])
  expect(lines).toEqual([
    ...before,
    `backup ${tar}`,
    `revoke_key ${added.id}`,
    `decrypt_secrets ${rotated.key_id}`,
  ])
  const restored = /^restore backup_of=\S+Z waiting_sends=0 paused_webhooks=0 revoked_keys=1 closed_topics=0$/
  expect(await logOf(copy, own)).toEqual([...before, expect.stringMatching(restored)])
  expect(JSON.stringify(await ran(['audit', '-d', dir]))).not.toContain(added.key)
}, 60_000)

test.skipIf(!isPostgresThere())(
  'so has a store that moves to PostgreSQL and back, a copy that is adopted, and a new key of it',
  async () => {
    await using database = await newDatabase({ isNew: true })
    const server = await sharedPostgres()
    const [from, to, none] = ['moving', 'back', 'none'].map(name => join(home, name)) as [
      string,
      string,
      string,
    ]
    const [key, next, url, copyUrl] = ['pg.key', 'pg.next', 'pg.url', 'pg.copy'].map(name =>
      join(home, name),
    ) as [string, string, string, string]
    writeFileSync(url, database.url, { mode: 0o600 })
    writeFileSync(key, secret, { mode: 0o600 })
    writeFileSync(next, secret.toLowerCase(), { mode: 0o600 })
    writeFileSync(copyUrl, server.url('audited'), { mode: 0o600 })
    const at = (file: string, secret = key) => ['--store-url-file', file, '--secret-key-file', secret]
    await ran(['secrets', 'on', '--secret-key-file', key, '-d', from])
    await ran(['key', 'add', 'bot', '--can', 'read', '-d', from, '--secret-key-file', key])
    await ran(['store', 'copy', from, 'postgres', ...at(url)])
    const lines = await logOf(none, at(url))
    const { host, pathname } = new URL(database.url)
    const place = `postgres://${host}${pathname}`
    expect(lines.slice(2)).toEqual([`move_store ${from} ${place}`])
    await server.createDatabase('audited', pathname.slice(1))
    try {
      await ran(['store', 'adopt', ...at(copyUrl)])
      const adopted = `adopt_store ${host}/audited waiting_sends=0 paused_webhooks=0 revoked_keys=1 closed_topics=0`
      expect((await logOf(none, at(copyUrl))).slice(3)).toEqual([adopted])
    } finally {
      await server.dropDatabase('audited')
    }
    // No waits: nothing writes meanwhile.
    const clock = { ...systemClock, sleep: () => new Promise<void>(resolve => setImmediate(resolve)) }
    await ran(['secrets', 'rotate', ...at(url), '--new-secret-key-file', next], { clock })
    await ran(['store', 'copy', 'postgres', to, ...at(url, next)])
    const after = await logOf(to, ['--secret-key-file', next])
    const id = JSON.parse(
      (await ran(['secrets', 'status', '-d', to, '--secret-key-file', next, '--json'])).stdout,
    ).key_id
    expect(after.slice(3)).toEqual([`rotate_secrets ${id}`, `move_store ${place} ${to}`])
  },
  120_000,
)
