/** Who somebody is: ids are all there is, so colour, letters and the ends of the id make them tell apart. */
import type { ComponentChildren } from 'preact'

/** The id without what all ids end with. */
const short = (id: string): string => id.replace(/@im\.(wechat|bot)$/, '')

/** One of eight hues. */
function hueOf(id: string): number {
  let hash = 0
  for (const char of id) hash = (hash * 31 + char.codePointAt(0)!) >>> 0
  return hash % 8
}

function lettersOf(id: string): string {
  const plain = [...short(id)].filter(char => /[\p{L}\p{N}]/u.test(char))
  // Ids that WeChat makes all begin alike; their ends differ.
  const made = /^o9cq8/.test(id) && plain.length > 12
  const letters = made ? plain.slice(-2) : plain.slice(0, /[^\p{ASCII}]/u.test(plain[0] ?? '') ? 1 : 2)
  return letters.join('').toUpperCase() || '?'
}

export const Avatar = ({ id, small }: { id: string; small?: boolean }) => (
  <span class={`avatar hue-${hueOf(id)}${small ? ' small' : ''}`} aria-hidden="true">
    {lettersOf(id)}
  </span>
)

/** An id on one line; where there is no room the middle is left out, and the whole is in the title. */
export function Who({ id, children }: { id: string; children?: ComponentChildren }) {
  const plain = short(id)
  const tail = plain.length > 12 ? 5 : 0
  const chars = [...plain]
  return (
    <bdi class="who" title={id} dir="auto">
      <span class="cut">{chars.slice(0, chars.length - tail).join('')}</span>
      {tail > 0 && <span>{chars.slice(-tail).join('')}</span>}
      {children}
    </bdi>
  )
}
