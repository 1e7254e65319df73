/**
 * A link to a page of the panel. The link of the router leaks memory: it keeps its first props, and through
 * them every row that was beside it in a list.
 */
import type { HTMLAttributes } from 'preact'
import { base, navigate } from '../service-urls.ts'

interface LinkProps extends Omit<HTMLAttributes<HTMLAnchorElement>, 'role' | 'onClick'> {
  href: string
  /** The history state for the page that opens. */
  state?: unknown
  /** Takes the place of the open page in the browser's history. */
  replace?: boolean
}

export const Link = ({ href, state, replace = false, ...rest }: LinkProps) => (
  <a
    {...rest}
    href={base + href}
    onClick={event => {
      // Leave clicks for a new tab, a new window or a download to the browser.
      const isPlain =
        event.button === 0 && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey
      if (!isPlain || event.defaultPrevented) return
      event.preventDefault()
      navigate(href, { state, replace })
    }}
  />
)
