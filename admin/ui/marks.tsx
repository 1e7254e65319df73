/** Small marks that stand in several places: how much is unread, when something was, how something is. */
import type { ComponentChildren } from 'preact'
import { type TextKey, t } from '../i18n.ts'
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

interface TimeProps {
  /** Unix ms. */
  at: number
  class?: string
  children: ComponentChildren
}

/** A time in words, the whole of it on pointing. */
export const Time = ({ at, children, ...rest }: TimeProps) => (
  <time dateTime={new Date(at).toISOString()} title={whole(at)} {...rest}>
    {children}
  </time>
)

/** A time as lists show it. */
export const ShortTime = ({ at }: { at: number }) => (
  <Time at={at} class="small soft">
    {short(at)}
  </Time>
)

/** How something is, in a word. */
export const StatusBadge = ({ tone, text }: { tone: string; text: TextKey }) => (
  <span class={`badge ${tone}`}>
    <span class="dot" />
    {t(text)}
  </span>
)

/** A line of a list of facts. */
export const Fact = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div>
    <dt class="soft small">{label}</dt>
    <dd>{children}</dd>
  </div>
)
