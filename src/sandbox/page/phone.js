/**
 * The phone's page in the browser: displays the state of the sandbox and calls its actions. Its only own
 * state is the selection.
 */

const $ = id => document.getElementById(id)
const template = id => $(id).content.firstElementChild.cloneNode(true)
const element = (tag, className, text) => {
  const made = document.createElement(tag)
  if (className) made.className = className
  if (text !== undefined) made.textContent = text
  return made
}

let state
/**
 * The user whose phone is displayed, and the bot of the open chat; without a bot, the first chat of that
 * user.
 */
let [selected = '', chosen = ''] = decodeURIComponent(location.hash.slice(1)).split('/')
/** True while the phone shows the list of chats in place of a chat. */
let listing = false
/** On a narrow screen the people and the phone are two screens. True while the one of the people is shown. */
let amongPeople = false
const narrow = matchMedia('(max-width: 560px)')
let quoted
let drawnFor = ''

const texts = await (await fetch('phone/texts.json')).json()
const chosenAt = 'svc.language'
const wished = [localStorage.getItem(chosenAt) ?? '', ...navigator.languages].map(one =>
  one.split('-')[0].toLowerCase(),
)
let language = wished.find(one => one in texts) ?? 'en'

/** Returns the text of a key; `{name}` becomes the parameter of that name. */
const t = (key, params = {}) =>
  (texts[language][key] ?? key).replace(/\{(\w+)\}/g, (all, name) => String(params[name] ?? all))

function drawTexts() {
  document.documentElement.lang = language
  document.title = `${t('title')} · svc sandbox`
  for (const one of document.querySelectorAll('[data-t]')) one.textContent = t(one.dataset.t)
  for (const one of document.querySelectorAll('[data-t-label]'))
    one.setAttribute('aria-label', t(one.dataset.tLabel))
  for (const one of document.querySelectorAll('[data-t-placeholder]'))
    one.placeholder = t(one.dataset.tPlaceholder)
  const other = Object.keys(texts).find(one => one !== language)
  $('language').textContent = texts[other]['language.name']
  $('language').lang = other
  $('language').onclick = () => {
    language = other
    localStorage.setItem(chosenAt, other)
    drawTexts()
    void refresh()
  }
  for (const drawn of document.querySelectorAll('[data-key]')) delete drawn.dataset.key
  line(lineState)
}

let lineState = 'connecting'
function line(how) {
  lineState = how
  $('line').textContent = t(`line.${how}`)
  $('line').classList.toggle('live', how === 'live')
}

async function call(method, path, args, body) {
  const given = Object.entries(args ?? {}).filter(([, value]) => value !== undefined)
  const query = body !== undefined || method !== 'POST' ? `?${new URLSearchParams(given)}` : ''
  const response = await fetch(`phone/${path}${query}`, {
    method,
    body: body ?? (method === 'POST' ? JSON.stringify(args ?? {}) : undefined),
  })
  const answer = await response.json()
  if (response.ok) return answer
  // The sandbox's own messages are in English.
  const own = texts[language][`error.${answer.code}`]
  const said = own ?? [answer.detail, answer.hint].filter(Boolean).join('. ')
  throw new Error(said ? said[0].toUpperCase() + said.slice(1) : t('error.other', answer))
}

/** Runs the action; displays an error above the message box if it fails. */
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
      if (!me()) selected = (state.users.find(hasChat) ?? state.users[0])?.id ?? ''
      const bot = botId()
      const { messages } = bot
        ? await call('GET', 'messages', { user: selected, bot, limit: 200 })
        : { messages: [] }
      drawPeople()
      drawClock()
      drawCodes()
      drawChat(messages)
      drawSwitches()
    } while (again)
    if (lineState === 'lost') line('live')
  } catch {
    line('lost')
  } finally {
    refreshing = false
  }
}

const me = () => state.users.find(user => user.id === selected)

/** Whether a user has a bot, or talks with one. */
const hasChat = user => Boolean(user.bot_id) || user.peers.some(peer => peer.last)

const peerOf = (user, bot) => user.peers.find(peer => peer.bot_id === bot.id)

/**
 * Returns the bots of a user's chats: the user's own, and those that the user talks with, earlier ones among them.
 * A user with neither may begin with any living one.
 */
function chatsOf(user) {
  const own = state.bots.filter(bot => bot.id === user.bot_id || peerOf(user, bot)?.last)
  const bots = own.length > 0 ? own : state.bots.filter(bot => bot.live)
  return bots.sort((a, b) => b.live - a.live || (b.id === user.bot_id) - (a.id === user.bot_id))
}

/** How many answers of each chat were on the screen. */
const seenAt = 'svc.seen'
const seen = JSON.parse(localStorage.getItem(seenAt) ?? '{}')
const unreadIn = (user, bot) =>
  Math.max(0, (peerOf(user, bot)?.answers ?? 0) - (seen[`${user.id}/${bot.id}`] ?? 0))
function markSeen(user, bot) {
  if (listing || document.hidden || unreadIn(user, bot) === 0) return
  seen[`${user.id}/${bot.id}`] = peerOf(user, bot).answers
  localStorage.setItem(seenAt, JSON.stringify(seen))
}
document.onvisibilitychange = () => void refresh()

/** Returns the bot of the open chat. */
function botId() {
  const chats = me() ? chatsOf(me()) : []
  return (chats.find(bot => bot.id === chosen) ?? chats[0])?.id
}
function botName(bot) {
  if (!bot.live) return t('bot.gone')
  const owner = state.users.find(user => user.id === bot.user_id)
  return owner && owner.id !== selected ? t('bot.of', { name: owner.name }) : t('bot')
}
function show(user, bot = '') {
  selected = user
  chosen = bot
  amongPeople = false
  listing = bot === '' && me() !== undefined && chatsOf(me()).length > 1
  location.replace(`#${encodeURIComponent(bot ? `${user}/${bot}` : user)}`)
  quote(undefined)
  void refresh()
}

/**
 * Replaces the children only if they would look different, so that focus and pending clicks survive an
 * update.
 */
function put(parent, key, children) {
  if (parent.dataset.key === key) return false
  parent.dataset.key = key
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.name : undefined
  parent.replaceChildren(...children())
  if (focused) parent.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus()
  return true
}

function drawPeople() {
  const user = me()
  const bots = user ? chatsOf(user) : []
  if (bots.length < 2) listing = false
  const open = bots.find(bot => bot.id === botId())
  if (open) markSeen(user, open)
  const hasList = !listing && bots.length > 1
  $('back').hidden = !hasList && !narrow.matches
  $('back').setAttribute('aria-label', t(hasList ? 'chats.back' : 'people.back'))
  document.body.classList.toggle('among-people', amongPeople)
  $('chats').hidden = !listing
  $('chat').hidden = listing
  $('compose').hidden = listing
  const users = state.users.map(user => {
    const chats = chatsOf(user)
    const [last] = chats.flatMap(bot => peerOf(user, bot)?.last ?? []).sort(byTime)
    const about = last ? wordsOf(last) : t(chats.length > 0 ? 'chats.none' : 'people.none')
    const unread = chats.reduce((sum, bot) => sum + unreadIn(user, bot), 0)
    return { id: user.id, name: user.name, about, at: last?.at, unread, current: user.id === selected }
  })
  drawRows($('people'), users, id => {
    show(id)
    if (narrow.matches) $('chat-title').focus()
  })
  const chats = (listing ? bots : []).map(bot => {
    const last = peerOf(user, bot)?.last
    const owner = state.users.find(({ id }) => id === bot.user_id)?.name
    const about = last ? wordsOf(last) : t('chats.none')
    return { id: bot.id, name: botName(bot), owner, about, at: last?.at, unread: unreadIn(user, bot) }
  })
  drawRows($('chats'), chats.sort(byTime), id => show(selected, id))
}

/** The newest first. */
const byTime = (one, other) => (other.at ?? 0) - (one.at ?? 0)
const hueOf = id => [...id].reduce((hue, char) => (hue * 31 + char.codePointAt(0)) % 360, 0)

function drawRows(list, rows, open) {
  put(list, JSON.stringify([rows, language]), () =>
    rows.map(({ id, name, owner, about, at, unread, current }) => {
      const item = template('person')
      const button = item.firstElementChild
      button.dataset.name = id
      button.title = id
      button.onclick = () => open(id)
      if (current) button.setAttribute('aria-current', 'true')
      const face = item.querySelector('.face')
      face.textContent = [...(owner ?? name)][0] ?? '?'
      face.style.setProperty('--hue', hueOf(id))
      item.querySelector('b').textContent = name
      item.querySelector('small').textContent = about
      item.querySelector('time').textContent = at ? timeOf(at, true) : ''
      if (unread > 0) {
        const mark = element('span', 'unread')
        const count = element('span', '', unread > 99 ? '99+' : unread)
        count.ariaHidden = 'true'
        mark.append(count, element('span', 'hidden', t('chats.unread', { count: unread })))
        face.after(mark)
      }
      return item
    }),
  )
}

/** Returns the time of a message, with its day if that is not the current one; then the day alone if `isShort`. */
function timeOf(at, isShort) {
  const [day, today] = [at, state.now].map(ms => new Date(ms).toDateString())
  return new Intl.DateTimeFormat(language, {
    ...(day !== today && { dateStyle: 'short' }),
    ...((day === today || !isShort) && { timeStyle: 'short' }),
  }).format(at)
}

/** Draws the simulated time, which runs as fast as the computer's clock. */
function drawClock() {
  const aheadMs = state.ahead_ms
  const format = new Intl.DateTimeFormat(language, { dateStyle: 'medium', timeStyle: 'short' })
  const now = new Date(Date.now() + aheadMs)
  $('clock').dateTime = now.toISOString()
  $('clock').textContent = format.format(now)
  const hours = Math.round(aheadMs / 3_600_000)
  const count = (value, unit) =>
    new Intl.NumberFormat(language, { style: 'unit', unit, unitDisplay: 'long' }).format(value)
  const ahead = { days: count(Math.floor(hours / 24), 'day'), hours: count(hours % 24, 'hour') }
  $('ahead').textContent = hours === 0 ? t('clock.now') : t('clock.ahead', ahead)
}
setInterval(() => state && drawClock(), 5000)

/**
 * Draws the QR codes that can be used, and those that led to a bot that was logged in already. The chat
 * shows the results of others.
 */
function drawCodes() {
  const shown = state.logins.filter(
    ({ status, expires_at }) =>
      ['wait', 'scaned', 'need_verifycode'].includes(status) ||
      (status === 'binded_redirect' && expires_at > state.now),
  )
  put($('codes'), JSON.stringify([selected, shown]), () =>
    shown.length === 0 ? [element('li', 'empty', t('codes.none'))] : shown.map(drawCode),
  )
}

function drawCode(login) {
  const item = template('code')
  const name = state.users.find(user => user.id === login.user_id)?.name ?? me()?.name
  const image = item.querySelector('img')
  image.src = `phone/qr/${login.qrcode}`
  image.alt = t('codes.picture')
  const about = {
    wait: 'codes.about',
    scaned: 'codes.agree_about',
    need_verifycode: 'codes.type',
    binded_redirect: 'codes.bound',
  }
  item.querySelector('.status').textContent = t(about[login.status], { name })
  // WeChat does not know the account's name; time and last digits tell the codes apart.
  item.querySelector('.made').textContent = t('codes.made', {
    time: new Date(login.created_at).toLocaleTimeString(language),
    end: login.qrcode.slice(-4),
  })
  if (login.status === 'binded_redirect') {
    image.remove()
    return item
  }
  const digits = item.querySelector('.digits')
  digits.hidden = !login.verify_code
  digits.textContent = login.verify_code ?? ''
  const pads = item.querySelector('.pads')
  const pad = (key, path, args, main) => {
    const button = element('button', main ? 'go' : '', t(key))
    button.type = 'button'
    button.dataset.name = `${login.qrcode} ${key}`
    button.onclick = () => attempt(() => call('POST', path, { qrcode: login.qrcode, ...args }))
    pads.append(button)
  }
  if (login.status === 'wait') {
    pad('codes.scan_agree', 'scan', { user: selected, confirm: true }, true)
    pad('codes.scan', 'scan', { user: selected })
    pad('codes.digits', 'verify')
  }
  if (login.status === 'scaned') pad('codes.agree', 'confirm', {}, true)
  pad('codes.expire', 'expire')
  return item
}

function drawChat(messages) {
  const user = me()
  if (!user) return
  const bot = state.bots.find(({ id }) => id === botId())
  const peer = bot && peerOf(user, bot)
  const typing = Boolean(peer?.typing)
  $('chat-title').textContent = listing ? t('chats') : bot ? botName(bot) : t('bot.none')
  $('chat-note').textContent = listing ? user.name : noteOf(user, bot, peer)
  $('send').disabled = !bot?.live
  document.querySelector('.attach').disabled = !bot?.live
  const key = JSON.stringify([selected, typing, messages.map(message => message.seq), bot?.id])
  const shown = `${selected} ${bot?.id}`
  if (shown !== drawnFor) stays = true
  drawnFor = shown
  const drawn = put($('chat'), key, () => {
    if (messages.length === 0 && !typing) {
      return [element('li', 'empty', t(bot ? 'chat.first' : 'chat.scan'))]
    }
    const lines = []
    let last = 0
    for (const message of messages) {
      if (message.at - last > 300_000) lines.push(element('li', 'time', timeOf(message.at)))
      last = message.at
      lines.push(drawMessage(message))
    }
    if (typing) {
      const dots = element('li', 'typing')
      dots.append(element('span', 'hidden', t('chat.typing')), element('i'), element('i'), element('i'))
      lines.push(dots)
    }
    return lines
  })
  if (drawn) follow()
}

/** True if the newest message stays in view, also when messages or images arrive or a keyboard opens. */
let stays = true
let top = 0
$('chat').onscroll = () => {
  const { scrollHeight, scrollTop, clientHeight } = $('chat')
  if (scrollHeight - scrollTop - clientHeight < 80) stays = true
  // Only scrolling up ends it: the user reads older messages. New content never scrolls up.
  else if (scrollTop < top - 1) stays = false
  top = scrollTop
}
function follow() {
  if (stays) $('chat').scrollTop = $('chat').scrollHeight
}
new ResizeObserver(follow).observe($('chat'))
for (const loaded of ['load', 'loadedmetadata']) $('chat').addEventListener(loaded, follow, true)

function noteOf(user, bot, peer) {
  if (!bot) return t('chat.scan_first', { name: user.name })
  const { quota } = state.switches
  const isClosed = peer?.window_closes_at && peer.window_closes_at < state.now
  const left =
    peer?.window_closes_at && quota ? t('chat.answers', { count: Math.max(0, quota - peer.used) }) : ''
  const about = isClosed ? t('chat.closed') : left
  return [t('chat.to', { name: user.name }), about].filter(Boolean).join(' · ')
}

function drawMessage(message) {
  const item = element('li', `said ${message.from}${message.shown ? '' : ' unseen'}`)
  item.append(element('span', 'hidden', t(`said.${message.from}`)))
  if (message.quote) item.append(element('p', 'ref', message.quote.text))
  for (const one of message.items) item.append(drawItem(one))
  if (!message.shown) item.append(element('p', 'why', t('chat.unseen', { why: message.why })))
  const button = element('button', 'quote-it', '↩')
  button.type = 'button'
  button.title = t('quote')
  button.setAttribute('aria-label', t('quote'))
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
  const source = one.media_id && `phone/media/${one.media_id}`
  if (!source) bubble.append(element('span', 'transcript', `[${t(`kind.${one.kind}`)}]`))
  else if (one.kind === 'image') {
    const link = element('a')
    link.href = source
    link.target = '_blank'
    const image = element('img')
    image.src = source
    image.alt = one.file_name ?? t('kind.image')
    image.onerror = () => link.replaceWith(fileLink(one, source))
    link.append(image)
    bubble.append(link)
  } else if (one.kind === 'video' || one.kind === 'voice') {
    const player = element(one.kind === 'video' ? 'video' : 'audio')
    player.controls = true
    player.preload = 'metadata'
    player.src = source
    player.setAttribute('aria-label', t(`kind.${one.kind}`))
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
  about.append(
    element('b', '', one.file_name ?? t(`kind.${one.kind}`)),
    element('small', '', size(one.size ?? 0)),
  )
  link.append(about)
  return link
}

function size(bytes) {
  const units = ['B', 'KB', 'MB', 'GB']
  let at = 0
  for (; bytes >= 1000 && at < 3; at++) bytes /= 1000
  return `${bytes < 10 && at > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`
}

/** Returns a message in a few words. */
const wordsOf = ({ items: [first] }) => first?.text ?? `[${t(`kind.${first?.kind ?? 'unknown'}`)}]`

function quote(message) {
  quoted = message?.message_id
  $('quoted').hidden = !message
  if (!message) return
  $('quoted-text').textContent = t('quote.of', { text: wordsOf(message) })
  $('text').focus()
}

async function drawSwitches() {
  const box = $('switches')
  const key = JSON.stringify(state.switches)
  if (box.dataset.key === key || !box.closest('details').open) return
  const table = await call('GET', 'switches')
  put(box, key, () => Object.entries(table).map(drawSwitch))
}

function drawSwitch([name, row]) {
  const label = element('label')
  const field = element(row.values ? 'select' : 'input')
  for (const value of row.values ?? []) field.append(new Option(value))
  field.value = row.value
  field.dataset.name = name
  field.onchange = () => attempt(() => call('POST', 'switches', { [name]: field.value }))
  label.append(
    element('code', '', name),
    field,
    element('small', '', texts[language][`switch.${name}`] ?? row.what),
  )
  return label
}

async function sendText() {
  const text = $('text').value
  if (!text.trim()) return
  const args = { text, from: selected, to: botId(), ...(quoted && { quote: quoted }) }
  if (await attempt(() => call('POST', 'say', args))) {
    $('text').value = ''
    quote(undefined)
  }
}

async function sendFile(file, kind) {
  const args = { kind, name: file.name, from: selected, to: botId(), ...(quoted && { quote: quoted }) }
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
$('back').onclick = () => {
  const user = me()
  amongPeople = !user || listing || chatsOf(user).length < 2
  if (amongPeople) drawPeople()
  else show(selected)
  $(amongPeople ? 'people-title' : 'chat-title').focus()
}
narrow.onchange = () => state && drawPeople()
for (const input of document.querySelectorAll('.attach input')) {
  input.onchange = async () => {
    for (const file of input.files) await sendFile(file, input.dataset.kind)
    input.value = ''
  }
}
$('add-user').onclick = () => attempt(async () => show((await call('POST', 'users')).id))
$('end-session').onclick = () =>
  attempt(async () => {
    if (!botId()) throw new Error(t('bot.none'))
    await call('POST', 'expire', { bot: botId() })
  })
$('move').onsubmit = event => {
  event.preventDefault()
  const hours = 24 * $('days').valueAsNumber + $('hours').valueAsNumber
  attempt(() => call('POST', 'clock', { advance_ms: Math.round(hours * 3_600_000) }))
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

// Makes the chat scrollable by keyboard.
$('chat').tabIndex = 0
drawTexts()
const news = new EventSource('phone/events')
news.onopen = () => {
  line('live')
  void refresh()
}
news.onerror = () => line('reconnecting')
news.addEventListener('change', () => void refresh())
void refresh()
