/** What every media place must do (`src/storage/media-store.ts`), on those there are. */
import { describe, expect, onTestFinished, test } from 'bun:test'
import { createHash, randomUUID } from 'node:crypto'
import { readdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { FreeSpace } from '../../src/platform/free-space.ts'
import { silentLog } from '../../src/platform/log.ts'
import type { MediaRules, MediaStore, OpenedStoredFile } from '../../src/storage/media-store.ts'
import type { PgStorage } from '../../src/storage/postgres/open.ts'
import { MediaFolder } from '../../src/storage/sqlite/media-folder.ts'
import type { Storage } from '../../src/storage/storage.ts'
import { failure } from '../support/failure.ts'
import { folderOfTest } from '../support/folder.ts'
import { isPostgresThere } from '../support/postgres.ts'
import { openPostgres } from './postgres/support.ts'
import { type Opened as OpenedStorage, testClock } from './support.ts'

type Clock = OpenedStorage['clock']
interface Opened {
  place: MediaStore
  /** The same files, as another process has them. */
  other: MediaStore
  clock: Clock
}

const dayMs = 24 * 60 * 60_000
const hex = (kind: string, bytes: Uint8Array) => createHash(kind).update(bytes).digest('hex')

async function onFolder(rules: MediaRules): Promise<Opened & { dir: string }> {
  const dir = folderOfTest()
  // Files bear the time of the system.
  const clock = Object.assign(testClock(), { at: Date.now() })
  const name = rules.lifeMs === undefined ? 'outbox' : 'uploads'
  const space = new FreeSpace(dir, 0)
  const open = () => new MediaFolder({ ...rules, mediaRoot: dir, name, space, clock, log: silentLog })
  return { place: open(), other: open(), clock, dir: join(dir, name) }
}

async function onPostgres(rules: MediaRules): Promise<Opened> {
  const t = await openPostgres()
  const second = await t.second()
  onTestFinished(async () => {
    await second[Symbol.asyncDispose]()
    await t[Symbol.asyncDispose]()
  })
  const name = rules.lifeMs === undefined ? 'queued' : 'uploads'
  const open = (storage: Storage) => (storage as PgStorage).openMediaStores({ uploads: rules })[name]
  return { place: open(t.storage), other: open(second.storage), clock: t.clock }
}

const uploads: MediaRules = { lifeMs: dayMs, room: { files: 4, bytes: 3000, largest: 2000 } }
const never = new AbortController().signal
const stream = (text: string) => new Blob([text]).stream()
const put = (place: MediaStore, text: string, id: string = randomUUID()) =>
  place.put(id, stream(text), { signal: never, size: text.length }).then(placed => ({ ...placed, id }))

async function textOf(file: OpenedStoredFile | undefined): Promise<string | undefined> {
  if (!file) return undefined
  const blocks: Uint8Array[] = []
  for await (const block of file.read()) blocks.push(block.slice())
  await file.checkUnchanged()
  await file.release()
  return Buffer.concat(blocks).toString()
}
const read = async (place: MediaStore, id: string) => textOf(await place.open(id))

describe.each([
  ['a folder', onFolder],
  ...(isPostgresThere() ? ([['PostgreSQL', onPostgres]] as const) : []),
] as const)('media place: %s', (_name, open) => {
  test('a stored file is available, also to other processes, with digests and note, until it is discarded', async () => {
    const t = await open(uploads)
    const id = randomUUID()
    const bytes = Buffer.from('hello 你好')
    const note = { file_name: 'a.txt', kind: 'file' }
    const given = { signal: never, digest: 'sha256', note } as const
    const placed = await t.place.put(id, new Blob([bytes]).stream(), given)
    const expires_at = t.clock.now() + dayMs
    const digests = { md5: hex('md5', bytes), sha256: hex('sha256', bytes) }
    expect(placed).toEqual({ size: bytes.length, ...digests, expires_at })
    for (const place of [t.place, t.other]) {
      const file = await place.open(id)
      expect(file).toMatchObject({ size: bytes.length, md5: digests.md5 })
      expect(file?.note).toEqual(note)
      expect(await textOf(file)).toBe('hello 你好')
    }
    await t.other.discard([id, randomUUID()])
    for (const place of [t.place, t.other]) expect(await place.open(id)).toBeUndefined()
    for (const odd of [randomUUID(), '', '..', '../x', 'a/b']) expect(await t.place.open(odd)).toBeUndefined()
  })

  test('a too large, empty, aborted or failing stream leaves nothing behind and is cancelled', async () => {
    const t = await open(uploads)
    const stop = new AbortController()
    const cancelled: string[] = []
    const slow = (name: string, then?: (controller: ReadableStreamDefaultController<Uint8Array>) => void) =>
      new ReadableStream<Uint8Array>({
        start(controller) {
          controller.enqueue(Buffer.from('some'))
          then?.(controller)
        },
        cancel: () => void cancelled.push(name),
      })
    const id = randomUUID()
    const tried = (body: ReadableStream<Uint8Array>, signal = never) =>
      failure(t.place.put(id, body, { maxBytes: 5, signal }))
    expect(await tried(stream('123456'))).toMatchObject({ code: 'payload_too_large' })
    expect(await tried(stream(''))).toMatchObject({ code: 'invalid_arguments' })
    expect(await tried(slow('failing', controller => controller.error(new Error('gone'))))).toMatchObject({
      message: 'gone',
    })
    const broken = tried(slow('broken off'), stop.signal)
    stop.abort(new Error('enough'))
    expect(await broken).toMatchObject({ message: 'enough' })
    expect(cancelled).toEqual(['broken off'])
    expect(await t.place.open(id)).toBeUndefined()
  })

  test('owners who share have half of the files and bytes, also while they are stored; others have the rest', async () => {
    const t = await open(uploads)
    const of = (by: string | undefined, text: string, place = t.place) =>
      place.put(randomUUID(), stream(text), {
        signal: never,
        size: text.length,
        note: { ...(by && { by }) },
        sharing: by === undefined ? undefined : by === 'c' ? ['c'] : ['a', 'b'],
      })
    await of('a', 'x')
    await of('b', 'y', t.other)
    t.clock.at += 1100
    for (const by of ['a', 'b']) expect(await failure(of(by, 'z'))).toMatchObject({ code: 'rate_limited' })
    expect(await failure(of('c', 'z'.repeat(1501)))).toMatchObject({ code: 'rate_limited' })
    await of('c', 'z')
    await of(undefined, 'z')
    const other = await open(uploads)
    const begun = Promise.withResolvers<void>()
    const endless = new ReadableStream<Uint8Array>(
      {
        pull() {
          begun.resolve()
          return new Promise(() => {})
        },
      },
      { highWaterMark: 0 },
    )
    const stop = new AbortController()
    const given = { size: 1400, note: { by: 'a' }, sharing: ['a'], signal: stop.signal }
    const slow = failure(other.place.put(randomUUID(), endless, given))
    await begun.promise
    const more = () =>
      other.place.put(randomUUID(), stream('x'.repeat(200)), { ...given, size: 200, signal: never })
    expect(await failure(more())).toMatchObject({ code: 'rate_limited' })
    stop.abort(new Error('enough'))
    expect(await slow).toMatchObject({ message: 'enough' })
    await more()
  })

  test('uploads are limited in bytes and files; sent ones are removed for space; they expire', async () => {
    const t = await open(uploads)
    const first = await put(t.place, 'a'.repeat(1500))
    await put(t.place, 'b'.repeat(1000))
    expect(await failure(put(t.place, 'c'.repeat(1000)))).toMatchObject({ code: 'rate_limited' })
    t.place.markServed(first.id)
    expect(await read(t.place, first.id)).toHaveLength(1500)
    const third = await put(t.place, 'c'.repeat(1000))
    expect(await t.place.open(first.id)).toBeUndefined()
    await put(t.place, 'd')
    await put(t.place, 'e')
    expect(await failure(put(t.place, 'f'))).toMatchObject({ code: 'rate_limited' })
    t.clock.at += dayMs
    expect(await t.place.open(third.id)).toBeUndefined()
  })

  test('files go by their notes: wholly, and no others', async () => {
    const t = await open(uploads)
    const store = async (note: Record<string, unknown>) => {
      const id = randomUUID()
      await t.place.put(id, stream('x'), { signal: never, note })
      return id
    }
    const [a, b, none] = [await store({ by: 'a' }), await store({ by: 'b' }), await store({})]
    const asked: unknown[] = []
    await t.other.removeWhere(async ({ by }) => {
      asked.push(by)
      return by === 'a'
    })
    expect(asked.toSorted()).toEqual(['a', 'b', undefined])
    expect(await t.place.open(a)).toBeUndefined()
    for (const id of [b, none]) expect(await read(t.place, id)).toBe('x')
    // Its space is free.
    await t.place.removeWhere(async () => true)
    t.clock.at += 2000
    for (let nth = 0; nth < 4; nth++) await store({})
  })

  test('a sweep keeps needed and young files, and removes the rest', async () => {
    const t = await open({})
    const [needed, left] = [`${randomUUID()}.queued`, `${randomUUID()}.queued`]
    for (const id of [needed, left]) expect((await put(t.place, id, id)).expires_at).toBeUndefined()
    await t.place.sweep(new Set([needed]))
    expect(await read(t.place, left)).toBe(left)
    t.clock.at += 2 * 60 * 60_000
    await t.place.sweep(new Set([needed]))
    expect(await read(t.place, needed)).toBe(needed)
    expect(await t.place.open(left)).toBeUndefined()
  })
})

test('a folder: incomplete files cannot be opened, and those that a crash left are removed', async () => {
  const t = await onFolder(uploads)
  const tooLarge = t.place.put(randomUUID(), stream('some'), { maxBytes: 3, signal: never })
  expect(await failure(tooLarge)).toMatchObject({ code: 'payload_too_large' })
  expect(await readdir(t.dir)).toEqual([])
  const { id } = await put(t.place, 'whole')
  await truncate(join(t.dir, id), 3)
  expect(await t.place.open(id)).toBeUndefined()
  const other = await put(t.place, 'whole')
  await writeFile(join(t.dir, `${other.id}.json`), '{"size":5')
  expect(await t.place.open(other.id)).toBeUndefined()
  await writeFile(join(t.dir, `${randomUUID()}.tmp`), 'half')
  await writeFile(join(t.dir, 'foreign'), 'of somebody')
  t.clock.at += 2 * dayMs
  await t.place.sweep()
  expect(await readdir(t.dir)).toEqual(['foreign'])
})
