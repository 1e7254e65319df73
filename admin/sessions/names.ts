/** Names of accounts: in sentences, in addresses, and a free one for the next. */
import { inLanguage } from '../i18n.ts'
import { sessions } from '../live.ts'

/** Where an account is shown. */
export const accountPath = (name: string): string => `/sessions/${encodeURIComponent(name)}`
/** Where it is logged in. */
export const loginPath = (name: string): string => `${accountPath(name)}/login`

/**
 * State of the visit to `loginPath` that begins a login at once. Only our own buttons give it: a link from elsewhere
 * to the same address changes nothing.
 */
export const beginNow = { begin: true }

/** Names that a file system may confuse are one. */
export const keyOf = (name: string) => name.normalize('NFC').toLowerCase()

export const accountOf = (name: string) => sessions.value?.find(one => keyOf(one.name) === keyOf(name))

/** What an account is called if nobody says. */
export function freeName(): string {
  if (!accountOf('default')) return 'default'
  for (let number = 2; number < 1000; number++) {
    if (!accountOf(`account-${number}`)) return `account-${number}`
  }
  return ''
}

/** The first letter as people see it, whatever it is made of. */
export function initial(name: string): string {
  // The first segmenter of a page takes long, and most names need none.
  if (/^[ -~]{2}/.test(name)) return name[0]!.toUpperCase()
  for (const { segment } of inLanguage(Intl.Segmenter).segment(name)) return segment.toUpperCase()
  return ''
}
