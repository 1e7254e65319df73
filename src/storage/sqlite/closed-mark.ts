/**
 * The mark of a data directory that must not be opened: a restore or a copy into it has not finished, or its store was
 * moved elsewhere, or was always in a database. It is the file `.restoring`, which versions of svc that know only the
 * first reason respect too.
 */
import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { parseFields } from '../../platform/fields.ts'
import { fileExists, readText, returnIfAbsent, syncDir, writeDurably } from '../../platform/files.ts'

/** Why a directory must not be opened. */
export type ClosedMark =
  | { readonly why: 'restore' }
  /** A copy into it has not finished. verified: it is complete, and its source may be marked as moved. */
  | { readonly why: 'copy'; readonly from: string; readonly verified: boolean }
  | { readonly why: 'moved'; readonly to: string }
  /** A node runs here, whose store is in a database. */
  | { readonly why: 'node'; readonly database: string }

/** Returns why a directory must not be opened; undefined: it may be. @throws the system's error */
export async function readClosedMark(dir: string): Promise<ClosedMark | undefined> {
  const text = await readText(join(dir, dataFiles.restoring))
  return text === undefined ? undefined : parse(text)
}

/** The mark of a restore is a list of names. */
function parse(text: string): ClosedMark {
  // A version that did not replace it in one step may have half written it.
  const { copying_from, database, moved_to, verified } = parseFields(text) ?? {}
  if (typeof moved_to === 'string') return { why: 'moved', to: moved_to }
  if (typeof database === 'string') return { why: 'node', database }
  if (typeof copying_from === 'string')
    return { why: 'copy', from: copying_from, verified: verified === true }
  return { why: 'restore' }
}

export async function writeClosedMark(
  dir: string,
  mark: Exclude<ClosedMark, { why: 'restore' }>,
): Promise<void> {
  const value =
    mark.why === 'moved'
      ? { moved_to: mark.to }
      : mark.why === 'node'
        ? { database: mark.database }
        : { copying_from: mark.from, verified: mark.verified }
  await writeDurably(join(dir, dataFiles.restoring), `${JSON.stringify(value)}\n`)
}

/**
 * Notes in the directory of a node where its store is, for who forgets the address of the database.
 *
 * @returns false if the directory has a store of its own, which is not used
 */
export async function noteDatabase(dir: string, database: string): Promise<boolean> {
  const mark = await readClosedMark(dir)
  if (mark?.why === 'moved') return true
  if (await fileExists(join(dir, dataFiles.store))) return false
  if (mark?.why !== 'node' || mark.database !== database)
    await writeClosedMark(dir, { why: 'node', database })
  return true
}

export async function removeClosedMark(dir: string): Promise<void> {
  await unlink(join(dir, dataFiles.restoring)).catch(returnIfAbsent(undefined))
  await syncDir(dir)
}

/** Returns what a mark means, and what to do about it. */
export function explainMark(dir: string, mark: ClosedMark): { problem: string; hint: string } {
  if (mark.why === 'moved')
    return {
      problem: `the store in ${dir} was moved to ${mark.to}`,
      hint: 'Use the store there. This one no longer changes.',
    }
  if (mark.why === 'node')
    return {
      problem: `the store of ${dir} is in the database ${mark.database}, whose address was not given`,
      hint: 'Give it with --store-url-file or SVC_STORE_URL, or choose another folder with --base-path.',
    }
  if (mark.why === 'copy')
    return {
      problem: `a copy of ${mark.from} into ${dir} has not finished`,
      hint: 'Wait if it is running. Otherwise run the same svc store copy again: it carries on.',
    }
  return {
    problem: `a restore into ${dir} has not finished`,
    hint: 'Wait if it is running. Otherwise run svc restore again: it starts over.',
  }
}

/** Whether a service whose store is in a database may use the directory in spite of the mark. */
export const isOfDatabase = (mark: ClosedMark): boolean => mark.why === 'moved' || mark.why === 'node'

/**
 * @param isNode true: the store is in a database
 * @throws SvcError `store_unavailable` for a directory that must not be opened
 */
export async function rejectClosed(dir: string, isNode = false): Promise<void> {
  const mark = await readClosedMark(dir)
  if (mark === undefined || (isNode && isOfDatabase(mark))) return
  const { problem, hint } = explainMark(dir, mark)
  throw new SvcError('store_unavailable', problem, { hint })
}
