/** Which login `GET /api/sessions/login/status` answers about. */
import { expect, test } from 'bun:test'
import { owner } from '../../src/model/principal.ts'
import { startAdmin } from '../support/admin.ts'

const path = '/api/sessions/login'

test('without arguments it is the login that was started last: begun, joined, or ended', async () => {
  await using admin = await startAdmin({ sessions: [] })
  const begin = async (name?: string) =>
    (await admin.call('POST', path, name === undefined ? {} : { name })).body
  const asked = async (query = '') => (await admin.call('GET', `${path}/status${query}`)).body
  expect(await asked()).toMatchObject({ code: 'not_found' })
  const work = await begin('work')
  expect(await asked()).toMatchObject({ session: 'work', login_id: work.login_id })
  await begin()
  expect(await asked()).toMatchObject({ session: 'default' })
  // A clock that was set back does not matter.
  admin.test.clock.step(-60_000)
  const home = await begin('家')
  expect(await asked()).toMatchObject({ session: '家' })
  expect((await begin('WORK')).login_id).toBe(work.login_id)
  expect(await asked()).toMatchObject({ session: 'work' })
  await admin.call('POST', '/api/call/cancel_login', { login_id: work.login_id })
  expect(await asked()).toMatchObject({ session: '家' })
  await admin.test.sandbox.scan({ qrcode: home.qr_url, confirm: true })
  await admin.test.soon('it is connected', async () => (await asked()).status === 'confirmed')
  expect(await asked()).toMatchObject({ session: '家', login_id: home.login_id })
  expect(await asked('?name=')).toMatchObject({ session: 'default' })
})

test('name means what it means at the start, as session does; two different ones are refused', async () => {
  await using admin = await startAdmin({ sessions: [] })
  const { login_id } = (await admin.call('POST', path, { name: 'Work' })).body
  await admin.call('POST', path, {})
  for (const query of [
    'name=Work',
    'name=work',
    'session=WORK',
    'name=work&session=Work',
    `login_id=${login_id}&name=work`,
  ])
    expect(await admin.call('GET', `${path}/status?${query}`)).toMatchObject({
      status: 200,
      body: { login_id },
    })
  for (const query of ['name=', 'session=', 'name=default&session='])
    expect((await admin.call('GET', `${path}/status?${query}`)).body.session).toBe('default')
  for (const query of ['name=work&session=home', 'name=work&session=', 'name=..'])
    expect(await admin.call('GET', `${path}/status?${query}`)).toMatchObject({
      status: 422,
      body: { code: 'invalid_arguments' },
    })
  for (const query of ['name=home', `login_id=${login_id}&name=default`])
    expect(await admin.call('GET', `${path}/status?${query}`)).toMatchObject({
      status: 404,
      body: { code: 'not_found' },
    })
})

test('a login begins by session_name as by name; two different ones are refused', async () => {
  await using admin = await startAdmin({ sessions: [] })
  const begin = async (body: object) => (await admin.call('POST', path, body)).body
  const work = await begin({ session_name: 'Work' })
  expect(work).toMatchObject({ status: 'waiting', session: 'Work', qr_svg: expect.stringContaining('<svg') })
  for (const names of [{ name: 'work' }, { name: 'WORK', session_name: 'Work' }])
    expect(await begin(names)).toMatchObject({ login_id: work.login_id })
  for (const names of [{}, { session_name: '' }, { name: '' }, { name: '', session_name: 'default' }])
    expect(await begin(names)).toMatchObject({ session: 'default' })
  for (const names of [
    { name: 'work', session_name: 'home' },
    { name: 'work', session_name: '' },
    { session_name: '..' },
  ])
    expect(await admin.call('POST', path, names)).toMatchObject({
      status: 422,
      body: { code: 'invalid_arguments' },
    })
  expect((await admin.call('GET', `${path}/status?session_name=work`)).body).toMatchObject({
    login_id: work.login_id,
  })
})

test('a key gets the last of its own logins, and nobody else’s', async () => {
  await using admin = await startAdmin({ sessions: [] })
  const { keys } = admin.test.gateway
  const [one, other] = await Promise.all(
    ['one', 'other'].map(async name => (await keys.add({ name, can: ['all'] }, owner)).key),
  )
  const by = (key: string | undefined) => ({ authorization: `Bearer ${key}` })
  const begin = async (name: string, key?: string) => {
    expect((await admin.call('POST', path, { name }, by(key))).status).toBe(200)
  }
  const asked = async (key?: string) => (await admin.call('GET', `${path}/status`, undefined, by(key))).body
  await begin('a', one)
  expect(await asked(one)).toMatchObject({ session: 'a' })
  expect(await asked(other)).toMatchObject({ code: 'not_found' })
  await begin('b', other)
  expect([(await asked(one)).session, (await asked(other)).session]).toEqual(['a', 'b'])
})
