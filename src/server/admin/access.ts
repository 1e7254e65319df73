/**
 * Access to the panel. On a loopback address without a token, all users of this machine have access, but no
 * page of another origin. Elsewhere, or with a token, a user signs in with the token, or by the one-time
 * link that svc prints at the start.
 *
 * A sign-in is a signed cookie: its expiry and name, signed with a key derived from the token. So it
 * survives a restart, and a new token ends all sign-ins. Only the names of sign-ins that ended early are
 * stored (`SignInStore`), for all processes that serve the panel.
 */
import { Buffer } from 'node:buffer'
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import type { SignInStore } from '../../storage/state.ts'
import { createGuard, type GuardOptions, isSameToken } from '../auth.ts'
import { isBehindTls, prefixOf } from '../behind-proxy.ts'

/**
 * Returns the names of the cookie, without and with TLS. With TLS the name begins with `__Host-`: a browser
 * accepts it only from this host, and only with the path `/`. Another subdomain can set the first name, so
 * both cookies are tried. Each prefix has its own names, so that two services on one host do not end each
 * other's sign-ins.
 */
function cookieNames(prefix: string): readonly [plain: string, secure: string] {
  const hash = prefix && `_${createHash('sha256').update(prefix).digest('hex').slice(0, 12)}`
  return [`svc_panel${hash}`, `__Host-svc_panel${hash}`]
}
/** Lifetime of a sign-in. */
const signInLifetimeMs = 30 * 24 * 60 * 60_000
/** A sign-in older than this is renewed at the next visit. */
const renewAfterMs = 24 * 60 * 60_000
/** Lifetime of the printed link. It works once. */
const linkLifetimeMs = 15 * 60_000

/** The check of access to one panel. */
export type Access = ReturnType<typeof createAccess>

/** Creates the check. @throws Error if other machines can reach the address and there is no token */
export function createAccess(options: GuardOptions & { clock: Clock; signIns: SignInStore }) {
  const { clock, signIns: store, token } = options
  const guard = createGuard(options)
  const key = token === undefined ? undefined : createHmac('sha256', token).update('panel sign-in').digest()

  const sign = (text: string) => createHmac('sha256', key!).update(text).digest('base64url')
  const createCookie = (request: Request, name = randomBytes(9).toString('base64url')): string => {
    const text = `${clock.now() + signInLifetimeMs}.${name}`
    return formatCookie(`${text}.${sign(text)}`, signInLifetimeMs / 1000, request)
  }
  const verifyCookie = (value: string): SignIn | undefined => {
    const [expiry, name, proof, ...more] = value.split('.')
    if (!expiry || !name || !proof || more.length > 0) return undefined
    const received = Buffer.from(proof)
    const expected = Buffer.from(sign(`${expiry}.${name}`))
    if (received.length !== expected.length || !timingSafeEqual(received, expected)) return undefined
    return Number(expiry) > clock.now() ? { name, until: Number(expiry) } : undefined
  }
  /** Returns the valid sign-ins in a request's cookies. */
  const listSignIns = async (request: Request): Promise<SignIn[]> => {
    const all = cookiesOf(request).flatMap(value => verifyCookie(value) ?? [])
    if (all.length === 0) return []
    const ended = await store.filterEnded(all.map(({ name }) => name))
    return all.filter(({ name }) => !ended.has(name))
  }

  return {
    /** Whether a sign-in is required. */
    isRequired: key !== undefined,
    /**
     * Returns why a request is denied; undefined if it is allowed.
     *
     * @param open true for paths that need no sign-in: the page itself and its texts
     */
    async denialOf(request: Request, open: boolean): Promise<SvcError | undefined> {
      // Browsers send the cookie automatically, so check on every address that the page is our own.
      const foreign = guard.denialOf(request, true) ?? guard.pageDenialOf(request, open)
      if (foreign || open || key === undefined || (await listSignIns(request)).length > 0) return foreign
      return guard.denialOf(request, false)
    },
    /** Signs in with a token. @returns the Set-Cookie header @throws SvcError `unauthorized` */
    signIn(text: string, request: Request): string {
      if (token === undefined || !isSameToken(text, token))
        throw new SvcError('unauthorized', 'The token is wrong')
      return createCookie(request)
    },
    /**
     * Signs in by the code of a one-time link.
     *
     * @returns the Set-Cookie header; undefined if the link was used or has expired
     */
    async signInByLink(code: string, request: Request): Promise<string | undefined> {
      return key && (await store.takeLink(code, clock.now())) ? createCookie(request) : undefined
    },
    /**
     * Whether a request for the page certainly has no sign-in. If a link of another origin opens the page,
     * browsers do not send the cookie, but say so in `Sec-Fetch-Site`; then the answer is false.
     */
    async isSignedOut(request: Request): Promise<boolean> {
      const site = request.headers.get('sec-fetch-site')
      const sendsCookies = site === 'none' || site === 'same-origin'
      return key !== undefined && sendsCookies && (await listSignIns(request)).length === 0
    },
    /**
     * Returns the Set-Cookie header that renews a request's sign-in; undefined if it is still new, or there
     * is none.
     */
    async renewSignIn(request: Request): Promise<string | undefined> {
      const [own] = key ? await listSignIns(request) : []
      const isNew = !own || own.until - clock.now() > signInLifetimeMs - renewAfterMs
      return isNew ? undefined : createCookie(request, own.name)
    },
    /**
     * Ends the sign-ins of a request, with their renewals.
     *
     * @returns the Set-Cookie header that deletes the cookie
     */
    async signOut(request: Request): Promise<string> {
      const names = key === undefined ? [] : (await listSignIns(request)).map(({ name }) => name)
      if (names.length > 0) await store.end(names, clock.now() + signInLifetimeMs, clock.now())
      return formatCookie('', 0, request)
    },
    /** Creates a one-time link. @returns its code */
    async createLink(): Promise<string> {
      const code = randomBytes(24).toString('base64url')
      await store.addLink(code, clock.now() + linkLifetimeMs)
      return code
    },
  }
}

/** A valid sign-in. */
interface SignIn {
  name: string
  /** Expiry, in Unix ms. */
  until: number
}

function cookiesOf(request: Request): string[] {
  const names = cookieNames(prefixOf(request) ?? '')
  return (request.headers.get('cookie') ?? '').split(';').flatMap(part => {
    const at = part.indexOf('=')
    const value = part.slice(at + 1).trim()
    return value && names.includes(part.slice(0, at).trim()) ? [value] : []
  })
}

function formatCookie(value: string, seconds: number, request: Request): string {
  const prefix = prefixOf(request) ?? ''
  const [plain, secure] = cookieNames(prefix)
  const [name, path, more] = isBehindTls(request) ? [secure, '/', '; Secure'] : [plain, prefix || '/', '']
  return `${name}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${more}`
}
