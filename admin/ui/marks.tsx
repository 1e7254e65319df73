/** Small marks that stand in several places: how much is unread, when something was, how an account is. */
import { t } from '../i18n.ts'
import { type Health, looks } from '../sessions/health.ts'
import { short, whole } from '../times.ts'

/** Counts are kept up to here. */
export const unreadText = (count: number): string => (count > 99 ? '99+' : String(count))

/** Nothing where nothing is unread. */
export function Unread({ count }: { count: number }) {
  if (count === 0) return null
  return (
    <span class="count">
      {unreadText(count)}
      <span class="visually-hidden"> {t('nav.unread')}</span>
    </span>
  )
}

/** A time as lists show it, the whole of it on pointing. */
export function ShortTime({ at }: { at: number }) {
  return (
    <time class="small soft" dateTime={new Date(at).toISOString()} title={whole(at)}>
      {short(at)}
    </time>
  )
}

/** How an account is, in a word. */
export function HealthBadge({ health }: { health: Health }) {
  const { tone, text } = looks[health]
  return (
    <span class={`badge ${tone}`}>
      <span class="dot" />
      {t(text)}
    </span>
  )
}
