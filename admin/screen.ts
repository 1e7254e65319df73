/**
 * What the window and its pointer are like. They change while the page is open: a tablet is turned, a mouse is
 * connected, the evening makes the system dark. So nothing else asks the browser.
 */
import { type ReadonlySignal, signal } from '@preact/signals'

function follow(query: string): ReadonlySignal<boolean> {
  const list = matchMedia(query)
  const fits = signal(list.matches)
  list.addEventListener('change', ({ matches }) => {
    fits.value = matches
  })
  return fits
}

/** Whether a list and what is open in it are separate pages (conversations.css and approvals.css have this width). */
export const narrow = follow('(max-width: 980px)')

/** Whether a person fits beside a chat, else a sheet shows them (person.css and conversations.css have this width). */
export const wide = follow('(min-width: 1400px)')

/** Whether the focus in a text field opens a keyboard on the screen. */
export const touch = follow('(pointer: coarse)')

/** Whether the system wants a dark page. */
export const dark = follow('(prefers-color-scheme: dark)')
