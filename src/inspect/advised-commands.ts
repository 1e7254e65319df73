/** Formats the commands that findings and hints advise, ready to type. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { type Door, plainly, type Wording } from '../model/next-step.ts'
import { shellWord } from '../platform/format.ts'
import { homeFolder } from '../platform/process.ts'

/**
 * Formats a command of svc for this data directory, ready to type.
 *
 * @param isSandbox default: what the directory contains now; pass it for a directory that does not exist
 * yet
 */
export function svcCommand(
  command: string,
  dir: string,
  isSandbox = existsSync(join(dir, dataFiles.sandbox)),
): string {
  const usual = join(homeFolder(), isSandbox ? '.svc-sandbox' : '.svc')
  const flag = isSandbox && command !== 'sandbox' ? ' --sandbox' : ''
  return `svc ${command}${flag}${dir === usual ? '' : ` -d ${shellWord(dir)}`}`
}

/** Quotes a word of a proposed command. A placeholder such as `<name>` stays as it is. */
export const proposed = (word: string) => (/^<\w+>$/.test(word) ? word : shellWord(word))

/** Returns how an interface words its advice: commands name the service's data directory if it is known. */
export const wordingAt = (door: Door, dir: string | undefined): Wording =>
  dir === undefined
    ? plainly(door)
    : { door, command: words => svcCommand(words.map(proposed).join(' '), dir) }

/** Returns the command that gives the current user access to files of another user. */
export const takeOver = (path: string): string =>
  `sudo chown -R "$(id -un)" ${shellWord(path)} && chmod -R u+rwX ${shellWord(path)}`

/** Describes a store whose schema is newer than this version. */
export const newerStore = ({ form, newest }: { form: number; newest: number }): string =>
  `messages.db was written by a newer version of svc (form ${form}; this one knows ${newest})`

/** Advice for a file that a newer version wrote. */
export const newerFix = 'Use that version or a newer one, or another data directory.'
