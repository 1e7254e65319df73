/**
 * Encrypts the secrets of a whole data directory, decrypts them, or encrypts them with another key. Each value
 * says with which key it is encrypted, so a run that was killed is carried on by another run with the same keys.
 */
import { Buffer } from 'node:buffer'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { parseFields } from '../../platform/fields.ts'
import {
  createDurably,
  fileExists,
  readBytes,
  returnIfAbsent,
  statOf,
  sweep,
  writeDurably,
} from '../../platform/files.ts'
import { formatBytes } from '../../platform/format.ts'
import { freeBytes } from '../../platform/free-space.ts'
import type { JsonObject } from '../../platform/json-file.ts'
import { type Sealer, sealedWith } from '../../platform/sealing.ts'
import { reasonOf } from '../../platform/system-error.ts'
import type { NewAuditLine } from '../audit.ts'
import { mapContexts, mapSecretFile, mapToken, type SecretChange } from '../sealed-places.ts'
import { sessionFolders, setAsideName } from './directory-claim.ts'
import { openExclusively, rejectDamaged } from './exclusive.ts'
import { replaceStore, resealRows } from './reseal-store.ts'
import { addAuditLine } from './routines.ts'
import { type KeyId, readSecretState, type SecretState, writeSecretState } from './secret-state.ts'
import { toJsonText } from './state/token-file.ts'

/** The old key and the new key; `noSealer` for none. */
export interface KeyChange {
  readonly from: Sealer
  readonly to: Sealer
}

/** The parts of the work, in their order. */
export const resealSteps = ['begun', 'files', 'rows', 'store'] as const
export type ResealStep = (typeof resealSteps)[number]

/** Room for a second copy of the store, for what longer values add to both, and for the journal of a step. */
const roomFor = (storeBytes: number): number => Math.ceil(storeBytes * 1.75) + 4 * 1024 * 1024
/** What a killed process leaves of a file, or of a copy of the store. */
const leftover = /\.[0-9a-f]{12}\.tmp(-(journal|wal|shm))?$/

/**
 * Rewrites every secret of the directory: in files, rows, free pages and the WAL.
 *
 * @param readKeys called when the work can begin, with the state; it may create the new key
 * @param line of the audit log, without a subject
 * @param onStep called after each part
 * @returns false if everything has the new key already
 * @throws SvcError `store_unavailable` if another process uses the directory, the disk has no room, or a secret
 *   has another key than the given ones: then nothing was changed. After any other error, the same call
 *   carries on
 */
export async function reseal(
  dir: string,
  readKeys: (state: SecretState | undefined) => Promise<KeyChange>,
  onStep: (step: ResealStep) => void = () => {},
  line?: NewAuditLine,
): Promise<boolean> {
  if (line) await createDurably(join(dir, dataFiles.store), '')
  await using directory = await openExclusively(dir)
  const { db } = directory
  // A damaged state is written again. The check below finds secrets with another key.
  const state = await readSecretState(dir).catch(() => undefined)
  const keys = await readKeys(state)
  const [from, to] = [keys.from.keyId ?? null, keys.to.keyId ?? null]
  if (state && rejectOtherKeys(state, { from, to }) === 'done') return false
  await rejectFullDisk(dir)
  if (db) rejectDamaged(db)
  const rewrite = async (change: SecretChange, step: typeof onStep) => {
    await resealFiles(dir, change)
    step('files')
    if (db) resealRows(db, change)
    step('rows')
  }
  await rewrite(createCheck(keys), () => {})
  await writeSecretState(dir, { from, to })
  onStep('begun')
  try {
    await rewrite(createChange(keys), onStep)
    if (db && line) addAuditLine(db, { ...line, subject: to ?? from ?? '' })
    if (db) await replaceStore(db, join(dir, dataFiles.store))
    onStep('store')
    await writeSecretState(dir, { key: to })
    return true
  } catch (error) {
    throw new SvcError('store_unavailable', `the secrets are not all rewritten: ${reasonOf(error)}`, {
      hint: 'Nothing is lost. Remove the cause, then run the same svc secrets command again: it carries on.',
      cause: error,
    })
  }
}

/** @throws SvcError `store_unavailable` for a change that the state does not allow */
function rejectOtherKeys(state: SecretState, { from, to }: { from: KeyId; to: KeyId }): 'done' | 'to do' {
  const nameOf = (id: KeyId) => (id === null ? 'no key' : `the key ${id}`)
  if (!('key' in state)) {
    if (state.from === from && state.to === to) return 'to do'
    throw new SvcError(
      'store_unavailable',
      `another change is not finished: from ${nameOf(state.from)} to ${nameOf(state.to)}`,
      { hint: 'Run the svc secrets command again that began it, with the same key files.' },
    )
  }
  if (state.key === to) return 'done'
  if (state.key === from) return 'to do'
  if (state.key === null)
    throw new SvcError('store_unavailable', 'the secrets are not encrypted', {
      hint: 'svc secrets on encrypts them.',
    })
  throw new SvcError(
    'store_unavailable',
    `the secrets are encrypted with ${nameOf(state.key)}, and the given key has another id: ${from}`,
    { hint: 'Give the key that they are encrypted with: svc secrets status tells its id.' },
  )
}

async function rejectFullDisk(dir: string): Promise<void> {
  const store = await statOf(join(dir, dataFiles.store))
  const [needed, free] = [roomFor(store?.size ?? 0), await freeBytes(dir)]
  if (free >= needed) return
  throw new SvcError(
    'store_unavailable',
    `svc secrets needs ${formatBytes(needed)} of free space for a second copy of ${dataFiles.store}, and the disk of ${dir} has ${formatBytes(free)}`,
    { hint: 'Free some space, then run the same command again.' },
  )
}

/** Opens each secret, and changes none. */
const createCheck =
  ({ from, to }: KeyChange): SecretChange =>
  (value, place) => {
    if (to.keyId === undefined || sealedWith(value) !== to.keyId) from.open(value, place)
    return value
  }

/** Values that have the new key stay as they are: an earlier run has rewritten them. */
const createChange =
  ({ from, to }: KeyChange): SecretChange =>
  (value, place) =>
    to.keyId !== undefined && sealedWith(value) === to.keyId ? value : to.seal(from.open(value, place), place)

/** Changes the fields of a JSON file. */
type FieldsChange = (fields: JsonObject, change: SecretChange) => JsonObject

const sessionFiles: ReadonlyMap<string, FieldsChange> = new Map([
  [dataFiles.token, mapToken],
  [dataFiles.contexts, mapContexts],
])

async function resealFiles(dir: string, change: SecretChange): Promise<void> {
  const entries = await readdir(dir, { withFileTypes: true })
  await sweep(dir, leftover, Number.POSITIVE_INFINITY)
  for (const name of [dataFiles.apiToken, dataFiles.mcpKey])
    if (await fileExists(join(dir, name))) await resealWhole(join(dir, name), name, change)
  for (const name of sessionFolders({ entries })) await resealFolder(join(dir, name), change)
}

/** Changes the files of a session. One without a secret stays, unless it was set aside. */
async function resealFolder(folder: string, change: SecretChange): Promise<void> {
  await sweep(folder, leftover, Number.POSITIVE_INFINITY)
  for (const name of await readdir(folder).catch(returnIfAbsent<string[]>([]))) {
    const path = join(folder, name)
    const changeFields = sessionFiles.get(name)
    const fields = changeFields && parseFields(readBytes(path).toString())
    if (changeFields && fields) {
      const changed = changeFields(fields, change)
      if (toJsonText(changed) !== toJsonText(fields)) await writeDurably(path, toJsonText(changed))
    } else if (changeFields || setAsideName.test(name)) await resealWhole(path, name, change)
  }
}

/**
 * Rewrites a file that is one secret, or that is damaged. Each byte becomes a character, so that a damaged file
 * comes back as it was.
 */
async function resealWhole(path: string, name: string, change: SecretChange): Promise<void> {
  const text = readBytes(path).toString('latin1')
  const changed = mapSecretFile(text, name, change)
  if (changed !== text) await writeDurably(path, Buffer.from(changed, 'latin1'))
}
