/**
 * Access to the panel. On a loopback address without a token and without keys, all users of this machine have
 * access, but no page of another origin. Elsewhere, or with a token, or from the first key on, a user signs in
 * with the token, with a key, or by a one-time link that the start prints to a terminal, and `svc panel link` elsewhere.
 *
 * A sign-in is a signed cookie: its expiry, its name, and the id of the key, signed with a key derived from the
 * token. The signature covers the hash of the key's secret too. So a sign-in survives a restart, and ends with
 * its key, with the secret of that key, and with the token. Only the names of sign-ins that ended early are
 * stored (`SignInStore`), for all processes that serve the panel.
 *
 * A browser sends the cookie to every port of its host, so also to the server of another user of the machine. So the
 * cookie alone is not enough: the page has the secret of its sign-in, in the storage of its own origin, and sends it in
 * a header. What a browser loads without headers (a download, the event stream) it names with a pass of a minute.
 */
import { Buffer } from 'node:buffer'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Keys } from '../../access/keys.ts'
import { hashOf, parseKey } from '../../access/secret.ts'
import { SvcError } from '../../model/error.ts'
import { anyCaller, type Principal, panel } from '../../model/principal.ts'
import { linkLifetimeMs, signIn, signOut, storedLink } from '../../operations/sign-in.ts'
import type { Clock } from '../../platform/clock.ts'
import { RoomPart } from '../../platform/runtime.ts'
import type { SignInStore } from '../../storage/state.ts'
import { createGuard, type GuardOptions, givenTokenOf, type Identity, isSameToken } from '../auth.ts'
import { cookiesOf, formatCookie } from '../cookies.ts'
import { queryOf } from '../paths.ts'
import { ensureToken, type KeptDirectory, readStoredToken } from '../token.ts'

const cookie = 'svc_panel'
/** The header with the secret of the page, in requests, and in the answer of a sign-in. */
export const secretHeader = 'svc-panel'
const passLifetimeMs = 60_000
/** Lifetime of a sign-in. */
const signInLifetimeMs = 30 * 24 * 60 * 60_000
/** So many are known without the store. */
const mostOpen = 1000
/** A sign-in older than this is renewed at the next visit. */
const renewAfterMs = 24 * 60 * 60_000

export interface AccessOptions extends Omit<GuardOptions, keyof KeptDirectory>, KeptDirectory {
  readonly keys: Pick<Keys, 'hasAny' | 'tokenlessOwner' | 'authenticate' | 'recognize'>
  readonly clock: Clock
  readonly signIns: SignInStore
  /** Writes a line of the audit log. @throws SvcError if that fails for a caller with a key */
  readonly note: (
    operation: typeof signIn | typeof signOut,
    by: Principal,
    how: 'link' | 'token' | 'key' | 'first key' | undefined,
    request: Request,
  ) => Promise<void>
}

/** Returns the address of a caller, to be stored with the use of a key. */
type AddressOf = () => string | undefined

/** The check of access to one panel. */
export class Access extends RoomPart<AccessOptions> {
  /** @throws Error if other machines can reach the address and there is no token */
  readonly #guard = createGuard(this.ports)
  /** The principals of browsers, by those of their keys. */
  readonly #panels = new WeakMap<Principal, Principal>()
  /** Sign-ins that the store knew as not ended: it closes no panel when it begins to fail, and shows what is wrong. */
  readonly #open = new Set<string>()
  #wasRequired: boolean | undefined = this.ports.token !== undefined || undefined

  #panelOf(by: Principal): Principal {
    const known = this.#panels.get(by) ?? { ...by, kind: 'panel' }
    this.#panels.set(by, known)
    return known
  }

  async isRequired(): Promise<boolean> {
    if (this.#wasRequired) return true
    try {
      this.#wasRequired = await this.ports.keys.hasAny()
    } catch (error) {
      if (this.#wasRequired === undefined) throw error
    }
    return this.#wasRequired
  }

  async #begin(request: Request, signIn: Partial<SignIn> = {}): Promise<NewSignIn> {
    const { name = randomBytes(9).toString('base64url'), key } = signIn
    const text = [this.ports.clock.now() + signInLifetimeMs, name, ...(key ? [key.id] : [])].join('.')
    const master = this.ports.token ?? (await ensureToken(this.ports)).token
    const value = `${text}.${sign(text, key?.hash, master)}`
    return {
      cookie: formatCookie(cookie, value, signInLifetimeMs / 1000, request),
      secret: sign(`page.${name}`, key?.hash, master),
    }
  }

  async #verifyCookie(value: string, address?: AddressOf): Promise<SignIn | undefined> {
    const parts = value.split('.')
    const proof = parts.pop()
    const [expiry = '', name = '', id] = parts
    const master = this.ports.token ?? (await readStoredToken(this.ports))
    if (!proof || !name || parts.length > 3 || master === undefined) return undefined
    if (!(Number(expiry) > this.ports.clock.now())) return undefined
    const proves = (hash?: string) => isSameProof(proof, sign(parts.join('.'), hash, master))
    const prove = (hash?: string) => (text: string) => sign(`${text}.${name}`, hash, master)
    const signIn = { name, until: Number(expiry) }
    if (id === undefined) return proves() ? { ...signIn, by: panel, prove: prove() } : undefined
    let proved = ''
    const by = await this.ports.keys.recognize(
      id,
      hash => {
        const isIt = proves(hash)
        if (isIt) proved = hash
        return isIt
      },
      address,
    )
    return by && { ...signIn, by: this.#panelOf(by), key: { id, hash: proved }, prove: prove(proved) }
  }

  /** Returns the valid sign-ins in a request's cookies. */
  async #listSignIns(request: Request, address?: AddressOf): Promise<SignIn[]> {
    const verified = await Promise.all(
      cookiesOf(cookie, request).map(value => this.#verifyCookie(value, address)),
    )
    const all = verified.filter(one => one !== undefined)
    if (all.length === 0) return []
    const names = all.map(({ name }) => name)
    const ended = await this.ports.signIns.filterEnded(names).catch(error => {
      if (names.every(name => this.#open.has(name))) return new Set()
      throw error
    })
    if (this.#open.size > mostOpen) this.#open.clear()
    for (const name of names) ended.has(name) ? this.#open.delete(name) : this.#open.add(name)
    return all.filter(({ name }) => !ended.has(name))
  }

  /** Whether a request is of the page that signed in, or by a link of that page. */
  #isOfPage({ prove }: SignIn, request: Request): boolean {
    const given = request.headers.get(secretHeader)
    if (given !== null) return isSameProof(given, prove('page'))
    const { pass = '' } = request.method === 'GET' ? queryOf(request) : {}
    const [until = '', proof = ''] = pass.split('.')
    const leftMs = Number(until) - this.ports.clock.now()
    return leftMs > 0 && leftMs <= passLifetimeMs && isSameProof(proof, prove(`pass.${until}`))
  }

  /** Whether a sign-in was required for the last request. */
  get wasRequired(): boolean {
    return this.#wasRequired === true
  }

  /**
   * Returns who makes a request, or why it is denied.
   *
   * @param open true for paths that need no sign-in: the page itself and its texts
   * @param byCookie whether the cookie is enough: for a stream that the page has opened, and for what opens a page
   */
  async identify(request: Request, open: boolean, address?: AddressOf, byCookie = false): Promise<Identity> {
    // Browsers send the cookie automatically, so check on every address that the page is our own.
    const foreign = this.#guard.hostDenialOf(request, true) ?? this.#guard.pageDenialOf(request, open)
    if (foreign) return foreign
    if (open) return anyCaller
    const needsSignIn = await this.isRequired()
    // A token goes before the cookie. What a proxy in front asks for (Basic) is no token.
    const token = givenTokenOf(request)
    const signIns = needsSignIn && !token ? await this.#listSignIns(request, address) : []
    const signIn = signIns.find(one => byCookie || this.#isOfPage(one, request))
    if (signIn) return signIn.by
    if (!needsSignIn && token === undefined) return panel
    const identity = await this.#guard.identify(request, false, address)
    return !(identity instanceof SvcError) && identity.kind === 'owner' ? panel : identity
  }

  /** Returns what a link of the page has in its query for a minute; undefined if no sign-in is needed. */
  async createPass(request: Request): Promise<string | undefined> {
    const signIns = (await this.isRequired()) ? await this.#listSignIns(request) : []
    const signIn = signIns.find(one => this.#isOfPage(one, request))
    const until = this.ports.clock.now() + passLifetimeMs
    return signIn && `${until}.${signIn.prove(`pass.${until}`)}`
  }

  /** Signs in with a token or a key. @throws SvcError `unauthorized` */
  async signIn(text: string, request: Request, address?: AddressOf): Promise<NewSignIn> {
    const parsed = parseKey(text)
    const by = parsed && (await this.ports.keys.authenticate(text, address))
    if (parsed && by) {
      await this.ports.note(signIn, this.#panelOf(by), 'key', request)
      return await this.#begin(request, { key: { id: parsed.id, hash: hashOf(parsed.secret) } })
    }
    const master =
      this.ports.token ?? ((await this.isRequired()) ? await readStoredToken(this.ports) : undefined)
    if (master === undefined || !isSameToken(text, master))
      throw new SvcError('unauthorized', 'The token is wrong')
    await this.ports.note(signIn, panel, 'token', request)
    return await this.#begin(request)
  }

  /**
   * Signs in by the code of a one-time link.
   *
   * @returns undefined if the link was used or has expired
   */
  async signInByLink(code: string, request: Request): Promise<NewSignIn | undefined> {
    const isValid =
      (await this.isRequired()) &&
      (await this.ports.signIns.takeLink(storedLink(code), this.ports.clock.now()))
    if (!isValid) return undefined
    await this.ports.note(signIn, panel, 'link', request)
    return await this.#begin(request)
  }

  /** Signs in the browser that made the first key: it needed no sign-in before. */
  async signInOwner(request: Request): Promise<NewSignIn> {
    await this.ports.note(signIn, panel, 'first key', request)
    return await this.#begin(request)
  }

  /**
   * Whether a request for the page certainly has no sign-in. If a link of another origin opens the page,
   * browsers do not send the cookie, but say so in `Sec-Fetch-Site`; then the answer is false.
   */
  async isSignedOut(request: Request): Promise<boolean> {
    const site = request.headers.get('sec-fetch-site')
    const sendsCookies = site === 'none' || site === 'same-origin'
    return sendsCookies && (await this.isRequired()) && (await this.#listSignIns(request)).length === 0
  }

  /**
   * Returns the Set-Cookie header that renews a request's sign-in; undefined if it is still new, or there
   * is none.
   */
  async renewSignIn(request: Request): Promise<string | undefined> {
    const [own] = (await this.isRequired()) ? await this.#listSignIns(request) : []
    const isNew = !own || own.until - this.ports.clock.now() > signInLifetimeMs - renewAfterMs
    return isNew ? undefined : (await this.#begin(request, own)).cookie
  }

  /**
   * Ends the sign-ins of a request, with their renewals.
   *
   * @returns the Set-Cookie header that deletes the cookie
   */
  async signOut(request: Request): Promise<string> {
    const ended = (await this.isRequired()) ? await this.#listSignIns(request) : []
    const names = ended.map(({ name }) => name)
    if (names.length > 0) await this.ports.signIns.end(names, this.ports.clock.now() + signInLifetimeMs)
    for (const name of names) this.#open.delete(name)
    // It is over, even if the log cannot be written.
    for (const { by } of ended) await this.ports.note(signOut, by, undefined, request).catch(() => {})
    return formatCookie(cookie, '', 0, request)
  }

  /** Creates a one-time link. @returns its code */
  async createLink(): Promise<string> {
    const code = randomBytes(24).toString('base64url')
    const now = this.ports.clock.now()
    await this.ports.signIns.addLink(storedLink(code), now + linkLifetimeMs, now)
    return code
  }
}

/** What the browser keeps of a new sign-in. */
interface NewSignIn {
  /** The header Set-Cookie. */
  cookie: string
  /** What the page stores. */
  secret: string
}

/** A valid sign-in. */
interface SignIn {
  name: string
  /** Expiry, in Unix ms. */
  until: number
  by: Principal
  /** The key that it was made with, and the hash of the secret at that time. */
  key?: { id: string; hash: string }
  /** Signs a text for this sign-in. */
  prove(text: string): string
}

/** Signs the text of a cookie. @param hash of the secret of its key */
function sign(text: string, hash: string | undefined, token: string): string {
  const signing = createHmac('sha256', token).update('panel sign-in').digest()
  return createHmac('sha256', signing)
    .update(hash === undefined ? text : `${text}.${hash}`)
    .digest('base64url')
}

function isSameProof(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)]
  return one.length === other.length && timingSafeEqual(one, other)
}
