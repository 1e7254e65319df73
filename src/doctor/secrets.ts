/** Checks whether the secrets in the data directory are encrypted, and whether the given key opens them. */
import { type Found, finding } from '../inspect/finding.ts'
import { createSealer } from '../platform/sealing.ts'
import type { Inspection } from '../storage/inspection.ts'
import type { DoctorContext } from './finding.ts'

/** Checks the secrets. Nothing is wrong without a key. */
export async function examineSecrets(
  { command, config, directory }: DoctorContext,
  stored: Pick<Inspection, 'readSecrets'>,
): Promise<Found> {
  const isDatabase = config.storeUrl !== undefined
  if (directory.state !== 'ours' && !isDatabase) return undefined
  const state = await stored.readSecrets().catch(error => {
    // The checks of the cluster report it.
    if (isDatabase) return undefined
    throw error
  })
  if (state === undefined || (isDatabase && 'key' in state && state.key === null)) return undefined
  if (!('key' in state))
    return finding.error(
      'secrets',
      'svc secrets has begun to change the encryption of secrets, and has not finished',
      'Wait if it is running. Otherwise run the same svc secrets command again: it carries on.',
    )
  const { key } = state
  if (key === null)
    return finding.ok(
      'secrets',
      `tokens and other secrets are not encrypted; ${command('secrets on --secret-key-file <file>')} encrypts them`,
    )
  const [given, next] = [config.secretKey, config.newSecretKey].map(text => text && createSealer(text).keyId)
  if (given === key || next === key) return finding.ok('secrets', `secrets are encrypted with the key ${key}`)
  return finding.error(
    'secrets',
    `secrets are encrypted with the key ${key}, and ${given === undefined ? 'no key is given' : `the given key is ${given}`}`,
    'Give that key: --secret-key-file with the file that holds it, or SVC_SECRET_KEY.',
  )
}
