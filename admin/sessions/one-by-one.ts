/** Accounts to log in one after the other: somebody chose them, and goes from code to code. */
import { signal } from '@preact/signals'
import { navigate } from '../service-urls.ts'
import { beginNow, loginPath } from './names.ts'

/** Those that come after the one that is open. */
export const comingLogins = signal<readonly string[]>([])

/** Begins with the first, or goes on with it; the others wait. */
export function logInOneByOne(names: readonly string[], replace = false): void {
  const [first, ...rest] = names
  comingLogins.value = rest
  if (first !== undefined) navigate(loginPath(first), { state: beginNow, replace })
}
