/** Languages in which svc speaks to people on WeChat: Chinese and English. */

/** A number, an emoji, or the code of a choice, which has digits, has no language. */
const words = /\p{Script=Han}|(?<![\p{L}\d])\p{L}{3,}(?![\p{L}\d])/u
const locale = new Intl.DateTimeFormat().resolvedOptions().locale

/**
 * Whether svc speaks Chinese to a person: if that wrote so last, else if the text is so that it is about, else if the server is.
 *
 * @param wrote what the person wrote, the newest first; a command such as /stop has no language
 * @param about what svc tells or asks the person
 */
export function isChineseFor(wrote: readonly string[], about = ''): boolean {
  const own = wrote.find(text => !text.startsWith('/') && words.test(text))
  const said = own ?? about
  return words.test(said) ? /\p{Script=Han}/u.test(said) : locale.startsWith('zh')
}
