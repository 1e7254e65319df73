/**
 * The simulated phone: a page for people, HTTP calls with the same actions for scripts, and a stream of
 * changes.
 */
import { toString as qrToString } from 'qrcode'
import { sniffType } from '../media/content-type.ts'
import { isSvcError, SvcError } from '../model/error.ts'
import type { MediaPiece } from './media.ts'
import pageCss from './page/phone.css' with { type: 'text' }
import pageHtml from './page/phone.html' with { type: 'text' }
import pageJs from './page/phone.js' with { type: 'text' }
import texts from './page/texts.json' with { type: 'json' }
import { phoneRoutes, readPhoneRequest } from './phone-routes.ts'
import type { World } from './world.ts'

// Bun's types take every .html file for a bundle; `type: 'text'` imports it as text.
const htmlText = pageHtml as unknown as string
const pingMs = 15_000
const csp =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
const commonHeaders = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

/** Creates the handler for requests below `/phone`. */
export function createPhone(world: World): (request: Request, url: URL) => Promise<Response> {
  const page = (body: string, type: string) => () =>
    new Response(body, {
      headers: { ...commonHeaders, 'content-type': `${type}; charset=utf-8`, 'content-security-policy': csp },
    })
  const fixed = new Map<string, (request: Request) => Response>([
    ['/phone', page(htmlText, 'text/html')],
    ['/phone/phone.css', page(pageCss, 'text/css')],
    ['/phone/phone.js', page(pageJs, 'text/javascript')],
    ['/phone/texts.json', () => toJsonResponse(texts)],
    ['/phone/events', request => openEventStream(world, request)],
    ['/phone/api', () => toJsonResponse({ calls: phoneRoutes.map(({ run: _run, ...route }) => route) })],
  ])

  return async (request, url) => {
    try {
      rejectForeignRequest(request, url)
      const path = url.pathname.replace(/(?<=.)\/$/, '')
      // HEAD is handled as GET; the server leaves the body out.
      const method = request.method === 'HEAD' ? 'GET' : request.method
      const isGet = method === 'GET'
      // The page's links to its files are relative to `/phone`, without the slash.
      if (isGet && url.pathname === '/phone/')
        return new Response(null, { status: 302, headers: { location: '../phone' } })
      const still = fixed.get(path)
      if (still && isGet) return still(request)
      const [, noun, id] = /^\/phone\/(media|qr)\/([^/]+)$/.exec(path) ?? []
      if (id !== undefined && isGet) return await (noun === 'qr' ? renderQr : serveMedia)(world, id)
      const routes = phoneRoutes.filter(route => route.path === path)
      const route = routes.find(route => route.method === method)
      if (!route) {
        const isRead = still !== undefined || id !== undefined
        const methods: string[] = isRead ? ['GET'] : routes.map(({ method }) => method)
        if (methods.length === 0) throw new SvcError('not_found', 'no such call')
        const error = new SvcError('method_not_allowed', `this call takes ${methods.join(' or ')}`)
        const allowed = methods.includes('GET') ? ['HEAD', ...methods] : methods
        return toErrorResponse(world, error, { allow: allowed.sort().join(', ') })
      }
      const answer = await route.run(await readPhoneRequest(request, url, path === '/phone/media'), world)
      return typeof answer === 'string' ? page(answer, 'text/plain')() : toJsonResponse(answer)
    } catch (error) {
      return toErrorResponse(world, error)
    }
  }
}

/**
 * Rejects requests from web pages of other sites (DNS rebinding, forms), although the data are only
 * simulated.
 */
function rejectForeignRequest(request: Request, url: URL): void {
  const host = url.hostname
  const loopback =
    host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
  const origin = request.headers.get('origin')
  const site = request.headers.get('sec-fetch-site')
  const foreign = (origin !== null && origin !== url.origin) || site === 'cross-site' || site === 'same-site'
  // A link from another site may open the page: that only displays it.
  const isRead = request.method === 'GET' || request.method === 'HEAD'
  const visit = request.headers.get('sec-fetch-mode') === 'navigate' && isRead
  if (!loopback || (foreign && !visit)) {
    throw new SvcError('forbidden', 'the phone answers its own page and local programs only', {
      hint: 'Open it as http://127.0.0.1:<port>/phone on this machine.',
    })
  }
}

/**
 * Opens the server-sent events: `change` after each change, and a comment every 15 s to keep the connection
 * open.
 */
function openEventStream({ core }: World, { method, signal }: Request): Response {
  const headers = { ...commonHeaders, 'content-type': 'text/event-stream' }
  if (method === 'HEAD') return new Response(new ReadableStream(), { headers })
  const encoder = new TextEncoder()
  const gone = new AbortController()
  const over = AbortSignal.any([signal, core.closing, gone.signal])
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      const write = (text: string) => controller.enqueue(encoder.encode(text))
      let seq = 0
      const off = core.onChange(() => write(`event: change\nid: ${++seq}\ndata: {}\n\n`))
      const ping = setInterval(() => write(': ping\n\n'), pingMs)
      const end = () => {
        off()
        clearInterval(ping)
        if (!gone.signal.aborted) controller.close()
      }
      write('retry: 1000\n: here\n\n')
      if (over.aborted) end()
      else over.addEventListener('abort', end, { once: true })
    },
    cancel: () => gone.abort(),
  })
  return new Response(stream, { headers })
}

async function renderQr(world: World, qrcode: string): Promise<Response> {
  const login = world.logins.get(qrcode)
  if (!login) throw new SvcError('not_found', 'no such QR code')
  const svg = await qrToString(login.url, { type: 'svg', margin: 1 })
  return new Response(svg, { headers: { ...commonHeaders, 'content-type': 'image/svg+xml' } })
}

async function serveMedia(world: World, id: string): Promise<Response> {
  const piece = world.media.findById(id)
  if (!piece) throw new SvcError('not_found', 'no such media')
  const { type: found, rest } = await sniffType(world.media.open(piece))
  const type = /^(image|audio|video)\/(?!svg)/.test(found) ? found : 'application/octet-stream'
  const name = encodeURIComponent(piece.name ?? mediaNameOf(piece, type))
  return new Response(rest, {
    headers: {
      ...commonHeaders,
      // A file that a sender calls HTML or SVG must not run here. Only bytes that are an image, audio or
      // video are displayed.
      'content-type': type,
      'content-security-policy': "default-src 'none'; sandbox",
      'content-disposition': `${type === 'application/octet-stream' ? 'attachment' : 'inline'}; filename*=UTF-8''${name}`,
    },
  })
}

const mediaNameOf = (piece: MediaPiece, type: string) =>
  type === 'application/octet-stream' ? piece.kind : `${piece.kind}.${type.split('/')[1]}`

const toJsonResponse = (value: unknown, status = 200, headers = {}) =>
  new Response(`${JSON.stringify(value, null, 1)}\n`, {
    status,
    headers: { ...commonHeaders, ...headers, 'content-type': 'application/json' },
  })

const callsHint = 'GET /phone/api lists every call with its arguments.'

function toErrorResponse({ core }: World, error: unknown, headers = {}): Response {
  if (isSvcError(error)) {
    const { code, message: detail, details, options, status } = error
    return toJsonResponse({ code, detail, hint: options.hint ?? callsHint, details }, status, headers)
  }
  core.log.error('phone call failed', { error })
  return toJsonResponse(
    { code: 'internal', detail: 'the sandbox failed; its log says why', hint: 'Report it.' },
    500,
  )
}
