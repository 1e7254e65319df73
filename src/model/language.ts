/** Languages in which svc speaks to people on WeChat: Chinese and English. */

/** A number, an emoji, or the code of a choice, which has digits, has no language. */
const words = /\p{Script=Han}|(?<![\p{L}\d])\p{L}{3,}(?![\p{L}\d])/gu
const locale = new Intl.DateTimeFormat().resolvedOptions().locale

/** Beginning of a text that is looked at. */
const lookedAt = 1000

/** Whether a text has at least as many Chinese characters as other words; undefined: it has no language. */
function isChinese(text: string): boolean | undefined {
  const found = text.slice(0, lookedAt).match(words) ?? []
  const han = found.filter(one => /\p{Script=Han}/u.test(one))
  return found.length === 0 ? undefined : 2 * han.length >= found.length
}

/**
 * Whether svc speaks Chinese to a person: if that wrote so last, else if the text is so that it is about, else if the server is.
 *
 * @param wrote what the person wrote, the newest first; a command such as /stop has no language
 * @param about what svc tells or asks the person
 */
export function isChineseFor(wrote: readonly string[], about = ''): boolean {
  const said = wrote.map(text => (text.startsWith('/') ? undefined : isChinese(text)))
  return said.find(one => one !== undefined) ?? isChinese(about) ?? locale.startsWith('zh')
}
