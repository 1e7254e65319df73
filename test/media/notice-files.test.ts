/** Files of notices: how many places for uploads they take, on every engine. */
import { expect } from 'bun:test'
import { Uploads } from '../../src/media/uploads.ts'
import { createDirectCall } from '../../src/model/call.ts'
import type { Principal } from '../../src/model/principal.ts'
import { FreeSpace } from '../../src/platform/free-space.ts'
import { silentLog } from '../../src/platform/log.ts'
import { uploadRulesOf } from '../../src/storage/media-store.ts'
import type { PgStorage } from '../../src/storage/postgres/open.ts'
import { openMediaStores } from '../../src/storage/sqlite/media-folder.ts'
import { Topics } from '../../src/topics/topics.ts'
import { onEach } from '../storage/engines.ts'
import type { Opened } from '../storage/support.ts'
import { folderOfTest } from '../support/folder.ts'
import { runtimeOf } from '../support/runtime.ts'

const camera: Principal = { kind: 'key', id: 'camera00', grant: { rights: ['notify'], topics: ['home'] } }
const never = new AbortController().signal
const hourMs = 60 * 60_000

/** A topic of a person, and uploads in the store of the engine. */
async function setUp({ clock, storage, store }: Opened) {
  // Files bear the time of the system.
  clock.at = Date.now()
  const rules = uploadRulesOf(1000)
  const mediaRoot = folderOfTest()
  const places =
    'openMediaStores' in storage
      ? (storage as PgStorage).openMediaStores({ uploads: rules })
      : openMediaStores({ mediaRoot, space: new FreeSpace(mediaRoot, 0), clock, log: silentLog }, rules)
  const runtime = runtimeOf({ clock })
  const uploads = new Uploads(
    {
      places,
      maxUploadBytes: 1000,
      store: { topics: store.topics } as never,
      isKeyOver: async () => false,
      familyOf: async id => new Set([id]),
    },
    runtime,
  )
  const topics = new Topics(
    {
      topics: store.topics,
      findTopName: async () => 'top',
      isRunning: async () => true,
      findRight: async () => undefined,
      findChat: async () => ({ session: 's', user_id: 'u' }),
      keepFile: () => Promise.reject(new Error('no text is long')),
    },
    runtime,
  )
  await topics.add({ kind: 'owner' }, { name: 'home', to: ['Mum'] })
  const accept = (more: object) =>
    uploads.accept({ body: new Blob(['x']).stream(), size: 1, file_name: 'a.jpg', ...more }, never)
  const snap = async (nth: number) => {
    const { upload_id } = await accept({ by: camera.id, notice: true })
    const media = { kind: 'image', upload_id } as const
    const notice = { text: '', priority: 'default', fingerprint: `${nth}`, media } as const
    await topics.accept(createDirectCall({ by: camera }), 'home', [notice])
    return upload_id
  }
  /** Sends what waits in a message with one of the files, if any answer is left. */
  const send = async () => {
    const [person] = await store.topics.listPersons()
    if (!person) return
    const { notices } = await store.topics.read(person)
    const [first] = await store.topics.readNotices(notices.map(({ id }) => id))
    const id = crypto.randomUUID()
    const made = {
      ...person,
      id,
      text: 'x',
      media: [first!.media!],
      answers: 2,
      priority: 'default',
      names: {},
    }
    const ids = { notices: notices.map(one => one.id), missed: {}, doubts: [] }
    expect(await store.topics.claim({ ...made, ...ids } as never, person.version)).toBe(true)
    await store.topics.settle(id, 'sent')
  }
  return { accept, places, send, snap, uploads }
}

onEach(it => {
  it('a camera with many pictures a day leaves places to others; what is sent lets its files go', async t => {
    const { accept, places, send, snap, uploads } = await setUp(t)
    const isThere = async (id: string) => {
      const file = await places.uploads.open(id)
      await file?.release()
      return file !== undefined
    }
    // What waits stays, and so does what the camera sends for itself.
    const waiting = await snap(-1)
    const { upload_id } = await accept({ by: camera.id })
    t.clock.at += hourMs
    await uploads.sweep()
    for (const id of [waiting, upload_id]) expect(await isThere(id)).toBe(true)
    const taken = [waiting]
    for (let hour = 0; hour < 22; hour++) {
      taken.push(...(await Promise.all(Array.from({ length: 12 }, (_none, nth) => snap(hour * 12 + nth)))))
      t.clock.at += hourMs
      await send()
      await uploads.sweep()
    }
    const left = await Promise.all(taken.map(isThere))
    expect(left.filter(Boolean)).toHaveLength(20)
    expect(left.slice(0, 200)).not.toContain(true)
    const [person] = await t.store.topics.listPersons()
    const { topics } = await t.store.topics.read(person!)
    // Each of the 22 messages took one.
    expect(topics[0]!.missed.more).toEqual({ '–': taken.length - 22 - 20 })
  })
})
