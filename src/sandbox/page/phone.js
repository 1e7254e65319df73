/** The phone in the browser: shows what the sandbox says, asks it to act. No state of its own but what is selected. */

const $ = id => document.getElementById(id)
const template = id => $(id).content.firstElementChild.cloneNode(true)
const element = (tag, className, text) => {
  const made = document.createElement(tag)
  if (className) made.className = className
  if (text !== undefined) made.textContent = text
  return made
}

let state
let selected = location.hash.slice(1)
let quoted
let drawnSeqs = ''
const open = new Set(['wait', 'scaned', 'need_verifycode'])
const words = {
  wait: 'waits to be scanned',
  scaned: 'scanned: waits for your agreement',
  need_verifycode: 'type these digits where you log in',
  verify_code_blocked: 'blocked after three wrong codes',
  expired: 'expired',
  confirmed: 'logged in',
  binded_redirect: 'was logged in already',
}

async function call(method, path, args, body) {
  const query = args && (body !== undefined || method !== 'POST') ? `?${new URLSearchParams(args)}` : ''
  const response = await fetch(`/phone/${path}${query}`, {
    method,
    body: body ?? (method === 'POST' ? JSON.stringify(args ?? {}) : undefined),
  })
  const answer = await response.json()
  if (!response.ok) {
    const said = [answer.detail, answer.hint].filter(Boolean).join('. ')
    throw new Error(said[0].toUpperCase() + said.slice(1))
  }
  return answer
}

/** Does it, and says at the writing box when it could not be done. */
async function attempt(work) {
  try {
    await work()
    $('error').hidden = true
    return true
  } catch (error) {
    $('error').textContent = error.message
    $('error').hidden = false
    return false
  } finally {
    void refresh()
  }
}

let refreshing = false
let again = false
async function refresh() {
  if (refreshing) {
    again = true
    return
  }
  refreshing = true
  try {
    do {
      again = false
      state = await call('GET', 'state')
      if (!state.users.some(user => user.id === selected)) selected = state.users[0]?.id ?? ''
      const { messages } = await call('GET', 'messages', { user: selected, limit: 200 })
      drawPeople()
      drawCodes()
      drawChat(messages)
      drawSwitches()
    } while (again)
  } catch {
    $('line').textContent = 'not reachable'
    $('line').classList.remove('live')
  } finally {
    refreshing = false
  }
}

const me = () => state.users.find(user => user.id === selected)
const peer = () => {
  const { peers, bot_id } = me()
  return peers.find(one => one.bot_id === bot_id) ?? peers.find(one => one.live)
}
const botId = () => {
  const live = state.bots.filter(bot => bot.live)
  return me()?.bot_id ?? peer()?.bot_id ?? (live.length === 1 ? live[0].id : undefined)
}

/** Replaces the children only when they would look different, so that focus and clicks survive the news. */
function put(parent, key, children) {
  if (parent.dataset.key === key) return false
  parent.dataset.key = key
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.name : undefined
  parent.replaceChildren(...children())
  if (focused) parent.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus()
  return true
}

function drawPeople() {
  const key = JSON.stringify([selected, state.users.map(user => [user.id, user.name, user.bot_id])])
  put($('people'), key, () =>
    state.users.map(user => {
      const item = template('person')
      const button = item.firstElementChild
      button.dataset.name = user.id
      button.setAttribute('aria-current', String(user.id === selected))
      item.querySelector('.face').textContent = [...user.name][0] ?? '?'
      item.querySelector('b').textContent = user.name
      item.querySelector('small').textContent = user.bot_id ? 'has a bot' : 'no bot yet'
      button.title = user.id
      button.onclick = () => {
        selected = user.id
        location.replace(`#${user.id}`)
        quote(undefined)
        void refresh()
      }
      return item
    }),
  )
}

function drawCodes() {
  // What is over matters only while it is fresh.
  const shown = state.logins.filter((login, at) => open.has(login.status) || at < 4)
  const key = JSON.stringify([selected, shown])
  put($('codes'), key, () => {
    if (shown.length === 0)
      return [element('li', 'empty', 'None. Start a login in svc, and its QR code appears here.')]
    return shown.map(drawCode)
  })
}

function drawCode(login) {
  const item = template('code')
  const name = me()?.name ?? 'the user'
  const past = !open.has(login.status)
  item.classList.toggle('past', past)
  const image = item.querySelector('img')
  image.src = `/phone/qr/${login.qrcode}`
  image.alt = past ? '' : 'QR code'
  item.querySelector('.status').textContent = words[login.status] ?? login.status
  const digits = item.querySelector('.digits')
  digits.hidden = !login.verify_code
  digits.textContent = login.verify_code ?? ''
  const pads = item.querySelector('.pads')
  const pad = (text, path, args, main) => {
    const button = element('button', main ? 'go' : '', text)
    button.type = 'button'
    button.dataset.name = `${login.qrcode} ${text}`
    button.onclick = () => attempt(() => call('POST', path, { qrcode: login.qrcode, ...args }))
    pads.append(button)
  }
  if (login.status === 'wait') {
    pad(`Scan as ${name}`, 'scan', { user: selected }, true)
    pad('Scan and agree', 'scan', { user: selected, confirm: true })
    pad('Ask for digits', 'verify')
  }
  if (login.status === 'scaned') pad('Agree', 'confirm', {}, true)
  if (!past) pad('Let it expire', 'expire')
  pads.hidden = past
  return item
}

function drawChat(messages) {
  const user = me()
  if (!user) return
  const bot = botId()
  const typing = user.peers.some(one => one.typing)
  $('chat-title').textContent = bot ? 'Bot' : user.peers.length > 0 ? 'The bot is gone' : 'No bot yet'
  const { quota } = state.switches
  const mine = peer()
  const closed = mine?.window_closes_at && mine.window_closes_at < state.now
  $('chat-note').textContent = !bot
    ? `${user.name}, scan a QR code first`
    : `to ${user.name}${closed ? ' · window closed' : mine && quota ? ` · ${Math.max(0, quota - mine.used)} answers left` : ''}`
  $('send').disabled = !bot
  const key = JSON.stringify([selected, typing, messages.map(message => message.seq), bot])
  const chat = $('chat')
  const atEnd = chat.scrollHeight - chat.scrollTop - chat.clientHeight < 80 || !drawnSeqs.startsWith(selected)
  const drawn = put(chat, key, () => {
    if (messages.length === 0 && !typing) {
      return [
        element(
          'li',
          'empty',
          bot
            ? 'A user must write first: say hello below.'
            : 'Scan a QR code to connect a bot, then write to it here.',
        ),
      ]
    }
    const lines = []
    let last = 0
    for (const message of messages) {
      if (message.at - last > 300_000)
        lines.push(element('li', 'time', new Date(message.at).toLocaleString()))
      last = message.at
      lines.push(drawMessage(message))
    }
    if (typing) {
      const dots = element('li', 'typing')
      dots.setAttribute('aria-label', 'The bot is typing')
      dots.append(element('i'), element('i'), element('i'))
      lines.push(dots)
    }
    return lines
  })
  drawnSeqs = `${selected} ${key}`
  if (drawn && atEnd) {
    chat.scrollTop = chat.scrollHeight
    for (const picture of chat.querySelectorAll('img, video'))
      picture.addEventListener(picture.tagName === 'IMG' ? 'load' : 'loadedmetadata', () => {
        chat.scrollTop = chat.scrollHeight
      })
  }
}

function drawMessage(message) {
  const item = element('li', `said ${message.from}${message.shown ? '' : ' unseen'}`)
  item.append(element('span', 'hidden', message.from === 'bot' ? 'Bot:' : 'You:'))
  if (message.quote) item.append(element('p', 'ref', message.quote.text))
  for (const one of message.items) item.append(drawItem(one))
  if (!message.shown) item.append(element('p', 'why', `Accepted, not shown: ${message.why}`))
  const button = element('button', 'quote-it', 'Quote')
  button.type = 'button'
  button.onclick = () => quote(message)
  item.append(button)
  return item
}

function drawItem(one) {
  const bubble = element('div', 'bubble')
  if (one.kind === 'text') {
    bubble.textContent = one.text
    return bubble
  }
  bubble.classList.add('media')
  const source = one.media_id && `/phone/media/${one.media_id}`
  if (!source) bubble.append(element('span', 'transcript', `[${one.kind}]`))
  else if (one.kind === 'image') {
    const link = element('a')
    link.href = source
    link.target = '_blank'
    const image = element('img')
    image.src = source
    image.alt = one.file_name ?? 'Picture'
    image.onerror = () => link.replaceWith(fileLink(one, source))
    link.append(image)
    bubble.append(link)
  } else if (one.kind === 'video' || one.kind === 'voice') {
    const player = element(one.kind === 'video' ? 'video' : 'audio')
    player.controls = true
    player.preload = 'metadata'
    player.src = source
    player.setAttribute('aria-label', one.kind === 'video' ? 'Video' : 'Voice message')
    // What the browser cannot play (SILK, AMR) can still be saved.
    player.onerror = () => player.replaceWith(fileLink(one, source))
    bubble.append(player)
  } else bubble.append(fileLink(one, source))
  if (one.transcript) bubble.append(element('p', 'transcript', one.transcript))
  return bubble
}

function fileLink(one, source) {
  const link = element('a', 'file')
  link.href = source
  link.download = one.file_name ?? one.kind
  const about = element('span')
  about.append(element('b', '', one.file_name ?? one.kind), element('small', '', size(one.size ?? 0)))
  link.append(about)
  return link
}

function size(bytes) {
  const units = ['B', 'KB', 'MB', 'GB']
  let at = 0
  for (; bytes >= 1024 && at < 3; at++) bytes /= 1024
  return `${bytes < 10 && at > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`
}

function quote(message) {
  quoted = message?.message_id
  $('quoted').hidden = !message
  if (!message) return
  const first = message.items[0]
  $('quoted-text').textContent = `Quoting: ${first?.text ?? `[${first?.kind ?? 'message'}]`}`
  $('text').focus()
}

async function drawSwitches() {
  const box = $('switches')
  const key = JSON.stringify(state.switches)
  if (box.dataset.key === key || !box.closest('details').open) return
  const table = await call('GET', 'switches')
  put(box, key, () =>
    Object.entries(table).map(([name, row]) => {
      const label = element('label')
      label.append(element('span', '', name.replaceAll('_', ' ')))
      const field = element(row.values ? 'select' : 'input')
      for (const value of row.values ?? []) field.append(new Option(value.replaceAll('_', ' '), value))
      field.value = row.value
      field.dataset.name = name
      field.onchange = () => attempt(() => call('POST', 'switches', { [name]: field.value }))
      label.append(field, element('small', '', row.what))
      return label
    }),
  )
}

async function sendText() {
  const text = $('text').value
  if (!text.trim()) return
  const args = { text, from: selected, ...(quoted && { quote: quoted }) }
  if (await attempt(() => call('POST', 'say', args))) {
    $('text').value = ''
    quote(undefined)
  }
}

async function sendFile(file, kind) {
  const args = { kind, name: file.name, from: selected, ...(quoted && { quote: quoted }) }
  if (await attempt(() => call('POST', 'media', args, file))) quote(undefined)
}

const kindOf = file =>
  file.type.startsWith('image/')
    ? 'image'
    : file.type.startsWith('video/')
      ? 'video'
      : file.type.startsWith('audio/')
        ? 'voice'
        : 'file'

$('compose').onsubmit = event => {
  event.preventDefault()
  void sendText()
}
$('text').onkeydown = event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
  event.preventDefault()
  void sendText()
}
$('unquote').onclick = () => quote(undefined)
for (const input of document.querySelectorAll('.attach input')) {
  input.onchange = async () => {
    for (const file of input.files) await sendFile(file, input.dataset.kind)
    input.value = ''
  }
}
$('add-user').onclick = () =>
  attempt(async () => {
    selected = (await call('POST', 'users')).id
  })
$('end-session').onclick = () =>
  attempt(async () => {
    const bot = botId()
    if (!bot) throw new Error('No bot is logged in.')
    await call('POST', 'expire', { bot })
  })
for (const button of document.querySelectorAll('[data-advance]')) {
  button.onclick = () => attempt(() => call('POST', 'clock', { advance_ms: button.dataset.advance }))
}
document.querySelector('.tools').ontoggle = () => void drawSwitches()

let depth = 0
const phone = document.querySelector('.phone')
const showDrop = on => {
  $('drop').hidden = !on
}
phone.ondragenter = () => showDrop(++depth > 0)
phone.ondragleave = () => showDrop(--depth > 0)
phone.ondragover = event => event.preventDefault()
phone.ondrop = async event => {
  event.preventDefault()
  depth = 0
  showDrop(false)
  for (const file of event.dataTransfer.files) await sendFile(file, kindOf(file))
}

const news = new EventSource('/phone/events')
news.onopen = () => {
  $('line').textContent = 'live'
  $('line').classList.add('live')
  void refresh()
}
news.onerror = () => {
  $('line').textContent = 'reconnecting…'
  $('line').classList.remove('live')
}
news.addEventListener('change', () => void refresh())
void refresh()
