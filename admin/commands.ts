/** Shell commands to paste. */
import { status } from './live.ts'

/** Quotes an argument for a POSIX shell, if it needs quotes. */
export const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** Returns a command of svc with the options that name the data directory of this service. */
export function commandHere(command: string): string {
  const { base_path: path = '', sandbox_phone } = status.value ?? {}
  const options = [
    ...(path === '' ? [] : [`-d ${quoted(path)}`]),
    ...(sandbox_phone === undefined ? [] : ['--sandbox']),
  ]
  const [own = '', ...program] = command.split(' -- ')
  return [[own, ...options].join(' '), ...program].join(' -- ')
}
