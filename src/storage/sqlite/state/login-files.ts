/**
 * QR logins: `.logins/<session>.json` has the login and the process that asks upstream about it. Ended logins
 * are in `.logins/ended`, so that reading the running ones reads no others.
 */
import { readdirSync, statSync } from 'node:fs'
import { rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BotInfo, normalizeSessionName, sessionKeyOf } from '../../../model/session.ts'
import { systemClock } from '../../../platform/clock.ts'
import { ensurePrivateDir, errorCodeOf, replaceFile, setAside, sweep } from '../../../platform/files.ts'
import { JsonFiles, type JsonObject } from '../../../platform/json-file.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { Sealer } from '../../../platform/sealing.ts'
import { linkSignals } from '../../../platform/signals.ts'
import { placeOf, toJoined } from '../../joined-logins.ts'
import type { LoginKey, LoginStore, StoredLogin } from '../../logins.ts'
import { type LoginAsWritten, mapLogin } from '../../sealed-places.ts'
import { ProcessOwner } from '../engine-part.ts'
import type { SessionFiles } from './sessions.ts'
import { TickCache } from './tick-cache.ts'
import { toJsonText, translateErrors } from './token-file.ts'

interface LoginFile {
  login: StoredLogin
  owner?: string
  /** Unix ms. */
  lease_until?: number
}

/** Folders of the files. */
const running = '.'
const over = 'ended'
/** Longer than a poll of upstream takes. */
const leaseMs = 60_000
/** Interval for checking writes of other processes; a thousand logins may wait. */
const checkEveryMs = 500
/** Interval for removing expired logins. */
const sweepEveryMs = 60_000
/** A file that a killed writer left incomplete is older than this. */
const leftoverMs = 60_000

export class LoginFiles implements LoginStore {
  readonly #dir: string
  readonly #lock: Pick<FileLock, 'run'>
  readonly #sessions: SessionFiles
  readonly #owner = new ProcessOwner()
  readonly #sealer: Sealer
  readonly #files: JsonFiles<LoginFile>
  /** Read with every read of the sessions. */
  readonly #underWay = new TickCache<Promise<readonly StoredLogin[]>>()
  /** Waits by session: woken by writes of this process; they also check for writes of other processes. */
  readonly #waiting = new Map<string, Set<AbortController>>()
  #sweeping: Promise<void> | undefined
  /** Unix ms. The first read removes what an earlier process left. */
  #sweptAt = 0

  constructor(dir: string, options: { lock: Pick<FileLock, 'run'>; sessions: SessionFiles; sealer: Sealer }) {
    const { sealer } = options
    this.#dir = dir
    this.#sealer = sealer
    this.#files = new JsonFiles(fields => parseLogin(fields, sealer))
    this.#lock = options.lock
    this.#sessions = options.sessions
  }

  listRunning(now: number): Promise<readonly StoredLogin[]> {
    return this.#underWay.get('', () => this.#listKept([running], now))
  }

  list(now: number): Promise<readonly StoredLogin[]> {
    return this.#listKept([running, over], now)
  }

  get(session: string, now: number): Promise<StoredLogin | undefined> {
    return translateErrors(async () => {
      const login = this.#read(session)?.login
      return login && login.until > now ? login : undefined
    })
  }

  put(login: StoredLogin, now: number): Promise<StoredLogin | undefined> {
    return translateErrors(() =>
      this.#lock.run(async () => this.#isKept(login, now) && this.#write(login)),
    ).then(kept => kept || undefined)
  }

  async finish(login: StoredLogin, bot: BotInfo, now: number): Promise<StoredLogin | undefined> {
    let kept: StoredLogin | undefined
    await this.#sessions.saveIn(async save => {
      if (!this.#isKept(login, now)) return
      const over = login.invitation ? await this.#join(login, bot, now) : login
      const session = over.joined ? over.joined.session : login.session
      if (session !== undefined && this.#sessions.readToken(session)?.bot.token !== bot.token)
        await save(session, { ...bot, ...(login.invitation && { invitation: login.invitation.id }) })
      kept = await this.#write(over)
    })
    return kept
  }

  /** Counts the use first: a killed process leaves no account without the standing of a guest. */
  async #join(login: StoredLogin, bot: BotInfo, at: number): Promise<StoredLogin> {
    const place = placeOf(login, bot, await this.#sessions.listLocked())
    const joining = { ...place, bot, invitation: login.invitation?.id ?? '', login: login.id, at }
    return toJoined(login, await this.#sessions.join(joining), place.session)
  }

  claim(login: LoginKey): Promise<boolean> {
    const claimable = (file = this.#read(login.session)) => {
      if (file?.login.id !== login.id) return undefined
      const leftMs = (file.lease_until ?? 0) - systemClock.now()
      return this.#owner.mayTake(file.owner, leftMs, leaseMs) ? { ...file, leftMs } : undefined
    }
    return translateErrors(async () => {
      const current = claimable()
      if (!current) return false
      if (current.owner === this.#owner.name && current.leftMs > leaseMs / 2) return true
      return this.#lock.run(async () => {
        const file = claimable()
        if (!file) return false
        const lease_until = systemClock.now() + leaseMs
        await this.#replace({ login: file.login, owner: this.#owner.name, lease_until })
        return true
      })
    })
  }

  release(login: LoginKey): Promise<void> {
    return translateErrors(() =>
      this.#lock.run(async () => {
        const file = this.#read(login.session)
        // An ended login needs no release.
        if (file?.login.id === login.id && !file.login.ended && file.owner === this.#owner.name)
          await this.#replace({ login: file.login })
      }),
    )
  }

  async wait(
    { session, version }: Pick<StoredLogin, 'session' | 'version'>,
    signal: AbortSignal,
  ): Promise<void> {
    const isKept = () => {
      try {
        return this.#read(session)?.login.version === version
      } catch {
        return true
      }
    }
    const key = sessionKeyOf(session)
    while (!signal.aborted && isKept()) {
      const written = new AbortController()
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting.add(written))
      using woken = linkSignals(signal, written.signal)
      await systemClock.sleep(checkEveryMs, woken.signal)
      waiting.delete(written)
      if (waiting.size === 0) this.#waiting.delete(key)
    }
  }

  #path(session: string, folder: string): string {
    return join(this.#dir, folder, `${sessionKeyOf(normalizeSessionName(session))}.json`)
  }

  #read(session: string): LoginFile | undefined {
    const [active, ended] = [running, over].map(folder => this.#files.read(this.#path(session, folder)))
    const found = active?.kind === 'read' ? active : ended
    return found?.kind === 'read' ? found.value : undefined
  }

  #listKept(folders: readonly string[], now: number): Promise<readonly StoredLogin[]> {
    return translateErrors(async () => {
      const all = this.#readAll(folders)
      const kept = all.filter(({ until }) => until > now)
      if (kept.length < all.length || now > this.#sweptAt + sweepEveryMs) this.#sweep(now)
      return kept
    })
  }

  #readAll(folders: readonly string[]): readonly StoredLogin[] {
    return folders.flatMap(folder => {
      const dir = join(this.#dir, folder)
      // Nearly always there are none.
      if (!statSync(dir, { throwIfNoEntry: false })) return []
      return listFileNames(dir).flatMap(name => {
        const found = name.endsWith('.json') && this.#files.read(join(dir, name))
        return found && found.kind === 'read' ? [found.value.login] : []
      })
    })
  }

  /** Whether the stored login has that version. */
  #isKept({ session, version }: StoredLogin, now: number): boolean {
    const kept = this.#read(session)?.login
    return version === (kept && kept.until > now ? kept.version : '')
  }

  async #write(given: StoredLogin): Promise<StoredLogin> {
    const login = { ...given, version: crypto.randomUUID() }
    const before = this.#read(login.session)
    await this.#replace(before?.login.id === login.id ? { ...before, login } : { login })
    return login
  }

  async #replace(file: LoginFile): Promise<void> {
    const { ended, session } = file.login
    const [path, otherPath] = [
      this.#path(session, ended ? over : running),
      this.#path(session, ended ? running : over),
    ]
    await ensurePrivateDir(this.#dir, { parents: false })
    if (ended) await ensurePrivateDir(join(this.#dir, over), { parents: false })
    if (this.#files.read(path).kind === 'damaged') await setAside(path)
    await replaceFile(path, toJsonText({ ...file, login: mapLogin(file.login, this.#sealer.seal) }))
    // If this process crashes here, both files exist. The running one counts then, and the login ends again.
    await rm(otherPath, { force: true })
    this.#underWay.forget()
    for (const waiting of this.#waiting.get(sessionKeyOf(session)) ?? []) waiting.abort()
  }

  /**
   * Removes expired logins in the background. The folder is removed with the last login, so a read finds
   * nothing to list.
   */
  #sweep(now: number): void {
    const removed = async () => {
      for (const folder of [over, running]) {
        for (const { session, until } of this.#readAll([folder]))
          if (until <= now) await rm(this.#path(session, folder))
        const dir = join(this.#dir, folder)
        if (!statSync(dir, { throwIfNoEntry: false })) continue
        await sweep(dir, /\.tmp$/, systemClock.now() - leftoverMs)
        if (listFileNames(dir).length === 0) await rmdir(dir)
      }
    }
    this.#sweptAt = now
    if (!statSync(this.#dir, { throwIfNoEntry: false })) return
    // A later call removes what cannot be removed now.
    this.#sweeping ??= this.#lock
      .run(removed)
      .catch(() => {})
      .finally(() => {
        this.#sweeping = undefined
      })
  }
}

/** Returns the names of the files; empty if another process has just removed the folder. */
function listFileNames(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    if (errorCodeOf(error) === 'ENOENT') return []
    throw error
  }
}

function parseLogin({ login, ...lease }: JsonObject, { open }: Sealer): LoginFile | undefined {
  const { id, session, version, until } = (login ?? {}) as Partial<StoredLogin>
  const isLogin = [id, session, version].every(text => typeof text === 'string') && typeof until === 'number'
  return isLogin ? ({ ...lease, login: mapLogin(login as LoginAsWritten, open) } as LoginFile) : undefined
}
