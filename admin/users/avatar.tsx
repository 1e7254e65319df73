/** Who somebody is: by name, else colour, letters and the ends of the id make them tell apart. */
import type { ComponentChildren } from 'preact'
import { nameOf } from '../live.ts'

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

/** The first letters of a name's words; of a Chinese one its last character, as people there say it. */
function initialsOf(name: string): string {
  const words = name.match(/[\p{L}\p{N}]+/gu) ?? []
  if (words.length === 0) return [...name][0] ?? '?'
  const first = [...words[0]!]
  if (/\p{Script=Han}/u.test(words[0]!)) return first.at(-1)!
  return `${first[0]}${[...(words[1] ?? '')][0] ?? ''}`.toUpperCase()
}

interface WhoProps {
  session: string
  id: string
}

export function Avatar({ session, id, small }: WhoProps & { small?: boolean }) {
  const name = nameOf(session, id)
  return (
    <span class={`avatar hue-${hueOf(id)}${small ? ' small' : ''}`} aria-hidden="true">
      {name === undefined ? lettersOf(id) : initialsOf(name)}
    </span>
  )
}

/** A name, or an id of which the middle is left out where there is no room; the whole id is in the title. */
export function Who({ session, id, children }: WhoProps & { children?: ComponentChildren }) {
  const name = nameOf(session, id)
  if (name !== undefined)
    return (
      <bdi class="who" title={id} dir="auto">
        <span class="cut">{name}</span>
        {children}
      </bdi>
    )
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
