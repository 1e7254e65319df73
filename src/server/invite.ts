/**
 * The page of an invitation. It is the same for all: the secret stands behind `#` in the link, which a browser sends to nobody,
 * so no log, preview or Referer has it. The page sends it in the bodies of its calls. To open it asks WeChat for nothing.
 */
import type { Elysia } from 'elysia'
import { invitationPath } from '../model/invitation.ts'
import { invoke } from '../operations/gate.ts'
import { giveInvitedCode, joinByInvitation, lookAtInvitation } from '../operations/invitations.ts'
import { isObject } from '../platform/fields.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { createJsonLimit, readJson, releaseBody } from './body.ts'
import { findOwnCookie, formatCookie } from './cookies.ts'
import { HttpCall } from './http-call.ts'
import pageJs from './invite/page.js' with { type: 'text' }
import { jsonAnswer, type RouteContext, toErrorAnswer } from './route.ts'

const cookie = 'svc_invite'
const cookieForm = /^[\w-]{43}$/
/** As long as a login takes at most, and its end stays readable. */
const cookieSeconds = 60 * 60
const bodyLimit = createJsonLimit(4096)

const calls = {
  [`${invitationPath}/look`]: lookAtInvitation,
  [`${invitationPath}/join`]: joinByInvitation,
  [`${invitationPath}/digits`]: giveInvitedCode,
} as const

const files = {
  [invitationPath]: 'text/html; charset=utf-8',
  [`${invitationPath}/page.js`]: 'text/javascript; charset=utf-8',
  [`${invitationPath}/page.css`]: 'text/css; charset=utf-8',
} as const

/** Paths of the page; they need no token. */
export const invitationPaths: readonly string[] = [...Object.keys(files), ...Object.keys(calls)]

/** Whether a path is that of a call of the page. */
export const isInvitationCall = (path: string): boolean => Object.hasOwn(calls, path)

/** Adds the page, its files and its calls. */
export function addInvitationRoutes(app: Elysia, context: RouteContext): void {
  const hidden = { parse: 'none' as const, detail: { hide: true } }
  const texts = [pageHtml, pageJs, pageCss]
  for (const [nth, [path, type]] of Object.entries(files).entries())
    app.get(
      path,
      () => new Response(texts[nth], { headers: { ...pageHeaders, 'content-type': type } }),
      hidden,
    )
  for (const [path, operation] of Object.entries(calls)) {
    const answer = async (request: Request) => {
      const call = new HttpCall(request, context)
      try {
        const body = await readJson(request, bodyLimit)
        const kept = findOwnCookie(cookie, request) ?? ''
        const isJoining = operation === joinByInvitation
        const isKept = cookieForm.test(kept)
        const browser = isKept ? kept : isJoining ? randomBytes(32).toString('base64url') : ''
        const input = isObject(body) ? { ...body, browser } : body
        const view = await invoke(operation, context.gateway, input, call, context.log)
        const headers = new Headers(jsonAnswer.headers)
        // A browser that waits keeps the cookie of another tab.
        if (isJoining && view.state === 'login')
          headers.set('set-cookie', formatCookie(cookie, browser, cookieSeconds, request, invitationPath))
        return new Response(JSON.stringify(view), { headers })
      } catch (error) {
        return toErrorAnswer(error, context, operation.name, call)
      } finally {
        releaseBody(request)
        call.end()
      }
    }
    app.post(path, ({ request }) => answer(request), hidden)
  }
}

/** No frame, cache, Referer or index; nothing is loaded from elsewhere. */
const pageHeaders = {
  'cache-control': 'no-store',
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    'img-src data:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-frame-options': 'DENY',
  'x-robots-tag': 'noindex, nofollow, noarchive',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

const pageHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex, nofollow">
<title>WeChat</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="invite/page.css">
</head>
<body>
<noscript>This page needs JavaScript. 此页面需要 JavaScript。</noscript>
<main>
<h1 id="title"></h1>
<p id="what"></p>
<ul id="terms"></ul>
<button type="button" id="start" hidden></button>
<img id="code" hidden>
<p><a id="open" rel="noreferrer" hidden></a></p>
<form id="digits" hidden>
<label for="number"></label>
<input id="number" inputmode="numeric" autocomplete="one-time-code" maxlength="32" required>
<button></button>
</form>
<p id="status" role="status"></p>
</main>
<script src="invite/page.js"></script>
</body>
</html>
`

const pageCss = `:root { color-scheme: light dark; font: 17px/1.5 system-ui, sans-serif }
body { margin: 0; color: #1b1b1b; background: #f4f5f4 }
main { box-sizing: border-box; max-width: 440px; margin: 0 auto; padding: 32px 20px }
h1 { font-size: 1.4em; line-height: 1.25; overflow-wrap: anywhere }
ul { padding-left: 1.2em }
li { margin: 6px 0 }
button { font: inherit; padding: 10px 20px; border: 0; border-radius: 10px; color: #fff; background: #04704b; cursor: pointer }
button:disabled { opacity: .5; cursor: default }
input { font: inherit; width: 7em; padding: 9px 12px; border: 1px solid #767676; border-radius: 10px }
label { display: block; margin-bottom: 6px }
#code { display: block; width: 260px; max-width: 100%; margin: 16px 0; border-radius: 12px; background: #fff }
[hidden] { display: none !important }
#status { font-weight: 600 }
a { color: #04704b }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #191a19 }
  a { color: #5fd0a5 }
}
`
