/** Programs of the relay that log in by themselves: their owner types the number that they show. */
import { expect } from 'bun:test'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { invoke } from '../../src/operations/gate.ts'
import { allowRelay } from '../../src/operations/relays.ts'
import { silentLog } from '../../src/platform/log.ts'
import { failure } from '../support/failure.ts'
import { rowsIn } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { type TestRelay, withRelay } from './driver.ts'
import { relayProgram } from './protocol.ts'

const it = given(withRelay)
const base_url = 'http://127.0.0.1:8123'

/** What the programs of a test and their owner do. */
function played({ t, url }: TestRelay) {
  const get = async (path: string) => {
    const response = await t.hurry(fetch(`${url}${path}`))
    return { status: response.status, body: await response.json() }
  }
  return {
    get,
    open: (name: string, by: Principal = owner) =>
      t.gateway.relayClients.add(by, { name, session: 'default', url: base_url, allow_login: true }),
    /** Asks as from another machine. */
    ask: (address: string) => t.gateway.relayLogins.ask(address),
    status: async (code: string) => (await get(`/ilink/bot/get_qrcode_status?qrcode=${code}`)).body,
    allow: (number: string, by: Principal = owner) =>
      invoke(allowRelay, t.gateway, { number }, createDirectCall({ by }), silentLog),
    audit: async () =>
      (await t.gateway.audit.list({ limit: 100, after: 0 })).map(
        ({ operation, outcome, principal }) => `${principal} ${operation} ${outcome}`,
      ),
  }
}
const otherThan = (...numbers: string[]) =>
  ['000000', '111111', '222222', '333333'].find(one => !numbers.includes(one))!
async function asked(answer: Promise<{ code: string; number: string } | 'full' | undefined>) {
  const got = await answer
  if (typeof got !== 'object') throw new Error(`no code: ${got}`)
  return got
}

it('a program gets its token once its owner has typed the number of its link', async relay => {
  const { t, url } = relay
  const { allow, audit, open, status } = played(relay)
  const added = await open('claw')
  expect([added.token, added.login_until! > t.clock.now()]).toEqual([undefined, true])
  // Nothing waits, so the clock stands still.
  const body = await (await fetch(`${url}/ilink/bot/get_bot_qrcode?bot_type=3`)).json()
  expect([body.ret, /^[0-9a-f]{64}$/.test(body.qrcode)]).toEqual([0, true])
  const link: string = body.qrcode_img_content
  expect(link).toStartWith(`${url}/`)
  const number = /\d{6}$/.exec(link)![0]
  const page = await fetch(link)
  expect([page.headers.get('content-type'), (await page.text()).includes(number)]).toEqual([
    'text/plain; charset=utf-8',
    true,
  ])
  expect(await status(body.qrcode)).toEqual({ ret: 0, status: 'wait' })
  expect((await t.gateway.relayClients.list(owner))[0]?.asks).toMatchObject([{ address: '127.0.0.1' }])
  expect(await allow(number)).toEqual({ name: 'claw', address: '127.0.0.1' })
  // Of two calls at once, and of all later ones, one gets it.
  const answers = await Promise.all([status(body.qrcode), status(body.qrcode)])
  const { bot_id, user_id } = t.bots.get('default')!
  const confirmed = answers.find(one => one.status === 'confirmed')
  expect(answers.map(one => one.status).sort()).toEqual(['confirmed', 'expired'])
  expect(confirmed).toEqual({
    ...{ ret: 0, status: 'confirmed', bot_token: expect.any(String), baseurl: base_url },
    ...{ ilink_bot_id: bot_id, ilink_user_id: user_id },
  })
  expect((await status(body.qrcode)).status).toBe('expired')
  const program = relayProgram(url, added.id, confirmed.bot_token, user_id)
  await t.sandbox.say('hello')
  expect(await program.poll()).toHaveLength(1)
  expect(await audit()).toEqual(
    expect.arrayContaining(['owner allow_relay done', `key:${added.id} relay_login done`]),
  )
  // The login is over: another program may have its own.
  expect(await relay.t.gateway.relayLogins.ask('10.0.0.1')).toBeUndefined()
  await open('next')
  const secrets = [body.qrcode, number, confirmed.bot_token]
  for (const secret of secrets) expect(t.lines.join('\n')).not.toContain(secret)
  expect(JSON.stringify(await rowsIn(t.dir, 'SELECT * FROM login_flow'))).not.toContain(body.qrcode)
})

it('three wrong numbers refuse all who ask, and leave their lines', async relay => {
  const { allow, ask, audit, open, status } = played(relay)
  await open('claw')
  const [one, two] = [await asked(ask('10.0.0.1')), await asked(ask('10.0.0.2'))]
  const wrong = otherThan(one.number, two.number)
  for (const _ of [1, 2]) expect(await failure(allow(wrong))).toMatchObject({ code: 'not_found' })
  expect((await status(one.code)).status).toBe('wait')
  await failure(allow(wrong))
  for (const { code } of [one, two]) expect((await status(code)).status).toBe('expired')
  expect(await failure(allow(one.number))).toMatchObject({ code: 'not_found' })
  expect((await audit()).filter(line => line === 'owner allow_relay not_found')).toHaveLength(4)
})

it('who asks too gets nothing by the number of another, and displaces nobody', async relay => {
  const { t } = relay
  const { allow, ask, open, status } = played(relay)
  await open('claw')
  const first = await asked(ask('10.0.0.1'))
  const [again, second] = [await ask('10.0.0.1'), await asked(ask('2001:db8::1'))]
  // Addresses of one network are one.
  expect([again, await ask('2001:db8::2')]).toEqual(['full', 'full'])
  const third = await asked(ask('10.0.0.3'))
  expect(await ask('10.0.0.4')).toBe('full')
  expect(new Set([first, second, third].map(({ number }) => number)).size).toBe(3)
  expect(await rowsIn(t.dir, 'SELECT 1 FROM login_flow')).toHaveLength(1)
  await allow(first.number)
  for (const { code } of [second, third]) expect((await status(code)).status).toBe('expired')
  expect(await ask('10.0.0.4')).toBe('full')
  expect((await status(first.code)).status).toBe('confirmed')
})

it('what nobody agreed to ends after five minutes, and the login after ten', async relay => {
  const { t } = relay
  const { allow, ask, open, status } = played(relay)
  await open('claw')
  const one = await asked(ask('10.0.0.1'))
  t.clock.advance(5 * 60_000)
  expect(await failure(allow(one.number))).toMatchObject({ code: 'not_found' })
  expect((await status(one.code)).status).toBe('expired')
  const two = await asked(ask('10.0.0.1'))
  await allow(two.number)
  t.clock.advance(5 * 60_000)
  expect((await status(two.code)).status).toBe('expired')
  expect(await ask('10.0.0.1')).toBeUndefined()
})

it('one program may log in at a time, until it is removed', async relay => {
  const { t } = relay
  const { ask, open, status } = played(relay)
  await relay.add('one')
  await open('claw')
  expect(await failure(open('other'))).toMatchObject({ code: 'forbidden' })
  expect((await t.gateway.relayClients.list(owner)).map(({ name }) => name)).toEqual(['one', 'claw'])
  const one = await asked(ask('10.0.0.1'))
  await t.gateway.relayClients.remove(owner, 'claw')
  expect((await status(one.code)).status).toBe('expired')
  expect(await ask('10.0.0.9')).toBeUndefined()
  await open('other')
  expect(await ask('10.0.0.1')).toMatchObject({ number: expect.any(String) })
})

it('without one that may log in, a login is refused in words, and a code is over', async relay => {
  const { get, status } = played(relay)
  await relay.add('one')
  const { body, status: refused } = await get('/ilink/bot/get_bot_qrcode')
  expect([refused, body.ret, typeof body.errmsg]).toEqual([403, -1, 'string'])
  expect(await status('0'.repeat(64))).toEqual({ ret: 0, status: 'expired' })
  expect((await status('')).status).toBe('expired')
})

it('only who may see the program decides', async relay => {
  const { t } = relay
  const { allow, ask, open, status } = played(relay)
  await open('claw')
  const { key } = await t.gateway.keys.add({ name: 'admin', can: ['keys'] }, owner)
  const by = (await t.gateway.keys.authenticate(key))!
  const { code, number } = await asked(ask('10.0.0.1'))
  for (const typed of [number, otherThan(number), otherThan(number), otherThan(number)])
    expect(await failure(allow(typed, by))).toMatchObject({ code: 'not_found' })
  expect((await status(code)).status).toBe('wait')
})
