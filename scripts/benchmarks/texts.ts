/**
 * Makes messages like those of people, from a seed: mostly Chinese, some words far more frequent than others.
 */

/** Both characters are among the most frequent ones, but no text made here has them side by side. */
export const absentWord = '的是'

const common =
  '的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里'
const rest =
  '用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运'

/** Makes a generator of numbers from 0 to 1, the same for the same seed (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Makes a text of words with 8 to 40 characters. */
export function createText(next: () => number): string {
  const pick = (chars: string) => chars[Math.floor(next() ** 2 * chars.length)]!
  let text = ''
  for (let words = 4 + Math.floor(next() * 12); words > 0; words--) {
    const latin = next() < 0.08
    if (latin) text += ` ${['ok', 'hello', 'meeting', 'pdf', 'thanks', '2026'][Math.floor(next() * 6)]} `
    else text += next() < 0.5 ? pick(common) + pick(rest) : pick(rest) + pick(common)
    if (next() < 0.15) text += '，'
  }
  return text.replaceAll(absentWord, `${absentWord[0]}，${absentWord[1]}`)
}

export interface WrittenMessage {
  /**
   * Decimal and above 2^53, like upstream's. The steps are 4096, so that even a rounding reader can tell ids
   * apart.
   */
  messageId: string
  from: string
  to: string
  at: number
  text: string
}

/** Makes message number `n` of a run. Runs never share ids. */
export function createMessage(
  run: number,
  n: number,
  to: string,
  users: number,
  next: () => number,
): WrittenMessage {
  const user = Math.floor(next() * users)
  return {
    messageId: String(7_000_000_000_000_000_000n + BigInt(run) * 100_000_000_000n + BigInt(n) * 4096n),
    from: `o9cq80${user.toString(36).padStart(8, '0')}ZkQ@im.wechat`,
    to,
    at: 1_760_000_000_000 + run * 10_000_000 + n * 37,
    text: createText(next),
  }
}

/** Returns the JSON of a text message as upstream writes it, with the id as a bare number. */
export function toWireText(message: WrittenMessage): string {
  const { messageId, from, to, at, text } = message
  const body = JSON.stringify({
    from_user_id: from,
    to_user_id: to,
    client_id: '',
    create_time_ms: at,
    update_time_ms: at,
    session_id: '',
    message_type: 1,
    message_state: 2,
    item_list: [{ type: 1, create_time_ms: at, update_time_ms: at, is_completed: true, text_item: { text } }],
    context_token: `AARzJWAFAAABAAAAAAAp${Bun.hash(from).toString(36)}${Bun.hash(messageId).toString(36)}${'k3Jx0aQ'.repeat(14)}==`,
  })
  return `{"seq":${at % 100_000},"message_id":${messageId},${body.slice(1)}`
}
