/**
 * A link to a place of the panel. The router's own keeps what it held when it was first drawn, and with it every row
 * that was beside it: a list whose rows come and go never lets go of one.
 */
import type { HTMLAttributes } from 'preact'
import { base, navigate } from '../service-urls.ts'

interface LinkProps extends Omit<HTMLAttributes<HTMLAnchorElement>, 'role' | 'onClick'> {
  href: string
  /** Of the visit, for the page that opens. */
  state?: unknown
}

export const Link = ({ href, state, ...rest }: LinkProps) => (
  <a
    {...rest}
    href={base + href}
    onClick={event => {
      // A new tab, a new window, a download.
      const isPlain =
        event.button === 0 && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey
      if (!isPlain || event.defaultPrevented) return
      event.preventDefault()
      navigate(href, { state })
    }}
  />
)
