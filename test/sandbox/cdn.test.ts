import { expect } from 'bun:test'
import { createCipheriv } from 'node:crypto'
import { given } from '../support/given.ts'
import { ilink } from '../support/ilink-client.ts'
import { type TestSandbox, withSandbox } from '../support/sandbox.ts'

const it = given(withSandbox)

const bytes = crypto.getRandomValues(new Uint8Array(40_000))
const bind = (sandbox: TestSandbox) => {
  const bot = sandbox.bot()
  return { ...bot, ...ilink(sandbox.url, bot.token) }
}

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

it('a large file goes through both ways with bounded memory', async sandbox => {
  const bot = bind(sandbox)
  const block = new Uint8Array(1024 * 1024)
  const total = 192
  let sent = 0
  // The garbage of the test itself is collected: what counts is what stays.
  const collect = (nth: number) => nth % 32 === 0 && Bun.gc(true)
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      collect(sent)
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
  let collected = 0
  for await (const chunk of response.body!) {
    got += chunk.length
    for (; collected < got / block.length; collected++) collect(collected)
  }
  expect(said.size).toBe(total * block.length)
  expect(got).toBe(total * block.length + 16)
  // Client and server together in this process: less than the file.
  expect((process.memoryUsage.rss() - before) / 2 ** 20).toBeLessThan(total * 0.75)
})
