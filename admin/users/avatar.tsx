/** Shows a user: by name, else by a colour and the ends of the id. */
import type { ComponentChildren } from 'preact'
import { nameOf } from '../live.ts'

/** The id without the common suffix. */
const short = (id: string): string => id.replace(/@im\.(wechat|bot)$/, '')

/** A hue for an id, 0 to 7. */
function hueOf(id: string): number {
  let hash = 0
  for (const char of id) hash = (hash * 31 + char.codePointAt(0)!) >>> 0
  return hash % 8
}

/** One or two characters of an id. */
function charactersOf(id: string): string {
  const plain = [...short(id)].filter(char => /[\p{L}\p{N}]/u.test(char))
  // Ids from WeChat begin alike; their ends differ.
  const made = /^o9cq8/.test(id) && plain.length > 12
  const chars = made ? plain.slice(-2) : plain.slice(0, /[^\p{ASCII}]/u.test(plain[0] ?? '') ? 1 : 2)
  return chars.join('').toUpperCase() || '?'
}

/** The initials of a name. For a Chinese name it is the last character, by Chinese custom. */
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
  /** Name of the user, if the caller knows it: the list of users may not be visible. */
  name?: string | undefined
}

export function Avatar({ session, id, small }: WhoProps & { small?: boolean }) {
  const name = nameOf(session, id)
  return (
    <span class={`avatar hue-${hueOf(id)}${small ? ' small' : ''}`} aria-hidden="true">
      {name === undefined ? charactersOf(id) : initialsOf(name)}
    </span>
  )
}

/**
 * The name of a user, or the id, shortened in the middle if there is no room. The tooltip has the full id.
 */
export function Who({
  session,
  id,
  name = nameOf(session, id),
  children,
}: WhoProps & { children?: ComponentChildren }) {
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
