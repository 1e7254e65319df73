/** Keys of callers: made, rotated, revoked, and recognised in requests. */
import { type Grant, isWhole, type Scope } from '../model/access.ts'
import type { Call } from '../model/call.ts'
import { badArgument, SvcError } from '../model/error.ts'
import type { AddedKey, Key, Me, NewKeyInput, RevokedKeys } from '../model/key.ts'
import { boundsOf, type ListPage } from '../model/page.ts'
import { formatPrincipal, keyIdOf, owner, type Principal, scopeOf } from '../model/principal.ts'
import { normalizeSessionName, sessionKeyOf, sessionNotFoundError } from '../model/session.ts'
import { isUserId } from '../model/user-id.ts'
import { withoutUndefined } from '../platform/fields.ts'
import { RunningPart } from '../platform/runtime.ts'
import {
  acceptedHashes,
  endedKeyError,
  hasKeyEnded,
  type KeyStore,
  keyOfMaker,
  type StoredKey,
} from '../storage/keys.ts'
import type { SessionStore } from '../storage/state.ts'
import type { StoreMaintenance } from '../storage/store.ts'
import { normalizeCallerName } from './caller-name.ts'
import { createGrant, rejectWider } from './grants.ts'
import { toKey } from './key-view.ts'
import { createSecret, hashOf, isSameHash, parseKey } from './secret.ts'
import { linkGrant, replaceGrant, usageOf } from './usage.ts'

export interface KeyPorts {
  keys: KeyStore
  sessions: Pick<SessionStore, 'list'>
  maintenance: Pick<StoreMaintenance, 'isClockTrusted'>
  /** Resolves a user's name or id to the id; see `gateway/meant.ts`. */
  resolveTarget(who: { user: string }, field: string): Promise<{ user?: string }>
}

/** Changes of other processes take effect within this time. */
const checkEveryMs = 500
/** What keys use of their limits is shared with other processes this often. */
const shareEveryMs = 1000
/** The last use of a key is stored this often. */
const noteUseEveryMs = 60_000

/** A key in use. */
interface KnownKey {
  stored: StoredKey
  /** One caller for each of its secrets, by the hash of the secret. What a caller has open ends with its secret. */
  readonly callers: Map<string, { readonly principal: Principal; readonly end: AbortController }>
  /** All of them have the same one, and so share its limits. */
  readonly grant: Grant
  notedAt: number
}

export class Keys extends RunningPart<KeyPorts> {
  /** Keys that were used in this process. */
  readonly #known = new Map<string, KnownKey>()
  #revision = 0
  #watching = false
  /** Whether a key was ever made, as it was read last, at a monotonic time. Once true, it is read no more. */
  #any = { exists: false, readAt: Number.NEGATIVE_INFINITY }
  /** Whether a key was among the changes that were read. */
  #hasSeenKey = false
  /** Calls without a token that make keys, until their answer is written or lost. */
  #adding = 0
  /** Aborts after the first key was made. */
  readonly #closing = new AbortController()
  readonly #tokenless: Principal = { ...owner, ended: this.#closing.signal }

  /** Whether a key was ever made: then callers over TCP need a key or the master token. */
  hasAny(): boolean | Promise<boolean> {
    const now = this.runtime.clock.monotonic()
    if (this.#any.exists || now - this.#any.readAt < checkEveryMs) return this.#any.exists
    return this.ports.keys.hasAny().then(exists => {
      this.#any = { exists: exists || this.#any.exists, readAt: now }
      return this.#any.exists
    })
  }

  /** The principal of callers without a token, while no key exists. The first key ends their calls within a second. */
  get tokenlessOwner(): Principal {
    this.#watch()
    return this.#tokenless
  }

  /**
   * Returns the principal of a bearer token. Callers with the same secret get the same principal. Answers without a
   * promise if this process knows the key.
   *
   * @param address returns the address of the caller. Called only when the use is stored: on Bun it costs a tenth of
   *   a small request
   * @returns undefined if the token is no key that is valid now
   */
  authenticate(
    token: string,
    address?: () => string | undefined,
  ): Principal | undefined | Promise<Principal | undefined> {
    const parsed = parseKey(token)
    if (!parsed) return undefined
    const given = hashOf(parsed.secret)
    return this.recognize(parsed.id, hash => isSameHash(given, hash), address)
  }

  /**
   * Returns the principal of a key for a caller that proves in another way that it has the secret.
   *
   * @param proves whether the caller has the secret with this hash
   * @param address as for `authenticate`
   */
  recognize(
    id: string,
    proves: (hash: string) => boolean,
    address?: () => string | undefined,
  ): Principal | undefined | Promise<Principal | undefined> {
    const known = this.#known.get(id)
    const by = known && this.#verify(known, proves, address)
    if (by) return by
    // Another process may have replaced the secret just now.
    const read = known ? this.#check().then(() => this.#load(id)) : this.#load(id)
    return read.then(current => current && this.#verify(current, proves, address))
  }

  #verify(
    known: KnownKey,
    proves: (hash: string) => boolean,
    address: (() => string | undefined) | undefined,
  ): Principal | undefined {
    const now = this.runtime.clock.now()
    const isCurrent = this.#known.get(known.stored.id) === known
    const hash = isCurrent ? acceptedHashes(known.stored, now).find(proves) : undefined
    if (hash === undefined) return undefined
    this.#noteUse(known, now, address)
    const caller = known.callers.get(hash) ?? createCaller(known, hash)
    known.callers.set(hash, caller)
    return caller.principal
  }

  async #load(id: string): Promise<KnownKey | undefined> {
    if (!this.#watching) await this.#check()
    const revision = this.#revision
    const read = this.#known.get(id)
    if (read) return read
    const stored = await this.ports.keys.get(id)
    const maker = stored && keyOfMaker(stored.made_by)
    const above = maker === undefined ? undefined : (this.#known.get(maker) ?? (await this.#load(maker)))
    // A change that was noticed while the keys were read may be newer than what was read.
    if (revision !== this.#revision) return this.#load(id)
    const other = this.#known.get(id)
    if (!stored || other) return other
    linkGrant(stored.grant, above?.grant)
    void this.#watch()
    return this.#know(stored)
  }

  #know(stored: StoredKey): KnownKey {
    const known = { stored, callers: new Map(), grant: stored.grant, notedAt: Number.NEGATIVE_INFINITY }
    this.#known.set(stored.id, known)
    return known
  }

  /** Reads the changes of keys again and again. Starts with the first caller that may depend on one. */
  #watch(): void {
    if (this.#watching) return
    this.#watching = true
    const { closing: signal, log, tasks } = this.runtime
    const often = { everyMs: checkEveryMs, firstMs: checkEveryMs, log, signal }
    tasks.repeat({ ...often, name: 'keys', failure: 'keys cannot be read' }, () => this.#check())
    tasks.repeat({ ...often, name: 'key_limits', failure: 'the use of keys is not shared' }, async () =>
      (await this.#shareUse()) ? shareEveryMs : checkEveryMs,
    )
  }

  /** Shares what the keys in use have used of their limits. @returns whether there was something to share */
  async #shareUse(): Promise<boolean> {
    const own = [...this.#known.values()].flatMap(({ grant, stored: { id: key } }) => {
      const report = usageOf({ grant })?.report()
      return report ? [{ key, ...report }] : []
    })
    if (own.length === 0) return false
    const others = new Map((await this.ports.keys.shareUse(own)).map(use => [use.key, use]))
    for (const { key } of own) usageOf(this.#known.get(key))?.noteOthers(others.get(key))
    return true
  }

  /** Reads what has changed, and ends the calls of keys that have ended. */
  async #check(): Promise<void> {
    const { keys, revision } = await this.ports.keys.listChangedSince(this.#revision)
    this.#revision = revision
    this.#hasSeenKey ||= keys.length > 0
    // Waits until the call that made the first key has its answer: nothing else contains the key.
    if (this.#hasSeenKey && this.#adding === 0 && !this.#closing.signal.aborted)
      this.#closing.abort(new SvcError('unauthorized', 'Callers need a key or the master token from now on'))
    for (const stored of keys) {
      const known = this.#known.get(stored.id)
      if (!known) continue
      // Erasing a user removes the user from grants. A principal keeps the grant that it has, so its calls are ended,
      // and the next call gets a new principal.
      if (followAccounts(known.grant, stored.grant)) {
        known.stored = { ...stored, grant: known.grant }
        this.runtime.bus.notify('accountsFollowed')
      } else if (JSON.stringify(known.grant) !== JSON.stringify(stored.grant)) {
        replaceGrant(known.grant, stored.grant)
        this.#know(stored)
        endCallers(known, [], changedError())
      } else known.stored = stored
    }
    // If the clock may be wrong, callers are rejected, but nothing that they have open is ended: the clock may be
    // corrected.
    const isTrusted = await this.ports.maintenance.isClockTrusted()
    const now = isTrusted ? this.runtime.clock.now() : 0
    for (const known of this.#known.values())
      endCallers(known, acceptedHashes(known.stored, now), endedKeyError())
  }

  #noteUse(known: KnownKey, now: number, address: (() => string | undefined) | undefined): void {
    if (Math.abs(now - known.notedAt) < noteUseEveryMs) return
    known.notedAt = now
    this.ports.keys
      .noteUse(known.stored.id, now, address?.())
      .catch(error => this.runtime.log.warn('the use of a key was not recorded', { error }))
  }

  /**
   * Makes a key. Only this answer contains it. A key can make only keys that may not do more than itself.
   *
   * @param call a call without a token goes on until its answer was delivered
   * @throws SvcError `invalid_arguments`, `session_not_found`, `forbidden`
   */
  async add(input: NewKeyInput, by: Principal, call?: Pick<Call, 'onDelivered'>): Promise<AddedKey> {
    if (call && by.ended === this.#closing.signal) {
      this.#adding++
      call.onDelivered(() => this.#adding--)
    }
    const { can = [], expires_at } = input
    const { keys } = this.ports
    const created_at = this.runtime.clock.now()
    const name = normalizeCallerName(input.name)
    const grant = createGrant(input, await this.#scopeOf(input, by))
    if (expires_at !== undefined && expires_at <= created_at)
      throw badArgument('expires_at', 'expected a time in the future')
    if (by.grant) {
      rejectWider(grant, by.grant)
      const { expires_at: end = Number.POSITIVE_INFINITY } = (await this.#findMaker(by)) ?? {}
      if ((expires_at ?? Number.POSITIVE_INFINITY) > end)
        throw new SvcError('forbidden', 'your key expires before that', { hint: 'Name an earlier time.' })
    }
    const { id, hash, key } = createSecret()
    const made_by = formatPrincipal(by)
    await keys.add({ id, name, hash, grant, can, made_by, created_at, ...(expires_at && { expires_at }) })
    this.#any.exists = true
    return { ...(await this.#show(id)), key }
  }

  async #findMaker(by: Principal): Promise<StoredKey | undefined> {
    return by.grant && this.ports.keys.get(keyIdOf(by) ?? '')
  }

  /** Resolves sessions to their accounts, and users to their ids. The maker may name only what it may see. */
  async #scopeOf({ sessions, users }: NewKeyInput, by: Principal): Promise<Scope> {
    const own = scopeOf(by)
    const records = sessions ? await this.ports.sessions.list() : []
    const bots = sessions?.map(name => {
      const session = normalizeSessionName(name)
      const record = records.find(one => sessionKeyOf(one.name) === sessionKeyOf(session))
      const bot = record?.bot?.bot_id
      if (!record || (own.bots && !(bot !== undefined && own.bots.includes(bot))))
        throw sessionNotFoundError(session, { field: 'sessions' })
      if (bot === undefined)
        throw badArgument(
          'sessions',
          `${session} is not logged in, so there is no account to bind the key to`,
        )
      return bot
    })
    const ids: string[] = []
    for (const user of users ?? []) {
      if (!isWhole(own) && !isUserId(user)) throw badArgument('users', 'expected user ids')
      ids.push((await this.ports.resolveTarget({ user }, 'users')).user ?? user)
    }
    return { ...(bots && { bots: [...new Set(bots)] }), ...(users && { users: [...new Set(ids)] }) }
  }

  /**
   * Describes the key of a caller: what limits it, what is left of that, and until when it is valid. Empty for a
   * caller without a key.
   */
  async describe(by: Principal): Promise<Partial<Pick<Me, (typeof ownFields)[number] | 'left'>>> {
    const id = keyIdOf(by)
    if (id === undefined) return {}
    const key = await this.#show(id)
    const own = Object.fromEntries(ownFields.flatMap(field => (field in key ? [[field, key[field]]] : [])))
    return withoutUndefined({ ...own, left: usageOf(by)?.left() })
  }

  /** Lists a page of the keys that a caller may manage, oldest first: of all; for a key of those that it made. */
  async list(by: Principal, page: ListPage = {}): Promise<Key[]> {
    return this.#showAll(await this.ports.keys.list({ madeBy: keyIdOf(by), page: boundsOf(page) }))
  }

  /** Returns a key by its id, or by its name. @throws SvcError `not_found`; `invalid_arguments` for the name of several */
  async get(idOrName: string, by: Principal): Promise<Key> {
    return this.#show((await this.#find(idOrName, by)).id)
  }

  async #show(id: string): Promise<Key> {
    const stored = await this.ports.keys.get(id)
    const [key] = await this.#showAll(stored ? [stored] : [])
    if (key) return key
    throw unknownError()
  }

  async #find(idOrName: string, by: Principal): Promise<StoredKey> {
    const managed = await this.ports.keys.list({ madeBy: keyIdOf(by) })
    const now = this.runtime.clock.now()
    const named = managed.filter(({ name }) => name === idOrName)
    const active = named.filter(key => !hasKeyEnded(key, now))
    const found = managed.find(({ id }) => id === idOrName) ?? active[0] ?? named.at(-1)
    if (!found) throw unknownError()
    if (found.id === idOrName || active.length <= 1) return found
    const keys = active.map(({ id, made_by }) => ({ id, made_by }))
    // Two makers who do not see each other's keys may have chosen one name.
    throw badArgument('id', `expected one key; ${active.length} have this name`, {
      details: { keys },
      hint: `Name the id: ${keys.map(({ id, made_by }) => `${id} made by ${made_by}`).join(', ')}.`,
    })
  }

  /**
   * Makes a new secret. The key keeps its id, and all that belongs to it.
   *
   * @param keepOldMs how long the previous secret is accepted too
   * @throws SvcError `not_found`, also for a key that has ended
   */
  async rotate(idOrName: string, keepOldMs: number, by: Principal): Promise<AddedKey> {
    const stored = await this.#find(idOrName, by)
    const now = this.runtime.clock.now()
    const { id, hash, key } = createSecret(stored.id)
    if (hasKeyEnded(stored, now) || !(await this.ports.keys.rotate(id, hash, keepOldMs && now + keepOldMs)))
      throw new SvcError('not_found', 'the key was revoked, or has expired', {
        next: { action: 'see', what: 'keys' },
      })
    await this.#check()
    return { ...(await this.#show(id)), key }
  }

  /** Ends a key and the keys that it made, with their calls in progress. @throws SvcError `not_found` */
  async revoke(idOrName: string, by: Principal): Promise<RevokedKeys> {
    const { id } = await this.#find(idOrName, by)
    const revoked = await this.ports.keys.revoke(id, this.runtime.clock.now())
    await this.#check()
    this.runtime.bus.notify('keysRevoked', revoked)
    return { success: true, revoked }
  }

  async #showAll(stored: readonly StoredKey[]): Promise<Key[]> {
    const now = this.runtime.clock.now()
    const records = await this.ports.sessions.list()
    const names = new Map(records.flatMap(({ bot, name }) => (bot ? [[bot.bot_id, name]] : [])))
    const isLimited = stored.some(({ grant }) => grant.bots !== undefined)
    const scans = isLimited ? await this.ports.keys.listScans() : new Map()
    return stored.map(key => toKey(key, { names, scans }, now))
  }
}

function createCaller({ grant, stored: { id, made_by, name } }: KnownKey, hash: string) {
  const end = new AbortController()
  const maker = keyOfMaker(made_by)
  const principal: Principal = {
    kind: 'key',
    id,
    name,
    ...(maker !== undefined && { maker }),
    grant,
    secret: hash.slice(0, 16),
    ended: end.signal,
  }
  return { principal, end }
}

/**
 * Gives a grant the accounts of new logins, in place: what its callers have open goes on with them.
 *
 * @returns whether that is all in which the stored grant differs
 */
function followAccounts(grant: Grant, stored: Grant): boolean {
  const { bots } = grant
  const isSame = JSON.stringify({ ...stored, bots }) === JSON.stringify({ ...grant, bots })
  const hasAll = bots?.every(bot => stored.bots?.includes(bot)) ?? stored.bots === undefined
  if (!isSame || !hasAll) return false
  const added = stored.bots?.filter(bot => !bots?.includes(bot)) ?? []
  ;(bots as string[] | undefined)?.push(...added)
  return true
}

/** Ends the callers of a key whose secret is not accepted any more. */
function endCallers({ callers }: KnownKey, accepted: readonly string[], error: SvcError): void {
  for (const [hash, { end }] of callers) {
    if (accepted.includes(hash)) continue
    callers.delete(hash)
    end.abort(error)
  }
}

const ownFields = ['name', 'sessions', 'users', 'topics', 'limits', 'expires_at'] as const

const unknownError = () =>
  new SvcError('not_found', 'no key has this id or name', { next: { action: 'see', what: 'keys' } })

const changedError = () => new SvcError('unauthorized', 'What the key may do was changed: call again')
