/**
 * The session folders: `<base>/<name>/token.json` and `<base>/.default_session`. The files are the truth:
 * every read checks them, and every write reads them again under the data lock and replaces the file durably.
 */
import { readdirSync } from 'node:fs'
import { readdir, rename as renameFile, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles, isHalfWritten, isSessionFolder } from '../../../model/data-files.ts'
import { SvcError } from '../../../model/error.ts'
import {
  type BotInfo,
  inheritedMarksOf,
  type Marks,
  normalizeSessionName,
  sessionKeyOf,
  sessionNotFoundError,
  withMarks,
} from '../../../model/session.ts'
import { attempt } from '../../../platform/fields.ts'
import {
  ensurePrivateDir,
  errorCodeOf,
  setAside,
  statOf,
  sweep,
  syncDir,
  writeDurably,
} from '../../../platform/files.ts'
import {
  createFolderReader,
  createTextReader,
  type JsonContent,
  JsonFiles,
  type JsonObject,
} from '../../../platform/json-file.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { Log } from '../../../platform/log.ts'
import { isOwnName, ownPath } from '../../../platform/own-names.ts'
import { RoomPart } from '../../../platform/runtime.ts'
import type { Sealer } from '../../../platform/sealing.ts'
import type { SessionChanges, SessionRecord, SessionStore } from '../../state.ts'
import type { LogInternals } from '../store.ts'
import { FolderIndex } from './folder-index.ts'
import { TickCache } from './tick-cache.ts'
import { parseTokenFile, type TokenFile, toTokenText, translateErrors, withoutMarks } from './token-file.ts'

/** Up to this many folders, all files are checked on every read; with more, less often. */
const indexedFrom = 64
/** The longest wait for the lock to set a damaged file aside during a read: the next read tries again. */
const mendMs = 200
/** Problems with the files of a session, which are logged once until they are solved. */
const readProblems = [
  'a session cannot be read',
  'token.json does not parse and cannot be set aside',
] as const

/** Data in the message log that belongs to a session and changes with its folder. */
export type SessionRows = Pick<LogInternals, 'durable' | 'contexts' | 'names' | 'maintenance' | 'scans'>

interface SessionFilesPorts {
  dir: string
  lock: Pick<FileLock, 'run'>
  log: Log
  sealer: Sealer
  rows?: SessionRows | undefined
}

export class SessionFiles extends RoomPart<SessionFilesPorts> implements SessionStore {
  readonly #files = new JsonFiles(fields => parseTokenFile(fields, this.ports.sealer))
  readonly #folders = createFolderReader(this.ports.dir, isSessionFolder)
  readonly #default = createTextReader(join(this.ports.dir, dataFiles.defaultSession))
  readonly #index = new FolderIndex<SessionRecord>({
    folders: () => this.#folders(),
    read: folder => this.#read(folder, false),
    onChange: record => this.onListed?.(record),
    isSame: (a, b) => this.#isSame(a, b),
    few: indexedFrom,
  })
  /** The content of contexts.json when a record was read. */
  readonly #contexts = new WeakMap<SessionRecord, unknown>()
  /** Revision of the user names at the last read. */
  #namesRevision = 0
  /** What was read in this turn of the event loop. */
  readonly #caches = {
    listed: new TickCache<Promise<readonly SessionRecord[]>>(),
    defaults: new TickCache<Promise<string | undefined>>(),
    records: new TickCache<Promise<SessionRecord | undefined>>(),
  }
  /** Number of runs of `readLocked`. */
  #readsLocked = 0
  /** Folder and problem, for each warning that was logged already. */
  readonly #warned = new Set<string>()

  /**
   * Returns every session on disk now. Takes no lock. With more than 64 sessions, changes of another process
   * are visible within seconds (`FolderIndex`).
   */
  list(): Promise<readonly SessionRecord[]> {
    return this.#caches.listed.get('', async () => {
      await this.#index.refresh()
      return this.#index.list()
    })
  }

  async listChangedSince(revision?: number): Promise<SessionChanges> {
    await this.#index.refresh()
    // A failure of the log is reported elsewhere, and hides no session.
    const renamed = await this.ports.rows?.names.listChangedSince(this.#namesRevision).catch(() => undefined)
    for (const { name, revision: named } of renamed ?? []) {
      this.#index.markTouched(name)
      this.#namesRevision = Math.max(this.#namesRevision, named)
    }
    return this.#index.listChangedSince(revision)
  }

  #isSame(a: SessionRecord | undefined, b: SessionRecord | undefined): boolean {
    const contextsOf = (record: SessionRecord | undefined) => record && this.#contexts.get(record)
    return (
      a?.bot === b?.bot &&
      a?.damaged === b?.damaged &&
      Boolean(a?.unreadable) === Boolean(b?.unreadable) &&
      contextsOf(a) === contextsOf(b)
    )
  }

  /** Runs reads by a caller that holds the data lock: they see what is on disk since it was taken. */
  async readLocked<T>(start: () => readonly Promise<T>[]): Promise<readonly Promise<T>[]> {
    this.#readsLocked += 1
    this.#forgetCaches()
    const reads = start()
    await Promise.allSettled(reads)
    this.#readsLocked -= 1
    // A damaged file was not set aside; the next read does that.
    this.#caches.records.forget()
    return reads
  }

  /** Call it before `readLocked`: to check the files of many sessions takes longer than the lock may be held. */
  async refreshMany(): Promise<void> {
    if (this.#index.size > indexedFrom) await this.#index.refresh()
  }

  getDefaultName(): Promise<string | undefined> {
    return this.#caches.defaults.get('', () => this.#findDefaultName())
  }

  /** @param locked whether the caller holds the data lock */
  async #list(folders: readonly string[], locked = false): Promise<SessionRecord[]> {
    const records: SessionRecord[] = []
    for (const name of folders) {
      const record = await this.#read(name, locked)
      if (record) records.push(record)
    }
    return records
  }

  get(name: string): Promise<SessionRecord | undefined> {
    return this.#get(name, false)
  }

  async #get(name: string, locked: boolean): Promise<SessionRecord | undefined> {
    // Nothing outside the data directory is read, whatever the name is.
    if (!this.#isKnown(name) && !isOwnName('session', name)) return undefined
    const exact = await this.#read(name, locked)
    if (exact) return exact
    if (this.#index.markGone(name)) this.#forgetCaches()
    const found = this.#folderOf(name)
    return found === undefined ? undefined : this.#read(found, locked)
  }

  async #findDefaultName(locked = false): Promise<string | undefined> {
    const text = this.#default()?.trim()
    if (!text) return undefined
    return (await this.#get(text, locked))?.name
  }

  save(name: string, bot: BotInfo): Promise<void> {
    return this.saveIn(save => save(name, bot))
  }

  /** Runs `work` under the data lock, with `save`: for data that is written together with credentials. */
  saveIn(work: (save: SessionStore['save']) => Promise<void>): Promise<void> {
    return this.#change(touched => work((name, bot) => this.#save(touched, name, bot)))
  }

  async #save(touched: Set<string>, name: string, bot: BotInfo): Promise<void> {
    const folder = this.#folderOf(name) ?? normalizeSessionName(name)
    touched.add(folder)
    const path = join(this.ports.dir, folder)
    const isNew = !(await statOf(path))
    await ensurePrivateDir(path, { parents: false })
    if (isNew) await syncDir(this.ports.dir)
    const before = this.readToken(folder)
    if (!before) await this.ports.rows?.maintenance.respellSession(folder)
    // First: after a crash in between, the old bot has no tokens. The new bot never has the tokens of the old
    // one.
    if (before?.bot.bot_id !== bot.bot_id) await this.onNewBot?.(folder)
    await this.ports.rows?.scans.note({ session: folder, before: before?.bot, bot })
    const { bot_id, token, base_url, user_id, cursor, created_at, ...others } = withoutMarks(
      before?.fields ?? {},
    )
    await writeDurably(
      this.tokenPath(folder),
      this.toTokenText({ ...bot, ...others, ...inheritedMarksOf(before?.bot, bot) }),
    )
    // If no session was chosen as default, the oldest becomes the default, and stays it.
    if ((await this.#findDefaultName(true)) === undefined)
      await this.#writeDefault((await this.#findOldest())?.name ?? folder)
  }

  /** Returns all sessions, for a caller that holds the data lock. */
  listLocked(): Promise<readonly SessionRecord[]> {
    return this.#list(this.#folders(), true)
  }

  /** Returns the oldest session with credentials. Call it under the lock. */
  async #findOldest(): Promise<SessionRecord | undefined> {
    const logged = (await this.listLocked()).filter(record => record.bot)
    return logged.sort((a, b) => a.bot!.created_at - b.bot!.created_at)[0]
  }

  /** Set by `openState`: called for each session that a read finds, and again when it changed. */
  onListed: ((record: SessionRecord) => void) | undefined

  /**
   * Set by `openState`: returns the contexts of a session, the same object while its file is unchanged. It
   * throws SvcError `store_unavailable`.
   */
  onRead: ((name: string) => unknown) | undefined

  /**
   * Set by `openState`: changes what else belongs to a bot when a session gets another one. Called under the
   * data lock.
   */
  onNewBot: ((name: string) => Promise<void>) | undefined

  async mark(name: string, token: string, wanted: Marks): Promise<void> {
    await this.#change(async touched => {
      touched.add(name)
      const file = this.readToken(name)
      if (file?.bot.token !== token) return
      const fields = withMarks({ ...file.fields, ...file.bot }, wanted)
      if (fields) await writeDurably(this.tokenPath(name), this.toTokenText(fields))
    })
  }

  /**
   * Removes a session, and credentials that were set aside. The folder is removed if it has no other files.
   */
  async remove(name: string): Promise<void> {
    await this.#change(async touched => {
      const folder = this.#requireFolder(name)
      touched.add(folder)
      const wasDefault = (await this.#findDefaultName(true)) === folder
      await this.#clear(folder, /^(token|contexts)\.json(\.|$)/)
      if (wasDefault) {
        const oldest = await this.#findOldest()
        if (oldest) await this.#writeDefault(oldest.name)
        else await unlink(join(this.ports.dir, dataFiles.defaultSession))
      }
      await this.ports.rows?.contexts.forget(folder)
    })
  }

  /** Removes the id of a user who logged the account in. Call it under the data lock. */
  async removeUser(folder: string, user: string): Promise<void> {
    const file = this.readToken(folder)
    if (file?.bot.user_id !== user) return
    const { user_id: _, ...fields } = file.fields
    await writeDurably(this.tokenPath(folder), this.toTokenText(fields))
    this.markWritten(folder)
  }

  async rename(oldName: string, newName: string): Promise<void> {
    await this.#change(async touched => {
      const from = this.#requireFolder(oldName)
      const to = normalizeSessionName(newName)
      if (from === to) return
      const taken = this.#folderOf(to)
      if (taken !== undefined && taken !== from) {
        throw new SvcError('session_exists', `there is already a session named "${taken}"`)
      }
      if (taken === undefined && (await statOf(join(this.ports.dir, to)))) {
        // Files that a killed logout left may be removed; others may not.
        await this.#clear(to, { test: name => name === dataFiles.contexts || isHalfWritten(name) }).catch(
          () => {},
        )
        if (await statOf(join(this.ports.dir, to))) {
          throw new SvcError('session_exists', `there is already a file or folder named "${to}"`)
        }
      }
      for (const folder of [from, to]) touched.add(folder)
      const wasDefault = (await this.#findDefaultName(true)) === from
      await this.ports.rows?.maintenance.intendRename(from, to)
      await this.#move(from, to)
      try {
        if (wasDefault) await this.#writeDefault(to)
        await this.ports.rows?.maintenance.renameSession(from, to)
      } catch (error) {
        // Undo the move: a session whose messages have another name looks like lost messages.
        await this.#move(to, from)
        if (wasDefault) await this.#writeDefault(from)
        await this.ports.rows?.maintenance.intendRename(from, undefined)
        throw error
      }
    })
  }

  /**
   * Completes renames whose process was killed after the folder got its new name. Call it when the directory
   * is opened.
   */
  async completeRenames(): Promise<void> {
    const { maintenance } = this.ports.rows ?? {}
    if (!maintenance || (await maintenance.listIntendedRenames()).length === 0) return
    await this.#change(async touched => {
      // Read again: the process that does the rename now has the lock.
      for (const { from, to } of await maintenance.listIntendedRenames()) {
        touched.add(to)
        const folders = this.#folders()
        const isMoved = !folders.includes(from) && folders.includes(to)
        if (isMoved && this.#default()?.trim() === from) await this.#writeDefault(to)
        await (isMoved ? maintenance.renameSession(from, to) : maintenance.intendRename(from, undefined))
      }
    })
  }

  async #move(from: string, to: string): Promise<void> {
    await renameFile(join(this.ports.dir, from), join(this.ports.dir, to))
    await syncDir(this.ports.dir)
  }

  /** Removes the matching files of a session, token.json first, and the folder if it is empty then. */
  async #clear(folder: string, ours: { test(name: string): boolean }): Promise<void> {
    const path = join(this.ports.dir, folder)
    const names = (await readdir(path)).filter(name => ours.test(name))
    for (const name of names.sort((a, b) => Number(b === dataFiles.token) - Number(a === dataFiles.token))) {
      await unlink(join(path, name))
    }
    await syncDir(path)
    try {
      await rmdir(path)
      await syncDir(this.ports.dir)
    } catch (error) {
      this.ports.log.info('folder of the session kept', { session: folder, why: errorCodeOf(error) })
    }
  }

  async setDefault(name: string): Promise<void> {
    await this.#change(async () => this.#writeDefault(this.#requireFolder(name)))
  }

  async sweep(before: number): Promise<number> {
    const folders: string[] = []
    for (const folder of ['', ...this.#folders().filter(name => isOwnName('session', name))]) {
      const path = join(this.ports.dir, folder)
      if ((await readdir(path).catch(() => [])).some(isHalfWritten)) folders.push(path)
    }
    if (folders.length === 0) return 0
    // Under the lock no process writes. Otherwise, after a clock jump, a file being written now would look
    // old.
    return this.ports.lock.run(async () => {
      let removed = 0
      for (const path of folders) removed += await sweep(path, { test: isHalfWritten }, before)
      return removed
    })
  }

  /** Call it after this process replaced a file (of `session`, if given): the next read must see it. */
  markWritten(session?: string): void {
    if (session !== undefined) this.#index.markChanged(session)
    this.#forgetCaches()
  }

  #forgetCaches(): void {
    for (const cache of Object.values(this.#caches)) cache.forget()
  }

  /**
   * Reads the current token file; undefined if it is absent or damaged. For writers that hold the data lock.
   */
  readToken(name: string): TokenFile | undefined {
    const found = this.#files.read(this.tokenPath(name))
    return found.kind === 'read' ? found.value : undefined
  }

  /** Returns the text of a token.json with these fields. */
  toTokenText(fields: JsonObject): string {
    return toTokenText(fields, this.ports.sealer)
  }

  tokenPath(name: string): string {
    return join(this.ports.dir, name, dataFiles.token)
  }

  contextsPath(name: string): string {
    return join(ownPath(this.ports.dir, 'session', name), dataFiles.contexts)
  }

  #read(folder: string, locked: boolean): Promise<SessionRecord | undefined> {
    const read = () => this.#readNow(folder, locked)
    // While reads hold the lock, no process writes.
    return locked || this.#readsLocked === 0 ? read() : this.#caches.records.get(folder, read)
  }

  async #readNow(folder: string, locked: boolean): Promise<SessionRecord | undefined> {
    if (!isSessionFolder(folder)) return undefined
    const path = this.tokenPath(folder)
    let found: JsonContent<TokenFile>
    let contexts: unknown
    try {
      found = this.#files.read(path)
      if (found.kind === 'read') contexts = this.onRead?.(folder)
    } catch (error) {
      if (!(error instanceof SvcError)) throw error
      // An unreadable file affects only its own session.
      if (!this.#isSession(folder)) return undefined
      this.#warnOnce(folder, readProblems[0], { error })
      return { name: folder, unreadable: error }
    }
    if (found.kind === 'read') {
      if (!this.#isSession(folder)) return undefined
      // Readable again: a later problem is logged again.
      if (this.#warned.size > 0) for (const event of readProblems) this.#warned.delete(`${folder}/${event}`)
      const record = { name: folder, bot: found.value.bot }
      this.#contexts.set(record, contexts)
      return record
    }
    if (found.kind === 'damaged') {
      if (!this.#isSession(folder)) return undefined
      // A later read sets it aside: the lock that this needs is held by the reader.
      if (this.#readsLocked > 0) return { name: folder, damaged: true }
      // Check again under the lock: a login may have written a valid file since.
      const mend = async () => {
        if (this.#files.read(path).kind === 'damaged') await this.#setAside(folder)
      }
      await (locked ? mend() : this.ports.lock.run(mend, { timeoutMs: mendMs })).catch(error => {
        this.#warnOnce(folder, readProblems[1], { error })
      })
      const again = this.#files.read(path)
      return again.kind === 'read' ? { name: folder, bot: again.value.bot } : { name: folder, damaged: true }
    }
    return this.#hasDamaged(folder) && this.#isSession(folder) ? { name: folder, damaged: true } : undefined
  }

  async #setAside(folder: string): Promise<void> {
    const aside = await setAside(this.tokenPath(folder))
    this.ports.log.error('token.json does not parse; set aside, log the session in again', {
      session: folder,
      aside,
    })
  }

  #hasDamaged(folder: string): boolean {
    const names = attempt(() => readdirSync(join(this.ports.dir, folder))) ?? []
    return names.some(name => name.startsWith('token.json.corrupt-'))
  }

  /** Whether a folder has a name that svc may give. Logs a warning if not. */
  #isSession(folder: string): boolean {
    if (this.#isKnown(folder) || isOwnName('session', folder)) return true
    this.#warnOnce(folder, 'folder ignored: its name is not a session name')
    return false
  }

  /** Whether the last read of a folder of this name found a session. */
  #isKnown(folder: string): boolean {
    return this.#index.find(folder) !== undefined
  }

  #warnOnce(folder: string, event: string, fields?: Record<string, unknown>): void {
    if (this.#warned.has(`${folder}/${event}`)) return
    this.#warned.add(`${folder}/${event}`)
    this.ports.log.warn(event, { folder, ...fields })
  }

  /** Returns the folder with that name, ignoring case. */
  #folderOf(name: string): string | undefined {
    return this.#index
      .alike(sessionKeyOf(name))
      .find(folder => this.#hasToken(folder) || this.#hasDamaged(folder))
  }

  #hasToken(folder: string): boolean {
    return attempt(() => this.#files.read(this.tokenPath(folder)).kind) !== 'absent'
  }

  /** Runs a change under the data lock, and makes later reads see it. */
  async #change(work: (touched: Set<string>) => Promise<void>): Promise<void> {
    const touched = new Set<string>()
    try {
      await translateErrors(() => this.ports.lock.run(() => work(touched)))
    } finally {
      for (const folder of touched) this.#index.markChanged(folder)
      this.#forgetCaches()
    }
  }

  #requireFolder(name: string): string {
    const folder = this.#folderOf(name)
    if (folder === undefined) throw sessionNotFoundError(name)
    return folder
  }

  #writeDefault(name: string): Promise<void> {
    return writeDurably(join(this.ports.dir, dataFiles.defaultSession), `${name}\n`)
  }
}
