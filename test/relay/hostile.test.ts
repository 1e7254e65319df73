/** Programs that are not what they say, and programs that want too much. */
import { expect } from 'bun:test'
import { createCipheriv, createHash } from 'node:crypto'
import { owner } from '../../src/model/principal.ts'
import { rowsIn } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { maxUploadBytes, withRelay } from './driver.ts'
import { relayProgram } from './protocol.ts'

const it = given(withRelay)
const bytes = new TextEncoder().encode('the bytes of a file')

it('a token that svc does not know is -14, and not at once', async ({ t, url, add }) => {
  const { id, token } = await add('one')
  const { key } = await t.gateway.keys.add({ name: 'reader', can: ['read'] }, owner)
  for (const wrong of [`svc_${id}_${'0'.repeat(64)}`, 'nonsense', '', key]) {
    const program = relayProgram(url, id, wrong, 'x@im.wechat')
    const before = t.clock.now()
    const { status, body } = await t.hurry(program.post('getupdates'))
    expect([status, body]).toEqual([200, { ret: -14, errcode: -14, errmsg: 'session timeout' }])
    expect(t.clock.now() - before).toBeGreaterThan(800)
  }
  const program = relayProgram(url, id, token, 'x@im.wechat')
  const polled = program.post('getupdates')
  await t.until(
    'it polls',
    async () => (await rowsIn(t.dir, 'SELECT 1 FROM relay_client WHERE polled_at > 0')).length,
  )
  await t.gateway.keys.revoke(id, owner)
  expect((await t.hurry(polled)).body.errcode).toBe(-14)
})

it('nothing of one program helps another', async ({ t, add }) => {
  const [one, two] = [await add('one'), await add('two')]
  await t.sandbox.media('file', bytes, { name: 'a.txt' })
  const [got] = await one.read(1)
  await two.read(1)
  const user = t.bots.get('default')!.user_id
  const { body: config } = await one.post('getconfig', { ilink_user_id: user })
  expect([config.ret, typeof config.typing_ticket]).toEqual([0, 'string'])
  const typing = { ilink_user_id: user, typing_ticket: config.typing_ticket, status: 1 }
  expect((await one.post('sendtyping', typing)).body).toMatchObject({ ret: 0 })
  expect((await two.post('sendtyping', typing)).body.ret).toBe(-2)
  expect((await one.post('sendtyping', { ...typing, ilink_user_id: 'x@im.wechat' })).body.ret).toBe(-2)

  const file = (await one.upload(bytes)).headers.get('x-encrypted-param')!
  expect((await two.sendFile(file, 'a.txt')).body.ret).toBe(-2)
  expect((await one.sendFile(file, 'a.txt')).body.ret).toBe(0)

  const { full_url } = got.item_list[0].file_item.media
  const forged = new URL(full_url)
  const param = forged.searchParams.get('encrypted_query_param')!
  for (const wrong of [`${two.id}${param.slice(8)}`, param.slice(0, -1), '', 'x', `${param}x`]) {
    forged.searchParams.set('encrypted_query_param', wrong)
    expect((await fetch(forged)).status).toBe(400)
  }
  // The bytes are of no use without the key of the program.
  const encrypted = await (await fetch(full_url)).bytes()
  expect(Buffer.from(encrypted).includes('bytes of a file')).toBe(false)
  await t.gateway.keys.revoke(one.id, owner)
  expect((await fetch(full_url)).status).toBe(400)
})

it('a program that may see one user gets nothing of others, and answers nobody else', async ({ t, add }) => {
  const bot = t.bots.get('default')!
  const other = await t.sandbox.addUser('other')
  const program = await add('one', { users: [bot.user_id] })
  await t.sandbox.say('of another', { from: other, to: bot.bot_id })
  await t.sandbox.say('own')
  const got = await program.read(1)
  expect(got.map(({ from_user_id }) => from_user_id)).toEqual([bot.user_id])
  expect((await program.say('no', { to_user_id: other })).body.ret).toBeLessThan(0)
  expect(await t.sandbox.messages({ from: 'bot' })).toEqual([])
})

it('bodies are bounded, and other bytes than announced are no upload', async ({ t, add }) => {
  const program = await add('one')
  expect((await program.say('x'.repeat(300_000))).status).toBe(413)
  expect((await program.post('sendmessage', '{')).body.ret).toBe(-3)
  expect((await program.upload(bytes, 3, { rawfilemd5: '0'.repeat(32) })).status).toBe(422)
  expect((await program.upload(bytes, 3, { filesize: 5 })).body.ret).toBe(-3)
  expect((await program.upload(bytes, 9)).body.ret).toBe(-3)
  const { body } = await program.post('getuploadurl', {
    ...{ filekey: 'f', media_type: 3, to_user_id: t.bots.get('default')!.user_id, rawsize: 16, filesize: 32 },
    ...{ rawfilemd5: '0'.repeat(32), aeskey: '0'.repeat(32) },
  })
  const put = (sent: BodyInit) => fetch(body.upload_full_url, { method: 'POST', body: sent })
  expect((await put('x'.repeat(48))).status).toBe(413)
  expect((await put('x'.repeat(31))).status).toBeGreaterThanOrEqual(400)
  expect((await fetch(body.upload_full_url, { method: 'PUT', body: 'x' })).status).toBe(404)
})

it('two programs with one token are told at once: one line of the log for each time that it begins, without the token', async ({
  t,
  add,
}) => {
  const program = await add('one')
  const told = () => t.lines.filter(line => line.includes('two programs'))
  const meet = async (times: number) => {
    for (let nth = 0; nth < times; nth++) {
      const [one, two] = [program.poll(), program.poll()]
      await t.hurry(Promise.race([one, two]))
      await t.sandbox.say('for the other')
      await t.hurry(Promise.all([one, two]))
    }
  }
  await meet(1)
  expect(told()).toEqual([])
  await meet(4)
  expect(told()).toHaveLength(1)
  expect(told()[0]).toContain('one')
  expect(told()[0]).not.toContain(program.token.slice(-64))
  expect(await rowsIn(t.dir, 'SELECT 1 FROM relay_client WHERE doubled_at IS NOT NULL')).toHaveLength(1)
  t.clock.advance(120_000)
  await meet(1)
  expect(told()).toHaveLength(1)
  await meet(3)
  expect(told()).toHaveLength(2)
})

it('of two polls with one token the older ends empty, and the panel is told', async ({ t, add }) => {
  const program = await add('one')
  const doubled = async () =>
    (await rowsIn(t.dir, 'SELECT 1 FROM relay_client WHERE doubled_at IS NOT NULL')).length > 0
  const open: Promise<unknown[]>[] = []
  for (let nth = 0; nth < 3; nth++) {
    open.push(program.poll())
    const since = t.clock.now()
    await t.until('it polls', async () => {
      const query = `SELECT 1 FROM relay_client WHERE polled_at >= ${since}`
      return (await rowsIn(t.dir, query)).length > 0
    })
    t.clock.advance(10_000)
  }
  expect(await t.hurry(open[0]!)).toEqual([])
  expect(await t.hurry(open[1]!)).toEqual([])
  await t.until('it is told', doubled)
  await t.sandbox.say('for the newest')
  expect(await open[2]).toHaveLength(1)
})

it('what callers name is no label of metrics', async ({ t, url, add }) => {
  await add('one')
  for (const path of [
    '/ilink/c2c/mine',
    '/ilink/abc/getupdates',
    '/ilink/bot/mine',
    '/ilink/c2c/upload/mine',
  ])
    expect((await fetch(`${url}${path}`, { method: 'POST' })).status).toBeGreaterThanOrEqual(400)
  const text = await t.gateway.metrics.text()
  expect(text).not.toContain('mine')
  expect(text).not.toContain('/ilink/abc')
})

it('bytes of an upload that cannot be decrypted are final', async ({ add }) => {
  const one = await add('one')
  expect((await one.upload(bytes, 3, { aeskey: '0'.repeat(32) })).status).toBe(400)
})

it('media addresses that prove nothing are slowed down and refused, as tokens are, and the right ones are not', async ({
  t,
  url,
  add,
}) => {
  const one = await add('one')
  await t.sandbox.media('file', bytes, { name: 'a.txt' })
  const [{ item_list }] = await one.read(1)
  const { full_url } = item_list[0].file_item.media
  const { body } = await one.post('getuploadurl', {
    ...{ filekey: 'f', media_type: 3, to_user_id: t.bots.get('default')!.user_id, rawsize: 16, filesize: 32 },
    ...{ rawfilemd5: '0'.repeat(32), aeskey: '0'.repeat(32) },
  })
  // It has expired.
  t.clock.advance(61 * 60_000)
  const wrong = [
    () => fetch(body.upload_full_url, { method: 'POST', body: 'x' }),
    () => fetch(`${url}/ilink/c2c/download?encrypted_query_param=${one.id}.x`),
    () => fetch(`${url}/ilink/c2c/download`),
  ]
  const first = await Promise.all(wrong.map(ask => ask()))
  expect(first.map(({ status }) => status)).toEqual([400, 400, 400])
  const many = Array.from({ length: 150 }, (_, nth) => wrong[nth % 3]!)
  const answers = await Promise.all(many.map(ask => ask()))
  const statuses = answers.map(({ status }) => status)
  expect([...new Set(statuses)].sort()).toEqual([400, 429])
  // Of those beyond the first hundred of a minute, some wait, and the rest are refused.
  expect(statuses.filter(status => status === 429).length).toBeGreaterThan(20)
  expect((await fetch(full_url)).status).toBe(200)
  expect(t.lines.filter(line => line.includes('calls without the right token'))).toHaveLength(1)
})

it('sizes that no file has get no address', async ({ t, add }) => {
  const one = await add('one')
  const to_user_id = t.bots.get('default')!.user_id
  const hex = '0'.repeat(32)
  const padded = (size: number) => Math.floor(size / 16) * 16 + 16
  const ask = async (rawsize: unknown, filesize: unknown) => {
    const file = { filekey: 'f', media_type: 3, to_user_id, rawfilemd5: hex, aeskey: hex }
    return (await one.post('getuploadurl', { ...file, rawsize, filesize })).body
  }
  for (const size of [maxUploadBytes + 1, 9e12, 2 ** 53 - 17, 1e300])
    expect([size, await ask(size, padded(size))]).toEqual([
      size,
      { ret: expect.any(Number), errmsg: expect.any(String) },
    ])
  for (const size of [-1, 0, 1.5, Number.NaN, null, true, '', 'x', '-1', '1e3', '9e12', [16], {}, undefined])
    for (const filesize of [32, padded(Number(size)), size])
      expect([size, filesize, (await ask(size, filesize)).ret]).toEqual([size, filesize, -3])
  for (const filesize of [-1, 16, 31, 48, null, '', undefined]) expect((await ask(16, filesize)).ret).toBe(-3)
  expect((await ask(maxUploadBytes, padded(maxUploadBytes))).ret).toBe(0)
})

it('an upload address may be used once more, as by a client whose answer was lost', async ({ t, add }) => {
  const one = await add('one')
  await t.sandbox.say('hi')
  await one.read(1)
  const key = Buffer.alloc(16, 7)
  const cipher = createCipheriv('aes-128-ecb', key, null)
  const encrypted = Buffer.concat([cipher.update(bytes), cipher.final()])
  const { body } = await one.post('getuploadurl', {
    ...{
      filekey: 'f',
      media_type: 3,
      to_user_id: t.bots.get('default')!.user_id,
      aeskey: key.toString('hex'),
    },
    ...{ rawsize: bytes.length, filesize: encrypted.length },
    rawfilemd5: createHash('md5').update(bytes).digest('hex'),
  })
  const put = async () => {
    const { headers, status } = await fetch(body.upload_full_url, { method: 'POST', body: encrypted })
    return [status, headers.get('x-encrypted-param')] as const
  }
  const sent = [await put(), await put()]
  expect(sent.map(([status]) => status)).toEqual([200, 200])
  for (const [, param] of sent) expect((await one.sendFile(param!, 'a.txt')).body.ret).toBe(0)
})
