import { expect, test } from 'bun:test'
import { given } from '../support/given.ts'
import { ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'

const it = given(withSandbox)

const create = async (sandbox: TestSandbox, tokens: string[] = []) =>
  String((await ilink(sandbox.url).post('get_bot_qrcode?bot_type=3', { local_token_list: tokens })).qrcode)
const status = (sandbox: TestSandbox, qrcode: string, code?: string) =>
  ilink(sandbox.url).get(`get_qrcode_status?qrcode=${qrcode}${code ? `&verify_code=${code}` : ''}`)

test('a status that stays is told again when the hold is over', async () => {
  await using sandbox = await withSandbox({ switches: { hold_ms: 30 } })
  expect((await status(sandbox, await create(sandbox))).status).toBe('wait')
})

it('a QR code expires by itself, and the held poll learns it', async sandbox => {
  const qrcode = await create(sandbox)
  const held = status(sandbox, qrcode)
  await sandbox.advance(120_000)
  expect((await held).status).toBe('expired')
  expect((await status(sandbox, 'unknown')).status).toBe('expired')
})

it('the GET form of old clients makes QR codes too', async sandbox => {
  expect(await ilink(sandbox.url).get('get_bot_qrcode?bot_type=3')).toMatchObject({
    ret: 0,
    qrcode: expect.any(String),
  })
})

it('a client that holds the living bot already keeps it; another client gets a new one and kills the old', async sandbox => {
  const old = sandbox.bot()
  const mine = await create(sandbox, [old.token])
  await sandbox.scanAndConfirm()
  const kept = await status(sandbox, mine)
  expect(kept.status).toBe('binded_redirect')
  expect(kept.bot_token).toBeUndefined()

  const held = ilink(sandbox.url, old.token).poll()
  const theirs = await create(sandbox)
  await sandbox.scanAndConfirm()
  expect((await held).errcode).toBe(-14)
  const fresh = await status(sandbox, theirs)
  expect(fresh.ilink_bot_id).not.toBe(old.bot_id)
  expect(await ilink(sandbox.url, old.token).post('getconfig', { ilink_user_id: old.user_id })).toMatchObject(
    { errcode: -14 },
  )
  expect((await ilink(sandbox.url, fresh.bot_token).post('msg/notifystart', {})).ret).toBe(0)
})

it('a call of the phone that no QR code fits says so in plain words', async sandbox => {
  const answer = async (path: string, args: Record<string, unknown> = {}) => {
    const said = await fetch(`${sandbox.url}/phone/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(args),
    })
    return ((await said.json()) as { detail: string }).detail
  }
  expect(await answer('scan', { confirm: true })).toBe('no QR code waits to be scanned')
  expect(await answer('confirm')).toBe('no QR code was scanned and waits to be confirmed')
  expect(await answer('expire')).toBe('no QR code is open')
  const qrcode = await create(sandbox)
  expect(await answer('confirm', { qrcode })).toBe('this QR code waits to be scanned')
  await sandbox.scanAndConfirm()
  expect(await answer('scan', { qrcode })).toBe('this QR code was confirmed already')
})
