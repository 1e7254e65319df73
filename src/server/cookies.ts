/** Cookies that only svc reads: from this host, and for this service alone. */
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { isOverTls, prefixOf } from './behind-proxy.ts'

/**
 * Returns the names of a cookie, without and with TLS. With TLS the name begins with `__Host-`: a browser
 * accepts it only from this host, and only with the path `/`. Another subdomain can set the first name, so
 * both cookies are tried. Each port and prefix has its own names, so that two services on one host do not end
 * each other's sign-ins: a browser sends a cookie to all ports of its host.
 */
function cookieNames(name: string, request: Request): readonly [plain: string, secure: string] {
  const prefix = prefixOf(request) ?? ''
  const hash = prefix && `_${nodeCrypto().hash('sha256', prefix, 'hex').slice(0, 12)}`
  const port = (request.headers.get('host') ?? '').match(/:(\d+)$/)?.[1]
  const own = `${name}${port === undefined ? '' : `_${port}`}${hash}`
  return [own, `__Host-${own}`]
}

/** Returns the values of a cookie in a request. */
export const cookiesOf = (name: string, request: Request): string[] =>
  valuesOf(request, cookieNames(name, request))

/** Returns the value of a cookie that, with TLS, no other host can have set. */
export function findOwnCookie(name: string, request: Request): string | undefined {
  const [plain, secure] = cookieNames(name, request)
  return valuesOf(request, [isOverTls(request) ? secure : plain])[0]
}

function valuesOf(request: Request, names: readonly string[]): string[] {
  return (request.headers.get('cookie') ?? '').split(';').flatMap(part => {
    const at = part.indexOf('=')
    const value = part.slice(at + 1).trim()
    return value && names.includes(part.slice(0, at).trim()) ? [value] : []
  })
}

/** Returns the header Set-Cookie. @param path of the pages that use it, below the prefix */
export function formatCookie(
  name: string,
  value: string,
  seconds: number,
  request: Request,
  below: string = '',
): string {
  const prefix = prefixOf(request) ?? ''
  const [plain, secure] = cookieNames(name, request)
  const [key, path, more] = isOverTls(request)
    ? [secure, '/', '; Secure']
    : [plain, `${prefix}${below}` || '/', '']
  return `${key}=${value}; Path=${path}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${more}`
}
