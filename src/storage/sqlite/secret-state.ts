/**
 * Which secret key the secrets of a data directory are encrypted with. It stands in `.secrets`. The lock files
 * are marked too, so that versions of svc that do not know this file refuse the directory.
 */
import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { dataFiles } from '../../model/data-files.ts'
import { SvcError } from '../../model/error.ts'
import { parseFields } from '../../platform/fields.ts'
import { fileExists, readText, returnIfAbsent, syncDir, writeDurably } from '../../platform/files.ts'
import { openLock } from '../../platform/lock.ts'
import { markLockFile } from '../../platform/lock-form.ts'
import type { Log } from '../../platform/log.ts'
import { createSealer, noSealer, type Sealer } from '../../platform/sealing.ts'
import type { SecretState } from '../inspection.ts'

export type { KeyId, SecretState } from '../inspection.ts'

const keyIdForm = /^[0-9a-f]{16}$/

/** @throws SvcError `store_unavailable` when the file cannot be understood; the system's error */
export async function readSecretState(dir: string): Promise<SecretState> {
  const text = await readText(join(dir, dataFiles.secrets))
  if (text === undefined) return { key: null }
  const state = parseState(text)
  if (state) return state
  throw new SvcError('store_unavailable', `the file ${dataFiles.secrets} in ${dir} is damaged`, {
    hint: 'Run the last svc secrets command again: it writes the file again.',
  })
}

function parseState(text: string): SecretState | undefined {
  const { key, from, to } = parseFields(text) ?? {}
  const isKeyId = (id: unknown): id is string => typeof id === 'string' && keyIdForm.test(id)
  const isKeyOrNone = (id: unknown): id is string | null => id === null || isKeyId(id)
  if (isKeyId(key)) return { key }
  return isKeyOrNone(from) && isKeyOrNone(to) && from !== to ? { from, to } : undefined
}

/**
 * Writes the state durably, and marks the lock files. Creates the lock files if they are absent.
 *
 * @throws the system's error. If it fails or its process is killed, call it again with the same state
 */
export async function writeSecretState(dir: string, state: SecretState): Promise<void> {
  const path = join(dir, dataFiles.secrets)
  const isPlain = 'key' in state && state.key === null
  // The file protects from this version, the mark from older ones. While either is there, some secret may be
  // encrypted.
  if (!isPlain) await writeDurably(path, `${JSON.stringify(state)}\n`)
  await markLocks(dir, !isPlain)
  if (!isPlain) return
  await unlink(path).catch(returnIfAbsent(undefined))
  await syncDir(dir)
}

async function markLocks(dir: string, sealed: boolean): Promise<void> {
  for (const name of [dataFiles.dataLock, dataFiles.pollLock]) {
    const path = join(dir, name)
    if (!(await fileExists(path))) await (await openLock(path)).close()
    markLockFile(path, sealed)
  }
}

/**
 * Returns the sealer for a data directory. Each opening of the directory begins with it.
 *
 * @param secret text of the secret key, if one is given
 * @throws SvcError `store_unavailable` when the secrets are encrypted with another key than the given one, or
 *   while `svc secrets` has not finished
 */
export async function openSealer(
  dir: string,
  secret: string | undefined,
  log?: Pick<Log, 'warn'>,
): Promise<Sealer> {
  const state = await readSecretState(dir)
  if (!('key' in state)) throw changingError(dir)
  const sealer = secret === undefined ? noSealer : createSealer(secret)
  if (state.key === (sealer.keyId ?? null)) return sealer
  if (state.key !== null) throw keyError(dir, state.key, sealer.keyId)
  log?.warn('a secret key is given, but the secrets are not encrypted; svc secrets on encrypts them', { dir })
  return noSealer
}

/**
 * Checks that the state is still the one for which the sealer was opened. Call it when no change can begin any
 * more: the store is open, or the data lock is held.
 *
 * @throws SvcError `store_unavailable`
 */
export async function rejectChangedState(dir: string, { keyId }: Sealer): Promise<void> {
  const state = await readSecretState(dir)
  if (!('key' in state)) throw changingError(dir)
  if (state.key === (keyId ?? null)) return
  throw new SvcError('store_unavailable', `svc secrets changed the encryption of ${dir} while svc runs`, {
    hint: 'Start svc again, with the secret key of the directory if there is one now.',
  })
}

/**
 * Marks the lock files of a directory with encrypted secrets, if they are new: a restored directory
 * has none. Call it once the lock files are open.
 */
export async function keepLocksMarked(dir: string, { keyId }: Sealer): Promise<void> {
  if (keyId !== undefined) await markLocks(dir, true)
}

const changingError = (dir: string) =>
  new SvcError('store_unavailable', `svc secrets has not finished in ${dir}`, {
    hint: 'Wait if it is running. Otherwise run the same svc secrets command again: it carries on.',
  })

const keyError = (dir: string, expected: string, given: string | undefined) =>
  new SvcError(
    'store_unavailable',
    given === undefined
      ? `the secrets in ${dir} are encrypted, and no secret key is given`
      : `the secrets in ${dir} are encrypted with another secret key than the given one (its id is ${given})`,
    {
      hint: `Give the key with the id ${expected}: --secret-key-file with the file that holds it, or SVC_SECRET_KEY.`,
      details: { secret_key_id: expected },
    },
  )
