/** The page of an invitation in the browser of the person who is invited. */

const english = {
  title: 'You are invited',
  by: name => `${name} invites you to chat with a bot in WeChat.`,
  connect: 'Another person: show a code',
  terms: [
    'This service reads what you write to that bot.',
    'WeChat allows one bot for each person: if you have one already, it ends.',
    'The code is for you alone: do not pass it on.',
  ],
  start: 'Show the code',
  again: 'Show another code',
  retry: 'Try again',
  scan: 'In WeChat, tap Me, Settings, Plugins, and scan this code within a few minutes.',
  codeName: 'QR code for WeChat',
  open: 'On this phone: open the code in WeChat',
  phone: 'Scan it on the simulated phone',
  scanned: 'Scanned. Confirm on the phone, then write “hello” to the bot.',
  digits: 'The phone shows a number. Type it here:',
  send: 'Send',
  wrong: 'That number was not right.',
  renewing: 'The code has expired. A new one is coming …',
  expired: 'The code was not scanned in time.',
  wait: 'Somebody else is using this invitation at this moment. Wait a minute, then try again.',
  busy: 'Too many people are here at this moment. Try again in a minute.',
  trouble: 'That did not work. Try again in a moment.',
  ends: {
    done: ['Connected', 'Write “hello” to the bot in WeChat. You can close this page.'],
    over: ['This invitation has ended', 'Do not scan a code of it any more. Ask for a new invitation.'],
    late: [
      'You are not connected',
      'The invitation ended before you confirmed. If you had a bot in WeChat, it has ended. Ask for a new invitation.',
    ],
    invalid: ['This link is not valid', 'Check that you opened the whole link, or ask for a new one.'],
  },
}
const chinese = {
  title: '你收到一个邀请',
  by: name => `${name} 邀请你在微信里和机器人聊天。`,
  connect: '为下一个人显示二维码',
  terms: [
    '你发给这个机器人的内容，本服务都能看到。',
    '微信规定每人只能有一个机器人：如果你已有机器人，它将停用。',
    '二维码只供你本人使用，请勿转发。',
  ],
  start: '显示二维码',
  again: '换一个二维码',
  retry: '再试一次',
  scan: '请在微信里依次点“我”“设置”“插件”，并在几分钟内扫描此二维码。',
  codeName: '微信二维码',
  open: '就在这部手机上：用微信打开',
  phone: '用模拟手机扫码',
  scanned: '已扫描。请在手机上确认，然后给机器人发一句“你好”。',
  digits: '手机上显示了一个数字，请在这里输入：',
  send: '提交',
  wrong: '数字不对。',
  renewing: '二维码已过期，正在更换……',
  expired: '二维码没有及时扫描。',
  wait: '此刻有人正在使用这个邀请。请等一分钟再试。',
  busy: '此刻人太多，请过一分钟再试。',
  trouble: '没有成功，请稍后再试。',
  ends: {
    done: ['已连接', '请在微信里给机器人发一句“你好”。此页面可以关闭了。'],
    over: ['邀请已失效', '请不要再扫它的二维码。如有需要，请向对方要一个新的邀请。'],
    late: ['没有连接成功', '在你确认之前邀请已失效。如果你原来有机器人，它已停用。请向对方要一个新的邀请。'],
    invalid: ['链接无效', '请确认打开的是完整链接，或向对方要一个新的。'],
  },
}
const isChinese = /^zh\b/i.test(navigator.languages?.[0] ?? navigator.language ?? '')
const texts = isChinese ? chinese : english
document.documentElement.lang = isChinese ? 'zh' : 'en'

/** A chat may take what stands after a link for a part of it. */
const [secret = ''] = /^[\w-]{43}/.exec(location.hash.slice(1)) ?? []
const element = id => document.getElementById(id)
const [card, title, what, terms, start, code, open, digits, number, status] = [
  'card',
  'title',
  'what',
  'terms',
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
  throw Object.assign(new Error(answer.status === 429 ? texts.busy : texts.trouble), { isFinal })
}

/** @param how it ended, if it did; nothing is explained then */
function head(text, how = '') {
  title.textContent = text
  document.title = text
  card.dataset.end = how
  what.hidden = how !== ''
  terms.hidden = how !== ''
}

/** Shows how it ended. */
function end(how) {
  const [heading, text] = texts.ends[how]
  head(heading, how)
  say(text)
}

function offer(text) {
  start.textContent = text
  start.disabled = false
  start.hidden = false
}

/** Shows a state. @returns whether more is to come without a click */
function show(view) {
  head(texts.title)
  // The direction of a name changes nothing around it.
  what.textContent = texts.by(`\u2068${view.inviter ?? location.host}\u2069`)
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
  if (view.state === 'over' || view.state === 'late') {
    end(view.state)
    return view.state === 'over' && view.revision !== undefined
  }
  if (!isLogin) {
    offer(view.state === 'ready' ? texts.start : texts.retry)
    say(view.state === 'ready' ? '' : texts.wait)
    return false
  }
  switch (view.status) {
    case 'confirmed':
    case 'already_bound':
      end('done')
      if (view.has_more) offer(texts.connect)
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
  if (error.isFinal) return end('invalid')
  say(error.message)
  offer(texts.retry)
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
    if (error.isFinal) end('invalid')
    else say(error.message)
  }
})

head(texts.title)
terms.replaceChildren(
  ...texts.terms.map(term => Object.assign(document.createElement('li'), { textContent: term })),
)
digits.querySelector('label').textContent = texts.digits
digits.querySelector('button').textContent = texts.send
// Another link in the same tab is another invitation.
addEventListener('hashchange', () => location.reload())
if (secret === '') end('invalid')
else call('look').then(follow).catch(fail)
