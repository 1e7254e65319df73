/** The list of sends that wait, and the choice of several. */
import type { Signal } from '@preact/signals'
import type { OutboxEntry } from '../api.ts'
import { isolated, t } from '../i18n.ts'
import { nameOf, sessions } from '../live.ts'
import { Link } from '../ui/link.tsx'
import { ShortTime } from '../ui/marks.tsx'
import { rove } from '../ui/rows.tsx'
import { Avatar, Who } from '../users/avatar.tsx'
import { isShort, RightBadge, rightOf } from '../users/reply-permission.tsx'
import { lineOf } from './drafts.ts'

export type Chosen = Signal<ReadonlySet<string>>

/** Adds one to the chosen, or takes it out. */
export function toggle(chosen: Chosen, id: string): void {
  const all = new Set(chosen.value)
  if (!all.delete(id)) all.add(id)
  chosen.value = all
}

interface ListProps {
  entries: readonly OutboxEntry[]
  /** The id of the open one. */
  open: string
  hrefOf(id: string): string
  /** Absent where nothing is decided about several at once. */
  chosen?: Chosen | undefined
}

export const List = ({ entries, open, hrefOf, chosen }: ListProps) => (
  <ul class="drafts" aria-label={t('approvals.list')} onKeyDown={rove}>
    {entries.map(entry => (
      <li key={entry.outbox_id}>
        {chosen && (
          <label class="pick-one">
            <input
              type="checkbox"
              checked={chosen.value.has(entry.outbox_id)}
              aria-label={t('approvals.choose', {
                name: isolated(nameOf(entry.session, entry.to_user) ?? entry.to_user),
              })}
              onChange={() => toggle(chosen, entry.outbox_id)}
            />
          </label>
        )}
        <Line entry={entry} href={hrefOf(entry.outbox_id)} isOpen={entry.outbox_id === open} />
      </li>
    ))}
  </ul>
)

function Line({ entry, href, isOpen }: { entry: OutboxEntry; href: string; isOpen: boolean }) {
  const { created_at, session, to_user } = entry
  const right = rightOf(session, to_user)
  return (
    <Link class="row-link" href={href} {...(isOpen && { 'aria-current': 'true' as const })}>
      <Avatar session={session} id={to_user} small />
      <span class="two">
        <span class="upper">
          <Who session={session} id={to_user} />
          {(sessions.value?.length ?? 0) > 1 && <span class="session-tag cut">{session}</span>}
          <ShortTime at={created_at} />
        </span>
        <span class="lower soft small">
          <bdi class="cut grow">{lineOf(entry)}</bdi>
          {(isShort(right) || right.kind !== 'open') && <RightBadge right={right} />}
        </span>
      </span>
    </Link>
  )
}
