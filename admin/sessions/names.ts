/** Names of accounts: their URLs, how to compare them, and a free name for a new one. */
import { sessions } from '../live.ts'

/** Returns the URL of an account's card. */
export const accountPath = (name: string): string => `/sessions/${encodeURIComponent(name)}`
/** Returns the URL of its login. */
export const loginPath = (name: string): string => `${accountPath(name)}/login`

/**
 * The history state for `loginPath` that begins a login at once. Only our own buttons set it: a link from
 * elsewhere to the same URL must change nothing.
 */
export const beginNow = { begin: true }

/** Names that a file system may treat as the same have the same key. */
export const keyOf = (name: string) => name.normalize('NFC').toLowerCase()

export const accountOf = (name: string) => sessions.value?.find(one => keyOf(one.name) === keyOf(name))

/** Returns the default name of a new account. */
export function freeName(): string {
  if (!accountOf('default')) return 'default'
  for (let number = 2; number < 1000; number++) {
    if (!accountOf(`account-${number}`)) return `account-${number}`
  }
  return ''
}
