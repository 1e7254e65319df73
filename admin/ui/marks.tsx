/** Small marks for several pages: the unread count, times, states, long texts. */
import type { ComponentChildren } from 'preact'
import { type TextKey, t } from '../i18n.ts'
import { short, whole } from '../times.ts'

/** The text of an unread count; above 99 it is 99+. */
export const unreadText = (count: number): string => (count > 99 ? '99+' : String(count))

/** A count, if it is not 0. `text` says what is counted, for screen readers. */
export function Count({ of, text }: { of: number; text: TextKey }) {
  if (of === 0) return null
  return (
    <span class="count">
      {unreadText(of)}
      <span class="visually-hidden"> {t(text)}</span>
    </span>
  )
}

/** The unread count, if there is one. */
export const Unread = ({ count }: { count: number }) => <Count of={count} text="nav.unread" />

interface TimeProps {
  /** Unix ms. */
  at: number
  class?: string
  children: ComponentChildren
}

/** A time, with the full date and time in its tooltip. */
export const Time = ({ at, children, ...rest }: TimeProps) => (
  <time dateTime={new Date(at).toISOString()} title={whole(at)} {...rest}>
    {children}
  </time>
)

/** A time in the short form of lists. */
export const ShortTime = ({ at }: { at: number }) => (
  <Time at={at} class="small soft">
    {short(at)}
  </Time>
)

/** How a state looks. */
export interface Look {
  tone: '' | 'good' | 'warn' | 'bad'
  text: TextKey
  params?: Parameters<typeof t>[1]
}

/** A state: a dot, and a word or a sentence. */
export const State = ({ tone, text, params }: Look) => (
  <span class={`state ${tone}`}>
    <span class="dot" />
    {t(text, params)}
  </span>
)

interface MiddleProps {
  text: string
  /** The characters at the end that stay in view. */
  end?: number
}

/** An address or id in one line. Where there is no room for it, it is cut in the middle. */
export function Middle({ text, end = 14 }: MiddleProps) {
  const all = [...text]
  return (
    <span class="middle" dir="ltr" title={text}>
      <span>{all.slice(0, -end).join('')}</span>
      <span>{all.slice(-end).join('')}</span>
    </span>
  )
}

/** A label and its value, inside a `<dl>`. */
export const Fact = ({ label, children }: { label: string; children: ComponentChildren }) => (
  <div>
    <dt class="soft small">{label}</dt>
    <dd>{children}</dd>
  </div>
)
