/**
 * Who may use the panel. On a loopback address: whoever sits at this machine, and no page of another origin. Anywhere
 * else, or with a token set: who has signed in with that token, or opened the one-time link that was printed at start.
 *
 * A sign-in is a cookie that proves itself: its expiry and name, signed with a key made of the token. So nothing is kept, it
 * outlives a restart, and a new token ends all sign-ins.
 */
import { Buffer } from 'node:buffer'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { SvcError } from '../../model/error.ts'
import type { Clock } from '../../platform/clock.ts'
import { createGuard, type GuardOptions, sameToken } from '../auth.ts'

/** Name of the cookie. */
export const cookieName = 'svc_panel'
/** A sign-in lasts this long. */
const signedInMs = 30 * 24 * 60 * 60_000
/** Whoever comes again after this time has it last anew. */
const renewedAfterMs = 24 * 60 * 60_000
/** The printed link works this long, once. */
const linkMs = 15 * 60_000

export interface Access {
  /** Whether somebody must sign in. */
  readonly required: boolean
  /**
   * What speaks against this request; undefined lets it through.
   *
   * @param open true for what anybody may load: the page itself and its texts
   */
  refusal(request: Request, open: boolean): SvcError | undefined
  /** @returns the Set-Cookie of a sign-in @throws SvcError `unauthorized` */
  signIn(token: string, request: Request): string
  /** The same by the code of the link; undefined when it was used or is too old. */
  signInByLink(code: string, request: Request): string | undefined
  /** The Set-Cookie that makes the sign-in of this request last anew; undefined when it is young, or none. */
  renewal(request: Request): string | undefined
  /** Ends the sign-in of this request, with all that it was renewed by. @returns the Set-Cookie that forgets it */
  signOut(request: Request): string
  /** The code of a new one-time link. */
  newLink(): string
}

export function createAccess(options: GuardOptions & { clock: Clock }): Access {
  const { clock, token } = options
  const guard = createGuard(options)
  const key = token === undefined ? undefined : createHmac('sha256', token).update('panel sign-in').digest()
  const links = new Map<string, number>()
  /** Names of sign-ins that were ended before their time, until they would have ended. */
  const ended = new Map<string, number>()

  const signed = (text: string) => createHmac('sha256', key!).update(text).digest('base64url')
  const newCookie = (request: Request, name = randomBytes(9).toString('base64url')): string => {
    const text = `${clock.now() + signedInMs}.${name}`
    return cookie(`${text}.${signed(text)}`, signedInMs / 1000, request)
  }
  /** The sign-in that the request proves. */
  const signIn = (request: Request): { name: string; until: number } | undefined => {
    const [expiry, name, proof, ...more] = cookieOf(request)?.split('.') ?? []
    if (!expiry || !name || !proof || more.length > 0 || ended.has(name)) return undefined
    const given = Buffer.from(proof)
    const right = Buffer.from(signed(`${expiry}.${name}`))
    if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined
    return Number(expiry) > clock.now() ? { name, until: Number(expiry) } : undefined
  }

  return {
    required: key !== undefined,
    refusal(request, open) {
      // A cookie goes along by itself, so the page that makes the request must be ours, wherever we are bound.
      const foreign = guard.refusal(request, true) ?? guard.foreign(request, open)
      if (foreign || open || key === undefined || signIn(request)) return foreign
      return guard.refusal(request, false)
    },
    signIn(given, request) {
      if (token === undefined || !sameToken(given, token))
        throw new SvcError('unauthorized', 'The token is wrong')
      return newCookie(request)
    },
    signInByLink(code, request) {
      const until = links.get(code)
      links.delete(code)
      return until !== undefined && until > clock.monotonic() && key ? newCookie(request) : undefined
    },
    renewal(request) {
      const own = key && signIn(request)
      const young = !own || own.until - clock.now() > signedInMs - renewedAfterMs
      return young ? undefined : newCookie(request, own.name)
    },
    signOut(request) {
      for (const [old, until] of ended) if (until < clock.now()) ended.delete(old)
      const own = key && signIn(request)
      if (own) ended.set(own.name, clock.now() + signedInMs)
      return cookie('', 0, request)
    },
    newLink() {
      const code = randomBytes(24).toString('base64url')
      links.set(code, clock.monotonic() + linkMs)
      return code
    },
  }
}

function cookieOf(request: Request): string | undefined {
  for (const part of (request.headers.get('cookie') ?? '').split(';')) {
    const at = part.indexOf('=')
    if (part.slice(0, at).trim() === cookieName) return part.slice(at + 1).trim() || undefined
  }
  return undefined
}

const cookie = (value: string, seconds: number, request: Request) => {
  // Behind a proxy with TLS the browser's origin says so; we ourselves speak plain HTTP.
  const secure = request.headers.get('origin')?.startsWith('https:') ? '; Secure' : ''
  return `${cookieName}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`
}
