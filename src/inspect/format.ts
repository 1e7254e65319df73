/** How findings say things: paths as a shell takes them, times and sizes as people read them. */
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { errorCodeOf } from '../platform/files.ts'
import { shellWord } from '../platform/shell.ts'

/**
 * A command of svc for this data directory, as one may type it.
 *
 * @param isSandbox as it lies there; of a directory that is still to be made only the caller knows
 */
export function svcCommand(
  command: string,
  dir: string,
  isSandbox = existsSync(join(dir, 'sandbox')),
): string {
  const usual = join(homedir(), isSandbox ? '.svc-sandbox' : '.svc')
  const flag = isSandbox && command !== 'sandbox' ? ' --sandbox' : ''
  return `svc ${command}${flag}${dir === usual ? '' : ` -d ${shellWord(dir)}`}`
}

/** The command that gives files which this user may not read back to this user. */
export const takeOver = (path: string): string =>
  `sudo chown -R "$(id -un)" ${shellWord(path)} && chmod -R u+rwX ${shellWord(path)}`

/** What is wrong with a store of a form that this version does not know. */
export const newerStore = ({ form, newest }: { form: number; newest: number }): string =>
  `messages.db was written by a newer version of svc (form ${form}; this one knows ${newest})`

/** What to do about a file that a newer version wrote. */
export const newerFix = 'Use that version or a newer one, or another data directory.'

/** `a`, `b` and 3 more. */
export function listed(names: readonly string[], most = 4): string {
  if (names.length === 0) return ''
  const shown = names.length > most ? names.slice(0, most) : names
  const left = names.length - shown.length
  if (left > 0) return `${shown.join(', ')} and ${left} more`
  return shown.length === 1 ? shown[0]! : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`
}

export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`

const units: readonly (readonly [number, string])[] = [
  [24 * 60 * 60_000, 'day'],
  [60 * 60_000, 'hour'],
  [60_000, 'minute'],
  [1000, 'second'],
]

/** `3 hours`, `1 day`. */
export function span(ms: number): string {
  const [unit, name] = units.find(([unit]) => Math.abs(ms) >= unit) ?? [1000, 'second']
  return counted(Math.round(Math.abs(ms) / unit), name)
}

/** `2026-11-20 21:14 UTC`. */
export const moment = (at: number): string =>
  Number.isFinite(at) && Math.abs(at) < 8.64e15
    ? `${new Date(at).toISOString().slice(0, 16).replace('T', ' ')} UTC`
    : 'an unknown time'

/** `12.3 MB`. */
export function bytes(count: number): string {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, count)) / 3))
  const value = count / 1000 ** power
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${['bytes', 'kB', 'MB', 'GB', 'TB'][power]}`
}

const troubles: Readonly<Record<string, string>> = {
  EACCES: 'this user has no right to it',
  EPERM: 'this user has no right to it',
  EROFS: 'it is read-only',
  ENOTDIR: 'it is not a folder',
  EIO: 'the disk fails',
  ENOENT: 'it is not there',
  ELOOP: 'its links lead in a circle',
}

/** Why the system refused, in words. */
export function troubleOf(error: unknown): string {
  const code = errorCodeOf(error)
  if (code !== undefined) return troubles[code] ?? code
  return error instanceof Error ? error.message : String(error)
}
