/** Random steps of the stores of files (`src/storage/media-store.ts`). */
import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { FreeSpace } from '../../../src/platform/free-space.ts'
import { silentLog } from '../../../src/platform/log.ts'
import type { MediaRules, MediaStore, MediaStores } from '../../../src/storage/media-store.ts'
import type { PgStorage } from '../../../src/storage/postgres/open.ts'
import { openMediaStores } from '../../../src/storage/sqlite/media-folder.ts'
import { compare, filled, maybe, type Side, timePasses, type Verb, verbsOf } from './compare.ts'

interface Notes {
  stores?: MediaStores
  ids: { uploads: string[]; queued: string[] }
  count: number
}
type Here = Side<Notes> & { dir?: string }
const verb = verbsOf<Notes>()

const dayMs = 24 * 60 * 60_000
const rules: MediaRules = { lifeMs: dayMs, room: { files: 4, bytes: 60, largest: 40 } }
const kind = fc.constantFrom('uploads' as const, 'queued' as const)
const nth = fc.nat(4)
const never = new AbortController().signal

const newId = ({ notes }: Here) => `00000000-0000-4000-8000-${String(++notes.count).padStart(12, '0')}`
const idOf = ({ notes: { ids } }: Here, kind: keyof MediaStores, nth: number) =>
  ids[kind].at(-1 - nth) ?? 'none'

/** Files have the time of the system: gives them that of the clock. */
async function setTimes({ dir, clock }: Here, kind: keyof MediaStores, id: string) {
  if (dir === undefined) return
  const path = join(dir, kind === 'uploads' ? 'uploads' : 'outbox', id)
  for (const file of [path, `${path}.json`])
    await utimes(file, clock.at / 1000, clock.at / 1000).catch(() => {})
}

async function read(store: MediaStore, id: string) {
  const file = await store.open(id)
  if (!file) return 'none'
  const blocks: Uint8Array[] = []
  for await (const block of file.read()) blocks.push(block.slice())
  await file.checkUnchanged()
  await file.release()
  return { size: file.size, note: file.note, md5: file.md5, text: Buffer.concat(blocks).toString() }
}

const media = {
  put: verb(
    {
      ...{
        kind,
        text: fc.constantFrom('', 'x', 'ten letters', 'forty letters are more than may be stored'),
        sized: fc.boolean(),
      },
      ...{
        maxBytes: maybe(fc.constantFrom(5, 100)),
        digest: maybe(fc.constant('sha256' as const)),
        note: maybe(fc.constant({ a: 1 })),
      },
    },
    async (side, { kind, text, sized, ...options }) => {
      const id = newId(side)
      const size = sized ? text.length : undefined
      // Room that others gave back may count a second later, and that of expired files after a sweep.
      side.clock.at += 1001
      await side.notes.stores!.uploads.sweep()
      const stored = await side.notes.stores![kind].put(id, new Blob([text]).stream(), {
        ...filled({ ...options, size }),
        signal: never,
      })
      side.notes.ids[kind].push(id)
      await setTimes(side, kind, id)
      return stored
    },
    5,
  ),
  open: verb({ kind, nth }, (side, { kind, nth }) => read(side.notes.stores![kind], idOf(side, kind, nth))),
  markServed: verb({ kind, nth }, (side, { kind, nth }) =>
    side.notes.stores![kind].markServed(idOf(side, kind, nth)),
  ),
  discard: verb({ kind, nth }, (side, { kind, nth }) =>
    side.notes.stores![kind].discard([idOf(side, kind, nth), newId(side)]),
  ),
  sweep: verb({ kind, needed: maybe(nth) }, (side, { kind, needed }) =>
    side.notes.stores![kind].sweep(needed === undefined ? undefined : new Set([idOf(side, kind, needed)])),
  ),
  removeWhere: verb({ kind, with: fc.boolean() }, (side, { kind, with: with_ }) =>
    side.notes.stores![kind].removeWhere(async note => (note.a === 1) === with_),
  ),
} satisfies Record<keyof MediaStore, Verb<Notes>>

/** One has the storage of a directory, the other one that of a database. */
async function openStores(side: Here) {
  const space = new FreeSpace(side.dir ?? '', 0)
  side.notes.stores =
    side.dir === undefined
      ? (side.storage as PgStorage).openMediaStores({ uploads: rules })
      : openMediaStores({ mediaRoot: side.dir, space, clock: side.clock, log: silentLog }, rules)
}
async function state({ notes: { stores, ids } }: Here) {
  const read_ = (kind: keyof MediaStores) => Promise.all(ids[kind].map(id => read(stores![kind], id)))
  return { uploads: await read_('uploads'), queued: await read_('queued') }
}

export const compareMedia = () =>
  compare({
    notes: (): Notes => ({ ids: { uploads: [], queued: [] }, count: 0 }),
    verbs: { ...media, timePasses: timePasses(1000, 3_601_000, dayMs + 120_000) },
    ...{ state, given: openStores, isAlone: true },
  })
