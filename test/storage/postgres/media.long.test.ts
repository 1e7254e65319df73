/** Files in a store on PostgreSQL. */
import { describe, expect, test } from 'bun:test'
import { createHash, randomUUID } from 'node:crypto'
import { maxStoredBytes } from '../../../src/storage/postgres/media.ts'
import { failure } from '../../support/failure.ts'
import { isPostgresThere } from '../../support/postgres.ts'
import { openPostgres } from './support.ts'

const never = new AbortController().signal
const kib = 1024
const limits = { lifeMs: 60_000, room: { files: 10, bytes: 1e9, largest: 1e9 } }

/** A stream of `size` bytes, none like its neighbours. */
function streamOf(size: number, block = 100_000): ReadableStream<Uint8Array> {
  let sent = 0
  return new ReadableStream({
    pull(controller) {
      const part = Uint8Array.from({ length: Math.min(block, size - sent) }, (_, at) => (sent + at) * 31)
      sent += part.length
      if (part.length > 0) controller.enqueue(part)
      if (sent === size) controller.close()
    },
  })
}

describe.skipIf(!isPostgresThere())('files on PostgreSQL', () => {
  test('a file of any size is the same on another node', async () => {
    await using t = await openPostgres()
    await using second = await t.second()
    const { uploads } = t.storage.openMediaStores({ uploads: limits })
    const other = (second.storage as typeof t.storage).openMediaStores({ uploads: limits }).uploads
    for (const size of [1, 256 * kib - 1, 256 * kib, 256 * kib + 1, 3 * 1024 * kib, maxStoredBytes]) {
      const id = randomUUID()
      const placed = await uploads.put(id, streamOf(size), { signal: never, digest: 'sha256' })
      expect(placed.size).toBe(size)
      const file = (await other.open(id))!
      const hash = createHash('sha256')
      let largest = 0
      for await (const block of file.read()) {
        hash.update(block)
        largest = Math.max(largest, block.length)
      }
      expect(hash.digest('hex')).toBe(placed.sha256!)
      expect(largest).toBeLessThanOrEqual(256 * kib)
      await other.discard([id])
    }
  }, 60_000)

  test('a file that is too large for the database is rejected, with what to do', async () => {
    await using t = await openPostgres()
    const { queued } = t.storage.openMediaStores({ uploads: limits })
    const put = (more: { size?: number }) =>
      failure(queued.put(`${randomUUID()}.queued`, streamOf(maxStoredBytes + 1), { signal: never, ...more }))
    for (const more of [{ size: maxStoredBytes + 1 }, {}])
      expect(await put(more)).toMatchObject({
        code: 'payload_too_large',
        hint: expect.stringContaining('path'),
      })
  }, 60_000)

  test('a file that is removed while it is stored or read ends with an error, and leaves no chunk', async () => {
    await using t = await openPostgres()
    const { uploads } = t.storage.openMediaStores({ uploads: limits })
    const id = randomUUID()
    let pulls = 0
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (++pulls === 3) await uploads.discard([id])
        if (pulls > 5) controller.close()
        else controller.enqueue(new Uint8Array(256 * kib))
      },
    })
    expect(await failure(uploads.put(id, body, { signal: never }))).toMatchObject({
      code: 'store_unavailable',
    })
    expect(await uploads.open(id)).toBeUndefined()
    const whole = randomUUID()
    await uploads.put(whole, streamOf(1024 * kib), { signal: never })
    const reading = (await uploads.open(whole))!.read()
    await reading.next()
    await uploads.discard([whole])
    const rest = (async () => {
      for await (const _ of reading);
    })()
    expect(await failure(rest)).toMatchObject({ code: 'invalid_arguments' })
  })

  test('the room counts what other nodes store at the same time', async () => {
    await using t = await openPostgres()
    await using second = await t.second()
    const rules = { ...limits, room: { files: 3, bytes: 1e9, largest: 1e9 } }
    const stores = [t.storage, second.storage as typeof t.storage].map(
      storage => storage.openMediaStores({ uploads: rules }).uploads,
    )
    const puts = Array.from({ length: 10 }, (_, nth) =>
      stores[nth % 2]!.put(randomUUID(), streamOf(1000), { signal: never, size: 1000 }).then(
        () => 'stored',
        error => error.code,
      ),
    )
    expect((await Promise.all(puts)).toSorted()).toEqual([
      ...Array<string>(7).fill('rate_limited'),
      ...Array<string>(3).fill('stored'),
    ])
  })
})
