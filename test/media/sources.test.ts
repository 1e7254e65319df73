/** Where media to send may come from: paths, uploads, data and URLs. */
import { describe, expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import {
  copyFile,
  link,
  mkdir,
  readdir,
  rename,
  rm,
  symlink,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join, relative } from 'node:path'
import { createDirectCall } from '../../src/model/call.ts'
import type { SvcError } from '../../src/model/error.ts'
import type { MediaContent } from '../../src/model/message.ts'
import { testClock } from '../support/clock.ts'
import { codeOf, failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withSandbox } from '../support/sandbox.ts'
import { stopwatch } from '../support/stopwatch.ts'
import { remote, seen, send, streamOf, used, withTalk } from '../support/talk.ts'

const it = given(withTalk)

const md5 = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')

describe('path', () => {
  it('what lies outside the media root is forbidden for a remote caller, by whatever way', async t => {
    const outside = folderOfTest()
    await writeFile(join(outside, 'secret.txt'), 'secret')
    await symlink(join(outside, 'secret.txt'), join(t.mediaRoot, 'in', 'link'))
    await symlink(outside, join(t.mediaRoot, 'in', 'folder'))
    const paths = ['../default/token.json', 'in/../../default/token.json', join(outside, 'secret.txt')]
    for (const path of [...paths, '/etc/hostname', 'in/link', 'in/folder/secret.txt', 'in/a\0b']) {
      const refused = await failure(send(t, { kind: 'file', path }))
      expect(refused).toMatchObject({ code: 'forbidden', field: 'media[0].path' })
    }
    const missing = await failure(send(t, { kind: 'file', path: 'none.txt' }))
    expect(missing).toMatchObject({ code: 'invalid_arguments', field: 'media[0].path' })
    expect(t.requests('getuploadurl')).toBe(0)
    // The local user may name any file.
    expect(
      (await send(t, { kind: 'file', path: join(outside, 'secret.txt') }, { local: true })).success,
    ).toBe(true)
  })

  // Where every error says the same there is nothing to look for.
  test.skipIf(Boolean(process.env.BUN_OPTIONS?.includes('nonsense')))(
    'a newcomer whose path is wrong learns where files belong',
    async () => {
      await using t = await withTalk()
      for (const path of ['/etc/hostname', 'none.txt'])
        expect((await failure(send(t, { kind: 'file', path }))).message).toContain(t.mediaRoot)
    },
  )

  it('a file is found under its name in another Unicode form; the exact name goes first, and two are too many', async t => {
    const [outside, working] = [folderOfTest(), folderOfTest()]
    const [composed, apart] = ['Caf\u00e9', 'Cafe\u0301']
    for (const [top, options] of [
      [t.mediaRoot, remote],
      [outside, { local: true }],
      [working, { local: [working] }],
    ] as const) {
      await t.sandbox.say('go on')
      await t.until('there are answers', async () => (await used(t)) === 0)
      for (const [nth, [onDisk, typed]] of [
        [apart, composed],
        [composed, apart],
        ['한'.normalize('NFD'), '한'],
        ['\u212b', '\u00c5'],
      ].entries()) {
        const folder = join(top, `${nth}${onDisk}`)
        await mkdir(folder, { recursive: true })
        await writeFile(join(folder, `${onDisk}.txt`), `found ${nth}`)
        const path = join(top, `${nth}${typed}`, `${typed}.txt`)
        expect((await send(t, { kind: 'file', path }, options)).success).toBe(true)
        expect(Buffer.from((await seen(t)).bytes).toString()).toBe(`found ${nth}`)
      }
      const folder = join(top, `0${apart}`)
      await writeFile(join(folder, `${composed}.txt`), 'exact')
      await send(t, { kind: 'file', path: join(folder, `${composed}.txt`) }, options)
      expect(Buffer.from((await seen(t)).bytes).toString()).toBe('exact')
      await writeFile(join(folder, 'a\u0323\u0307.txt'), 'x')
      await writeFile(join(folder, '\u1ea1\u0307.txt'), 'x')
      expect(
        await failure(send(t, { kind: 'file', path: join(folder, '\u0227\u0323.txt') }, options)),
      ).toMatchObject({ code: 'invalid_arguments', field: 'media[0].path' })
    }
    // What is judged is what was found, and nothing is looked for elsewhere.
    await writeFile(join(outside, `${apart}.txt`), 'secret')
    await symlink(join(outside, `${apart}.txt`), join(t.mediaRoot, `${apart}-link`))
    await symlink(outside, join(t.mediaRoot, `${apart}-folder`))
    for (const path of [
      `${composed}-link`,
      `${composed}-folder/${composed}.txt`,
      join(outside, `${composed}.txt`),
    ])
      expect(await failure(send(t, { kind: 'file', path }))).toMatchObject({ code: 'forbidden' })
  })

  test("svc's own files go to nobody, whoever asks and by whatever way; what lies in the media root does", async () => {
    const kind = 'file'
    await using t = await withTalk()
    const outside = folderOfTest()
    await writeFile(join(t.dir, 'api_token'), 'secret')
    await symlink(join(t.dir, 'default', 'token.json'), join(outside, 'link'))
    await symlink(join(t.dir, 'default', 'token.json'), join(t.mediaRoot, 'in', 'link'))
    await symlink(t.dir, join(outside, 'folder'))
    const own = ['default/token.json', 'default/contexts.json', 'messages.db', 'api_token', '.poll.lock']
    const ways = [
      ...own.map(name => join(t.dir, name)),
      ...[join(outside, 'link'), join(outside, 'folder', 'api_token'), join(t.mediaRoot, 'in', 'link')],
      ...[relative(process.cwd(), join(t.dir, 'api_token')), `/proc/self/root${t.dir}/api_token`],
      // What is not there is not told from what is.
      join(t.dir, 'none'),
    ]
    for (const path of ways) {
      expect(await codeOf(send(t, { kind, path }, { local: true }))).toBe('forbidden')
    }
    expect(t.requests('getuploadurl')).toBe(0)
    await writeFile(join(t.mediaRoot, 'in', 'mine'), 'mine')
    for (const path of [join(t.mediaRoot, 'in', 'mine'), join(outside, 'folder', 'media', 'in', 'mine')])
      expect(await send(t, { kind, path }, { local: true })).toMatchObject({ success: true })
  })

  it('a URL in the place of a path is no file that is missing, and is not fetched', async t => {
    for (const local of [true, false]) {
      const given = { kind: 'image' as const, path: `${t.sandbox.url}/x.png` }
      const error = await failure(send(t, given, { local }))
      expect(error).toMatchObject({ code: 'invalid_arguments', field: 'media[0].path' })
      expect((error as SvcError).problem).not.toContain(t.mediaRoot)
    }
  })

  it('a file with more than one hard link is refused to a remote caller, and sent once it is a file of its own', async t => {
    const path = join(t.mediaRoot, 'in', 'hard')
    // One of svc's own that is never replaced by another: its links stay two.
    await link(join(t.dir, 'messages.db'), path)
    expect(await failure(send(t, { kind: 'file', path: 'in/hard' }))).toMatchObject({ code: 'forbidden' })
    expect(t.requests('getuploadurl')).toBe(0)
    await copyFile(path, `${path}.copy`)
    expect((await send(t, { kind: 'file', path: 'in/hard.copy' })).success).toBe(true)
  })

  test('a media root that holds the data directory does not open it', async () => {
    const root = folderOfTest()
    await using t = await withGateway({ dir: join(root, 'data'), config: { mediaRoot: root } })
    await t.sandbox.say('hi')
    const { user_id } = t.bots.get('default')!
    await t.until('context', async () => (await t.other.contexts.find('default', user_id))?.token)
    await writeFile(join(root, 'mine'), 'mine')
    for (const call of [remote, { local: true }]) {
      for (const path of ['default/token.json', 'messages.db'])
        expect(await failure(send(t, { kind: 'file', path: join(root, 'data', path) }, call))).toMatchObject({
          code: 'forbidden',
        })
      expect(await send(t, { kind: 'file', path: join(root, 'mine') }, call)).toMatchObject({ success: true })
    }
  })

  test('a link swapped in again and again never leads outside', async () => {
    await using t = await withTalk({ sessions: ['default'] })
    const outside = folderOfTest()
    await mkdir(join(t.mediaRoot, 'good'))
    await writeFile(join(t.mediaRoot, 'good', 'f'), 'inside')
    await writeFile(join(outside, 'f'), 'SECRET')
    const here = join(t.mediaRoot, 'turn')
    let going = true
    const swap = (async () => {
      for (let i = 0; going; i++) {
        const next = join(t.mediaRoot, `next${i}`)
        await symlink(i % 2 ? outside : join(t.mediaRoot, 'good'), next)
        await rename(next, here)
      }
    })()
    const said = new Set<string>()
    for (let i = 0; i < 60; i++) {
      // The session is not connected to anybody of that name: only bringing the file home is of interest.
      await send(t, { kind: 'file', path: 'turn/f' }).catch(error => said.add(error.code))
    }
    going = false
    await swap
    for (const message of await t.sandbox.messages({ from: 'bot' })) {
      const bytes = await t.sandbox.mediaBytes(message.items[0]!.media_id!)
      expect(new TextDecoder().decode(bytes)).toBe('inside')
    }
    for (const code of said) expect(['forbidden', 'invalid_arguments', 'quota_exhausted']).toContain(code)
  })

  test('folders, pipes, devices, missing and empty files are refused at once', async () => {
    await using t = await withTalk({ config: { maxUploadBytes: 1000 } })
    Bun.spawnSync(['mkfifo', join(t.mediaRoot, 'in', 'pipe')])
    await writeFile(join(t.mediaRoot, 'in', 'empty'), '')
    await writeFile(join(t.mediaRoot, 'in', 'large'), Buffer.alloc(1001))
    using watch = stopwatch()
    for (const path of ['in', 'in/pipe', 'in/none', 'in/empty', 'in/empty/x', '.', '']) {
      expect(await failure(send(t, { kind: 'file', path }))).toMatchObject({ code: 'invalid_arguments' })
    }
    for (const path of ['/dev/zero', '/dev/stdin', '/proc/self/mem', join(t.mediaRoot, 'in', 'pipe')]) {
      expect(await codeOf(send(t, { kind: 'file', path }, { local: true }))).toBe('invalid_arguments')
    }
    expect(await codeOf(send(t, { kind: 'file', path: 'in/large' }))).toBe('payload_too_large')
    expect(watch.ms).toBeLessThan(8000)
    expect(await used(t)).toBe(0)
  })

  it('a media root that is gone while svc runs is said to be so, wherever it is named', async t => {
    await rm(t.mediaRoot, { recursive: true })
    await t.sandbox.media('image', randomBytes(100))
    const received = await t.until('received', async () => {
      const { messages } = await t.gateway.history.page({ msg_type: 'IMAGE', limit: 1, offset: 0 })
      return messages[0]
    })
    const failures = [
      send(t, { kind: 'file', path: 'f' }),
      send(t, { kind: 'file', data: 'eA==' }),
      t.gateway.media.download(
        { message_id: received.message_id, item: 0, save_dir: 'new' },
        createDirectCall({ local: false }),
      ),
    ].map(failure)
    for (const failed of failures) expect(await failed).toMatchObject({ code: 'store_unavailable' })
  })

  test('a file that changes between the look and the upload is not sent as something else', async () => {
    const clock = testClock()
    await using sandbox = await withSandbox({ clock })
    await using t = await withTalk({ sandbox })
    const path = join(t.mediaRoot, 'in', 'f')
    /** Upstream says where to only when the file has changed. */
    const sendWhile = async (change: () => Promise<unknown>) => {
      await t.sandbox.fail('getuploadurl', 'slow', { delay_ms: 60_000 })
      const asked = t.requests('getuploadurl')
      let over = false
      const sending = send(t, { kind: 'file', path: 'in/f' })
        .catch(error => error)
        .finally(() => {
          over = true
        })
      await t.until('asked', () => t.requests('getuploadurl') > asked)
      await change()
      await t.until('answered', () => {
        clock.advance(60_000)
        return over
      })
      return sending
    }
    for (const change of [
      () => writeFile(path, Buffer.alloc(5000, 2)),
      () => truncate(path, 100),
      async () => {
        await truncate(path, 0)
        await writeFile(path, Buffer.alloc(5000, 3))
      },
      // As a backup is put back.
      async () => {
        await writeFile(path, Buffer.alloc(5000, 4))
        await utimes(path, 1, 1)
      },
    ]) {
      await writeFile(path, Buffer.alloc(5000, 1))
      await utimes(path, 1, 1)
      expect(await sendWhile(change)).toMatchObject({
        code: 'invalid_arguments',
        field: expect.stringMatching(/^media/),
      })
    }
    // Another file under the old name is another file: the first one goes out.
    await writeFile(path, Buffer.alloc(5000, 1))
    const result = await sendWhile(async () => {
      await writeFile(`${path}2`, 'other')
      await rename(`${path}2`, path)
    })
    expect(result.success).toBe(true)
    expect(md5((await seen(t)).bytes)).toBe(md5(Buffer.alloc(5000, 1)))
    expect(await t.sandbox.messages({ from: 'bot' })).toHaveLength(1)
    expect(await used(t)).toBe(1)
  })
})

describe('upload_id, data, url', () => {
  it('an upload is sent any number of times, until its day is over', async t => {
    const bytes = randomBytes(70_000)
    const upload = await t.gateway.media.accept(
      { body: streamOf(bytes), file_name: '../报告 2026.pdf', digest: 'sha256' },
      new AbortController().signal,
    )
    expect(upload).toMatchObject({ size: 70_000, sha256: createHash('sha256').update(bytes).digest('hex') })
    expect(upload.expires_at - t.clock.now()).toBeGreaterThan(23.9 * 60 * 60_000)
    for (let i = 0; i < 2; i++) {
      await send(t, { kind: 'file', upload_id: upload.upload_id })
      const item = await seen(t)
      expect(item.file_name).toBe('报告 2026.pdf')
      expect(md5(item.bytes)).toBe(md5(bytes))
    }
    t.clock.advance(24 * 60 * 60_000)
    await t.sandbox.advance(24 * 60 * 60_000)
    await t.sandbox.say('again')
    await t.until('open', async () => (await used(t)) === 0)
    expect(await codeOf(send(t, { kind: 'file', upload_id: upload.upload_id }))).toBe('not_found')
  })

  test('all uploads that wait are at most four times as large as the largest allowed, while they come too', async () => {
    await using t = await withTalk({ config: { maxUploadBytes: 100_000 } })
    const { signal } = new AbortController()
    const all = await Promise.allSettled(
      Array.from({ length: 40 }, () =>
        t.gateway.media.accept({ body: streamOf(randomBytes(30_000)), size: 30_000 }, signal),
      ),
    )
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(13)
    for (const one of all)
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'rate_limited' })
    // One that breaks off leaves its room to others, and one that does not say its size is as large as is allowed.
    expect(await failure(t.gateway.media.accept({ body: streamOf(randomBytes(10)) }, signal))).toMatchObject({
      code: 'rate_limited',
    })
    for (let i = 0; i < 3; i++)
      expect(
        await failure(t.gateway.media.accept({ body: streamOf(new Uint8Array()), size: 10_000 }, signal)),
      ).toMatchObject({ code: 'invalid_arguments' })
    await t.gateway.media.accept({ body: streamOf(randomBytes(10_000)), size: 10_000 }, signal)
  })

  test('where the disk would keep too little for messages, no file is taken, and messages go on', async () => {
    await using t = await withTalk({ config: { keepFreeBytes: Number.MAX_SAFE_INTEGER } })
    const { signal } = new AbortController()
    const refused = { code: 'store_unavailable' }
    expect(await t.gateway.health()).toMatchObject({ status: 'degraded', disk: 'low', store: 'ok' })
    const body = streamOf(randomBytes(10))
    expect(await failure(t.gateway.media.accept({ body }, signal))).toMatchObject(refused)
    const data = randomBytes(10).toString('base64')
    expect(await failure(send(t, { kind: 'file', data }))).toMatchObject(refused)
    await t.sandbox.media('file', new Blob(['theirs']), { name: 'theirs.txt' })
    const { message_id } = (await t.receive(2))[1]!
    expect(
      await failure(t.gateway.media.download({ message_id, item: 0 }, createDirectCall())),
    ).toMatchObject(refused)
    expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
    expect((await t.send({ text: 'still here' })).success).toBe(true)
  })

  it('base64 in its spellings; what is none, or too much, is refused', async t => {
    const bytes = Buffer.from([251, 255, 190, 1, 2])
    for (const data of [
      bytes.toString('base64'),
      bytes.toString('base64url'),
      `data:image/png;base64,${bytes.toString('base64')}`,
      ` ${bytes.toString('base64').slice(0, 4)}\n${bytes.toString('base64').slice(4)} `,
    ]) {
      await send(t, { kind: 'image', data })
      expect(Buffer.from((await seen(t)).bytes).equals(bytes)).toBe(true)
    }
    // Looked at more than once per character, the last one would take days.
    const padding = `${'='.repeat(4_000_000)}A`
    for (const data of ['not base64!', 'AAAAA', 'data:text/plain,hello', '你好', '', '====', padding]) {
      expect(await failure(send(t, { kind: 'image', data }))).toMatchObject({ code: 'invalid_arguments' })
    }
    const large = Buffer.alloc(16 * 1024 * 1024 + 1).toString('base64')
    expect(await codeOf(send(t, { kind: 'image', data: large }))).toBe('payload_too_large')
    expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
  })

  it('an image whose bytes are certainly of another kind is refused before anything goes out, wherever it is from', async t => {
    const text = Buffer.from('a text, 图片\n'.repeat(1000))
    const path = join('in', 'x.png')
    await writeFile(join(t.mediaRoot, path), text)
    const given = { body: streamOf(text), file_name: 'x.png' }
    const { upload_id } = await t.gateway.media.accept(given, new AbortController().signal)
    const { media_id } = await t.sandbox.media('file', text, { name: 'x.png' })
    const none = [text, Buffer.from('%PDF-1.7\n'), Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>')]
    const sources = none.map(bytes => ({ data: bytes.toString('base64') }))
    for (const source of [
      ...sources,
      { path },
      { upload_id },
      { url: `${t.sandbox.url}/phone/media/${media_id}` },
    ]) {
      const refused = failure(send(t, { kind: 'image', file_name: 'x.png', ...source }, remote, 'look'))
      expect(await refused).toMatchObject({ code: 'invalid_arguments', field: 'media[0]' })
    }
    expect([t.requests('getuploadurl'), t.requests('sendmessage'), await used(t)]).toEqual([0, 0, 0])
    // What is known to be a picture goes, and what is known to nobody.
    const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xe0, 1])
    for (const bytes of [jpeg, Buffer.from([1, 2, 3]), Buffer.from('\u{1f600}').subarray(0, 3)])
      expect((await send(t, { kind: 'image', data: bytes.toString('base64') })).status).toBe('accepted')
    expect((await send(t, { kind: 'file', path })).status).toBe('accepted')
    expect((await readdir(join(t.mediaRoot, 'uploads'))).filter(name => name.endsWith('.tmp'))).toEqual([])
  })

  it('an upload that is to be a picture is refused as it comes, where it is certainly none', async t => {
    const { signal } = new AbortController()
    const accept = (body: ReadableStream<Uint8Array>) =>
      t.gateway.media.accept({ body, kind: 'image' }, signal)
    let given = 0
    let cancelled = false
    const endless = new ReadableStream<Uint8Array>({
      pull: controller => controller.enqueue(Buffer.from(`line ${given++}\n`)),
      cancel() {
        cancelled = true
      },
    })
    for (const body of [endless, streamOf(Buffer.from('some words'))])
      expect(await failure(accept(body))).toMatchObject({ code: 'invalid_arguments', field: 'kind' })
    expect(await failure(accept(streamOf(new Uint8Array())))).toMatchObject({ field: 'media' })
    expect([cancelled, given < 2000]).toEqual([true, true])
    expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
    const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), randomBytes(9000)])
    for (const bytes of [jpeg, jpeg.subarray(0, 5), Buffer.from([1, 2, 3])]) {
      // Byte by byte at first, then the rest.
      const pieces = [...bytes.subarray(0, 5)].map(byte => new Uint8Array([byte]))
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          for (const piece of [...pieces, bytes.subarray(5)]) if (piece.length > 0) controller.enqueue(piece)
          controller.close()
        },
      })
      const { upload_id } = await accept(body)
      expect((await send(t, { kind: 'image', upload_id })).status).toBe('accepted')
      expect((await seen(t)).bytes).toEqual(new Uint8Array(bytes))
    }
  })

  it('a URL must lead to a public address, unless it is upstream’s or the CDN’s', async t => {
    using server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => new Response('inside the house'),
    })
    for (const url of [
      `http://127.0.0.1:${server.port}/x`,
      'http://localhost/x',
      'http://169.254.169.254/',
    ]) {
      expect(await failure(send(t, { kind: 'file', url }))).toMatchObject({ code: 'forbidden' })
    }
    for (const url of ['file:///etc/passwd', 'ftp://a/b', 'nonsense']) {
      expect(await failure(send(t, { kind: 'file', url }))).toMatchObject({ code: 'invalid_arguments' })
    }
    const said = await t.sandbox.media('image', randomBytes(500), { name: 'p.png' })
    await send(t, { kind: 'file', url: `${t.sandbox.url}/phone/media/${said.media_id}` })
    expect((await seen(t)).size).toBe(500)
    expect(await readdir(join(t.mediaRoot, 'uploads'))).toEqual([])
  })

  it('exactly one source', async t => {
    for (const media of [{ kind: 'file' }, { kind: 'file', path: 'a', data: 'AAAA' }] as MediaContent[]) {
      expect(await failure(send(t, media))).toMatchObject({ code: 'invalid_arguments' })
    }
  })
})

describe('a send that has to wait', () => {
  // Never fetched: it would be refused as an address inside the house.
  const elsewhere: MediaContent = { kind: 'file', url: 'http://127.0.0.1:9/' }
  const wrong: [media: object, code: string, field?: string][] = [
    [{ path: 'in/nope.png' }, 'invalid_arguments', 'media[1].path'],
    [{ path: '/etc/passwd' }, 'forbidden'],
    [{ upload_id: crypto.randomUUID() }, 'not_found', 'media[1].upload_id'],
    [{ path: 'in/a.txt', data: 'AAAA' }, 'invalid_arguments', 'media[1]'],
  ]
  for (const why of ['rate_limited', 'window_closed']) {
    test(`${why}: what lies here and can never be sent is told first, the rest is not looked for`, async () => {
      await using t = await withTalk({
        config: { pace: { perSecond: 1000, perWindow: 1, windowMs: 300_000 } },
      })
      await writeFile(join(t.mediaRoot, 'in', 'a.txt'), 'here')
      await t.send({ text: 'the one that may go' })
      // By the clock on the wall alone: a day that passes makes the house be kept, and files of this moment a day old.
      if (why === 'window_closed') t.clock.step(24.5 * 60 * 60_000)
      const upload = { body: streamOf(Buffer.from('here')) }
      const { upload_id } = await t.gateway.media.accept(upload, new AbortController().signal)
      for (const [media, code, field] of wrong) {
        const error = await failure(send(t, [elsewhere, { kind: 'file', ...media }]))
        expect(error).toMatchObject({ code, ...(field && { field }) })
      }
      const good: MediaContent[] = [
        { kind: 'file', path: 'in/a.txt' },
        { kind: 'file', upload_id },
      ]
      expect(await failure(send(t, [elsewhere, ...good]))).toMatchObject({ code: why })
      expect(t.requests('getuploadurl')).toBe(0)
    })
  }
})
