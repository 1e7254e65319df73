/**
 * A media store on one machine: a folder of the media root. A file that expires has a JSON file with its note
 * beside it.
 */

import { lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { parseFields } from '../../platform/fields.ts'
import {
  diskError,
  emptyFileError,
  keepStream,
  mediaFolder,
  staleFileMs,
  unfinishedName,
} from '../../platform/file-stream.ts'
import { readText, returnIfAbsent, sweep, syncDir, writeDurably } from '../../platform/files.ts'
import type { FreeSpace } from '../../platform/free-space.ts'
import type { Log } from '../../platform/log.ts'
import { isOwnName, ownPath } from '../../platform/own-names.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { createSteadyFile, openRegularFile } from '../../platform/steady-file.ts'
import {
  type MediaRules,
  type MediaStore,
  type MediaStores,
  noRoomError,
  type OpenedStoredFile,
  type PutOptions,
  type StoredFile,
} from '../media-store.ts'

export interface MediaFolderOptions extends MediaRules {
  mediaRoot: string
  name: 'uploads' | 'outbox'
  space: FreeSpace
  clock: Clock
  log: Log
}

/** JSON file beside a file: the note, and these fields. */
interface Sidecar extends Record<string, unknown> {
  size: number
  md5: string
  expires_at: number
}

const openQuota = ({ clock, lifeMs, mediaRoot, name, room }: MediaFolderOptions): UploadQuota | undefined =>
  room && lifeMs !== undefined
    ? new UploadQuota({ clock, folder: join(mediaRoot, name), room, lifeMs })
    : undefined

export class MediaFolder extends RoomPart<MediaFolderOptions> implements MediaStore {
  readonly #quota = openQuota(this.ports)

  async put(id: string, body: ReadableStream<Uint8Array>, options: PutOptions): Promise<StoredFile> {
    let size: number | undefined
    let settle: ((kept?: number) => void) | undefined
    try {
      settle = await this.#quota?.reserve(id, options)
      const placed = await this.#store(id, body, options)
      size = placed.size
      return placed
    } catch (error) {
      await body.cancel(error).catch(() => {})
      throw error
    } finally {
      settle?.(size)
    }
  }

  async #store(
    id: string,
    body: ReadableStream<Uint8Array>,
    { digest, maxBytes, note, signal, size }: PutOptions,
  ): Promise<StoredFile> {
    const { clock, lifeMs, space } = this.ports
    const folder = await this.#folder()
    const path = ownPath(folder, 'media', id)
    const written = await keepStream(body, path, {
      digests: ['md5', ...(digest ? [digest] : [])],
      maxBytes,
      size,
      signal,
      space,
      durable: lifeMs === undefined,
    })
    try {
      if (written.size === 0) throw emptyFileError()
      const { md5 = '', sha256 } = written.digests
      const placed = { size: written.size, md5, ...(sha256 !== undefined && { sha256 }) }
      if (lifeMs === undefined) {
        await syncDir(folder)
        return placed
      }
      const expires_at = clock.now() + lifeMs
      const sidecar: Sidecar = { ...note, size: written.size, md5, expires_at }
      await writeDurably(`${path}.json`, JSON.stringify(sidecar))
      return { ...placed, expires_at }
    } catch (error) {
      await rm(path, { force: true })
      throw diskError(error)
    }
  }

  async open(id: string): Promise<OpenedStoredFile | undefined> {
    const { clock, lifeMs } = this.ports
    if (!isOwnName('media', id)) return undefined
    const path = ownPath(await this.#folder(), 'media', id)
    const sidecar = lifeMs === undefined ? undefined : parseSidecar(await readText(`${path}.json`))
    if (lifeMs !== undefined && (!sidecar || sidecar.expires_at <= clock.now())) return undefined
    const opened = await openRegularFile(path, { maxBytes: Number.MAX_SAFE_INTEGER }).catch(() => undefined)
    if (!opened || (sidecar && opened.size !== sidecar.size)) {
      await opened?.handle.close()
      return undefined
    }
    return { ...createSteadyFile(opened), note: noteOf(sidecar), ...(sidecar && { md5: sidecar.md5 }) }
  }

  markServed(id: string): void {
    this.#quota?.markSent(id)
  }

  async discard(ids: readonly string[]): Promise<void> {
    for (const id of ids)
      await this.#folder()
        .then(folder => rm(ownPath(folder, 'media', id), { force: true }))
        .catch(error => this.ports.log.warn('file of a sent message not removed', { name: id, error }))
  }

  async sweep(needed: ReadonlySet<string> = new Set()): Promise<void> {
    const { clock, lifeMs, mediaRoot, name } = this.ports
    const folder = join(mediaRoot, name)
    const isOver = (found: string) => isOwnName('media', found.replace(/\.json$/, '')) && !needed.has(found)
    await sweep(folder, unfinishedName, clock.now() - staleFileMs)
    await sweep(
      folder,
      { test: isOver },
      clock.now() - (lifeMs === undefined ? staleFileMs : lifeMs + 60_000),
    )
  }

  async removeWhere(isOver: Parameters<MediaStore['removeWhere']>[0]): Promise<void> {
    const { lifeMs = 0, mediaRoot, name } = this.ports
    const folder = join(mediaRoot, name)
    for (const file of await readdir(folder).catch(() => [])) {
      const id = file.slice(0, -5)
      if (!file.endsWith('.json') || !isOwnName('media', id)) continue
      const path = join(folder, file)
      const sidecar = parseSidecar(await readText(path))
      if (!sidecar || !(await isOver(noteOf(sidecar), { id, stored_at: sidecar.expires_at - lifeMs })))
        continue
      // The note goes first: without it the file cannot be opened.
      for (const one of [path, path.slice(0, -5)]) await rm(one, { force: true })
    }
  }

  #folder(): Promise<string> {
    return mediaFolder(this.ports.mediaRoot, this.ports.name)
  }
}

/** Returns the ids of the uploads in a media root, also of expired ones. */
export async function listUploads(mediaRoot: string): Promise<string[]> {
  const found = await readdir(join(mediaRoot, 'uploads')).catch(returnIfAbsent<string[]>([]))
  return found.filter(name => isOwnName('media', name)).sort()
}

/** Opens the media stores in folders of the media root. */
export const openMediaStores = (
  options: Omit<MediaFolderOptions, 'name' | keyof MediaRules>,
  uploads: MediaRules,
): MediaStores => ({
  uploads: new MediaFolder({ ...options, name: 'uploads', ...uploads }),
  queued: new MediaFolder({ ...options, name: 'outbox' }),
})

/** Returns the note as the caller gave it. */
function noteOf(sidecar: Sidecar | undefined): OpenedStoredFile['note'] {
  const { size: _, md5: _md5, expires_at: _expires, ...note }: Partial<Sidecar> = sidecar ?? {}
  return note
}

function parseSidecar(text: string | undefined): Sidecar | undefined {
  const found: Partial<Sidecar> = parseFields(text ?? '') ?? {}
  const { expires_at, md5, size } = found
  if (typeof md5 !== 'string' || typeof size !== 'number' || typeof expires_at !== 'number') return undefined
  return { ...found, md5, size, expires_at }
}

/** Inputs of the quota. */
interface QuotaPorts {
  clock: Clock
  /** Folder of the uploads; each is stored under its id. */
  folder: string
  room: NonNullable<MediaRules['room']>
  /** How long an upload is stored. */
  lifeMs: number
}

interface KeptUpload {
  /** Bytes. */
  size: number
  /** Unix ms when it was stored. */
  at: number
  /** Its owner; undefined while its note is not there, null without one. */
  by: unknown
}

/** The folder is read at most this often, for the uploads of other processes. */
const checkEveryMs = 1000
/** An upload of unknown size counts as this much, or as its stored size if that is larger. */
const unknownBytes = 64 * 1024 * 1024

/** Limits the number and total size of uploads, including those of other processes on the same folder. */
class UploadQuota extends RoomPart<QuotaPorts> {
  #kept = new Map<string, KeptUpload>()
  /** Bytes reserved for uploads in progress in this process, by id, and their owners. */
  readonly #underWay = new Map<string, Pick<KeptUpload, 'size' | 'by'>>()
  /** Ids of uploads that a send used, oldest first. They are removed when space is needed. */
  readonly #usedBySend = new Set<string>()
  #look: { at: number; done: Promise<void> } | undefined

  /**
   * Reserves space for an upload, before any of it is read. If there is none, removes uploads that were sent.
   *
   * @param upload `size`: number of bytes, if it is known
   * @returns a function that ends the reservation; pass it the stored size, if the upload was stored
   * @throws SvcError `rate_limited`
   */
  async reserve(
    id: string,
    { note, sharing, size: announced = unknownBytes }: Pick<PutOptions, 'note' | 'sharing' | 'size'>,
  ): Promise<(kept?: number) => void> {
    const size = Math.min(announced, this.ports.room.largest)
    await this.#waitForFolder()
    const isFull = () => !this.#fits(size, { sharing })
    for (const sent of this.#usedBySend) {
      if (!isFull()) break
      await this.#drop(sent)
    }
    if (isFull()) throw this.#fullError(size)
    const by = note?.by ?? null
    this.#underWay.set(id, { size, by })
    return kept => {
      this.#underWay.delete(id)
      if (kept === undefined) this.#kept.delete(id)
      else this.#kept.set(id, { size: kept, at: this.ports.clock.now(), by })
    }
  }

  /** Marks an upload as used by a send: it stays until its space is needed. */
  markSent(id: string): void {
    this.#usedBySend.add(id)
  }

  /** @param sharing owners: whether it fits into their share, too */
  #fits(
    size: number,
    { others = true, sharing }: { others?: boolean; sharing?: readonly string[] | undefined } = {},
  ): boolean {
    const all = [
      ...[...this.#kept].flatMap(([id, kept]) => (this.#underWay.has(id) ? [] : kept)),
      ...[...(others ? this.#underWay : [])].map(([id, claimed]) => ({
        ...claimed,
        size: Math.max(claimed.size, this.#kept.get(id)?.size ?? 0),
      })),
    ]
    const own = sharing ? all.filter(({ by }) => sharing.includes(by as string)) : []
    const bytesOf = (files: readonly Pick<KeptUpload, 'size'>[]) =>
      files.reduce((sum, one) => sum + one.size, size)
    const { room } = this.ports
    const left = { files: room.files - all.length - 1, bytes: room.bytes - bytesOf(all) }
    // They have no more than they leave free.
    const least = sharing ? { files: own.length + 1, bytes: bytesOf(own) } : { files: 0, bytes: 0 }
    return left.files >= least.files && left.bytes >= least.bytes
  }

  #fullError(size: number): SvcError {
    const { clock, lifeMs } = this.ports
    const oldest = [...this.#kept.values()].reduce((least, { at }) => Math.min(least, at), clock.now())
    // Uploads in progress end soon.
    const waitMs = this.#fits(size, { others: false }) ? 10_000 : oldest + lifeMs - clock.now()
    return noRoomError(waitMs)
  }

  async #drop(id: string): Promise<void> {
    this.#usedBySend.delete(id)
    const path = ownPath(this.ports.folder, 'media', id)
    for (const file of [`${path}.json`, path]) await rm(file, { force: true })
    this.#kept.delete(id)
  }

  /** Resolves when the content of the folder is known, at most a second old. */
  #waitForFolder(): Promise<void> {
    const now = this.ports.clock.monotonic()
    if (!this.#look || now - this.#look.at > checkEveryMs) this.#look = { at: now, done: this.#readFolder() }
    return this.#look.done
  }

  async #readFolder(): Promise<void> {
    const { folder } = this.ports
    const kept = new Map<string, KeptUpload>()
    for (const name of await readdir(folder).catch(() => [])) {
      if (name.endsWith('.json')) continue
      const path = join(folder, name)
      const found = await lstat(path).catch(() => undefined)
      if (!found) continue
      const known = this.#kept.get(name)?.by
      const sidecar = known === undefined ? parseSidecar(await readText(`${path}.json`)) : undefined
      const by = known ?? (sidecar && (sidecar.by ?? null))
      kept.set(name, { size: found.size, at: found.mtimeMs, by })
    }
    this.#kept = kept
    for (const id of this.#usedBySend) if (!kept.has(id)) this.#usedBySend.delete(id)
  }
}
