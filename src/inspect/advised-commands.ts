/** Formats the commands that findings and hints advise, ready to type. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { type Door, plainWordingOf, type Wording } from '../model/next-step.ts'
import { attempt } from '../platform/fields.ts'
import { quoteForShell } from '../platform/format.ts'
import { findHomeFolder } from '../platform/process.ts'
import { describeUnreleased, isUnreleased, wayFromDatabase, wayFromDirectory } from '../storage/unreleased.ts'

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
  const flag = isSandbox && command !== 'sandbox' ? ' --sandbox' : ''
  return `svc ${command}${flag}${isUsual(dir, isSandbox) ? '' : ` -d ${quoteForShell(dir)}`}`
}

const isUsual = (dir: string, isSandbox: boolean): boolean =>
  dir === attempt(() => join(findHomeFolder(), isSandbox ? '.svc-sandbox' : '.svc'))

/** Quotes a word of a proposed command. A placeholder such as `<name>` stays as it is. */
export const quoteProposed = (word: string) => (/^<\w+>$/.test(word) ? word : quoteForShell(word))

/** Returns how an interface words its advice: commands name the service's data directory if it is known. */
export const wordingAt = (door: Door, dir: string | undefined): Wording =>
  dir === undefined
    ? plainWordingOf(door)
    : { door, command: words => svcCommand(words.map(quoteProposed).join(' '), dir) }

/** Returns the command that gives the current user access to files of another user. */
export const takeOverCommand = (path: string): string =>
  `sudo chown -R "$(id -un)" ${quoteForShell(path)} && chmod -R u+rwX ${quoteForShell(path)}`

/**
 * Returns why this version cannot read a store, and what to do; undefined if it can.
 *
 * @param dir the data directory; undefined for a store in a database
 */
export function explainOtherForm(
  { form, newest }: { form: number; newest: number },
  dir: string | undefined,
): { what: string; fix: string } | undefined {
  const store = dir === undefined ? 'the store' : dataFiles.store
  if (isUnreleased(form))
    return {
      what: describeUnreleased(store, form),
      fix: dir === undefined ? wayFromDatabase : wayFromDirectory(svcCommand('store aside', dir)),
    }
  if (form <= newest) return undefined
  return {
    what: `${store} was written by a newer version of svc (form ${form}; this one knows ${newest})`,
    fix: 'Use that version or a newer one, or another data directory.',
  }
}
