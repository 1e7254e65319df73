/** The rows of a list, in one surface. */
import type { ComponentChildren } from 'preact'
import { type TextKey, t } from '../i18n.ts'
import { Link } from './link.tsx'

/** Goes from row to row with ↑ ↓ (or k j) Home End. For `onKeyDown` of a list whose links have the class row-link. */
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

interface TableProps {
  /** Their heads, with their classes: `wide` is not on phones. One for the actions follows. */
  columns: readonly (readonly [text: TextKey, look?: string])[]
  /** A head before the others. */
  lead?: ComponentChildren
  children: ComponentChildren
}

export const Table = ({ columns, lead, children }: TableProps) => (
  <table class="rows" onKeyDown={rove}>
    <thead>
      <tr>
        {lead}
        {columns.map(([text, look]) => (
          <th key={text} scope="col" class={look}>
            {t(text)}
          </th>
        ))}
        <th scope="col">
          <span class="visually-hidden">{t('sessions.actions')}</span>
        </th>
      </tr>
    </thead>
    {children}
  </table>
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
