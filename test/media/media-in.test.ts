import { describe, expect, test } from 'bun:test'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { DownloadRequest } from '../../src/media/downloads.ts'
import { createDirectCall } from '../../src/model/call.ts'
import { owner, type Principal } from '../../src/model/principal.ts'
import { testClock } from '../support/clock.ts'
import { codeOf, failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { type TestGateway, withGateway } from '../support/gateway.ts'
import { given } from '../support/given.ts'
import { withSandbox } from '../support/sandbox.ts'
import { stopwatch } from '../support/stopwatch.ts'

const it = given(withGateway)

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const download = (t: TestGateway, request: Partial<DownloadRequest>, call: object = {}) =>
  t.gateway.media.download(
    { message_id: '', item: 0, ...request },
    { ...createDirectCall(), local: false, ...call },
  )

const picture = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)

/** Between two tries lies less. */
const restMs = 4000

/** A message with this media, received. @returns its id */
async function sent(
  t: TestGateway,
  kind: 'image' | 'voice' | 'file' | 'video',
  bytes: Uint8Array,
  name?: string,
): Promise<string> {
  const { message_id } = await t.sandbox.media(kind, new Blob([new Uint8Array(bytes)]), name ? { name } : {})
  await t.until('stored', async () =>
    (await t.gateway.history.page({ limit: 9, offset: 0 })).messages.some(m => m.message_id === message_id),
  )
  return message_id
}

const filesIn = async (folder: string) => (await readdir(folder).catch(() => [])).sort()

test.each(['image', 'video', 'file', 'voice'] as const)(
  'the size of a %s is exact where it is asked for, but for an image; videos are counted once for all',
  async kind => {
    await using t = await withGateway()
    const bytes = randomBytes(300_005)
    const message_id = await sent(t, kind, bytes, 'a.bin')
    const { signal } = new AbortController()
    const downloads = async () => (await (await fetch(`${t.sandbox.url}/phone/stats`)).json()).downloads
    const open = async () => {
      const { size, stream } = await t.gateway.media.open({ message_id, item: 0, sized: true }, signal)
      expect(size).toBe(kind === 'image' ? undefined : bytes.length)
      expect(sha256(await new Response(stream).bytes())).toBe(sha256(bytes))
    }
    await Promise.all([open(), open(), open()])
    const counts = kind === 'video' ? 1 : 0
    expect(await downloads()).toBe(3 + counts)
    await open()
    expect(await downloads()).toBe(4 + counts)
  },
)

it('a count that fails is tried again', async t => {
  const message_id = await sent(t, 'video', randomBytes(300_005), 'a.bin')
  const { signal } = new AbortController()
  const open = () => t.gateway.media.open({ message_id, item: 0, sized: true }, signal)
  await t.sandbox.fail('download', '404', { times: 1 })
  expect(await open().catch((error: unknown) => error)).toBeInstanceOf(Error)
  const { size, stream } = await open()
  expect(size).toBe(300_005)
  await stream.cancel()
})

describe('a download of a key', () => {
  const keyed = (id: string): Principal => ({ kind: 'key', id, grant: { rights: ['download', 'send'] } })
  const [one, other] = [keyed('aaaaaaaa'), keyed('bbbbbbbb')]
  const send = (t: TestGateway, path: string, by: Principal) =>
    t.gateway.sender.send(
      { to: 'u@im.wechat', media: [{ kind: 'file', path }], when_closed: 'fail' },
      { ...createDirectCall(), by, local: false },
    )

  it('is in its own folder, and no other key can send or replace it', async t => {
    const message_id = await sent(t, 'file', picture, 'a.png')
    const own = await download(t, { message_id }, { by: one })
    expect(own.path).toBe(join(t.mediaRoot, 'downloads', 'aaaaaaaa', 'a.png'))
    const ownersOne = await download(t, { message_id })
    expect(ownersOne.path).toBe(join(t.mediaRoot, 'downloads', 'a.png'))
    for (const path of [own.path, ownersOne.path, 'downloads/missing', 'uploads/x', 'outbox/x'])
      expect([path, await codeOf(send(t, path, other))]).toEqual([path, 'forbidden'])
    for (const save_dir of ['downloads', 'downloads/aaaaaaaa', 'downloads/cccccccc'])
      expect(await codeOf(download(t, { message_id, save_dir }, { by: other }))).toBe('forbidden')
    await writeFile(join(t.mediaRoot, 'shared.txt'), 'for all')
    for (const [path, by] of [
      [own.path, one],
      ['shared.txt', one],
      ['shared.txt', other],
      [own.path, owner],
    ] as const)
      expect([path, await codeOf(send(t, path, by))]).not.toEqual([path, 'forbidden'])
  })
})

describe('download', () => {
  for (const image_key of ['a', 'b', 'c', 'none'] as const) {
    test(`an image whose key is spelled ${image_key}: the bytes, their digest where asked for, a name and a type`, async () => {
      await using t = await withGateway({ switches: { image_key } })
      const png = Buffer.concat([picture, randomBytes(9000)])
      const message_id = await sent(t, 'image', png)
      expect(await download(t, { message_id })).not.toHaveProperty('sha256')
      const saved = await download(t, { message_id, digest: 'sha256' })
      expect(saved).toMatchObject({
        size: png.length,
        sha256: sha256(png),
        content_type: 'image/png',
        file_name: `image-${message_id} (1).png`,
      })
      expect(dirname(saved.path)).toBe(join(t.mediaRoot, 'downloads'))
      expect(sha256(await readFile(saved.path))).toBe(sha256(png))
      expect((await stat(saved.path)).mode & 0o777).toBe(0o600)
    })
  }

  it('where so long a name is not taken, a shorter one is, and the bytes stay', async t => {
    const bytes = randomBytes(5000)
    const message_id = await sent(t, 'file', bytes, `${'x'.repeat(250)}.docx`)
    // A path may have 4095 bytes.
    let save_dir = join(t.mediaRoot, 'deep')
    while (save_dir.length < 3900)
      save_dir = join(save_dir, 'd'.repeat(Math.min(200, 3900 - save_dir.length)))
    const { path, renamed } = await download(t, { message_id, save_dir })
    expect(basename(path)).toMatch(/^x{100,}\.docx$/)
    expect(renamed).toBeString()
    expect(sha256(await readFile(path))).toBe(sha256(bytes))
    expect(await filesIn(save_dir)).toEqual([basename(path)])
    expect((await download(t, { message_id, save_dir })).file_name).toEndWith(' (1).docx')
  })

  it('names: Chinese ones stay, hostile ones become harmless, nothing is overwritten', async t => {
    const folder = join(t.mediaRoot, 'downloads')
    const kept = ['年度报告(终版).pdf', 'a"b:c.txt', 'con.txt', `${'长'.repeat(80)}.docx`, 'x.tmp']
    const names: [string, RegExp][] = [
      ...kept.map((name): [string, RegExp] => [name, new RegExp(`^${RegExp.escape(name)}$`)]),
      ['../../x', /^x$/],
      ['/etc/passwd', /^passwd$/],
      ['C:\\Windows\\evil.exe', /^evil\.exe$/],
      ['a\u0000b\n\u202Egpj.exe', /^abgpj\.exe$/],
      [`${'长'.repeat(300)}.docx`, /^长+\.docx$/],
      ['..', /^file$/],
      ['.bashrc', /^_\.bashrc$/],
      ['.x.0123abcd.part', /^_\.x\.0123abcd\.part$/],
    ]
    for (const [name, expected] of names) {
      const bytes = randomBytes(20)
      const saved = await download(t, { message_id: await sent(t, 'file', bytes, name) })
      expect(saved.file_name).toMatch(expected)
      expect(Buffer.byteLength(saved.file_name)).toBeLessThanOrEqual(255)
      expect(typeof saved.renamed).toBe(kept.includes(name) ? 'undefined' : 'string')
      expect(dirname(saved.path)).toBe(folder)
      expect(sha256(await readFile(saved.path))).toBe(sha256(bytes))
    }
    const message_id = await sent(t, 'file', randomBytes(20), '年度报告(终版).pdf')
    const more = await Promise.all([1, 2, 3].map(() => download(t, { message_id })))
    expect(more.map(({ file_name }) => file_name).sort()).toEqual([
      '年度报告(终版) (1).pdf',
      '年度报告(终版) (2).pdf',
      '年度报告(终版) (3).pdf',
    ])
    expect(await filesIn(folder)).toHaveLength(names.length + 3)
  })

  it('save_dir: inside the media root for a remote caller, anywhere for the local user, whose folder stays as it is', async t => {
    const message_id = await sent(t, 'file', randomBytes(20), 'a.bin')
    const outside = folderOfTest()
    await chmod(outside, 0o755)
    await symlink(outside, join(t.mediaRoot, 'out'))
    for (const save_dir of ['..', '../default', outside, 'out', 'out/deeper', '/', 'a\0b']) {
      expect(await failure(download(t, { message_id, save_dir }))).toMatchObject({ code: 'forbidden' })
    }
    expect(await filesIn(outside)).toEqual([])
    expect(dirname((await download(t, { message_id, save_dir: 'new/folder' })).path)).toBe(
      join(t.mediaRoot, 'new', 'folder'),
    )
    // A folder is found under its name in another Unicode form.
    for (const [top, call] of [
      [t.mediaRoot, {}],
      [folderOfTest(), { local: true }],
    ] as const) {
      await mkdir(join(top, 'Cafe\u0301'))
      const { path } = await download(t, { message_id, save_dir: join(top, 'Caf\u00e9', 'new') }, call)
      expect(path).toBe(join(top, 'Cafe\u0301', 'new', 'a.bin'))
      expect(await filesIn(top)).not.toContain('Caf\u00e9')
    }
    const saved = await download(t, { message_id, save_dir: outside }, { local: true })
    expect(saved.path).toBe(join(outside, 'a.bin'))
    expect((await stat(outside)).mode & 0o777).toBe(0o755)
    await writeFile(join(t.mediaRoot, 'taken'), '')
    expect(await codeOf(download(t, { message_id, save_dir: 'taken' }))).toBe('invalid_arguments')
  })

  it("nobody saves among svc's own files; the local user saves in the media root by its whole path", async t => {
    const message_id = await sent(t, 'file', randomBytes(20), 'a.bin')
    const outside = folderOfTest()
    await symlink(t.dir, join(outside, 'data'))
    await symlink(join(t.dir, 'default'), join(t.mediaRoot, 'in'))
    const folders = [t.dir, join(t.dir, 'default'), join(t.dir, 'new', 'deep'), join(outside, 'data')]
    for (const save_dir of [...folders, join(outside, 'data', 'new'), join(t.mediaRoot, 'in')]) {
      expect(await codeOf(download(t, { message_id, save_dir }, { local: true }))).toBe('forbidden')
    }
    expect(await filesIn(t.dir)).not.toContain('new')
    expect(await filesIn(join(t.dir, 'default'))).not.toContain('a.bin')
    const saved = await download(t, { message_id, save_dir: join(t.mediaRoot, 'mine') }, { local: true })
    expect(saved.path).toBe(join(t.mediaRoot, 'mine', 'a.bin'))
  })

  it('several media in one message, by number; a number too many, a message without, an unknown one', async t => {
    const one = await t.sandbox.media('image', new Blob(['first']))
    const two = await t.sandbox.media('file', new Blob(['second']), { name: 'two.txt' })
    const messages = await t.receive(2)
    expect(messages).toHaveLength(2)
    const items = await Promise.all(
      [one, two].map(async ({ message_id }) => {
        const row = t.sandbox.world.core.db.get`SELECT wire FROM message WHERE message_id = ${message_id}`
        return JSON.parse(String(row!.wire)).item_list[0]
      }),
    )
    const { bot_id, user_id } = t.bots.get('default')!
    await t.sandbox.raw({
      ...{ message_id: 77, from_user_id: user_id, to_user_id: bot_id, message_type: 1 },
      item_list: [{ type: 1, text_item: { text: 'both' } }, ...items],
    })
    const [both] = await t.recv()
    expect(both!.items.map(({ has_media }) => has_media)).toEqual([false, true, true])
    const text = async (item: number) =>
      readFile((await download(t, { message_id: both!.message_id, item })).path, 'utf8')
    expect(await text(0)).toBe('first')
    expect(await text(1)).toBe('second')
    const wrong = download(t, { message_id: both!.message_id, item: 2 })
    expect(await codeOf(wrong)).toBe('no_media')
    const said = await t.sandbox.say('only words')
    await t.recv()
    expect(await failure(download(t, { message_id: said.message_id }))).toMatchObject({ code: 'no_media' })
    expect(await failure(download(t, { message_id: '12345' }))).toMatchObject({
      code: 'message_not_found',
      details: undefined,
    })
    // The number that stands first in every message is not the one that is asked for.
    const [row] = (await t.gateway.history.page({ limit: 1, offset: 0 })).messages
    expect(await codeOf(download(t, { message_id: String(row!.id) }))).toBe('message_not_found')
    expect(
      await failure(t.gateway.media.open({ message_id: '12345', item: 0 }, new AbortController().signal)),
    ).toMatchObject({ code: 'message_not_found' })
  })

  // What else a CDN may answer is shown in `ilink/cdn`.
  for (const { kind, code, times } of [
    { kind: '404', code: 'media_expired', times: 1 },
    { kind: 'cut', code: 'upstream_error', times: 0 },
  ] as const) {
    it(`the CDN answers ${kind}: ${code}, and nothing is left in the folder`, async t => {
      const message_id = await sent(t, 'file', randomBytes(12), 'x.bin')
      await t.sandbox.fail('download', kind, { times })
      expect(await t.clock.hurry(failure(download(t, { message_id })), restMs)).toMatchObject({ code })
      expect(await filesIn(join(t.mediaRoot, 'downloads'))).toEqual([])
      await t.sandbox.mend()
      expect((await download(t, { message_id })).size).toBe(12)
    })
  }

  test('a caller who leaves, and a service that stops, end a slow download and leave nothing', async () => {
    for (const stop of [false, true]) {
      // WeChat's clock stands still but for what it is to give: the rest never comes.
      const clock = testClock({ runs: false })
      await using sandbox = await withSandbox({ clock })
      await using t = await withGateway({ sandbox })
      // A twentieth comes at a time, at most: more than is gathered before the first byte is given.
      const message_id = await sent(t, 'file', randomBytes(3_000_000), 'slow.bin')
      await t.sandbox.fail('download', 'slow', { delay_ms: 10_000 })
      const leaving = new AbortController()
      const saving = download(t, { message_id }, { signal: leaving.signal }).catch(error => error)
      const folder = join(t.mediaRoot, 'downloads')
      let pieces = 0
      await t.until('begun', async () => {
        const isBegun = (await filesIn(folder)).some(name => name.endsWith('.part'))
        // Half of it, at most.
        if (!isBegun && clock.sleeps(0, 1000) && ++pieces < 10) clock.wake(1000)
        return isBegun
      })
      using watch = stopwatch()
      if (stop) await t.gateway.close()
      else leaving.abort(new Error('left'))
      const ended = await saving
      if (stop) expect(ended).toMatchObject({ code: 'shutting_down' })
      else expect(ended.message).toBe('left')
      expect(watch.ms).toBeLessThan(4000)
      expect(await filesIn(folder)).toEqual([])
    }
  })

  it('a disk that is full: store_unavailable, partial files removed', async t => {
    const small = join(t.mediaRoot, 'small')
    await mkdir(small)
    const mounted = Bun.spawnSync(['mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small])
    // Only root may mount; elsewhere this says nothing.
    if (mounted.exitCode !== 0) return
    try {
      const message_id = await sent(t, 'file', randomBytes(300_000), 'large.bin')
      expect(await codeOf(download(t, { message_id, save_dir: 'small' }))).toBe('store_unavailable')
      expect(await filesIn(small)).toEqual([])
    } finally {
      Bun.spawnSync(['umount', small])
    }
  })

  it('streamed without a file: name, type, bytes; a cancelled one ends', async t => {
    const bytes = randomBytes(150_000)
    const message_id = await sent(t, 'file', bytes, '表 1.csv')
    const { signal } = new AbortController()
    const opened = await t.gateway.media.open({ message_id, item: 0 }, signal)
    expect(opened).toMatchObject({ file_name: '表 1.csv', content_type: 'text/csv', size: 150_000 })
    expect(sha256(new Uint8Array(await new Response(opened.stream).arrayBuffer()))).toBe(sha256(bytes))
    const again = await t.gateway.media.open({ message_id, item: 0 }, signal)
    await again.stream.cancel()
    const voice = await sent(t, 'voice', Buffer.concat([Buffer.from('\x02#!SILK_V3'), randomBytes(100)]))
    const { file_name, content_type, stream } = await t.gateway.media.open(
      { message_id: voice, item: 0 },
      signal,
    )
    expect({ file_name, content_type }).toEqual({
      file_name: `voice-${voice}.silk`,
      content_type: 'audio/silk',
    })
    expect((await new Response(stream).arrayBuffer()).byteLength).toBe(110)
    expect(basename(t.mediaRoot)).toBe('media')
    expect(await filesIn(t.mediaRoot)).toEqual([])
  })
})
