/** The page of an invitation in the browser of the person who is invited. */

const english = {
  title: 'You are invited',
  by: name => `${name} invites you to chat with a bot in WeChat.`,
  terms: [
    'This service reads what you write to that bot.',
    'WeChat allows one bot for each person: if you have one already, it ends.',
    'The code belongs to this browser. Nobody else sees it.',
  ],
  start: 'Show the code',
  again: 'Show another code',
  scan: 'Scan this code with WeChat, within a few minutes.',
  codeName: 'QR code for WeChat',
  open: 'On this phone: open the code in WeChat',
  phone: 'Open the simulated phone, and scan the code there',
  scanned: 'Scanned. Confirm on the phone.',
  digits: 'The phone shows a number. Type it here:',
  send: 'Send',
  wrong: 'That number was not right. Type the one that the phone shows now.',
  renewing: 'The code has expired. A new one is coming …',
  expired: 'The code was not scanned in time.',
  done: 'Connected. Write “hello” to the bot in WeChat. You can close this page.',
  wait: 'Somebody else is using this invitation at this moment. Wait a minute, then try again.',
  over: 'This invitation has ended. Do not scan a code of it any more. Ask for a new one.',
  late: 'This invitation ended before you confirmed, so you were not connected. If you had a bot in WeChat, it has ended. Ask for a new invitation.',
  invalid: 'This link is not valid. Ask for a new one.',
  busy: 'Too many people are here at this moment. Try again in a minute.',
  trouble: 'That did not work. Try again in a moment.',
}
const chinese = {
  title: '邀请你',
  by: name => `${name} 邀请你在微信里和机器人聊天。`,
  terms: [
    '你发给这个机器人的内容，本服务都能看到。',
    '微信规定每人只能有一个机器人：如果你已有机器人，它将停用。',
    '二维码只属于这个浏览器，其他人看不到。',
  ],
  start: '显示二维码',
  again: '换一个二维码',
  scan: '请在几分钟内用微信扫描二维码。',
  codeName: '微信二维码',
  open: '就在这部手机上：用微信打开',
  phone: '打开模拟手机，在那里扫码',
  scanned: '已扫描，请在手机上确认。',
  digits: '手机上显示了一个数字，请在这里输入：',
  send: '提交',
  wrong: '数字不对，请输入手机上现在显示的数字。',
  renewing: '二维码已过期，正在更换……',
  expired: '二维码没有及时扫描。',
  done: '已连接。请在微信里给机器人发一句“你好”。可以关闭此页面。',
  wait: '此刻有人正在使用这个邀请。请等一分钟再试。',
  over: '这个邀请已失效，请不要再扫它的二维码。请向对方要一个新的邀请。',
  late: '在你确认之前邀请已失效，所以没有连接。如果你原来有机器人，它已停用。请向对方要一个新的邀请。',
  invalid: '链接无效，请向对方要一个新的。',
  busy: '此刻人太多，请过一分钟再试。',
  trouble: '没有成功，请稍后再试。',
}
const isChinese = /^zh\b/i.test(navigator.languages?.[0] ?? navigator.language ?? '')
const texts = isChinese ? chinese : english
document.documentElement.lang = isChinese ? 'zh' : 'en'

const secret = location.hash.slice(1)
const element = id => document.getElementById(id)
const [start, code, open, digits, number, status] = [
  'start',
  'code',
  'open',
  'digits',
  'number',
  'status',
].map(element)
/** A phone cannot scan its own screen. */
const isPhone = matchMedia('(pointer: coarse)').matches

let revision = 0
let isFollowing = false

function say(text) {
  if (status.textContent !== text) status.textContent = text
}

/** Asks the service. @throws {Error} whose message is what to say */
async function call(name, more) {
  const answer = await fetch(`invite/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ secret, ...more }),
  }).catch(() => {
    throw new Error(texts.trouble)
  })
  if (answer.ok) return answer.json()
  const isFinal = answer.status === 404 || answer.status === 422
  throw Object.assign(
    new Error(isFinal ? texts.invalid : answer.status === 429 ? texts.busy : texts.trouble),
    {
      isFinal,
    },
  )
}

function offer(text) {
  start.textContent = text
  start.disabled = false
  start.hidden = false
}

/** Shows a state. @returns whether more is to come without a click */
function show(view) {
  element('what').textContent = texts.by(view.inviter ?? location.host)
  revision = view.revision ?? revision
  const isLogin = view.state === 'login'
  const isCode = isLogin && view.status === 'waiting' && view.qr_svg !== undefined
  const isAsking = isLogin && view.status === 'need_verifycode'
  code.hidden = !isCode
  open.hidden = true
  if (isCode) showCode(view)
  if (digits.hidden && isAsking) number.value = ''
  digits.hidden = !isAsking
  start.hidden = true
  if (!isLogin) {
    if (view.state === 'ready') offer(texts.start)
    if (view.state === 'wait') offer(texts.again)
    say(view.state === 'ready' ? '' : texts[view.state])
    return view.state === 'over' && view.revision !== undefined
  }
  switch (view.status) {
    case 'confirmed':
    case 'already_bound':
      say(texts.done)
      return false
    case 'need_verifycode':
      say(view.wrong_code ? texts.wrong : '')
      return true
    case 'scaned':
      say(texts.scanned)
      return true
    case 'waiting':
      say(texts.scan)
      return true
    default:
      if (view.qr_svg !== undefined) {
        say(texts.renewing)
        return true
      }
      say(texts.expired)
      offer(texts.again)
      return false
  }
}

function showCode({ phone_url, qr_svg, qr_url }) {
  const source = `data:image/svg+xml,${encodeURIComponent(qr_svg)}`
  if (code.src !== source) code.src = source
  code.alt = texts.codeName
  const address = phone_url ?? (isPhone && qr_url?.startsWith('https://') ? qr_url : undefined)
  if (address === undefined) return
  open.href = address
  open.textContent = phone_url ? texts.phone : texts.open
  open.hidden = false
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** Follows the login of this browser until nothing is to come. */
async function follow(first) {
  if (isFollowing) return
  isFollowing = true
  try {
    let more = show(first)
    while (more) {
      try {
        more = show(await call('look', { seen: revision, timeout: 25 }))
      } catch (error) {
        if (error.isFinal) throw error
        // The service may be starting again.
        await pause(3000)
      }
    }
  } finally {
    isFollowing = false
  }
}

const fail = error => {
  say(error.message)
  if (!error.isFinal) offer(texts.again)
}

start.addEventListener('click', async () => {
  start.disabled = true
  try {
    await follow(await call('join'))
  } catch (error) {
    fail(error)
  }
})

digits.addEventListener('submit', async event => {
  event.preventDefault()
  const { value } = number
  number.value = ''
  try {
    show(await call('digits', { verify_code: value.trim() }))
  } catch (error) {
    say(error.message)
  }
})

element('title').textContent = texts.title
document.title = texts.title
element('terms').replaceChildren(
  ...texts.terms.map(term => Object.assign(document.createElement('li'), { textContent: term })),
)
digits.querySelector('label').textContent = texts.digits
digits.querySelector('button').textContent = texts.send
// Another link in the same tab is another invitation.
addEventListener('hashchange', () => location.reload())
if (secret === '') fail({ message: texts.invalid, isFinal: true })
else call('look').then(follow).catch(fail)
