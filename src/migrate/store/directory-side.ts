/** A data directory, as one side of a copy: messages.db, the folders of the sessions, and the files beside them. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { badArgument, SvcError } from '../../model/error.ts'
import { currentCounterOf, newestContext, sessionKeyOf } from '../../model/session.ts'
import type { Clock } from '../../platform/clock.ts'
import { createDurably, ensurePrivateDir, fileExists, statOf } from '../../platform/files.ts'
import { FreeSpace } from '../../platform/free-space.ts'
import { silentLog } from '../../platform/log.ts'
import { RoomPart } from '../../platform/runtime.ts'
import { createSealer, type Sealer } from '../../platform/sealing.ts'
import type { Database } from '../../platform/sqlite.ts'
import type { MediaStores } from '../../storage/media-store.ts'
import { readClosedMark, rejectClosed, writeClosedMark } from '../../storage/sqlite/closed-mark.ts'
import { contextOfRow, type HeardRow } from '../../storage/sqlite/context-archive.ts'
import { readContents } from '../../storage/sqlite/directory-claim.ts'
import { type ExclusiveDirectory, openExclusively, rejectDamaged } from '../../storage/sqlite/exclusive.ts'
import { listUploads, openMediaStores } from '../../storage/sqlite/media-folder.ts'
import { openStorage } from '../../storage/sqlite/open.ts'
import { openSealer, writeSecretState } from '../../storage/sqlite/secret-state.ts'
import { openState } from '../../storage/sqlite/state/state.ts'
import { copiedTables, type StoreRow, type StoreTable } from '../../storage/table-list.ts'
import { addKey, keyOf, quoted, readPage } from './directory-rows.ts'
import { writerOf } from './directory-writer.ts'
import {
  type CopiedAccount,
  type CopiedState,
  type CopySide,
  type CopySource,
  type CopyTarget,
  type StoreIdentity,
  type TargetState,
  uploadRules,
} from './side.ts'

export interface DirectorySideOptions {
  dir: string
  mediaRoot: string
  keepFreeBytes: number
  /** Text of the secret key. */
  secret: string
  clock: Clock
}

/**
 * Opens a directory that no process uses, and keeps every process out.
 *
 * @throws SvcError `store_unavailable` while a process uses it; `not_found` for a folder without a store
 */
export async function openDirectorySource(
  options: DirectorySideOptions,
): Promise<CopySource & { movedTo?: string }> {
  const { clock, dir, secret } = options
  if (!(await fileExists(join(dir, dataFiles.store))))
    throw new SvcError('not_found', `there is no store in ${dir}`, { hint: 'Name the data directory.' })
  if ((await readContents(dir)).isSandbox)
    throw badArgument('from', `${dir} belongs to the sandbox`, {
      hint: 'A sandbox stays in its directory.',
    })
  const mark = await readClosedMark(dir)
  if (mark !== undefined && mark.why !== 'moved') await rejectClosed(dir)
  const sealer = await openSealer(dir, secret)
  let directory = await openExclusively(dir)
  try {
    if (hasUnfinishedRename(directory) && mark === undefined) {
      await directory[Symbol.asyncDispose]()
      const opening = { dir, secret, clock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
      // It completes the rename.
      await (await openStorage(opening)).close()
      directory = await openExclusively(dir)
    }
    const { db } = directory
    if (!db) throw new SvcError('not_found', `there is no store in ${dir}`)
    rejectDamaged(db)
    const side = new DirectorySide({ ...options, directory, db, sealer })
    if (mark === undefined) await side.addLanes()
    const identity = db.one<StoreIdentity>`SELECT id, hash_key, events_removed FROM store_id`
    return Object.assign(side, {
      identity,
      ...(mark?.why === 'moved' && { movedTo: mark.to }),
      markMoved: (to: string) => writeClosedMark(dir, { why: 'moved', to }),
    })
  } catch (error) {
    await directory[Symbol.asyncDispose]()
    throw error
  }
}

const hasUnfinishedRename = ({ db }: ExclusiveDirectory): boolean =>
  db !== undefined && db.get`SELECT 1 FROM session WHERE renaming IS NOT NULL` !== undefined

/**
 * Opens a new folder, an empty one, or one with an unfinished copy. Its secrets are encrypted.
 *
 * @throws SvcError `invalid_arguments` for a folder with other files
 */
export async function openDirectoryTarget(
  options: DirectorySideOptions,
  from: { place: string; identity: StoreIdentity },
): Promise<CopyTarget> {
  const { dir, mediaRoot, secret } = options
  const found = (await statOf(dir)) && (await readContents(dir))
  const mark = found && (await readClosedMark(dir))
  if (found && !found.isEmpty && mark?.why !== 'copy')
    throw badArgument('to', `${dir} is not empty`, { hint: 'Name a new or an empty folder.' })
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await ensurePrivateDir(dir)
  await mkdir(mediaRoot, { recursive: true, mode: 0o700 })
  if (!mark) await writeClosedMark(dir, { why: 'copy', from: from.place, verified: false })
  const sealer = createSealer(secret)
  await writeSecretState(dir, { key: sealer.keyId ?? null })
  await createDurably(join(dir, dataFiles.store), '')
  const directory = await openExclusively(dir)
  try {
    const db = directory.db!
    const { id } = db.one<StoreIdentity>`SELECT id FROM store_id`
    const isVerified = mark?.why === 'copy' && mark.verified
    const state: TargetState = id !== from.identity.id ? 'empty' : isVerified ? 'verified' : 'begun'
    const side = new DirectorySide({ ...options, directory, db, sealer })
    return Object.assign(side, writerOf(db, { dir, from, sealer, state }))
  } catch (error) {
    await directory[Symbol.asyncDispose]()
    throw error
  }
}

interface SidePorts extends DirectorySideOptions {
  readonly directory: ExclusiveDirectory
  readonly db: Database
  readonly sealer: Sealer
}

class DirectorySide extends RoomPart<SidePorts> implements CopySide {
  readonly place = this.ports.dir
  readonly media = this.#openMedia()
  readonly open = this.ports.sealer.open
  readonly #db = this.ports.db
  /** What is in the future then comes from a clock that was set back. */
  readonly #now = this.ports.clock.now()

  #openMedia(): MediaStores {
    const { clock, dir, keepFreeBytes, mediaRoot } = this.ports
    const space = new FreeSpace(dir, keepFreeBytes)
    return openMediaStores({ mediaRoot, space, clock, log: silentLog }, uploadRules)
  }

  /** Opens the files of the sessions as they are now. */
  #state() {
    const { dir, sealer } = this.ports
    // Nobody else writes.
    const lock = { run: async <T>(work: () => T | Promise<T>) => await work() }
    return openState({ dir, lock, log: silentLog, sealer })
  }

  async *read(table: StoreTable, after?: StoreRow): AsyncGenerator<StoreRow[]> {
    const finish = table.name === 'outbox_lane' ? await this.#contextMerger() : undefined
    for (let last = after; ; ) {
      const page = readPage(this.#db, table, last)
      if (page.length === 0) return
      last = page.at(-1)
      yield page.map(({ rowid: _, ...row }) => (finish ? finish(row) : row))
    }
  }

  /** Returns a function that joins the row of a lane with what contexts.json has of its user. */
  async #contextMerger(): Promise<(row: StoreRow) => StoreRow> {
    const { contexts } = this.#state()
    const names = new Map(
      this.#db.all<{ key: number; name: string }>`SELECT key, name FROM session`.map(({ key, name }) => [
        key,
        name,
      ]),
    )
    return ({ context, token_at, ...row }) => {
      const kept = contextOfRow({ ...row, context, token_at } as HeardRow)
      const inFile = contexts.read(names.get(Number(row.session)) ?? '').get(String(row.peer))
      const known = newestContext(inFile, kept, this.#now)
      const counted = { ...row, token_at, used: Number(row.used) } as { used: number }
      const { last_sent_at, received_at, used } = currentCounterOf(known ?? { used: 0 }, counted, this.#now)
      const first_seen = known && (known.first_seen ?? 0)
      return { ...row, token: known?.token, first_seen, received_at, used, last_sent_at }
    }
  }

  /** Adds the lanes of users that only contexts.json knows, so that every user has a row. */
  async addLanes(): Promise<void> {
    const { contexts, sessions } = this.#state()
    const listed = await sessions.list()
    this.#db.transaction(() => {
      for (const { name } of listed) {
        const users = contexts.read(name)
        if (users.size === 0) continue
        const key = keyOf(this.#db, name) ?? addKey(this.#db, name)
        for (const user of users.keys())
          this.#db
            .run`INSERT INTO outbox_lane (session, peer) VALUES (${key}, ${user}) ON CONFLICT DO NOTHING`
      }
    })
  }

  async readState(): Promise<CopiedState> {
    const { sessions } = this.#state()
    const chosen = await sessions.getDefaultName()
    const accounts: CopiedAccount[] = []
    const damaged: string[] = []
    for (const { name, unreadable } of await sessions.list()) {
      if (unreadable) throw unreadable
      const file = sessions.readToken(name)
      if (!file) {
        damaged.push(name)
        continue
      }
      const { bot, fields } = file
      const { bot_id: _id, token: _token, cursor: _cursor, created_at: _at, ...info } = fields
      const { bot_id, token, cursor, created_at } = bot
      accounts.push({
        name,
        bot_id,
        token,
        cursor,
        created_at,
        info: JSON.stringify(info),
        chosen: chosen !== undefined && sessionKeyOf(chosen) === sessionKeyOf(name),
      })
    }
    return { accounts, damaged }
  }

  async readNumbers(): Promise<ReadonlyMap<string, number>> {
    return new Map(
      copiedTables.flatMap(({ name, numbered }) => {
        if (numbered === undefined) return []
        const column = quoted(numbered)
        const { n } = this.#db.one<{ n: number }>(
          `SELECT max(coalesce((SELECT max(${column}) FROM ${name}), 0),
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0)) AS n`,
          name,
        )
        return [[name, n] as const]
      }),
    )
  }

  listUploads(): Promise<readonly string[]> {
    return listUploads(this.ports.mediaRoot)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.ports.directory[Symbol.asyncDispose]()
  }
}
