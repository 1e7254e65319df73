/**
 * The documentation page in the browser: Scalar with our settings, in English or Chinese, the QR code of a
 * login, and fixes for screen readers.
 */

// The colours and the mark of the panel (`admin/styles/tokens.css`). `min-width: 0` lets a long line of the
// request window shrink. Otherwise the Send button is off the screen on a phone. A section gets the focus when the
// page is scrolled to it, and no frame.
const { href: mark } = document.querySelector('link[rel=icon]')
const theme = `
.light-mode { --scalar-color-1: #16201b; --scalar-color-2: #55605a; --scalar-color-3: #5b665f;
  --scalar-color-accent: #0a7452; --scalar-background-1: #ffffff; --scalar-background-2: #f4f5f3;
  --scalar-background-3: #e4e8e2; --scalar-background-accent: #dff1e8; --scalar-border-color: #dfe2dc;
  --scalar-color-green: #0a7452; --scalar-color-orange: #8a5200; --scalar-color-blue: #0067a5;
  --scalar-color-red: #b3261e; --scalar-button-1: #0a7452; --scalar-button-1-color: #ffffff;
  --scalar-button-1-hover: #075c41; --active: #dff1e8; --on-active: #075c41 }
.dark-mode { --scalar-color-1: #e8eeea; --scalar-color-2: #a3b0a9; --scalar-color-3: #9aa7a0;
  --scalar-color-accent: #4fd39d; --scalar-background-1: #0e1412; --scalar-background-2: #161d1a;
  --scalar-background-3: #2a3530; --scalar-background-accent: #12352a; --scalar-border-color: #28332e;
  --scalar-color-green: #4fd39d; --scalar-color-orange: #f1b559; --scalar-color-blue: #7fb4f0;
  --scalar-color-red: #ff8f85; --scalar-button-1: #4fd39d; --scalar-button-1-color: #04251a;
  --scalar-button-1-hover: #7be3b8; --active: #12352a; --on-active: #7be3b8 }
.light-mode, .dark-mode { --scalar-radius: 6px; --scalar-radius-lg: 12px;
  --scalar-font: system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif;
  --scalar-font-code: ui-monospace, Menlo, Consolas, monospace;
  --scalar-link-color: var(--scalar-color-accent); --scalar-link-color-hover: var(--scalar-button-1-hover);
  --scalar-sidebar-color-active: var(--on-active); --scalar-sidebar-item-active-background: var(--active);
  --scalar-sidebar-item-hover-background: var(--scalar-background-2) }
.t-doc__sidebar::before, .t-doc__header header::before { content: "svc"; padding-inline-start: 38px; line-height: 28px;
  font-size: 18px; font-weight: 600; letter-spacing: -.02em; background: url("${mark}") 0 / 28px no-repeat }
.t-doc__sidebar::before { margin: 20px 20px 8px }
.t-doc__header header::before { order: -1; margin-inline: 8px }
section:focus { outline: none }
.scalar-client .flex-1 { min-width: 0 }
#code { inset: auto 24px 24px auto; border: 0; border-radius: 12px; padding: 12px; width: 264px; color: #1b1b1b;
  background: #fff; box-shadow: 0 4px 24px #0006; font: 14px/1.4 system-ui, sans-serif; text-align: center }
#code img { display: block; width: 240px; height: 240px; image-rendering: pixelated }
#code p { margin: 8px 0 }
#code button { font: inherit; padding: 4px 14px; border: 1px solid #767676; border-radius: 8px; background: #fff;
  color: inherit; cursor: pointer }`

const languages =
  'c clojure csharp dart fsharp go http java julia kotlin node objc ocaml php powershell r ruby rust swift'
const hiddenClients = {
  ...Object.fromEntries(languages.split(' ').map(language => [language, true])),
  shell: ['httpie', 'wget'],
  js: ['axios', 'jquery', 'ofetch', 'xhr'],
  python: ['aiohttp', 'httpx_async', 'httpx_sync', 'python3'],
}

/** Converts a QR code of half-block characters (two rows per line) to the URL of an image. */
function pictureOf(text) {
  const lines = text.split('\n')
  const width = Math.max(...lines.map(line => line.length))
  const dots = lines.flatMap((line, y) =>
    [...line].map(
      (sign, x) =>
        ('█▀'.includes(sign) ? `M${x} ${2 * y}h1v1h-1z` : '') +
        ('█▄'.includes(sign) ? `M${x} ${2 * y + 1}h1v1h-1z` : ''),
    ),
  )
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${2 * lines.length}"><path d="${dots.join('')}"/></svg>`
  return `data:image/svg+xml,${encodeURIComponent(svg)}`
}

const code = document.getElementById('code')
code.querySelector('button').onclick = () => code.hidePopover()

/** Displays the QR code of a login, and hides it when the login no longer needs it. */
async function follow(response) {
  const { pathname } = new URL(response.url)
  if (!/\/login(\/status)?$/.test(pathname) || !response.ok) return
  const { qr_text, message } = await response.json()
  code.querySelector('p').textContent = message ?? ''
  if (qr_text) code.querySelector('img').src = pictureOf(qr_text)
  if (Boolean(qr_text) !== code.matches(':popover-open')) code.togglePopover()
}

/** URL of the document. It is relative to the page, since a proxy may serve svc below a path. */
const documentUrl = new URL('openapi.json', location.href).href

/** Whether the reader prefers Chinese to English. */
const isChinese = /^zh/i.test(navigator.languages.find(one => /^(zh|en)\b/i.test(one)) ?? '')
/** The texts of zh.json for readers of Chinese. */
const chinese = isChinese
  ? fetch('docs/zh.json').then(
      response => response.json(),
      () => undefined,
    )
  : undefined
if (isChinese) {
  document.documentElement.lang = 'zh'
  code.querySelector('button').textContent = '关闭'
}

/** Returns a document with Chinese titles, for readers of Chinese. */
async function translate(text) {
  const texts = await chinese
  if (!texts) return text
  const translated = JSON.parse(text)
  const { info, tags, paths } = translated
  document.title = texts.title
  if (paths['/tools']) info.description = texts.description
  for (const tag of tags) tag.description = texts.tags[tag.name] ?? tag.description
  for (const operation of Object.values(paths).flatMap(methods => Object.values(methods)))
    operation.summary = texts.operations[operation.operationId] ?? operation.summary
  return JSON.stringify(translated)
}

/** Whether calls need a token. */
let isClosed = false
/** Whether the tools are here, whose examples get values. */
let hasTools = false
/** The Authorization header with the token that the user typed. */
let authorization
/** Values for the examples: the user who wrote last, and the newest message with a file. */
let known = {}
let refreshes = 0

/** Reads the values for the examples; an empty object without a token where one is needed. */
async function readKnown() {
  if (!hasTools || (isClosed && !authorization)) return {}
  const response = await fetch('tools/default/history', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
    body: JSON.stringify({ direction: 'received', limit: 100 }),
  })
  // The first key was made since.
  isClosed ||= response.status === 401
  const { messages = [] } = await response.json()
  const media = messages.find(message => JSON.stringify(message).includes('"has_media":true'))
  return { to: messages[0]?.from_user, message_id: media?.message_id }
}

/**
 * Reads the values again and updates the examples if they changed. Not while a request window is open, unless
 * `evenOpen`: the update would lose the user's input.
 */
async function refresh(evenOpen = false) {
  const now = await readKnown().catch(() => known)
  if (JSON.stringify(now) === JSON.stringify(known) || (isEditing() && !evenOpen)) return
  known = now
  reference.updateConfiguration({ ...settings, url: `${documentUrl}?${++refreshes}` })
}
const isEditing = () => document.querySelector('.scalar-client--open') !== null

/**
 * Returns the document with real values in its examples, so that users can run them unchanged. An unknown
 * value becomes a placeholder such as USER_ID. So does the session of `logout`, which the call would end.
 */
async function fillExamples(response) {
  // Scalar resolves a relative server URL against the root of the host.
  const root = JSON.stringify(new URL('.', documentUrl).href.replace(/\/$/, ''))
  const text = (await translate(await response.text())).replace(
    '"servers":[{"url":"."',
    `"servers":[{"url":${root}`,
  )
  const { paths, security } = JSON.parse(text)
  const exampleOf = tool =>
    paths[`/tools/default/${tool}`]?.post.requestBody.content['application/json'].examples.example1.value
  hasTools = Boolean(exampleOf('send'))
  isClosed = security.every(scheme => 'bearer' in scheme)
  if (refreshes === 0) known = await readKnown()
  const replacements = [
    [exampleOf('send')?.to, known.to ?? 'USER_ID'],
    [exampleOf('download')?.message_id, known.message_id ?? 'MESSAGE_ID'],
    [exampleOf('logout')?.session_name, 'SESSION_NAME'],
    [paths['/outbox/{id}']?.get.parameters[0].schema.examples[0], 'OUTBOX_ID'],
  ]
  const replace = (text, [old, now]) => text.replaceAll(JSON.stringify(old), JSON.stringify(now))
  return new Response(replacements.filter(([old]) => old).reduce(replace, text))
}

// Corrections of attributes in Scalar 1.72.1, by selector; `null` removes an attribute.
const corrections = [
  ['button[class*="copy-button"]:not([title])', 'title', 'Copy'],
  ['button[class*="copy-button"][aria-controls]', 'aria-controls', null],
  ['button.show-more[aria-label]', 'aria-label', null],
  ['button[role="none"]', 'role', null],
  ['.cm-content:not([aria-label])', 'aria-label', 'Text'],
  ['.cm-scroller[tabindex="-1"]', 'tabindex', '0'],
  ['[role="combobox"]:not([aria-expanded])', 'aria-expanded', 'false'],
  // Removed, because with it two landmarks would have the same name.
  ['section.contents[aria-labelledby]', 'aria-labelledby', null],
  ['section[aria-label^="Notifications"]', 'aria-label', null],
  ['.response-card[role="region"]', 'role', 'group'],
]

function correctPage() {
  for (const [selector, name, value] of corrections) {
    for (const element of document.querySelectorAll(selector)) {
      if (value === null) element.removeAttribute(name)
      else element.setAttribute(name, value)
    }
  }
  // While a request window is open, the page behind it is inert: it is out of reach, and no second main
  // landmark.
  const page = document.querySelector('main.references-rendered')
  const isBehind = isEditing()
  if (page && page.inert !== isBehind) {
    page.inert = isBehind
    if (!isBehind) void refresh()
  }
  isScheduled = false
}

let isScheduled = false
new MutationObserver(() => {
  if (!isScheduled) requestAnimationFrame(correctPage)
  isScheduled = true
}).observe(document.body, {
  childList: true,
  subtree: true,
  attributeFilter: ['class', 'style', 'role', 'open'],
})

document.addEventListener('change', ({ target }) => {
  if (!target.matches('.scalar-password-input')) return
  authorization = target.value && `Bearer ${target.value}`
  void refresh(true)
})
// When the user returns to this tab, a message may have arrived.
addEventListener('focus', () => void refresh())

const settings = {
  url: documentUrl,
  ...(isChinese && { localization: { locale: 'zh-CN' } }),
  customCss: theme,
  hiddenClients,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  documentDownloadType: 'json',
  // No services of Scalar, and nothing from other servers.
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: 'never',
  hideClientButton: true,
  // Without a chosen file, Scalar sends a placeholder. Leave it out: the error says what is missing.
  onBeforeRequest({ requestBuilder: { body } }) {
    if (Array.isArray(body?.value)) body.value = body.value.filter(({ value }) => value !== '@filename')
    else if (body?.value === '@filename') body.value = ''
  },
  async customFetch(input, init) {
    const request = new Request(input, init)
    // The header of a token that was not typed.
    if (/^bearer *$/i.test(request.headers.get('authorization'))) request.headers.delete('authorization')
    // In the panel: what its pages send besides the cookie.
    const root = new URL('.', documentUrl)
    const secret = localStorage.getItem(`svc.secret${root.pathname.slice(0, -1)}`)
    if (secret && request.url.startsWith(`${root}api/`)) request.headers.set('svc-panel', secret)
    const response = await fetch(request)
    if (response.url.startsWith(documentUrl)) return fillExamples(response)
    void follow(response.clone()).catch(() => {})
    return response
  },
}
const reference = Scalar.createApiReference('#app', settings)
