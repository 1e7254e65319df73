/**
 * A media store in the database, which all nodes share: a file is a row of `upload` and its chunks in `blob`. Neither
 * storing nor reading holds more than a few chunks of a file.
 */
import { badArgument, SvcError } from '../../model/error.ts'
import { emptyFileError, staleFileMs, tooLargeError } from '../../platform/file-stream.ts'
import { nodeCrypto } from '../../platform/lazy-crypto.ts'
import { createByteCounter } from '../../platform/memory.ts'
import { requireOwnName } from '../../platform/own-names.ts'
import { sqlStateOf } from '../../platform/postgres.ts'
import { sql } from '../../platform/sql.ts'
import {
  type MediaRules,
  type MediaStore,
  type NotedFile,
  noRoomError,
  type OpenedStoredFile,
  type PutOptions,
  type StoredFile,
} from '../media-store.ts'
import { type EngineContext, PgPart } from './part.ts'

const chunkBytes = 256 * 1024
/** Largest file. */
export const maxStoredBytes: number = 64 * 1024 * 1024
/** Only svc takes this advisory lock. */
const roomLock = 0x737669
/** A chunk of a file that was removed. */
const hasNoFile = '23503'

interface FileRow {
  size: number
  md5: string
  note?: string
}

export class PgMediaStore extends PgPart implements MediaStore {
  readonly #store: 'uploads' | 'queued'
  readonly #rules: MediaRules
  /** Ids of files that a send used, oldest first. They are removed when space is needed. */
  readonly #served = new Set<string>()

  constructor(context: EngineContext, store: 'uploads' | 'queued', rules: MediaRules = {}) {
    super(context)
    this.#store = store
    this.#rules = rules
  }

  async put(id: string, body: ReadableStream<Uint8Array>, options: PutOptions): Promise<StoredFile> {
    const { note = {}, signal, size } = options
    const { lifeMs } = this.#rules
    const limit = Math.min(options.maxBytes ?? maxStoredBytes, maxStoredBytes)
    const reader = body.getReader()
    // Without this a silent sender would block the read.
    const abort = () => void reader.cancel(signal.reason).catch(() => {})
    signal.addEventListener('abort', abort, { once: true })
    const since = this.db.serverRun
    let isReserved = false
    try {
      signal.throwIfAborted()
      requireOwnName('media', id)
      if (size !== undefined && size > limit) throw limitError(limit)
      const reserved = Math.min(size ?? maxStoredBytes, this.#rules.room?.largest ?? limit)
      await this.#reserve(id, reserved, options)
      isReserved = true
      const stored = await this.#storeChunks(id, reader, { ...options, limit })
      const now = this.clock.now()
      const expires_at = lifeMs === undefined ? undefined : now + lifeMs
      const noted = lifeMs === undefined ? undefined : JSON.stringify(note)
      const completed = await this.db.run(sql`UPDATE upload SET size = ${stored.size}, md5 = ${stored.md5},
        sha256 = ${stored.sha256}, note = ${noted}, begun_at = ${now}, expires_at = ${expires_at} WHERE id = ${id}`)
      if (completed === 0) throw removedError()
      if (lifeMs === undefined) await this.db.barrier(since)
      return { ...stored, ...(expires_at !== undefined && { expires_at }) }
    } catch (error) {
      await reader.cancel(error).catch(() => {})
      if (isReserved) await this.discard([id])
      throw sqlStateOf(error) === hasNoFile ? removedError() : error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** Stores the bytes of a stream. One chunk is written while the next one is received and hashed. */
  async #storeChunks(
    id: string,
    reader: ReadableStreamDefaultReader<Uint8Array>,
    { digest, limit, signal }: PutOptions & { limit: number },
  ): Promise<Pick<StoredFile, 'size' | 'md5' | 'sha256'>> {
    const { createHash } = nodeCrypto()
    const md5 = createHash('md5')
    const sha256 = digest && createHash(digest)
    const passed = createByteCounter()
    let writing: Promise<unknown> = Promise.resolve()
    let nth = 0
    const write = async (chunk: Uint8Array) => {
      md5.update(chunk)
      sha256?.update(chunk)
      await writing
      writing = this.db.run(sql`INSERT INTO blob (id, n, data) VALUES (${id}, ${nth++}, ${chunk})`)
      // The next await throws the error.
      writing.catch(() => {})
    }
    let size = 0
    let chunk = new Uint8Array(chunkBytes)
    let filled = 0
    try {
      for (;;) {
        const { done, value } = await reader.read()
        // An aborted stream ends like a complete one.
        signal.throwIfAborted()
        if (done) break
        passed(value.byteLength)
        size += value.byteLength
        if (size > limit) throw limitError(limit)
        for (let from = 0; from < value.byteLength; ) {
          const part = value.subarray(from, from + chunkBytes - filled)
          chunk.set(part, filled)
          filled += part.byteLength
          from += part.byteLength
          if (filled < chunkBytes) continue
          await write(chunk)
          chunk = new Uint8Array(chunkBytes)
          filled = 0
        }
      }
      if (size === 0) throw emptyFileError()
      if (filled > 0) await write(chunk.subarray(0, filled))
      await writing
    } finally {
      // The file must not be removed during a write.
      await writing.catch(() => {})
    }
    return { size, md5: md5.digest('hex'), ...(sha256 && { sha256: sha256.digest('hex') }) }
  }

  /**
   * Adds an incomplete file, which takes this room. If there is none, removes files that were sent.
   *
   * @throws SvcError `rate_limited`
   */
  async #reserve(id: string, size: number, { note = {}, sharing }: PutOptions): Promise<void> {
    const { room } = this.#rules
    const now = this.clock.now()
    const noted = JSON.stringify({ by: note.by })
    const values = sql`${id}, ${this.#store}, ${size}::bigint, ${now}::bigint, ${room && noted}`
    const columns = sql`INSERT INTO upload (id, store, reserved, begun_at, note)`
    if (!room) {
      await this.db.run(sql`${columns} VALUES (${values})`)
      return
    }
    const own = sql`note::json ->> 'by' = ANY (${sharing}::text[])`
    const all = sql`coalesce(size, reserved)`
    const taken = sql`SELECT count(*) AS files, coalesce(sum(${all}), 0) AS bytes,
        count(*) FILTER (WHERE ${own}) AS own_files, coalesce(sum(${all}) FILTER (WHERE ${own}), 0) AS own_bytes FROM upload
      WHERE store = ${this.#store}
        AND CASE WHEN size IS NULL THEN begun_at > ${now - staleFileMs} ELSE expires_at > ${now} END`
    for (;;) {
      const [, added] = await this.db.script([
        sql`SELECT pg_advisory_xact_lock(${roomLock})`,
        sql`${columns} SELECT ${values} FROM (${taken}) taken
          WHERE files < ${room.files} AND bytes + ${size} <= ${room.bytes} AND (${sharing === undefined}
            OR own_files + 1 <= ${room.files} - files - 1 AND own_bytes + ${size} <= ${room.bytes} - bytes - ${size})
          RETURNING id`,
      ])
      if (added?.length === 1) return
      const [oldest] = this.#served
      if (oldest === undefined) throw await this.#fullError(size)
      this.#served.delete(oldest)
      await this.discard([oldest])
    }
  }

  async #fullError(size: number): Promise<SvcError> {
    const { lifeMs = 0, room } = this.#rules
    const now = this.clock.now()
    const { bytes, files, oldest } = await this.db.one<{ bytes: number; files: number; oldest?: number }>(
      sql`SELECT count(*) AS files, coalesce(sum(size), 0) AS bytes, min(begun_at) AS oldest FROM upload
        WHERE store = ${this.#store} AND size IS NOT NULL AND expires_at > ${now}`,
    )
    // Uploads in progress end soon.
    const isSoon = room !== undefined && files < room.files && bytes + size <= room.bytes
    const waitMs = isSoon ? 10_000 : (oldest ?? now) + lifeMs - now
    return noRoomError(waitMs)
  }

  async open(id: string): Promise<OpenedStoredFile | undefined> {
    const found = await this.db.get<FileRow>(sql`SELECT size, md5, note FROM upload WHERE id = ${id}
      AND store = ${this.#store} AND size IS NOT NULL AND (expires_at IS NULL OR expires_at > ${this.clock.now()})`)
    if (!found) return undefined
    const { md5, note, size } = found
    return {
      size,
      read: () => this.#read(id, size),
      // A complete file never changes.
      checkUnchanged: async () => {},
      release: async () => {},
      note: note === undefined ? {} : (JSON.parse(note) as OpenedStoredFile['note']),
      ...(note !== undefined && { md5 }),
    }
  }

  /** The next chunk is read while the caller works on the last one. */
  async *#read(id: string, size: number): AsyncGenerator<Uint8Array> {
    const fetch = async (n: number) => {
      const row = await this.db.get<{ data: Uint8Array }>(
        sql`SELECT data FROM blob WHERE id = ${id} AND n = ${n}`,
      )
      if (!row) throw badArgument('media', 'the file was removed while it was read')
      return row.data
    }
    const chunks = Math.ceil(size / chunkBytes)
    let next = fetch(0)
    for (let n = 0; n < chunks; n++) {
      const chunk = await next
      if (n + 1 < chunks) {
        next = fetch(n + 1)
        // Its error is thrown when the chunk is awaited.
        next.catch(() => {})
      }
      yield chunk
    }
  }

  markServed(id: string): void {
    if (this.#rules.lifeMs !== undefined) this.#served.add(id)
  }

  async discard(ids: readonly string[]): Promise<void> {
    await this.db
      .run(sql`DELETE FROM upload WHERE store = ${this.#store} AND id = ANY (${ids}::text[])`)
      .catch(error => this.log.warn('stored files not removed', { ids, error }))
  }

  async sweep(needed: ReadonlySet<string> = new Set()): Promise<void> {
    const now = this.clock.now()
    await this.db.run(sql`DELETE FROM upload WHERE store = ${this.#store} AND CASE
      WHEN expires_at IS NOT NULL THEN expires_at <= ${now}
      ELSE begun_at < ${now - staleFileMs} AND (size IS NULL OR id <> ALL (${[...needed]}::text[])) END`)
  }

  async removeWhere(isOver: Parameters<MediaStore['removeWhere']>[0]): Promise<void> {
    const noted = await this.db.all<NotedFile & { note: string }>(
      sql`SELECT id, note, begun_at AS stored_at FROM upload
        WHERE store = ${this.#store} AND note IS NOT NULL AND size IS NOT NULL`,
    )
    const over: string[] = []
    for (const { note, ...file } of noted)
      if (await isOver(JSON.parse(note) as OpenedStoredFile['note'], file)) over.push(file.id)
    if (over.length > 0)
      await this.durably(() => this.db.run(sql`DELETE FROM upload WHERE id = ANY (${over}::text[])`))
  }
}

const limitError = (limit: number): SvcError =>
  limit < maxStoredBytes
    ? tooLargeError(limit)
    : new SvcError(
        'payload_too_large',
        `larger than ${limit} bytes, which a store on PostgreSQL keeps at most`,
        {
          field: 'media',
          hint: 'Name a path or a URL of the file instead of an upload, and send it without the queue.',
        },
      )

const removedError = (): SvcError =>
  new SvcError('store_unavailable', 'the file was removed while it was stored', { hint: 'Store it again.' })
