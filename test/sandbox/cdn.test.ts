import { expect, test } from 'bun:test'
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto'
import { given } from '../support/given.ts'
import { ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'

const it = given(withSandbox)

const bytes = crypto.getRandomValues(new Uint8Array(40_000))
const bind = (sandbox: TestSandbox) => {
  const bot = sandbox.bot()
  return { ...bot, ...ilink(sandbox.url, bot.token) }
}

it('what was uploaded is found by its parameter, as ciphertext with its length', async sandbox => {
  const bot = bind(sandbox)
  const { media, cipher, response, place } = await bot.upload(bot.user_id, 3, bytes)
  expect(response.status).toBe(200)
  expect(place.upload_full_url).toContain('&taskid=')
  const got = await fetch(
    `${sandbox.cdnUrl}/download?encrypted_query_param=${encodeURIComponent(media.encrypt_query_param)}`,
  )
  expect(got.headers.get('content-length')).toBe(String(cipher.length))
  expect(Buffer.from(await got.arrayBuffer()).equals(cipher)).toBe(true)
  // The same URL may be posted again, and leads to the same place.
  const again = await fetch(place.upload_full_url, { method: 'POST', body: cipher })
  expect(again.headers.get('x-encrypted-param')).toBe(media.encrypt_query_param)
})

it('an upload that is not what was announced is refused, and says why', async sandbox => {
  const bot = bind(sandbox)
  const { place, cipher, key } = await bot.upload(bot.user_id, 1, bytes)
  const post = async (body: BodyInit, change: Record<string, string> = {}) => {
    const url = new URL(place.upload_full_url)
    for (const [name, value] of Object.entries(change)) url.searchParams.set(name, value)
    const response = await fetch(url, { method: 'POST', body })
    return [response.status, response.headers.get('x-error-message')]
  }
  const flipped = Buffer.from(cipher)
  flipped[100] = flipped[100]! ^ 1
  expect(await post(flipped)).toEqual([400, 'rawfilemd5 mismatch'])
  expect(await post(cipher.subarray(0, 1600))).toEqual([400, 'body size differs from filesize'])
  expect(await post(Buffer.concat([cipher, cipher]))).toEqual([400, 'body larger than filesize'])
  // Of what another key made, one in 256 ends as if it were whole; this never does.
  const endless = createCipheriv('aes-128-ecb', key, null)
    .setAutoPadding(false)
    .update(new Uint8Array(cipher.length))
  expect(await post(endless)).toEqual([400, 'body does not decrypt with aeskey'])
  expect(await post(cipher, { encrypted_query_param: 'x' })).toEqual([404, 'upload param unknown'])
  expect(await post(cipher, { filekey: 'x' })).toEqual([404, 'upload param unknown'])
  expect((await fetch(`${sandbox.cdnUrl}/download?${place.upload_full_url}`)).status).toBe(400)
  expect((await fetch(`${sandbox.cdnUrl}/download?encrypted_query_param=x`)).status).toBe(404)
})

it('the CDN takes the methods the switch names', async sandbox => {
  const bot = bind(sandbox)
  const { place, cipher } = await bot.upload(bot.user_id, 2, bytes)
  const statuses = async () => [
    (await fetch(place.upload_full_url, { method: 'POST', body: cipher })).status,
    (await fetch(place.upload_full_url, { method: 'PUT', body: cipher })).status,
  ]
  expect(await statuses()).toEqual([200, 404])
  await sandbox.switches({ upload_method: 'put' })
  expect(await statuses()).toEqual([404, 200])
  await sandbox.switches({ upload_method: 'both' })
  expect(await statuses()).toEqual([200, 200])
})

test('the legacy answer has a parameter instead of an address, with a twin for a thumb', async () => {
  await using sandbox = await withSandbox({ switches: { upload_url: 'legacy' } })
  const bot = bind(sandbox)
  const ask = {
    ...{ filekey: 'f', media_type: 1, to_user_id: bot.user_id, rawsize: 16, filesize: 32 },
    ...{ rawfilemd5: '', aeskey: '00'.repeat(16) },
  }
  const place = await bot.post('getuploadurl', ask)
  expect(place.upload_full_url).toBeUndefined()
  expect(place.thumb_upload_param).toBeString()
  expect((await bot.post('getuploadurl', { ...ask, no_need_thumb: true })).thumb_upload_param).toBeUndefined()
  expect((await bot.post('getuploadurl', { ...ask, filesize: 16 })).ret).toBe(-3)
})

it('what the user sends arrives with its key in each spelling, and decrypts to the same bytes', async sandbox => {
  const bot = bind(sandbox)
  const md5 = createHash('md5').update(bytes).digest('hex')
  const keys = {
    c: (item: Item) => Buffer.from(item.aeskey ?? '', 'hex'),
    a: (item: Item) => Buffer.from(item.media.aes_key, 'base64'),
    b: (item: Item) => Buffer.from(Buffer.from(item.media.aes_key, 'base64').toString(), 'hex'),
  }
  type Item = { aeskey?: string; media: { aes_key: string; full_url: string } }
  let cursor = ''
  for (const image_key of ['c', 'a', 'b'] as const) {
    await sandbox.switches({ image_key })
    const sent = await sandbox.media('image', bytes)
    expect(sent).toMatchObject({ md5, size: bytes.length })
    const answer = await bot.poll(cursor)
    cursor = answer.get_updates_buf
    const item: Item = answer.msgs[0].item_list[0].image_item
    expect(item.aeskey !== undefined).toBe(image_key === 'c')
    const cipher = Buffer.from(await (await fetch(item.media.full_url)).arrayBuffer())
    const decipher = createDecipheriv('aes-128-ecb', keys[image_key](item), null)
    expect(createHash('md5').update(decipher.update(cipher)).update(decipher.final()).digest('hex')).toBe(md5)
    expect(Buffer.from(await sandbox.mediaBytes(sent.media_id)).equals(Buffer.from(bytes))).toBe(true)
  }
  await sandbox.media('file', bytes, { name: '报告 a&b.pdf' })
  const { msgs } = await bot.poll(cursor)
  expect(msgs[0].item_list[0].file_item).toMatchObject({ file_name: '报告 a&b.pdf', len: '40000', md5 })
})

it('a large file goes through both ways with bounded memory', async sandbox => {
  const bot = bind(sandbox)
  const block = new Uint8Array(1024 * 1024)
  const total = 96
  let sent = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent++ < total) controller.enqueue(block)
      else controller.close()
    },
  })
  Bun.gc(true)
  const before = process.memoryUsage.rss()
  const said = await sandbox.media('file', body, { name: 'large.bin' })
  const { msgs } = await bot.poll()
  let got = 0
  const response = await fetch(msgs[0].item_list[0].file_item.media.full_url)
  for await (const chunk of response.body!) got += chunk.length
  expect(said.size).toBe(total * block.length)
  expect(got).toBe(total * block.length + 16)
  // Client and server together in this process, garbage not yet collected included.
  expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(80)
})
