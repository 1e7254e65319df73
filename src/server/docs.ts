/**
 * The documentation page `/docs`: Scalar, from a copy of its one file, so that the page loads nothing from
 * other servers.
 *
 * The page's scripts come from this service and are allowed by the CSP; no inline script runs. The file is
 * read and unpacked at the first visit and then stays in memory (6 MB).
 */
import { join } from 'node:path'
import { nodeCrypto } from '../platform/lazy-crypto.ts'
import { readBrotli } from '../platform/packed.ts'
import pageJs from './docs/page.js' with { type: 'text' }
import zh from './docs/zh.json' with { type: 'json' }
import python from './svc.py' with { type: 'text' }

/** The mark of svc, as in `admin/icon.svg`. */
export const mark =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#0a7a55"/><path d="M8 11.5A4.5 4.5 0 0 1 12.5 7h7A4.5 4.5 0 0 1 24 11.5v4a4.5 4.5 0 0 1-4.5 4.5H15l-4.4 4.1c-.6.56-1.6.13-1.6-.7V19.6A4.5 4.5 0 0 1 8 15.5z" fill="#fff"/><path d="M13.2 13.5h0m5.6 0h0" stroke="#0a7a55" stroke-width="3" stroke-linecap="round"/></svg>'

const pageHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>svc: WeChat bot tools</title>
<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(mark)}">
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

/** Returns the CSP of a page: its scripts are files of svc, and no other origin loads, gets or frames anything. */
export const createPagePolicy = (...own: readonly string[]): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    ...own,
  ].join('; ')

// Scalar creates its style sheets at run time, and loads icons from data: URLs.
const pagePolicy = createPagePolicy(
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data: blob:",
  "media-src 'self' blob:",
  "form-action 'none'",
)

const javascript = 'text/javascript; charset=utf-8'

const assets: Record<string, () => Promise<StaticFile>> = {
  '/docs': () => prepareFile(pageHtml, 'text/html; charset=utf-8'),
  '/docs/page.js': () => prepareFile(pageJs, javascript),
  // For readers of Chinese: titles of operations and tags.
  '/docs/zh.json': () => prepareFile(JSON.stringify(zh), 'application/json'),
  '/docs/scalar.js': async () => {
    const br = await readScalar()
    const { brotliDecompressSync } = await import('node:zlib')
    return prepareFile(brotliDecompressSync(br), javascript, { br })
  },
  // The client for Python, so that a script needs curl and nothing else.
  '/svc.py': () => prepareFile(python, 'text/x-python; charset=utf-8'),
}

/** Reads Scalar, compressed with brotli. `scripts/scalar.ts` creates the file. */
const readScalar = () =>
  readBrotli(
    'docs/scalar.js',
    join(import.meta.dirname, 'docs/scalar.js.br'),
    () => import('./docs/scalar.js.br', { with: { type: 'file' } }),
  )

/** Paths of the page and its scripts, and of the client for Python. */
export const docsPaths: readonly string[] = Object.keys(assets)

/** Returns a function that serves `docsPaths`. */
export function createDocsHandler(): (request: Request, path: string) => Promise<Response> {
  const kept = new Map<string, Promise<StaticFile>>()
  return async (request, path) => {
    const asset = assets[path]
    if (!asset) throw new Error(`no docs asset ${path}`)
    let prepared = kept.get(path)
    if (!prepared) {
      prepared = asset()
      // After an error, read the file again at the next request.
      prepared.catch(() => kept.delete(path))
      kept.set(path, prepared)
    }
    return fileResponse(request, await prepared, path === '/docs' ? pagePolicy : "default-src 'none'")
  }
}

/** A static file: its bytes, also compressed, and the ETag of its content. */
export interface StaticFile {
  readonly type: string
  readonly etag: string
  readonly encodings: ReadonlyMap<'br' | 'gzip' | 'identity', Uint8Array>
}

/**
 * Prepares a static file. A file of more than 1000 bytes is compressed, except for the forms that are
 * passed in.
 */
export async function prepareFile(
  content: Uint8Array | string,
  type: string,
  { br, gzip }: { br?: Uint8Array; gzip?: Uint8Array } = {},
): Promise<StaticFile> {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
  const byEncoding = new Map<'br' | 'gzip' | 'identity', Uint8Array>([['identity', bytes]])
  if (bytes.length > 1000) {
    // Loaded on first use: it costs 3 ms at start.
    const [zlib, { promisify }] = await Promise.all([import('node:zlib'), import('node:util')])
    const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 }
    byEncoding.set('br', br ?? (await promisify(zlib.brotliCompress)(bytes, { params })))
    byEncoding.set('gzip', gzip ?? (await promisify(zlib.gzip)(bytes)))
  }
  return {
    type,
    etag: nodeCrypto().createHash('sha256').update(bytes).digest('base64url').slice(0, 27),
    encodings: byEncoding,
  }
}

/** Whether the client accepts an encoding. */
export function acceptsEncoding(request: Request, coding: 'br' | 'gzip'): boolean {
  const accepted = request.headers.get('accept-encoding')?.toLowerCase() ?? ''
  return new RegExp(`\\b${coding}\\b(?!\\s*;\\s*q=0(?:\\.0*)?(?:,|$|\\s))`).test(accepted)
}

/**
 * Returns the response for a static file, in an encoding that the client accepts; 304 if the client has the
 * content.
 */
export function fileResponse(request: Request, content: StaticFile, policy: string): Response {
  const coding =
    (['br', 'gzip'] as const).find(name => content.encodings.has(name) && acceptsEncoding(request, name)) ??
    'identity'
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
  return new Response(content.encodings.get(coding) as Uint8Array<ArrayBuffer>, { headers })
}
