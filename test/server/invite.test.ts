/** The page of an invitation, at the HTTP door: who sees what of a login, and attacks on it. */
import { describe, expect, test } from 'bun:test'
import type { Logins } from '../../src/accounts/logins.ts'
import type { AddedInvitation, InvitationView, NewInvitationInput } from '../../src/model/invitation.ts'
import type { LoginFlow } from '../../src/model/login.ts'
import { owner } from '../../src/model/principal.ts'
import { testClock } from '../support/clock.ts'
import { codeOf } from '../support/failure.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { type Rest, restOf } from '../support/rest.ts'

const { signal } = new AbortController()

/** A browser at the page, with the cookies that it keeps. */
class Visitor {
  cookie = ''
  readonly #rest: Rest<unknown>
  readonly secret: string

  constructor(rest: Rest<unknown>, { link }: Pick<AddedInvitation, 'link'>) {
    this.#rest = rest
    this.secret = link.slice(link.indexOf('#') + 1)
  }

  async post(
    call: string,
    more: object = {},
    headers: Record<string, string | undefined> = {},
  ): Promise<Response> {
    const answer = await fetch(`${this.#rest.url}/invite/${call}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', cookie: this.cookie, ...headers } as Record<
        string,
        string
      >,
      body: JSON.stringify({ secret: this.secret, ...more }),
    })
    const [set = ''] = answer.headers.getSetCookie()
    if (set) this.cookie = set.split(';')[0]!
    return answer
  }

  /** What the last code said. */
  code: string | undefined

  async ask(call: string, more: object = {}): Promise<InvitationView> {
    const view = (await (await this.post(call, more)).json()) as InvitationView
    this.code = view.qr_url ?? this.code
    return view
  }
}

interface World extends AsyncDisposable {
  readonly t: TestGateway
  readonly rest: Rest<unknown>
  invite(input?: Partial<NewInvitationInput>): Promise<AddedInvitation>
  /** Follows until the page shows this. */
  sees(visitor: Visitor, state: Partial<InvitationView>): Promise<InvitationView>
  /** A new person scans a code, and confirms. @returns the id of the person */
  scan(view: InvitationView, user?: string): Promise<string>
}

async function open(options: Parameters<typeof withGateway>[0] = {}): Promise<World> {
  const t = await withGateway({ sessions: [], ...options })
  const rest = await restOf(t.gateway)
  return {
    t,
    rest,
    invite: input => t.gateway.invitations.add(owner, { name: 'mum', ...input }),
    sees: (visitor, state) =>
      t.until(`the page shows ${JSON.stringify(state)}`, async () => {
        t.clock.advance(500)
        const view = await visitor.ask('look')
        const isSo = Object.entries(state).every(
          ([key, value]) => view[key as keyof InvitationView] === value,
        )
        return isSo && view
      }),
    async scan({ qr_url }, user) {
      const person = user ?? (await t.sandbox.addUser('Guest'))
      await t.sandbox.scan({ qrcode: qr_url!, user: person, confirm: true })
      return person
    },
    async [Symbol.asyncDispose]() {
      await rest[Symbol.asyncDispose]()
      await t[Symbol.asyncDispose]()
    },
  }
}

const polls = (t: TestGateway) => t.requests('get_bot_qrcode')
const done = { state: 'login', status: 'confirmed' } as const

describe('the page of an invitation', () => {
  test('is static, for no frame, cache, Referer or index, and asks WeChat for nothing', async () => {
    await using w = await open()
    const invitation = await w.invite({ inviter: 'Anna' })
    expect(invitation.link).toMatch(/\/invite#[\w-]{43}$/)
    const secret = invitation.link.split('#')[1]!
    for (const path of ['invite', 'invite/page.js', 'invite/page.css']) {
      const page = await fetch(`${w.rest.url}/${path}`)
      expect([path, page.status]).toEqual([path, 200])
      expect(page.headers.get('cache-control')).toBe('no-store')
      expect(page.headers.get('referrer-policy')).toBe('no-referrer')
      expect(page.headers.get('x-robots-tag')).toContain('noindex')
      expect(page.headers.get('x-frame-options')).toBe('DENY')
      expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
      expect(page.headers.getSetCookie()).toEqual([])
      expect(await page.text()).not.toContain(secret)
    }
    // A robot that opens the page, and one that runs it.
    const robot = new Visitor(w.rest, invitation)
    expect(await robot.ask('look')).toEqual({ state: 'ready', inviter: 'Anna' })
    expect(robot.cookie).toBe('')
    expect(polls(w.t)).toBe(0)
    expect(w.t.lines.join('')).not.toContain(secret)
  })

  test('leads a person to an account of the given name, as a guest, and the person gets that name', async () => {
    await using w = await open()
    const mum = new Visitor(w.rest, await w.invite({ agent: 'home' }))
    const shown = await mum.ask('join')
    expect(shown).toMatchObject({
      state: 'login',
      status: 'waiting',
      qr_svg: expect.stringContaining('<svg'),
    })
    expect(shown.phone_url).toEndWith('/phone')
    const user = await w.scan(shown)
    await w.sees(mum, done)
    const [session] = await w.t.gateway.accounts.list()
    expect(session).toMatchObject({ name: 'mum', user_id: user, invitation: expect.stringMatching(/^inv_/) })
    const [listed] = await w.t.gateway.invitations.list(owner)
    expect(listed).toMatchObject({ status: 'used', used: 1, sessions: ['mum'] })
    await w.t.sandbox.say('hello', { from: user })
    await w.t.until('the person is known by the name', async () => {
      const users = await w.t.gateway.users.list()
      return users.some(({ name, user_id }) => user_id === user && name === 'mum')
    })
    const lines = await w.t.gateway.audit.list({ limit: 100, operations: ['join'] })
    expect(lines.map(({ outcome }) => outcome)).toEqual(['done'])
    expect(JSON.stringify(lines)).not.toContain(mum.secret)
  })

  test('takes the digits of the phone', async () => {
    await using w = await open({ switches: { verify_code: 'on' } })
    const mum = new Visitor(w.rest, await w.invite())
    const { qr_url } = await mum.ask('join')
    const user = await w.t.sandbox.addUser('Mum')
    const { verify_code } = await w.t.sandbox.scan({ qrcode: qr_url!, user, confirm: true })
    await w.sees(mum, { status: 'need_verifycode' })
    const wrong = verify_code === '0000' ? '1111' : '0000'
    expect(await mum.ask('digits', { verify_code: wrong })).toMatchObject({
      status: 'need_verifycode',
      wrong_code: true,
    })
    await mum.ask('digits', { verify_code })
    await w.sees(mum, done)
  })

  test('a login belongs to one browser: another holder of the link sees nothing of it, and waits', async () => {
    await using w = await open()
    const invitation = await w.invite({ inviter: 'Anna' })
    const [mum, other] = [new Visitor(w.rest, invitation), new Visitor(w.rest, invitation)]
    const shown = await mum.ask('join')
    const [set] = (await mum.post('join')).headers.getSetCookie()
    expect(set).toMatch(/^svc_invite_\d+=[\w-]{43}; Path=\/invite; Max-Age=\d+; HttpOnly; SameSite=Strict$/)
    expect(await other.ask('look')).toEqual({ state: 'ready', inviter: 'Anna' })
    expect(await other.ask('join')).toEqual({ state: 'wait', inviter: 'Anna' })
    // Neither a cookie of the own making, nor the digits, nor the other doors lead to it.
    other.cookie = `${set!.split('=')[0]}=${'A'.repeat(43)}`
    for (const call of ['look', 'join']) expect((await other.ask(call)).qr_url).toBeUndefined()
    expect((await other.ask('digits', { verify_code: '1' })).qr_url).toBeUndefined()
    const { logins } = w.t.gateway
    const asOwner = { session_name: 'mum', timeout: 0, force: false }
    expect(await codeOf(logins.login(owner, asOwner, signal))).toBe('forbidden')
    // Without a name, the owner does not get the only login that is pending.
    const own = await logins.login(owner, { ...asOwner, session_name: undefined }, signal)
    expect(own).toMatchObject({ session: 'default', status: 'waiting' })
    expect(own.qr_url).not.toBe(shown.qr_url)
    expect((await mum.ask('join')).qr_url).toBe(shown.qr_url)
    expect(polls(w.t)).toBe(2)
    await w.scan(shown)
    await w.sees(mum, done)
    expect(await other.ask('look')).toEqual({ state: 'over', inviter: 'Anna' })
    expect(await other.ask('join')).toEqual({ state: 'over', inviter: 'Anna' })
  })

  test('never are more codes open than uses are left, also if many press at the same time, in two processes', async () => {
    await using w = await open()
    await using beside = await w.t.beside()
    await using second = await restOf(beside.gateway)
    const invitation = await w.invite({ name: 'shop', max_uses: 3 })
    const visitors = Array.from(
      { length: 16 },
      (_, nth) => new Visitor(nth % 2 ? w.rest : second, invitation),
    )
    let views: InvitationView[] = []
    for (let round = 0; round < 3; round++)
      views = await Promise.all(visitors.map(visitor => visitor.ask('join')))
    const open_ = views.filter(({ state }) => state === 'login')
    expect(open_.length).toBeLessThanOrEqual(3)
    expect(open_.length).toBeGreaterThan(0)
    expect(new Set(open_.map(({ qr_url }) => qr_url)).size).toBe(open_.length)
    // One that joins leaves no room: it has taken its use.
    await w.scan(open_[0]!)
    const first = visitors[views.indexOf(open_[0]!)]!
    await w.sees(first, done)
    views = await Promise.all(visitors.filter(one => one !== first).map(one => one.ask('join')))
    expect(views.filter(({ state }) => state === 'login').length).toBeLessThanOrEqual(2)
    const [listed] = await w.t.gateway.invitations.list(owner)
    expect(listed).toMatchObject({ used: 1, sessions: [expect.stringMatching(/^shop-\d$/)] })
  })

  test('who was shown a code keeps it, also if another process begins a login at the same time', async () => {
    await using w = await open()
    await using beside = await w.t.beside()
    const [here, there] = [w.t, beside].map(({ gateway }) => gateway.logins as Logins)
    const { id: invitation } = await w.invite({ name: 'shop', max_uses: 2 })
    const account = { name: 'shop', number: 1, countLeft: async () => 2 }
    const mum = { invitation, browser: 'mum' }
    let shown: LoginFlow | undefined
    // Names are chosen by what was read before.
    const countLeft = async () => {
      shown ??= await here!.beginInvited(mum, account)
      return 2
    }
    const other = await there!.beginInvited({ invitation, browser: 'other' }, { ...account, countLeft })
    expect(other?.qr_url).toStartWith('https://')
    expect((await here!.findInvited(mum, 0, 0, signal))?.qr_url).toBe(shown!.qr_url!)
  })

  test('a scan after the invitation was revoked or has expired is not stored, and the page says so', async () => {
    await using w = await open()
    const end = { revoked: 0, expired: 1 }
    for (const how of Object.keys(end) as (keyof typeof end)[]) {
      const invitation = await w.invite({ name: how, expires_at: w.t.clock.now() + 60_000 })
      const mum = new Visitor(w.rest, invitation)
      const shown = await mum.ask('join')
      if (how === 'revoked') await w.t.gateway.invitations.revoke(owner, invitation.id)
      else w.t.clock.advance(61_000)
      // The code is not shown any more, and the page goes on asking: it may have been scanned.
      const over = await mum.ask('look')
      expect(over).toMatchObject({ state: 'over', revision: expect.any(Number) })
      expect(over.qr_url).toBeUndefined()
      await w.scan(shown)
      expect(await w.sees(mum, { state: 'late' })).toEqual({ state: 'late' })
      expect(await mum.ask('join')).toEqual({ state: 'over' })
    }
    expect(await w.t.gateway.accounts.list()).toEqual([])
  })

  test('a person who is known, the owner too, gets the account back as what the person was', async () => {
    await using w = await open({ sessions: ['default'] })
    const { user_id: me } = w.t.bots.get('default')!
    const invitation = await w.invite({ name: 'shop', max_uses: 2 })
    const mine = new Visitor(w.rest, invitation)
    await w.scan(await mine.ask('join'), me)
    // WeChat says so, as the token of the account is among those that it got.
    await w.sees(mine, { status: 'already_bound' })
    const guest = new Visitor(w.rest, invitation)
    const user = await w.scan(await guest.ask('join'))
    await w.sees(guest, done)
    const again = new Visitor(w.rest, invitation)
    const { bot_id, token } = (await w.t.other.sessions.get('shop-1'))!.bot!
    await w.t.other.sessions.mark('shop-1', token, { expired_at: w.t.clock.now() })
    await w.scan(await again.ask('join'), user)
    await w.sees(again, done)
    expect((await w.t.other.sessions.get('shop-1'))!.bot!.bot_id).not.toBe(bot_id)
    const sessions = await w.t.gateway.accounts.list()
    expect(sessions.map(({ name, invitation }) => [name, invitation !== undefined])).toEqual([
      ['default', false],
      ['shop-1', true],
    ])
    expect((await w.t.gateway.invitations.list(owner))[0]).toMatchObject({ used: 1, status: 'active' })
    // In the same browser another person may join.
    expect(await guest.ask('look')).toMatchObject({ ...done, has_more: true })
    expect(await guest.ask('join')).toMatchObject({ state: 'login', status: 'waiting' })
  })

  test('a code that nobody waits for is not renewed; else it is, three times, and then the button is back', async () => {
    await using w = await open()
    const invitation = await w.invite({ max_uses: 2 })
    const [left, stays] = [new Visitor(w.rest, invitation), new Visitor(w.rest, invitation)]
    await left.ask('join')
    await stays.ask('join')
    for (let nth = 0; nth < 7; nth++) {
      w.t.clock.advance(10_000)
      await stays.ask('look')
    }
    const expire = (qrcode: string) => w.t.sandbox.phone('POST', 'expire', { qrcode })
    await expire(left.code!)
    await w.t.until('its login is over', async () => {
      w.t.clock.advance(500)
      await stays.ask('look')
      return w.t.lines.some(line => line.includes('not logged in'))
    })
    expect(await left.ask('look')).toMatchObject({ state: 'login', status: 'expired' })
    expect(polls(w.t)).toBe(2)
    for (let renewals = 1; renewals <= 3; renewals++) {
      const old = stays.code
      await expire(old!)
      await w.t.until(`renewal ${renewals}`, async () => {
        w.t.clock.advance(2000)
        const { qr_url, status } = await stays.ask('look')
        return status === 'waiting' && qr_url !== old
      })
    }
    await expire(stays.code!)
    await w.sees(stays, { status: 'expired', qr_url: undefined })
    expect(polls(w.t)).toBe(5)
    expect(await stays.ask('join')).toMatchObject({ state: 'login', status: 'waiting' })
  })

  test('wrong secrets are bounded by address, and say nothing', async () => {
    await using w = await open()
    const clock = testClock({ runs: false })
    await using rest = await restOf(w.t.gateway, { clock })
    const right = new Visitor(rest, await w.invite())
    const guesser = new Visitor(rest, { link: '/invite#wrong' })
    expect((await guesser.post('join')).status).toBe(404)
    expect((await guesser.post('digits', { verify_code: '1' })).status).toBe(404)
    const answers: number[] = []
    const guesses = Array.from({ length: 123 }, async () => answers.push((await guesser.post('look')).status))
    // The rest waits.
    await w.t.until('the first and the last are answered', () => answers.length === 103)
    expect(answers.filter(status => status === 429)).toHaveLength(5)
    expect((await right.post('look')).status).toBe(200)
    clock.advance(1000)
    await Promise.all(guesses)
    expect(answers.filter(status => status === 404)).toHaveLength(118)
    expect(polls(w.t)).toBe(0)
  })

  test('calls of another page, form or frame are refused', async () => {
    await using w = await open()
    const mum = new Visitor(w.rest, await w.invite())
    for (const headers of [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ])
      for (const call of ['look', 'join']) expect((await mum.post(call, {}, headers)).status).toBe(403)
    expect((await mum.post('join', {}, { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await mum.post('join', { browser: 'x', nonsense: 1 })).status).toBe(422)
    expect((await fetch(`${w.rest.url}/invite/join`)).status).toBe(405)
    expect(polls(w.t)).toBe(0)
  })

  test('works below a path, where the cookie is for the page alone, and is Secure behind https', async () => {
    await using w = await open()
    await using below = await restOf(w.t.gateway, {
      trustedProxies: ['127.0.0.1'],
      allowHosts: ['svc.example'],
      token: 'a token of some length, for a proxy',
    })
    const mum = new Visitor(below, await w.invite({ max_uses: 2 }))
    const host = { host: 'svc.example', 'x-forwarded-prefix': '/bots', 'x-forwarded-for': '192.0.2.7' }
    const [plain] = (await mum.post('join', {}, host)).headers.getSetCookie()
    expect(plain).toMatch(/^svc_invite_\w{12}=.*; Path=\/bots\/invite; /)
    const secure = { ...host, 'x-forwarded-proto': 'https', origin: 'https://svc.example' }
    // With TLS, only a cookie that no other host can set counts.
    const [set] = (await mum.post('join', {}, secure)).headers.getSetCookie()
    expect(set).toMatch(/^__Host-svc_invite_\w{12}=.*; Path=\/; .*; Secure$/)
    expect((await fetch(`${below.url}/invite`, { headers: host })).status).toBe(200)
  })

  test('hostile names stay text, and names that no account may have are refused', async () => {
    await using w = await open()
    const inviter = '<img src=x onerror=alert(1)>'
    const view = await new Visitor(w.rest, await w.invite({ inviter })).ask('look')
    expect(view.inviter).toBe(inviter)
    for (const name of ['../x', '.hidden', 'media', 'a/b', 'sandbox', 'Default', `a${'\u0000'}`, '<script>'])
      expect([name, await codeOf(w.invite({ name }))]).toEqual([name, 'invalid_arguments'])
    for (const wrong of ['a\u202eb', 'two\nlines', ' \u3164'])
      for (const field of ['inviter', 'agent'])
        expect(await codeOf(w.invite({ [field]: wrong }))).toBe('invalid_arguments')
    expect(await codeOf(w.invite({ trusted: true }))).toBe('invalid_arguments')
    expect(await codeOf(w.invite({ expires_at: 1 }))).toBe('invalid_arguments')
  })

  test('a guest does not get a name that another user has', async () => {
    await using w = await open({ sessions: ['default'] })
    const { user_id: boss } = w.t.bots.get('default')!
    await w.t.sandbox.say('hello', { from: boss })
    await w.t.until('the owner is known', async () => (await w.t.gateway.users.list()).length === 1)
    await w.t.gateway.users.name({ user_id: boss, name: 'Boss' })
    const guest = new Visitor(w.rest, await w.invite({ name: 'boss' }))
    const user = await w.scan(await guest.ask('join'))
    await w.sees(guest, done)
    await w.t.sandbox.say('hello', { from: user })
    await w.t.until('the guest is known', async () => (await w.t.gateway.users.list()).length === 2)
    const named = (await w.t.gateway.users.list()).map(({ user_id, name }) => [user_id, name])
    expect(new Map(named as [string, string][])).toEqual(
      new Map([
        [boss, 'Boss'],
        [user, undefined as never],
      ]),
    )
  })
})

describe('invitations by keys', () => {
  test('need a right of their own, which no limited key has; a key sees and ends only its own', async () => {
    await using w = await open({ sessions: ['default'] })
    const { gateway } = w.t
    const add = (input: object) => gateway.keys.add({ name: 'k', ...input } as never, owner)
    expect(await codeOf(add({ can: ['invitations'], sessions: ['default'] }))).toBe('invalid_arguments')
    const { key, id } = await add({ can: ['invitations'] })
    const by = (await gateway.keys.authenticate(key))!
    const own = await gateway.invitations.add(by, { name: 'own' })
    expect(own).toMatchObject({ inviter: 'k', made_by: `key:${id}` })
    const others = await w.invite({ name: 'others' })
    expect((await gateway.invitations.list(by)).map(({ name }) => name)).toEqual(['own'])
    expect(await codeOf(gateway.invitations.revoke(by, others.id))).toBe('not_found')
    const visitor = new Visitor(w.rest, own)
    expect((await visitor.ask('look')).state).toBe('ready')
    await gateway.keys.revoke(id, owner)
    expect((await visitor.ask('join')).state).toBe('over')
    expect(await codeOf(gateway.invitations.add(by, { name: 'late' }))).toBe('unauthorized')
  })
})
