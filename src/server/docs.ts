/**
 * The documentation page: Swagger UI from the pinned package, embedded, so that it loads nothing from elsewhere.
 *
 * The page's one script and style are served by us and allowed by the CSP; nothing inline runs. Files are read and
 * compressed at the first visit and then kept: 0.5 MB, of which a service that nobody reads about has none.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readPacked } from '../platform/packed.ts'

const title = 'svc: WeChat bot tools'

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<link rel="icon" type="image/png" href="/docs/favicon.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<noscript>This page needs JavaScript. The schema itself is at <a href="/openapi.json">/openapi.json</a>.</noscript>
<div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

const start = `window.ui = SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#swagger-ui',
  presets: [SwaggerUIBundle.presets.apis],
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  displayOperationId: false,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  requestSnippetsEnabled: true,
  validatorUrl: null,
})
`

// Swagger UI sets style attributes and draws icons from data: URLs.
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

interface Asset {
  readonly type: string
  read(): Promise<Uint8Array>
}

const text = (type: string, content: string): Asset => ({
  type,
  read: async () => new TextEncoder().encode(content),
})

// The package brings these files along: theirs reports to its makers whenever it is installed.
const besideModules = join(import.meta.dirname, '../docs')

/** A file of Swagger UI: inside the bundle, beside the modules of svc's own package, or a copy inside the binary. */
const file = (type: string, name: string, embedded: () => Promise<object>): Asset => ({
  type,
  read: async () =>
    (await readPacked(`docs/${name}`)) ??
    (await readFile(join(besideModules, name)).catch(() => undefined)) ??
    (await readFile(await pathOf(name, embedded))),
})

async function pathOf(name: string, embedded: () => Promise<object>): Promise<string> {
  const found = await embedded().catch(() => ({}))
  if ('default' in found && typeof found.default === 'string') return found.default
  const { createRequire } = await import('node:module')
  return createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`)
}

const assets: Record<string, Asset> = {
  '/docs': text('text/html; charset=utf-8', page),
  '/docs/start.js': text('text/javascript; charset=utf-8', start),
  '/docs/swagger-ui-bundle.js': file(
    'text/javascript; charset=utf-8',
    'swagger-ui-bundle.js',
    () => import('swagger-ui-dist/swagger-ui-bundle.js', { with: { type: 'file' } }),
  ),
  '/docs/swagger-ui.css': file(
    'text/css; charset=utf-8',
    'swagger-ui.css',
    () => import('swagger-ui-dist/swagger-ui.css', { with: { type: 'file' } }),
  ),
  '/docs/favicon.png': file(
    'image/png',
    'favicon-32x32.png',
    () => import('swagger-ui-dist/favicon-32x32.png', { with: { type: 'file' } }),
  ),
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
      prepared = asset.read().then(bytes => prepare(bytes, asset.type))
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

/** Compresses what compresses. */
export async function prepare(bytes: Uint8Array, type: string): Promise<Prepared> {
  if (type.startsWith('image/') || bytes.length <= 1000) return prepareForms(type, bytes, {})
  // Loaded on use: 3 ms of a start.
  const [zlib, { promisify }] = await Promise.all([import('node:zlib'), import('node:util')])
  // Quality 5: 60 ms for the script instead of 3 s, and 12 % larger.
  const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 }
  const br = await promisify(zlib.brotliCompress)(bytes, { params })
  return prepareForms(type, bytes, { br, gzip: await promisify(zlib.gzip)(bytes) })
}

/** The same of bytes that were compressed before. */
export function prepareForms(
  type: string,
  bytes: Uint8Array,
  { br, gzip }: { br?: Uint8Array; gzip?: Uint8Array },
): Prepared {
  const forms = new Map<'br' | 'gzip' | 'identity', Uint8Array>([['identity', bytes]])
  if (br) forms.set('br', br)
  if (gzip) forms.set('gzip', gzip)
  return { type, etag: createHash('sha256').update(bytes).digest('base64url').slice(0, 27), forms }
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
