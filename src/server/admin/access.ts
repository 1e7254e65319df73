/**
 * Who may use the panel. On a loopback address: whoever sits at this machine, and no page of another origin. Anywhere
 * else, or with a token set: who has signed in with that token, or opened the one-time link that was printed at start.
 *
 * A sign-in is a cookie that proves itself: its expiry and name, signed with a key made of the token. So it outlives a
 * restart, and a new token ends all sign-ins. Kept are only the names of those that were ended before their time
 * (`SignIns`): for all processes that serve the panel, and for later ones.
 */
import { Buffer } from 'node:buffer'
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import type { SignIns } from '../../storage/state.ts'
import { createGuard, type GuardOptions, sameToken } from '../auth.ts'
import { isBehindTls, prefixOf } from '../behind-proxy.ts'

/**
 * Names of the cookie, in the clear and behind TLS. There the name begins with `__Host-`: a browser takes it from this very
 * host alone, and only with the path `/`. A sibling domain can set the first one too, so both are tried. Below a prefix each
 * service has names of its own: two of one host leave each other signed in.
 */
function cookieNames(prefix: string): readonly [plain: string, secure: string] {
  const hash = prefix && `_${createHash('sha256').update(prefix).digest('hex').slice(0, 12)}`
  return [`svc_panel${hash}`, `__Host-svc_panel${hash}`]
}
/** A sign-in lasts this long. */
const signedInMs = 30 * 24 * 60 * 60_000
/** Whoever comes again after this time has it last anew. */
const renewedAfterMs = 24 * 60 * 60_000
/** The printed link works this long, once. */
const linkMs = 15 * 60_000

export type Access = ReturnType<typeof createAccess>

export function createAccess(options: GuardOptions & { clock: Clock; signIns: SignIns }) {
  const { clock, signIns: kept, token } = options
  const guard = createGuard(options)
  const key = token === undefined ? undefined : createHmac('sha256', token).update('panel sign-in').digest()

  const signed = (text: string) => createHmac('sha256', key!).update(text).digest('base64url')
  const newCookie = (request: Request, name = randomBytes(9).toString('base64url')): string => {
    const text = `${clock.now() + signedInMs}.${name}`
    return cookie(`${text}.${signed(text)}`, signedInMs / 1000, request)
  }
  const proven = (value: string): SignIn | undefined => {
    const [expiry, name, proof, ...more] = value.split('.')
    if (!expiry || !name || !proof || more.length > 0) return undefined
    const given = Buffer.from(proof)
    const right = Buffer.from(signed(`${expiry}.${name}`))
    if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined
    return Number(expiry) > clock.now() ? { name, until: Number(expiry) } : undefined
  }
  /** The sign-ins that the request proves. */
  const signIns = async (request: Request): Promise<SignIn[]> => {
    const all = cookiesOf(request).flatMap(value => proven(value) ?? [])
    if (all.length === 0) return []
    const ended = await kept.ended(all.map(({ name }) => name))
    return all.filter(({ name }) => !ended.has(name))
  }

  return {
    /** Whether somebody must sign in. */
    required: key !== undefined,
    /**
     * What speaks against this request; undefined lets it through.
     *
     * @param open true for what anybody may load: the page itself and its texts
     */
    async refusal(request: Request, open: boolean): Promise<SvcError | undefined> {
      // A cookie goes along by itself, so the page that makes the request must be ours, wherever we are bound.
      const foreign = guard.refusal(request, true) ?? guard.foreign(request, open)
      if (foreign || open || key === undefined || (await signIns(request)).length > 0) return foreign
      return guard.refusal(request, false)
    },
    /** @returns the Set-Cookie of a sign-in @throws SvcError `unauthorized` */
    signIn(given: string, request: Request): string {
      if (token === undefined || !sameToken(given, token))
        throw new SvcError('unauthorized', 'The token is wrong')
      return newCookie(request)
    },
    /** The same by the code of the link; undefined when it was used or is too old. */
    async signInByLink(code: string, request: Request): Promise<string | undefined> {
      return key && (await kept.takeLink(code, clock.now())) ? newCookie(request) : undefined
    },
    /**
     * Whether who opens this page has to sign in first. Browsers hold the cookie back where a link of another origin leads
     * here, and tell that one did: only what they bring without one is nobody's for certain.
     */
    async isNobody(request: Request): Promise<boolean> {
      const site = request.headers.get('sec-fetch-site')
      const brings = site === 'none' || site === 'same-origin'
      return key !== undefined && brings && (await signIns(request)).length === 0
    },
    /** The Set-Cookie that makes the sign-in of this request last anew; undefined when it is young, or none. */
    async renewal(request: Request): Promise<string | undefined> {
      const [own] = key ? await signIns(request) : []
      const young = !own || own.until - clock.now() > signedInMs - renewedAfterMs
      return young ? undefined : newCookie(request, own.name)
    },
    /** Ends the sign-ins of this request, with all that they were renewed by. @returns the Set-Cookie that forgets it */
    async signOut(request: Request): Promise<string> {
      const names = key === undefined ? [] : (await signIns(request)).map(({ name }) => name)
      if (names.length > 0) await kept.end(names, clock.now() + signedInMs, clock.now())
      return cookie('', 0, request)
    },
    /** The code of a new one-time link. */
    async newLink(): Promise<string> {
      const code = randomBytes(24).toString('base64url')
      await kept.addLink(code, clock.now() + linkMs)
      return code
    },
  }
}

interface SignIn {
  name: string
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

function cookie(value: string, seconds: number, request: Request): string {
  const prefix = prefixOf(request) ?? ''
  const [plain, secure] = cookieNames(prefix)
  const [name, path, more] = isBehindTls(request) ? [secure, '/', '; Secure'] : [plain, prefix || '/', '']
  return `${name}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${more}`
}
