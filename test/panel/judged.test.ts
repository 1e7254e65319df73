/** The health of accounts and the problems that the pages show, tested without a browser. */

import { expect, test } from 'bun:test'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { SessionWithUsers } from '../../admin/api.ts'
import { owner } from '../../src/model/principal.ts'
import { testClock } from '../support/clock.ts'
import { failure } from '../support/failure.ts'
import { withGateway } from '../support/gateway.ts'
import { type TestPanelOptions, write } from '../support/panel.ts'
import { withPanelState } from '../support/panel-state.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** A panel in English, with functions that compute what it shows now. */
async function withJudgement(options?: TestPanelOptions) {
  const panel = await withPanelState(options)
  const { call } = await import('../../admin/api.ts')
  const { concernsOf } = await import('../../admin/overview/concerns.ts')
  const { sentenceOf, silenceOf } = await import('../../admin/overview/sentence.ts')
  const { askEndpoints } = await import('../../admin/webhooks/endpoints.ts')
  const { byTrouble, healthOf } = await import('../../admin/sessions/health.ts')
  const { chooseLanguage, t } = await import('../../admin/i18n.ts')
  await chooseLanguage('en')
  const look = async () => {
    const status = await call('status', {})
    const { sessions } = await call('list_accounts', {})
    const conversations = await call('list_conversations', {})
    const outbox = await call('list_outbox', {})
    const now = panel.clock.now()
    const webhooks = await askEndpoints()
    const snapshot = { status, sessions, conversations, outbox, questions: [], webhooks, now }
    const concerns = concernsOf(snapshot)
    const sorted = sessions.toSorted(byTrouble(status, now))
    return {
      snapshot,
      concerns,
      kinds: concerns.map(({ kind }) => kind),
      healths: Object.fromEntries(sorted.map(one => [one.name, healthOf(one, status, now)])),
      ...sentenceOf(snapshot, concerns),
    }
  }
  /** Waits until the state matches, while the panel's clock advances. */
  const seenOnce = async (what: string, isSo: (seen: Awaited<ReturnType<typeof look>>) => boolean) => {
    let seen = await look()
    await panel.until(what, async () => {
      panel.clock.advance(1000)
      seen = await look()
      return isSo(seen)
    })
    return seen
  }
  return { ...panel, look, seenOnce, t, silenceOf, chooseLanguage }
}

test('expired and damaged accounts are named, problems come first, and several are one matter', async () => {
  const names = ['default', 'a', 'b', 'c', 'd']
  await using judged = await withJudgement({ sessions: names })
  const { t } = judged
  const well = await judged.look()
  expect(well).toMatchObject({ kinds: [], tone: 'good', text: t('overview.says_well', { count: 5 }) })
  expect(Object.keys(well.healths)).toEqual(names)
  judged.sandbox.world.people.expire(judged.bots.get('c')!.bot_id)
  await judged.seenOnce('c expired', ({ healths }) => healths.c === 'expired')
  await writeFile(join(judged.dir, 'd', 'token.json'), '{"bot_id":')
  const two = await judged.seenOnce('d is damaged', ({ healths }) => healths.d === 'damaged')
  expect(Object.keys(two.healths)).toEqual(['d', 'c', 'default', 'a', 'b'])
  expect(two.concerns).toEqual([
    { kind: 'expired', session: 'c' },
    { kind: 'damaged', session: 'd' },
  ])
  expect(two).toMatchObject({ tone: 'bad', text: t('overview.says_bad', { count: 2, all: 5 }) })
  for (const name of ['a', 'b']) judged.sandbox.world.people.expire(judged.bots.get(name)!.bot_id)
  const four = await judged.seenOnce(
    'four',
    ({ healths }) => healths.a === 'expired' && healths.b === 'expired',
  )
  const { mattersOf } = await import('../../admin/overview/concerns.ts')
  expect(mattersOf(four.concerns)).toEqual([four.concerns])
  expect(four.concerns).toMatchObject(['a', 'b', 'c', 'd'].map(session => ({ session })))
})

test('an expired account has no last contact and no answers; a pending login and a failing webhook are named', async () => {
  await using judged = await withJudgement({ sessions: ['default', 'gone'] })
  const { follow } = await import('../../admin/follow.ts')
  const { sessions } = await import('../../admin/live.ts')
  const { rightOf } = await import('../../admin/users/reply-permission.tsx')
  const { lastContactOf } = await import('../../admin/sessions/health.ts')
  const { call } = await import('../../admin/api.ts')
  await write(judged, 'hi', 'gone')
  judged.sandbox.world.people.expire(judged.bots.get('gone')!.bot_id)
  const seen = await judged.seenOnce('it expired', ({ healths }) => healths.gone === 'expired')
  const now = judged.clock.now()
  const lastContact = (name: string) =>
    lastContactOf(seen.snapshot.sessions.find(one => one.name === name)!, now)
  expect([typeof lastContact('default'), lastContact('gone')]).toEqual(['number', undefined])
  follow(20)
  await judged.until('it is known', () =>
    sessions.value?.some(({ name, status }) => name === 'gone' && status === 'expired'),
  )
  expect(rightOf('gone', judged.bots.get('gone')!.user_id)).toEqual({ kind: 'expired' })

  await call('start_login', { name: 'third', force: false })
  const endpoint = await judged.gateway.webhooks.add(owner, {
    url: 'http://127.0.0.1:9/',
    allow_private: true,
  })
  const pending = await judged.look()
  expect(pending.concerns).toEqual([
    { kind: 'expired', session: 'gone' },
    { kind: 'pending', session: 'third' },
  ])
  const { concernsOf, isToDo } = await import('../../admin/overview/concerns.ts')
  for (const status of ['failing', 'disabled', 'paused', 'active'] as const) {
    const webhooks = [{ ...endpoint, status }]
    const found = concernsOf({ ...pending.snapshot, webhooks }).filter(({ kind }) => kind === 'webhook')
    expect([status, found.map(isToDo)]).toEqual([
      status,
      status === 'failing' || status === 'disabled' ? [true] : [],
    ])
  }
})

test('an account that may be muted is named instead of its suspect messages', async () => {
  await using judged = await withJudgement()
  const { t } = judged
  await write(judged, 'hi')
  await judged.send({ text: 'with an id' })
  await judged.sandbox.switches({ send_reply: 'ret' })
  for (const text of ['1', '2', '3', '4', '5']) await judged.send({ text })
  const seen = await judged.seenOnce('muted', ({ kinds }) => kinds.includes('muted'))
  const since = seen.snapshot.sessions[0]!.muted_since!
  expect(seen.concerns).toEqual([{ kind: 'muted', session: 'default', since, because: 'no_ids' }])
  expect(seen).toMatchObject({ tone: 'warn', text: t('overview.says_muted', { count: 1 }) })
})

test('a failing store is named, and suspect messages are counted', async () => {
  await using judged = await withJudgement({ switches: { send_reply: 'ret' } })
  const { t } = judged
  await write(judged, 'kept')
  for (const text of ['one', 'two']) await judged.send({ text })
  const suspects = await judged.look()
  expect(suspects.concerns).toEqual([{ kind: 'suspect', session: 'default', count: 2 }])
  expect(suspects).toMatchObject({ tone: 'good', text: t('overview.says_well', { count: 1 }) })
  const path = join(judged.dir, 'messages.db')
  await rename(path, `${path}.away`)
  const status = async () => (await import('../../admin/api.ts')).call('status', {})
  await judged.until('it is known', async () => {
    judged.clock.advance(1000)
    return (await status()).store === 'unavailable'
  })
  const { concernsOf } = await import('../../admin/overview/concerns.ts')
  const { sentenceOf } = await import('../../admin/overview/sentence.ts')
  const snapshot = { ...suspects.snapshot, status: await status() }
  const concerns = concernsOf(snapshot)
  expect(concerns[0]).toEqual({ kind: 'store', path: judged.dir })
  expect(sentenceOf(snapshot, concerns)).toEqual({ tone: 'bad', text: t('overview.says_store') })
  await rename(`${path}.away`, path)
  await judged.until('it is mended', async () => {
    judged.clock.advance(1000)
    return (await status()).store !== 'unavailable'
  })
})

test('an account without an answer since the start is connecting; after some minutes it is silent', async () => {
  await using judged = await withJudgement({
    start: false,
    sessions: [],
    switches: { hold_ms: 120_000 },
  })
  const { clock, t } = judged
  clock.step(-hourMs)
  await judged.connect('default')
  clock.step(hourMs)
  await judged.gateway.start()
  const connecting = await judged.look()
  expect(connecting).toMatchObject({
    kinds: [],
    healths: { default: 'starting' },
    text: t('overview.says_starting', { count: 1 }),
  })
  const { concernsOf } = await import('../../admin/overview/concerns.ts')
  const { sentenceOf } = await import('../../admin/overview/sentence.ts')
  const later = { ...connecting.snapshot, now: connecting.snapshot.now + 10 * minuteMs }
  const concerns = concernsOf(later)
  expect(concerns).toMatchObject([{ kind: 'silent' }])
  expect(sentenceOf(later, concerns)).toEqual({ tone: 'warn', text: t('overview.silent', { count: 1 }) })
  expect(judged.silenceOf(later.sessions, later.now)).toBe(t('overview.silent_always'))
  await write(judged, 'hello')
  const heard = await judged.look()
  expect(heard).toMatchObject({ healths: { default: 'well' }, tone: 'good' })
  // An error is always shown; the time only when it is old.
  const times = await import('../../admin/times.ts')
  const [session] = heard.snapshot.sessions as [SessionWithUsers]
  const now = times.now.value
  const at = (last_poll_at: number) => ({ ...session, last_poll_at })
  expect(judged.silenceOf([at(now - 5 * minuteMs)], now)).toBe(
    t('overview.silent_since', { when: times.ago(now - 5 * minuteMs) }),
  )
  expect(judged.silenceOf([at(now)], now)).toBe('')
})

test('a process that takes over causes no problem, however long it has followed', async () => {
  await using judged = await withJudgement({ start: false, sessions: [] })
  const { clock, gateway } = judged
  clock.step(-hourMs)
  await judged.connect('default')
  clock.step(hourMs)
  await using stack = new AsyncDisposableStack()
  const poller = stack.use(
    await withGateway({ sandbox: judged.sandbox, dir: judged.dir, sessions: [], clock: testClock() }),
  )
  await gateway.start()
  clock.step(10 * minuteMs)
  expect(await judged.look()).toMatchObject({ kinds: [], healths: { default: 'well' } })
  await poller.gateway.close()
  const problems: unknown[] = []
  await judged.seenOnce('it took over', ({ snapshot, kinds }) => {
    problems.push(...kinds)
    return snapshot.status.role === 'poller'
  })
  await write(judged, 'hello')
  expect(await judged.look()).toMatchObject({ kinds: ['waiting'], healths: { default: 'well' } })
  expect(problems).toEqual([])
})

test('failing polls: the last error, in English in the original words, otherwise in the viewer’s language', async () => {
  await using judged = await withJudgement({ clock: testClock() })
  const { t } = judged
  const { pollProblem } = await import('../../admin/errors.ts')
  await write(judged, 'hello')
  await judged.sandbox.fail('getupdates', '500', { times: 0, delay_ms: 0 })
  // The message answers the running poll; the next poll fails.
  await judged.sandbox.say('ends the poll')
  const { kinds, text, snapshot } = await judged.seenOnce(
    'failing',
    ({ healths }) => healths.default === 'silent',
  )
  expect({ kinds, text }).toEqual({ kinds: ['silent'], text: t('overview.silent', { count: 1 }) })
  const [session] = snapshot.sessions as [SessionWithUsers]
  const { poll_error = '', poll_error_code, poll_error_quote = '' } = session
  // At once, not after the minutes that an account may be silent without an error.
  expect(session.failing_since).toBeNumber()
  const { healthOf } = await import('../../admin/sessions/health.ts')
  expect(healthOf({ ...session, last_poll_at: snapshot.now }, snapshot.status, snapshot.now)).toBe('silent')
  expect([poll_error_code, poll_error_quote]).toEqual(['upstream_error', 'HTTP 500'])
  expect(pollProblem(session)).toContain(poll_error)
  expect(judged.silenceOf([session], snapshot.now)).toContain(poll_error)
  await judged.chooseLanguage('zh')
  expect(pollProblem(session)).toContain(t('overview.poll_upstream'))
  expect(pollProblem(session)).toContain(poll_error_quote)
  expect(pollProblem(session)).not.toContain(poll_error)
})

test('why a delivery failed, and why a name or a webhook is rejected, in the viewer’s language', async () => {
  await using judged = await withJudgement()
  const { t } = judged
  const { call } = await import('../../admin/api.ts')
  const { deliveryProblem, errorText, nameReason } = await import('../../admin/errors.ts')
  const { webhooks } = await import('../../admin/webhooks/endpoints.ts')
  expect(deliveryProblem('unreachable', 'No connection')).toContain('No connection')
  await judged.chooseLanguage('zh')
  expect(deliveryProblem('unreachable', 'No connection')).toBe(t('webhooks.why_unreachable'))
  for (const [name, key] of [
    ['a'.repeat(65), 'sessions.name_too_long'],
    ['a.', 'sessions.name_dot'],
    ['a b', 'sessions.name_characters'],
    ['media', 'sessions.name_reserved'],
  ] as const)
    expect(nameReason(await failure(call('rename_session', { old_name: 'default', new_name: name })))).toBe(
      t(key),
    )
  for (const [given, key] of [
    [{ url: 'https://1.1.1.1/', headers: { Host: 'a' } }, 'webhooks.headers_rejected'],
    [{ url: 'ftp://1.1.1.1/' }, 'webhooks.url_bad'],
  ] as const)
    expect(errorText(await failure(webhooks.add(given))).hint).toBe(t(key))
})

test('users who wait while their window closes, and sends that wait for the user or for approval', async () => {
  await using judged = await withJudgement({ sessions: ['default', 'sales'], switches: { quota: 0 } })
  judged.clock.step(-22 * hourMs)
  await write(judged, 'are you there?')
  judged.clock.step(22 * hourMs)
  await write(judged, 'go on', 'sales')
  const { user_id: to } = judged.bots.get('sales')!
  for (let sent = 0; sent < 10; sent++) await judged.send({ to, session: 'sales', text: `answer ${sent}` })
  await judged.send({ to, session: 'sales', text: 'one too many', when_closed: 'queue' })
  const { user_id: waiting } = judged.bots.get('default')!
  expect((await judged.look()).concerns).toMatchObject([
    { kind: 'closing', conversation: { session: 'default', user_id: waiting } },
    { kind: 'outbox', entries: [{ session: 'sales' }] },
  ])
  await judged.send({ to: waiting, session: 'default', text: 'shall I?', approval: 'nobody' })
  // Now there is an answer, which waits for approval.
  expect((await judged.look()).concerns).toMatchObject([
    { kind: 'approvals', entries: [{ session: 'default' }] },
    { kind: 'outbox', entries: [{ session: 'sales' }] },
  ])
})

test('a failed backup is a problem, and so is one that is older than twice the interval of its schedule', async () => {
  await using judged = await withJudgement({ sessions: ['default'] })
  const { snapshot } = await judged.look()
  const { concernsOf } = await import('../../admin/overview/concerns.ts')
  const { now } = snapshot
  const kindsOf = (backups: Parameters<typeof concernsOf>[0]['backups']) =>
    concernsOf({ ...snapshot, backups }).map(({ kind }) => kind)
  const newest = { path: '/b/svc.tar', created_at: now - 25 * hourMs, size: 1, took_ms: 1 }
  const schedule = { folder: '/b', every_ms: 24 * hourMs, keep: 7 }
  expect(kindsOf({})).toEqual([])
  expect(kindsOf({ newest })).toEqual([])
  expect(kindsOf({ ...schedule, newest })).toEqual([])
  expect(kindsOf({ ...schedule, newest: { ...newest, created_at: now - 49 * hourMs } })).toEqual(['backup'])
  expect(kindsOf({ failure: { at: now, error: 'disk full' }, newest })).toEqual(['backup'])
})

test('who waits for a person is listed by urgency: agents, drafts, failed sends, then the longest wait', async () => {
  await using judged = await withJudgement({ sessions: ['default'] })
  await write(judged, 'hello')
  const { snapshot } = await judged.look()
  const { concernsOf } = await import('../../admin/overview/concerns.ts')
  const { now } = snapshot
  const [talk] = snapshot.conversations
  const [session] = snapshot.sessions
  const users = ['a', 'b', 'c', 'd', 'e'].map(user_id => ({ ...session!.users[0]!, user_id }))
  const conversationOf = (user_id: string, minutes: number, more: object = {}, hours = 20) => ({
    ...talk!,
    user_id,
    window_expires_at: now + hours * hourMs,
    last_message: { ...talk!.last_message, timestamp: now - minutes * 60_000, ...more },
  })
  const failed = { direction: 'sent' as const, status: 'refused' as const }
  const conversations = [
    conversationOf('a', 10),
    conversationOf('b', 200),
    conversationOf('c', 30, {}, 2),
    conversationOf('d', 30, failed),
    conversationOf('e', 1),
    conversationOf('f', 30, { ...failed, reason_code: 'cancelled' }),
  ]
  const question = { expires_at: now + 60_000 }
  const questions = [question, { expires_at: now - 1 }] as never
  const found = concernsOf({ ...snapshot, sessions: [{ ...session!, users }], conversations, questions })
  expect(
    found.map(one => ('conversation' in one ? [one.kind, one.conversation.user_id] : [one.kind])),
  ).toEqual([['questions'], ['failed', 'd'], ['closing', 'c'], ['waiting', 'b'], ['waiting', 'a']])
})
