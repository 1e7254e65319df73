/** Commands that a finding advises, as one may type them. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { type Door, plainly, type Wording } from '../model/next-step.ts'
import { shellWord } from '../platform/format.ts'
import { homeFolder } from '../platform/process.ts'

/**
 * A command of svc for this data directory, as one may type it.
 *
 * @param isSandbox as it lies there; of a directory that is still to be made only the caller knows
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

/** A word of a command that is proposed; what is to be filled in stays as help has it. */
export const proposed = (word: string) => (/^<\w+>$/.test(word) ? word : shellWord(word))

/** How a door says things: commands are for the data directory of the service, if that is known. */
export const wordingAt = (door: Door, dir: string | undefined): Wording =>
  dir === undefined
    ? plainly(door)
    : { door, command: words => svcCommand(words.map(proposed).join(' '), dir) }

/** The command that gives files which this user may not read back to this user. */
export const takeOver = (path: string): string =>
  `sudo chown -R "$(id -un)" ${shellWord(path)} && chmod -R u+rwX ${shellWord(path)}`

/** What is wrong with a store of a form that this version does not know. */
export const newerStore = ({ form, newest }: { form: number; newest: number }): string =>
  `messages.db was written by a newer version of svc (form ${form}; this one knows ${newest})`

/** What to do about a file that a newer version wrote. */
export const newerFix = 'Use that version or a newer one, or another data directory.'
