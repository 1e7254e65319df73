/** Media on its way to a user: every byte arrives, and what goes wrong costs nothing. */
import { describe, expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readdir, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { failure } from '../support/failure.ts'
import { given } from '../support/given.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { remote, seen, send, used, withTalk } from '../support/talk.ts'

const it = given(withTalk)

/** A picture by its first bytes; of random ones some are those of another kind. */
const picture = (size: number) => Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), randomBytes(size)])
const md5 = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')

describe('what is sent arrives, byte for byte', () => {
  for (const upload_method of ['post', 'put'] as const) {
    for (const upload_url of ['full', 'legacy'] as const) {
      test(`a CDN that takes ${upload_method} and tells its address ${upload_url}`, async () => {
        await using t = await withTalk({ switches: { upload_method, upload_url } })
        const bytes = picture(300_000)
        await writeFile(join(t.mediaRoot, 'in', '图片.png'), bytes)
        const result = await send(t, { kind: 'image', path: 'in/图片.png' })
        expect(result).toMatchObject({ success: true, remaining: 9 })
        expect(md5((await seen(t)).bytes)).toBe(md5(bytes))
        // What this host takes is remembered.
        await send(t, { kind: 'image', path: 'in/图片.png' })
        expect(t.sandbox.world.core.stats.uploads.accepted).toBe(2)
      })
    }
  }

  it('every kind, with text before them; voice goes as a file and says so; history has all', async t => {
    const kinds = ['image', 'voice', 'file', 'video'] as const
    const media = kinds.map((kind, i) => ({
      ...{ kind, file_name: `${kind}.bin` },
      data: Buffer.alloc(1000 + i, i + 1).toString('base64'),
    }))
    const result = await send(t, media, remote, 'look')
    expect(result.parts.map(({ kind, sent_as, status }) => [kind, sent_as, status])).toEqual([
      ['text', 'text', 'accepted'],
      ['image', 'image', 'accepted'],
      ['voice', 'file', 'accepted'],
      ['file', 'file', 'accepted'],
      ['video', 'video', 'accepted'],
    ])
    const shown = await t.sandbox.messages({ from: 'bot' })
    expect(shown.map(({ items, shown }) => [items[0]!.kind, items[0]!.size, shown])).toEqual([
      ['text', undefined, true],
      ['image', 1000, true],
      ['file', 1001, true],
      ['file', 1002, true],
      ['video', 1003, true],
    ])
    const { messages } = await t.gateway.history.page({ direction: 'sent', limit: 9, offset: 0 })
    expect(messages.map(({ msg_type }) => msg_type).reverse()).toEqual([
      'TEXT',
      'IMAGE',
      'FILE',
      'FILE',
      'VIDEO',
    ])
    expect(messages.every(({ status }) => status === 'accepted')).toBe(true)
    expect(JSON.stringify(messages)).not.toMatch(/aes_key|encrypt_query_param|context_token/)
    // One's own media can be fetched again.
    const opened = await t.gateway.media.open(
      { message_id: result.parts[1]!.message_id!, item: 0 },
      new AbortController().signal,
    )
    expect((await new Response(opened.stream).bytes()).length).toBe(1000)
    expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
  })

  it('sizes around a block of the cipher', async t => {
    for (const size of [1, 15, 16, 17, 128 * 1024, 128 * 1024 + 1]) {
      const bytes = randomBytes(size)
      await writeFile(join(t.mediaRoot, 'x'), bytes)
      await send(t, { kind: 'file', path: 'x' })
      expect(md5((await seen(t)).bytes)).toBe(md5(bytes))
    }
  })
})

describe('a CDN in trouble', () => {
  const data = picture(50_000).toString('base64')
  /** Between two tries lies less. */
  const restMs = 4000

  for (const { kind, times } of [
    { kind: '400', times: 1 },
    { kind: '500', times: 0 },
    { kind: '201', times: 0 },
    { kind: 'no_param', times: 0 },
    { kind: 'reset', times: 0 },
  ] as const) {
    it(`${kind}: an error, nothing sent, nothing spent, nothing left`, async t => {
      await t.sandbox.fail('upload', kind, { times })
      const refused = failure(send(t, { kind: 'image', data }, remote, 'text too'))
      expect(await t.clock.hurry(refused, restMs)).toMatchObject({ code: 'upstream_error' })
      expect(t.requests('sendmessage')).toBe(0)
      await t.until('given back', async () => (await used(t)) === 0)
      expect((await t.gateway.history.page({ direction: 'sent', limit: 9, offset: 0 })).total).toBe(0)
      expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
    })
  }

  test('a caller who leaves, and a service that stops, end an upload under way', async () => {
    for (const stop of [false, true]) {
      await using t = await withTalk()
      await t.sandbox.fail('upload', 'hang')
      const leaving = new AbortController()
      const refused = failure(send(t, { kind: 'image', data }, { ...remote, signal: leaving.signal }))
      await t.until('uploading', () => t.requests('getuploadurl') === 1)
      using watch = stopwatch()
      if (stop) await t.gateway.close()
      else leaving.abort()
      expect(await refused).toMatchObject({ code: 'shutting_down' })
      expect(watch.ms).toBeLessThan(4000)
      expect(t.requests('sendmessage')).toBe(0)
      expect(await used(t)).toBe(0)
      expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
    }
  })
})

describe('names', () => {
  it('the receiver sees the name as it was given; what could not be kept is said', async t => {
    const long = `${'长'.repeat(100)}.docx`
    for (const [nth, file_name] of [
      '.env',
      'a"b:c?.txt',
      `${'x'.repeat(236)}.txt`,
      '..\\x.txt',
      long,
    ].entries()) {
      const path = join(t.mediaRoot, 'in', `${nth}.txt`)
      await writeFile(path, 'x')
      for (const media of [{ path }, { data: 'eA==' }]) {
        const { parts } = await send(t, { kind: 'file', file_name, ...media })
        const { file_name: shown = file_name, renamed } = parts[0]!
        expect((await seen(t)).file_name).toBe(shown)
        expect(typeof renamed).toBe(nth < 3 ? 'undefined' : 'string')
        expect(shown).toBe([file_name, file_name, file_name, 'x.txt', `${'长'.repeat(83)}.docx`][nth]!)
      }
    }
  })
})

describe('leftovers', () => {
  test('what a crash left half written goes, what is in use stays', async () => {
    await using t = await withTalk({ start: true })
    const uploads = join(t.mediaRoot, 'uploads')
    const downloads = join(t.mediaRoot, 'downloads')
    await mkdir(uploads, { recursive: true })
    await mkdir(join(downloads, 'k3v9x2ab'), { recursive: true })
    const old = [
      join(uploads, `${crypto.randomUUID()}.tmp`),
      join(uploads, `${crypto.randomUUID()}.json.0123456789ab.tmp`),
      join(downloads, '.photo.jpg.0123abcd.part'),
      join(downloads, 'k3v9x2ab', '.photo.jpg.0123abcd.part'),
    ]
    const kept = [
      join(downloads, 'photo.jpg'),
      join(downloads, 'mine.part'),
      join(uploads, crypto.randomUUID()),
      join(downloads, 'somebodys.tmp'),
    ]
    const long = Date.now() / 1000 - 2 * 60 * 60
    for (const path of [...old, ...kept]) {
      await writeFile(path, 'x')
      await utimes(path, long, long)
    }
    const young = join(downloads, '.now.jpg.0123abcd.part')
    await writeFile(young, 'x')
    t.clock.advance(10 * 60_000)
    await t.until('swept', async () => (await stat(old[3]!).catch(() => undefined)) === undefined)
    for (const path of old) expect(await failure(stat(path))).toMatchObject({ code: 'ENOENT' })
    for (const path of [...kept, young]) await stat(path)
    // The upload's own day is over a day later. Time goes on until a sweep begins after that.
    t.clock.advance(24 * 60 * 60_000)
    await t.until('the upload is gone', async () => {
      t.clock.advance(10 * 60_000)
      return (await stat(kept[2]!).catch(() => undefined)) === undefined
    })
    await stat(kept[0]!)
  })
})
