/** How a user looks where there is no picture: the panel and the page of an export show the same. */

/** Returns an id without the suffix that all have. */
export const shortIdOf = (id: string): string => id.replace(/@im\.(wechat|bot)$/, '')

/** Returns a hue for an id, 0 to 7. */
export function hueOf(id: string): number {
  let hash = 0
  for (const char of id) hash = (hash * 31 + char.codePointAt(0)!) >>> 0
  return hash % 8
}

/** Returns one or two characters: the initials of the name, or characters of the id. */
export const initialsOf = (id: string, name: string | undefined): string =>
  name === undefined ? charactersOf(id) : initialsOfName(name)

function charactersOf(id: string): string {
  const plain = [...shortIdOf(id)].filter(char => /[\p{L}\p{N}]/u.test(char))
  // Ids from WeChat begin alike; their ends differ.
  const made = /^o9cq8/.test(id) && plain.length > 12
  const chars = made ? plain.slice(-2) : plain.slice(0, /[^\p{ASCII}]/u.test(plain[0] ?? '') ? 1 : 2)
  return chars.join('').toUpperCase() || '?'
}

/** For a Chinese name it is the last character, by Chinese custom. */
function initialsOfName(name: string): string {
  const words = name.match(/[\p{L}\p{N}]+/gu) ?? []
  if (words.length === 0) return [...name][0] ?? '?'
  const first = [...words[0]!]
  if (/\p{Script=Han}/u.test(words[0]!)) return first.at(-1)!
  return `${first[0]}${[...(words[1] ?? '')][0] ?? ''}`.toUpperCase()
}
