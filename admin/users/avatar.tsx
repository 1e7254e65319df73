/** Shows a user: by name, else by a colour and the ends of the id. */
import type { ComponentChildren } from 'preact'
import { hueOf, initialsOf, shortIdOf } from '../../src/model/avatar.ts'
import { nameOf } from '../live.ts'

export { hueOf, shortIdOf }

interface WhoProps {
  session: string
  id: string
  /** Name of the user, if the caller knows it: the list of users may not be visible. */
  name?: string | undefined
}

export function Avatar({ session, id, small }: WhoProps & { small?: boolean }) {
  return (
    <span class={`avatar hue-${hueOf(id)}${small ? ' small' : ''}`} aria-hidden="true">
      {initialsOf(id, nameOf(session, id))}
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
  const plain = shortIdOf(id)
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
