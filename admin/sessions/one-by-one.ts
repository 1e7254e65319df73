/** Logs several chosen accounts in, one after the other. */
import { signal } from '@preact/signals'
import { navigate } from '../service-urls.ts'
import { beginNow, loginPath } from './names.ts'

/** The accounts after the one whose login is open. */
export const comingLogins = signal<readonly string[]>([])

/** Opens the login of the first account; the others wait. */
export function logInOneByOne(names: readonly string[], replace = false): void {
  const [first, ...rest] = names
  comingLogins.value = rest
  if (first !== undefined) navigate(loginPath(first), { state: beginNow, replace })
}
