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
import { createPagePolicy } from './docs.ts'
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
  'content-security-policy': createPagePolicy("style-src 'self'", 'img-src data:', "form-action 'none'"),
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
<main id="card" data-end="">
<svg width="44" height="44" viewBox="0 0 32 32" aria-hidden="true">
<rect width="32" height="32" rx="9" fill="#0a7a55"/>
<path fill="#fff" d="M8 11.5A4.5 4.5 0 0 1 12.5 7h7a4.5 4.5 0 0 1 4.5 4.5v4a4.5 4.5 0 0 1-4.5 4.5H15l-4.4 4.1c-.6.56-1.6.13-1.6-.7v-3.8A4.5 4.5 0 0 1 8 15.5z"/>
<circle cx="13.2" cy="13.5" r="1.5" fill="#0a7a55"/><circle cx="18.8" cy="13.5" r="1.5" fill="#0a7a55"/>
</svg>
<h1 id="title"></h1>
<p id="what"></p>
<p id="status" role="status"></p>
<img id="code" width="260" height="260" hidden>
<a id="open" rel="noreferrer" hidden></a>
<form id="digits" hidden>
<label for="number"></label>
<input id="number" inputmode="numeric" autocomplete="one-time-code" maxlength="32" required>
<button></button>
</form>
<ul id="terms"></ul>
<button type="button" id="start" hidden></button>
</main>
<script src="invite/page.js"></script>
</body>
</html>
`

const pageCss = `:root {
  color-scheme: light dark;
  font: 16px/1.5 system-ui, "PingFang SC", "Microsoft YaHei", sans-serif;
  --page: #f4f5f3; --surface: #fff; --line: #dfe2dc; --line-strong: #868d84; --control: #e4e8e2;
  --ink: #16201b; --soft: #55605a; --accent: #0a7452; --on-accent: #fff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1412; --surface: #161d1a; --line: #28332e; --line-strong: #7d8a84; --control: #2a3530;
    --ink: #e8eeea; --soft: #a3b0a9; --accent: #4fd39d; --on-accent: #04251a;
  }
}
body { margin: 0; color: var(--ink); background: var(--page) }
main {
  box-sizing: border-box; display: flex; flex-direction: column; align-items: center; gap: 16px;
  width: 440px; max-width: calc(100% - 32px); margin: min(10vh, 72px) auto 32px; padding: 32px;
  text-align: center; border: 1px solid var(--line); border-radius: 20px; background: var(--surface);
}
h1, p, ul { margin: 0; overflow-wrap: anywhere; text-wrap: balance }
h1 { font-size: 1.5rem; line-height: 1.25 }
#status:empty, [hidden] { display: none !important }
#status { font-weight: 600 }
[data-end=done] h1::before { content: "✓ "; color: var(--accent) }
:not([data-end=""]) > #status { font-weight: 400 }
ul { box-sizing: border-box; width: 100%; padding: 16px 0 0 1.2em; text-align: start; text-wrap: pretty; color: var(--soft); border-top: 1px solid var(--line) }
li + li { margin-top: 6px }
button, #open {
  box-sizing: border-box; font: inherit; font-weight: 600; padding: 11px 20px; border: 0; border-radius: 10px; cursor: pointer;
  color: var(--on-accent); background: var(--accent); text-decoration: none;
}
#start, #open { width: 100% }
#open, [data-end=done] #start { color: inherit; background: var(--control) }
button:disabled { opacity: .5; cursor: default }
#digits { display: flex; flex-wrap: wrap; justify-content: center; gap: 8px }
label { flex: 0 0 100% }
input { box-sizing: border-box; font: inherit; width: 8em; padding: 10px 12px; color: inherit; background: var(--page); border: 1px solid var(--line-strong); border-radius: 10px }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
#code { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 12px; background: #fff }
@media (max-width: 480px) { main { margin-top: 16px; padding: 24px 20px } }
@media (pointer: coarse) {
  #code, #digits { order: 1 }
  #terms { order: 2 }
  #start { order: 3 }
  #open { color: var(--on-accent); background: var(--accent) }
}
`
