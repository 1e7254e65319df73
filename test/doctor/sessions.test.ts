import { expect, test } from 'bun:test'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { formatStatus } from '../../src/cli/commands/status.ts'
import { readStatus } from '../../src/inspect/status-report.ts'
import { owner } from '../../src/model/principal.ts'
import { formatLocalTime } from '../../src/platform/format.ts'
import { openLock } from '../../src/platform/lock.ts'
import { forFile } from '../support/folder.ts'
import { idle, stateOf, withWard } from './support.ts'

const ward = forFile(await withWard())
const path = (name: string) => join(ward.dir, 'work', name)
const kept = new Map(['token.json', 'contexts.json'].map(name => [name, readFileSync(path(name), 'utf8')]))

/** Looks with this content of a session file, and puts the old one back. */
async function withFile(name: string, change: (text: string) => string) {
  writeFileSync(path(name), change(kept.get(name)!))
  const before = stateOf(ward.dir)
  try {
    const look = await ward.look()
    const seen = await readStatus({ basePath: ward.dir, version: '0' })
    expect(stateOf(ward.dir)).toEqual(before)
    expect(JSON.stringify([look, seen])).not.toContain(JSON.parse(kept.get('token.json')!).token)
    return { look, seen }
  } finally {
    writeFileSync(path(name), kept.get(name)!)
  }
}

test('a connected one', async () => {
  const look = await ward.look()
  expect(look.of('sessions/session')).toMatchObject([
    { severity: 'ok', what: expect.stringMatching(/^"work" is connected since .*, 1 user$/) },
  ])
})

test('messages that WeChat took without an id, how many and of which session', async () => {
  await using own = await withWard()
  expect((await own.look()).of('sessions/shown')).toEqual([])
  {
    await own.sandbox.switches({ send_reply: 'empty' })
    await using t = await own.open({ start: false })
    const [user] = await t.gateway.accounts.listUsers('work')
    await t.send({ to: user!.user_id, text: 'seen?' })
  }
  const look = await own.look()
  expect(look.of('sessions/shown')).toMatchObject([
    { severity: 'warning', what: expect.stringMatching(/^1 message of "work" .* may not have been shown/) },
  ])
  const seen = await readStatus({ basePath: own.dir, version: '0' })
  expect(seen.sessions).toMatchObject([{ name: 'work', suspect_count: 1 }])
})

test('agents that nobody owns, since the owner was erased', async () => {
  await using own = await withWard()
  {
    await using t = await own.open({ start: false })
    const { agents, people } = t.gateway
    await agents.claimAgent('helper')
    await agents.releaseAgent('helper')
    expect((await own.look()).of('sessions/agents')).toEqual([])
    await people.forget((await t.gateway.accounts.list())[0]!.user_id!)
  }
  expect((await own.look()).of('sessions/agents')).toMatchObject([
    { severity: 'warning', what: expect.stringMatching(/"work".*helper/) },
  ])
})

test('keys that see nothing', async () => {
  await using own = await withWard()
  {
    await using t = await own.open({ start: false })
    const { keys } = t.gateway
    const [user] = await t.gateway.accounts.listUsers('work')
    await keys.add({ name: 'all', can: ['read'] }, owner)
    await keys.add({ name: 'mine', can: ['read'], sessions: ['work'] }, owner)
    await keys.add({ name: 'ours', can: ['read'], users: [user!.user_id] }, owner)
    expect((await own.look()).of('sessions/key')).toEqual([])
    await t.gateway.people.forget(user!.user_id)
    await t.gateway.accounts.logout('work')
  }
  const found = (await own.look()).of('sessions/key').map(({ severity, what }) => `${severity} ${what}`)
  expect(found).toMatchObject(
    [/^warning .*"mine"/, /^warning .*"ours"/].map(one => expect.stringMatching(one)),
  )
})

test('an expired one, since when, and how to heal it', async () => {
  const at = Date.UTC(2026, 0, 2, 3, 4)
  const { look, seen } = await withFile('token.json', text =>
    JSON.stringify({ ...JSON.parse(text), expired_at: at }),
  )
  expect(look.of('sessions/session')).toMatchObject([
    {
      severity: 'error',
      what: expect.stringContaining(`"work" is expired since ${formatLocalTime(at)}`),
      fix: `svc login work -d ${ward.dir}`,
    },
  ])
  expect(seen).toMatchObject({
    ok: false,
    connected_count: 0,
    sessions: [{ status: 'expired', expired_at: at }],
  })
})

test('one whose polls fail, while a process polls: since when and of what, whatever else is wrong with it', async () => {
  const failing_since = Date.UTC(2026, 0, 2, 3, 4)
  const failing = { failing_since, poll_error: 'HTTP 599' }
  const seenWith = async (marks: object) => {
    const { look, seen } = await withFile('token.json', text =>
      JSON.stringify({ ...JSON.parse(text), ...marks }),
    )
    const told = look.of('sessions/session').map(({ severity, what }) => `${severity} ${what}`)
    const row = {
      failing_since: seen.sessions[0]?.failing_since,
      isTold: formatStatus(seen).includes('HTTP 599'),
    }
    return { told, ...row }
  }
  // The last process that polled ended while they failed.
  expect(await seenWith(failing)).toEqual({
    told: [expect.stringMatching(/^ok "work" is connected/)],
    failing_since: undefined,
    isTold: false,
  })
  const lock = await openLock(join(ward.dir, '.poll.lock'))
  try {
    expect(await lock.tryLock()).toBe(true)
    const told = expect.stringMatching(/^warning polls of "work" fail since .*: HTTP 599$/)
    expect(await seenWith(failing)).toEqual({ told: [told], failing_since, isTold: true })
    expect(await seenWith({ ...failing, lapsed_at: failing_since })).toEqual({
      told: [expect.stringMatching(/^warning "work" is lapsed/), told],
      failing_since,
      isTold: true,
    })
  } finally {
    await lock.close()
  }
})

test('a lapsed one is warned of, and counts as connected', async () => {
  const at = Date.UTC(2026, 0, 2, 3, 4)
  const { look, seen } = await withFile('token.json', text =>
    JSON.stringify({ ...JSON.parse(text), lapsed_at: at }),
  )
  expect(look.of('sessions/session')).toMatchObject([{ severity: 'warning' }])
  expect(look.troubles).toContain(idle)
  expect(seen).toMatchObject({ connected_count: 1, sessions: [{ status: 'lapsed', lapsed_at: at }] })
})

test('a damaged token.json is told, and left where it is', async () => {
  const { look, seen } = await withFile('token.json', text => text.slice(0, 40))
  expect(look.of('sessions/session')).toMatchObject([
    { severity: 'error', what: expect.stringContaining('its token.json is damaged') },
  ])
  expect(seen.sessions).toMatchObject([{ name: 'work', status: 'disconnected' }])
})

test('a damaged contexts.json: nobody can be answered before he writes again', async () => {
  const { look } = await withFile('contexts.json', () => 'no JSON')
  expect(look.troubles).toEqual([idle, 'sessions/contexts warning'])
})

test('a default session that does not exist: the fix names one that does', async () => {
  const file = join(ward.dir, '.default_session')
  writeFileSync(file, 'nobody\n', { mode: 0o600 })
  expect((await ward.look()).of('sessions/default')).toMatchObject([
    { severity: 'warning', fix: `svc sessions default work -d ${ward.dir}` },
  ])
  writeFileSync(file, 'work\n', { mode: 0o600 })
})

test('none yet is a note', async () => {
  for (const name of kept.keys()) rmSync(path(name))
  const look = await ward.look()
  expect(look.of('sessions/sessions')).toMatchObject([{ severity: 'note', fix: `svc login -d ${ward.dir}` }])
  expect((await readStatus({ basePath: ward.dir, version: '0' })).ok).toBe(false)
  for (const [name, text] of kept) writeFileSync(path(name), text, { mode: 0o600 })
})
