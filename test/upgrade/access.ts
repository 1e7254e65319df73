/** Keys, sign-ins to the panel, people who joined by an invitation, and one who was erased. */
import { expectMatch } from '../../scripts/smoke/expected.ts'
import { cookieOf, pageHeaders } from '../support/admin.ts'
import type { Json } from '../support/service.ts'
import { until } from '../support/until.ts'
import { answered, type Home, join, type Story } from './home.ts'

const statusOf = async (home: Home, token: string) =>
  (await fetch(`${home.url}/me`, { headers: { authorization: `Bearer ${token}` } })).status

export const keys: Story = {
  async live(home) {
    const add = (input: object): Promise<Json> => home.ask('POST /keys', input)
    // The first key makes the token that its owner shows from then on.
    await home.svc('key', 'add', 'first', '--can', 'read')
    home.token = await home.svc('token')
    const reader = await add({
      name: 'reader',
      can: ['read', 'conversations'],
      limits: { calls_per_second: 99, bytes_per_day: 1_000_000 },
    })
    const draft = await add({ name: 'writer', can: ['draft'] })
    const revoked = await add({ name: 'revoked', can: ['read'] })
    await home.ask(`DELETE /keys/${revoked.id}`)
    const rotated = await home.ask(`POST /keys/${reader.id}/rotate`, { keep_old_seconds: 3600 })
    expectMatch(await statusOf(home, rotated.key), 200)
    return { reader: rotated.key, replaced: reader.key, draft: draft.key, revoked: revoked.key }
  },
  async still(home, { draft, reader, replaced, revoked }) {
    for (const [key, status] of [
      [reader, 200],
      [replaced, 200],
      [draft, 200],
      [revoked, 401],
      ['', 401],
    ])
      expectMatch([key, await statusOf(home, key)], [key, status])
    const all = (await home.ask('GET /keys')).filter(({ name }: Json) =>
      /^(first|reader|revoked|writer)$/.test(name),
    )
    expectMatch(all.map(({ name }: Json) => name).sort(), ['first', 'reader', 'revoked', 'writer'])
  },
}

async function signIn(home: Home, token: string): Promise<Record<string, string>> {
  const answer = await fetch(`${home.panelUrl}/api/sign-in`, {
    ...{ method: 'POST', body: JSON.stringify({ token }), headers: { 'content-type': 'application/json' } },
  })
  return { ...pageHeaders(cookieOf(answer.headers)), 'content-type': 'application/json' }
}
const inPanel = async (home: Home, page: Record<string, string>, path: string, body: object = {}) => {
  // The name of a cookie has the port, which is another one now.
  const cookie = page.cookie!.replace(/^svc_panel_\d+/, `svc_panel_${new URL(home.panelUrl).port}`)
  const headers = { ...page, cookie }
  return await fetch(`${home.panelUrl}/api/${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
}

/** What people did in the panel. */
export const panel: Story = {
  async live(home) {
    const user = await join(home, 'panel', 'Petra')
    const { id: up_to } = await home.say(user, 'read me')
    const { key } = await home.ask('POST /keys', { name: 'colleague', can: ['operate'] })
    const [page, over] = [await signIn(home, key), await signIn(home, home.token!)]
    for (const headers of [page, over])
      expectMatch(
        (await inPanel(home, headers, 'call/mark_read', { session: 'panel', user_id: user, up_to })).status,
        200,
      )
    expectMatch((await inPanel(home, over, 'sign-out')).status, 200)
    return { user, page, over, link: await home.svc('panel', 'link') }
  },
  async still(home, { link, over, page, user }) {
    if (link !== undefined) {
      const { pathname, search } = new URL(link)
      const opened = await fetch(`${home.panelUrl}${pathname}${search}`, { redirect: 'manual' })
      expectMatch([opened.status, opened.headers.get('set-cookie') !== null], [303, true])
    }
    expectMatch((await inPanel(home, over, 'call/list_conversations')).status, 401)
    const listed = await inPanel(home, page, 'call/list_conversations', { session: 'panel' })
    expectMatch([listed.status, await listed.json()], [200, [{ user_id: user, unread: 0 }]])
  },
}

export const invitations: Story = {
  async live(home) {
    const { link, id } = await home.ask('POST /invitations', { name: 'guests', max_uses: 5 })
    return { link, id, guest: await comes(home, link, 'Gast') }
  },
  async still(home, { guest, id, link }) {
    const one = async () => (await home.ask('GET /invitations')).find((found: Json) => found.id === id)
    expectMatch((await one()).used, 1)
    await home.say(guest, 'I am a guest')
    await comes(home, link, 'Second')
    expectMatch((await one()).used, 2)
  },
}

/** A new person joins by the link of an invitation. @returns the id */
async function comes(home: Home, link: string, name: string): Promise<string> {
  const [, secret] = link.split('#')
  const { qr_url } = await home.ask('POST /invite/join', { secret })
  const { id } = await home.phone('users', { name })
  await home.phone('scan', { confirm: true, qrcode: qr_url, user: id })
  await until('the guest has an account', 30_000, async () => {
    const all: Json[] = await answered(home, 'sessions')
    return all.some(({ user_id, connected }) => user_id === id && connected)
  })
  return id
}

/** A login that was begun, and a person who was erased. */
export const comingAndGoing: Story = {
  async live(home) {
    const gone = await join(home, 'gone', 'Gone')
    await home.say(gone, 'forget these words')
    await home.svc('forget', gone, '--yes')
    const { qr_url } = await answered(home, 'login', { session_name: 'coming' })
    return { gone, qr_url }
  },
  async still(home, { gone, qr_url }) {
    expectMatch(await answered(home, 'history', { text_contains: 'forget these words' }), { total: 0 })
    const { id } = await home.phone('users', { name: 'Coming' })
    await home.phone('scan', { confirm: true, qrcode: qr_url, user: id })
    await until('the login that was begun is done', 30_000, async () => {
      const { status } = await answered(home, 'login', { session_name: 'coming', timeout: 5 })
      return status === 'confirmed'
    })
    await home.say(gone, 'here I am again')
  },
}
