/** The rows of a list, in one surface. */
import type { ComponentChildren } from 'preact'
import { Link } from './link.tsx'

/** Goes from row to row with ↑ ↓ (or k j) Home End. For `onKeyDown` of a list or table whose links have the class row-link. */
export function rove(event: KeyboardEvent & { currentTarget: Element }): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  const target = event.target as HTMLElement
  if (target.matches('input, textarea, select')) return
  const rows = [...event.currentTarget.querySelectorAll<HTMLElement>('.row-link')]
  const at = rows.findIndex(one => one.closest('li, tr')?.contains(target))
  const [before, after] = [at - 1, at + 1]
  const to = { ArrowDown: after, j: after, ArrowUp: before, k: before, Home: 0, End: rows.length - 1 }[
    event.key
  ]
  if (to === undefined || !rows[to]) return
  event.preventDefault()
  rows[to].focus()
}

interface RowsProps {
  label: string
  class?: string
  children: ComponentChildren
}

export const Rows = ({ label, class: more = '', children }: RowsProps) => (
  <ul class={`rows ${more}`} aria-label={label} onKeyDown={rove}>
    {children}
  </ul>
)

interface RowProps {
  name: ComponentChildren
  /** Where its detail is: a click on the row opens it. */
  href?: string | undefined
  /** In front of the name: an avatar. */
  lead?: ComponentChildren
  /** Secondary facts, below the name. */
  about?: ComponentChildren
  /** The state and what else matters, beside the name; on a phone below it. */
  children?: ComponentChildren
  /** The time and the menu. */
  end?: ComponentChildren
}

export const Row = ({ name, href, lead, about, children, end }: RowProps) => (
  <li class="row">
    {lead}
    <div class="row-main">
      {href === undefined ? <span class="row-name">{name}</span> : <RowLink href={href}>{name}</RowLink>}
      {about && <div class="soft small cut">{about}</div>}
    </div>
    {children && <div class="row-facts">{children}</div>}
    {end && <div class="row-end">{end}</div>}
  </li>
)

/** The name of a row, and its link: a click anywhere on the row opens it. */
export const RowLink = ({ href, children }: { href: string; children: ComponentChildren }) => (
  <Link class="row-name row-link" href={href}>
    {children}
  </Link>
)
