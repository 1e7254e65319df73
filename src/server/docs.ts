/**
 * The documentation page: Scalar, a copy of its one file, so that it loads nothing from elsewhere.
 *
 * The page's scripts are served by us and allowed by the CSP; nothing inline runs. The file is read and unpacked at the
 * first visit and then kept: 6 MB, of which a service that nobody reads about has none.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { packedBrotli } from '../platform/packed.ts'
import pageJs from './docs/page.js' with { type: 'text' }

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>svc: WeChat bot tools</title>
<link rel="icon" href="data:,">
</head>
<body>
<noscript>This page needs JavaScript. The schema itself is at <a href="openapi.json">openapi.json</a>.</noscript>
<div id="app"></div>
<aside id="code" popover="manual" aria-label="QR code"><img alt="QR code of the login"><p></p><button type="button">Close</button></aside>
<script src="docs/scalar.js"></script>
<script src="docs/page.js"></script>
</body>
</html>
`

// Scalar makes its style sheets itself, and draws icons from data: URLs.
const pagePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const javascript = 'text/javascript; charset=utf-8'

const assets: Record<string, () => Promise<Prepared>> = {
  '/docs': () => prepare(page, 'text/html; charset=utf-8'),
  '/docs/page.js': () => prepare(pageJs, javascript),
  '/docs/scalar.js': async () => {
    const br = await scalar()
    const { brotliDecompressSync } = await import('node:zlib')
    return prepare(brotliDecompressSync(br), javascript, { br })
  },
}

/** Scalar in its brotli form: inside the bundle, beside this module, or inside the binary. See `scripts/scalar.ts`. */
async function scalar(): Promise<Uint8Array> {
  const packed = packedBrotli('docs/scalar.js')
  if (packed) return packed
  const beside = await readFile(join(import.meta.dirname, 'docs/scalar.js.br')).catch(() => undefined)
  if (beside) return beside
  const embedded = await import('./docs/scalar.js.br', { with: { type: 'file' } })
  return await readFile(embedded.default)
}

/** The paths of the page and what it loads. */
export const docsPaths: readonly string[] = Object.keys(assets)

/** Serves `docsPaths`. */
export function createDocs(): (request: Request, path: string) => Promise<Response> {
  const kept = new Map<string, Promise<Prepared>>()
  return async (request, path) => {
    const asset = assets[path]
    if (!asset) throw new Error(`no docs asset ${path}`)
    let prepared = kept.get(path)
    if (!prepared) {
      prepared = asset()
      // A file that could not be read may be there the next time.
      prepared.catch(() => kept.delete(path))
      kept.set(path, prepared)
    }
    return respond(request, await prepared, path === '/docs' ? pagePolicy : "default-src 'none'")
  }
}

/** Bytes with their compressed forms and the name of this content. */
export interface Prepared {
  readonly type: string
  readonly etag: string
  readonly forms: ReadonlyMap<'br' | 'gzip' | 'identity', Uint8Array>
}

/** Compresses it where it is long, but for the forms that are there already. */
export async function prepare(
  content: Uint8Array | string,
  type: string,
  { br, gzip }: { br?: Uint8Array; gzip?: Uint8Array } = {},
): Promise<Prepared> {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
  const forms = new Map<'br' | 'gzip' | 'identity', Uint8Array>([['identity', bytes]])
  if (bytes.length > 1000) {
    // Loaded on use: 3 ms of a start.
    const [zlib, { promisify }] = await Promise.all([import('node:zlib'), import('node:util')])
    const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 }
    forms.set('br', br ?? (await promisify(zlib.brotliCompress)(bytes, { params })))
    forms.set('gzip', gzip ?? (await promisify(zlib.gzip)(bytes)))
  }
  return {
    type,
    etag: nodeCrypto().createHash('sha256').update(bytes).digest('base64url').slice(0, 27),
    forms,
  }
}

/** Whether the client takes answers in this encoding. */
export function takesCoding(request: Request, coding: 'br' | 'gzip'): boolean {
  const accepted = request.headers.get('accept-encoding')?.toLowerCase() ?? ''
  return new RegExp(`\\b${coding}\\b(?!\\s*;\\s*q=0(?:\\.0*)?(?:,|$|\\s))`).test(accepted)
}

/** The answer with the encoding the client takes, or 304 when it has this content already. */
export function respond(request: Request, content: Prepared, policy: string): Response {
  const coding =
    (['br', 'gzip'] as const).find(one => content.forms.has(one) && takesCoding(request, one)) ?? 'identity'
  const etag = `"${content.etag}${coding === 'identity' ? '' : `-${coding}`}"`
  const headers: Record<string, string> = {
    'content-type': content.type,
    etag,
    vary: 'accept-encoding',
    'cache-control': 'no-cache',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'content-security-policy': policy,
  }
  if (request.headers.get('if-none-match')?.includes(content.etag))
    return new Response(null, { status: 304, headers })
  if (coding !== 'identity') headers['content-encoding'] = coding
  return new Response(content.forms.get(coding) as Uint8Array<ArrayBuffer>, { headers })
}
