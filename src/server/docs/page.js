/** The documentation page in the browser: Scalar with our settings, the QR code of a login, what screen readers need. */

// On a phone the button that sends lay beside the screen: one line of the window's would not be cut.
const theme = `
.light-mode { --scalar-color-2: #555; --scalar-color-3: #5f5f5f; --scalar-color-green: #04704b;
  --scalar-color-orange: #b34000; --scalar-color-blue: #0067a5; --scalar-color-red: #c00005 }
.dark-mode { --scalar-color-2: #b5b5b5; --scalar-color-3: #a3a3a3; --scalar-color-red: #ff7b76 }
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

/** A text of half blocks, two rows of a QR code in each line, as a picture. */
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

/** Shows the code that a login waits with, and takes it away once the login is past it. */
async function follow(response) {
  const { pathname } = new URL(response.url)
  if (!/\/login(\/status)?$/.test(pathname) || !response.ok) return
  const { qr_text, message } = await response.json()
  code.querySelector('p').textContent = message ?? ''
  if (qr_text) code.querySelector('img').src = pictureOf(qr_text)
  if (Boolean(qr_text) !== code.matches(':popover-open')) code.togglePopover()
}

/** The service may lie below a path of its host. */
const documentUrl = new URL('openapi.json', location.href).href

/** Whether calls need a token, and the header with the one that was typed. */
let isClosed = false
let authorization
/** What is known for the examples: who wrote last, and the newest file. */
let known = {}
let refreshes = 0

async function look() {
  if (isClosed && !authorization) return {}
  const response = await fetch('tools/default/history', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
    body: JSON.stringify({ direction: 'received', limit: 100 }),
  })
  const { messages = [] } = await response.json()
  const media = messages.find(message => JSON.stringify(message).includes('"has_media":true'))
  return { to: messages[0]?.from_user, message_id: media?.message_id }
}

/** Looks again, and fills the examples anew where there is news. What was edited in an open window would be lost. */
async function refresh(evenOpen = false) {
  const now = await look().catch(() => known)
  if (JSON.stringify(now) === JSON.stringify(known) || (isEditing() && !evenOpen)) return
  known = now
  reference.updateConfiguration({ ...settings, url: `${documentUrl}?${++refreshes}` })
}
const isEditing = () => document.querySelector('.scalar-client--open') !== null

/**
 * The document, with what is known in its examples, so that they can be tried as they stand. What is not known, since
 * nobody wrote yet or a token is needed, is plainly to be replaced; so is what a call ends or renames.
 */
async function filled(response) {
  // Scalar takes a relative address of the server for one below the root of the host.
  const root = JSON.stringify(new URL('.', documentUrl).href.replace(/\/$/, ''))
  const text = (await response.text()).replace('"servers":[{"url":"."', `"servers":[{"url":${root}`)
  const { paths, security } = JSON.parse(text)
  const exampleOf = tool =>
    paths[`/tools/default/${tool}`]?.post.requestBody.content['application/json'].examples.example1.value
  isClosed = !exampleOf('send') || security.every(way => 'bearer' in way)
  if (refreshes === 0) known = await look()
  const shown = [
    [exampleOf('send')?.to, known.to ?? 'USER_ID'],
    [exampleOf('download')?.message_id, known.message_id ?? 'MESSAGE_ID'],
    [exampleOf('logout')?.session_name, 'SESSION_NAME'],
    [paths['/outbox/{id}']?.get.parameters[0].schema.examples[0], 'OUTBOX_ID'],
  ]
  const put = (text, [old, now]) => text.replaceAll(JSON.stringify(old), JSON.stringify(now))
  return new Response(shown.filter(([old]) => old).reduce(put, text))
}

// What Scalar 1.72.1 leaves out, by selector; `null` takes an attribute away.
const wanting = [
  ['button[class*="copy-button"]:not([title])', 'title', 'Copy'],
  ['button[class*="copy-button"][aria-controls]', 'aria-controls', null],
  ['button.show-more[aria-label]', 'aria-label', null],
  ['button[role="none"]', 'role', null],
  ['.cm-content:not([aria-label])', 'aria-label', 'Text'],
  ['.cm-scroller[tabindex="-1"]', 'tabindex', '0'],
  ['[role="combobox"]:not([aria-expanded])', 'aria-expanded', 'false'],
  // Two of a kind would be two landmarks of one name.
  ['section.contents[aria-labelledby]', 'aria-labelledby', null],
  ['section[aria-label^="Notifications"]', 'aria-label', null],
]

function mend() {
  for (const [selector, name, value] of wanting) {
    for (const element of document.querySelectorAll(selector)) {
      if (value === null) element.removeAttribute(name)
      else element.setAttribute(name, value)
    }
  }
  // What lies behind the window of a request is out of reach, and no second main part.
  const page = document.querySelector('main.references-rendered')
  const isBehind = isEditing()
  if (page && page.inert !== isBehind) {
    page.inert = isBehind
    if (!isBehind) void refresh()
  }
  awaited = false
}

let awaited = false
new MutationObserver(() => {
  if (!awaited) requestAnimationFrame(mend)
  awaited = true
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
// Back from another tab: somebody may have written on the phone.
addEventListener('focus', () => void refresh())

const settings = {
  url: documentUrl,
  customCss: theme,
  hiddenClients,
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  authentication: { preferredSecurityScheme: 'bearer' },
  documentDownloadType: 'json',
  // Nothing of Scalar's own services, and nothing from elsewhere.
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: 'never',
  hideClientButton: true,
  // Scalar sends the stand-in where no file was chosen; the service says of an empty body what is missing.
  onBeforeRequest({ requestBuilder: { body } }) {
    for (const part of Array.isArray(body?.value) ? body.value : [body])
      if (part?.value === '@filename') part.value = ''
  },
  async customFetch(...request) {
    const response = await fetch(...request)
    if (response.url.startsWith(documentUrl)) return filled(response)
    void follow(response.clone()).catch(() => {})
    return response
  },
}
const reference = Scalar.createApiReference('#app', settings)
