/** The service's token: from an option, or generated once and stored in the data directory. */
import { basename } from 'node:path'
import { localFilesOf } from '../config/local-files.ts'
import { readTokenFile } from '../config/token-file.ts'
import type { Config } from '../config.ts'
import { mapSecretFile, openSecrets } from '../gateway/directory.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { createDurably, ensurePrivateDir, makePrivate, readText, removeQuietly } from '../platform/files.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { deriveSecret, sealedWith } from '../platform/sealing.ts'

/** Returns the path of the file with the generated token. */
export const tokenPathOf = (basePath: string): string => localFilesOf(basePath).apiToken

/**
 * Returns the token from `--token` or `--token-file`; undefined without both.
 *
 * @throws SvcError `invalid_arguments` for both together, and for a file that has no token or cannot be read
 */
export async function readTokenOption({
  token,
  tokenFile,
}: Pick<Config, 'token' | 'tokenFile'>): Promise<string | undefined> {
  if (tokenFile === undefined) return token
  if (token !== undefined) {
    throw badArgument('--token-file', 'expected without --token, got both', {
      hint: 'Use only one of them; SVC_TOKEN_FILE and SVC_TOKEN count too.',
    })
  }
  return readTokenFile('--token-file', tokenFile, 'head -c 32 /dev/urandom | base64 | tr -d /+= prints one.')
}

/** Returns the key in the file of `--key-file`. @throws SvcError `invalid_arguments` */
export const readKeyFile = (path: string): string =>
  readTokenFile('--key-file', path, 'svc key add makes a key and prints it; put that line into the file.')

/**
 * Returns the token of a service on this data directory: from an option, else the stored one, else
 * undefined.
 */
export async function readCurrentToken(
  config: Pick<Config, 'token' | 'tokenFile' | 'basePath' | 'secretKey' | 'storeUrl'>,
): Promise<string | undefined> {
  return (await readTokenOption(config)) ?? (await readStoredToken(config))
}

/**
 * A data directory, and its secret key if it has one. The nodes of a store on PostgreSQL share no files: there, secrets
 * are derived from the secret key, which all of them have.
 */
export type KeptDirectory = Pick<Config, 'basePath'> & {
  readonly secretKey?: string | undefined
  readonly newSecretKey?: string | undefined
  readonly storeUrl?: string | undefined
}

/** Returns the token that svc made for a data directory, if there is one. */
export const readStoredToken = (directory: KeptDirectory): Promise<string | undefined> =>
  readSecret(directory, tokenPathOf(directory.basePath))

/** Returns the secret in a file, opened; undefined if there is none. */
async function readSecret(directory: KeptDirectory, path: string): Promise<string | undefined> {
  const derived = deriveShared(directory, path)
  if (derived !== undefined) return derived
  const text = (await readText(path))?.trim() || undefined
  if (text === undefined || sealedWith(text) === undefined) return text
  return mapSecretFile(text, basename(path), (await openSecrets(directory)).open)
}

/** Returns a secret that all nodes of a store on PostgreSQL share. */
const deriveShared = ({ secretKey, storeUrl }: KeptDirectory, path: string): string | undefined =>
  storeUrl !== undefined && secretKey !== undefined ? deriveSecret(secretKey, basename(path)) : undefined

/**
 * Returns the tokens that are right beside `token`: if that is derived from the secret key, the one of nodes that have
 * only the next secret key.
 */
export function listNextTokens(directory: Partial<KeptDirectory>, token: string | undefined): string[] {
  const { basePath = '', newSecretKey, secretKey, storeUrl } = directory
  const derive = (key: string | undefined) =>
    deriveShared({ basePath, secretKey: key, storeUrl }, tokenPathOf(basePath))
  const next = token !== undefined && token === derive(secretKey) ? derive(newSecretKey) : undefined
  return next === undefined ? [] : [next]
}

/** A generated token. */
export interface EnsuredToken {
  token: string
  /** True if this call created it. The command line then prints it, once. */
  created: boolean
  /** The file with it; absent for one that is derived from the secret key. */
  path?: string
}

/** Returns the token in `<base>/api_token`, or creates it; see `ensureSecret`. */
export const ensureToken = (directory: KeptDirectory): Promise<EnsuredToken> =>
  ensureSecret(directory, tokenPathOf(directory.basePath))

/**
 * Returns a secret from a file in the data directory (mode 0600). If there is none, creates it from 256
 * random bits. If several processes start at the same time, exactly one creates it.
 */
export async function ensureSecret(directory: KeptDirectory, path: string): Promise<EnsuredToken> {
  const derived = deriveShared(directory, path)
  if (derived !== undefined) return { token: derived, created: false }
  await ensurePrivateDir(directory.basePath)
  const stored = await readToken(directory, path)
  if (stored !== undefined) return { token: stored, created: false, path }
  // Remove an empty file: a crash of version 0.1 may have left it.
  if ((await readText(path))?.trim() === '') await removeQuietly(path)
  const token = randomBytes(32).toString('base64url')
  const sealer = await openSecrets(directory)
  const created = await createDurably(path, mapSecretFile(`${token}\n`, basename(path), sealer.seal))
  return { token: created ? token : ((await readToken(directory, path)) ?? token), created, path }
}

/**
 * Reads a token file; undefined if there is none. Sets its mode to 0600, so that other users cannot read
 * it.
 */
async function readToken(directory: KeptDirectory, path: string): Promise<string | undefined> {
  await makePrivate(path)
  return readSecret(directory, path)
}

/**
 * Creates the error for a token that is easy to guess.
 *
 * @param file the file in which svc stores it, if it does
 */
export const guessableTokenError = (file?: string): SvcError =>
  new SvcError(
    'invalid_arguments',
    `${file ? `the token in ${file}` : '--token: the token'} is easy to guess, and others may reach this service`,
    {
      hint: file
        ? `Remove ${file} and start svc again: it creates a good one.`
        : 'head -c 32 /dev/urandom | base64 | tr -d /+= prints a good one. Without --token svc creates one itself.',
    },
  )
