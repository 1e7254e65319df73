/** The service's token: from an option, or generated once and stored in the data directory. */
import { Buffer } from 'node:buffer'
import { closeSync, openSync, readSync } from 'node:fs'
import { localFilesOf } from '../config/local-files.ts'
import { parseToken } from '../config/values.ts'
import type { Config } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { createDurably, ensurePrivateDir, makePrivate, readText, removeQuietly } from '../platform/files.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { reasonOf } from '../platform/system-error.ts'

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

/** Maximum bytes to read of a token file. */
const maxFileBytes = 4096

/** Reads up to `maxFileBytes` bytes of a file or pipe (`--token-file <(pass show svc)`). */
function readBeginning(path: string): string {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(maxFileBytes)
    let length = 0
    for (let read = -1; read !== 0 && length < maxFileBytes; length += read)
      read = readSync(file, bytes, length, maxFileBytes - length, null)
    return bytes.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

/**
 * Reads the file of an option with a token.
 *
 * @param hint how to make its content
 * @throws SvcError `invalid_arguments`
 */
function readTokenFile(option: string, path: string, hint: string): string {
  let text: string
  try {
    text = readBeginning(path)
  } catch (error) {
    throw badArgument(option, `${path} cannot be read: ${reasonOf(error)}`, {
      hint: 'Name a file that the user of the service may read.',
      cause: error,
    })
  }
  const token = parseToken(text.trim())
  if (token !== undefined) return token
  throw badArgument(option, `expected one line of printable ASCII characters without spaces in ${path}`, {
    hint,
  })
}

/**
 * Returns the token of a service on this data directory: from an option, else the stored one, else
 * undefined.
 */
export async function readCurrentToken(
  config: Pick<Config, 'token' | 'tokenFile' | 'basePath'>,
): Promise<string | undefined> {
  return (await readTokenOption(config)) ?? (await readStoredToken(config.basePath))
}

/** Returns the token that svc made for a data directory, if there is one. */
export const readStoredToken = async (basePath: string): Promise<string | undefined> =>
  (await readText(tokenPathOf(basePath)))?.trim() || undefined

/** A generated token. */
export interface EnsuredToken {
  token: string
  /** True if this call created it. The command line then prints it, once. */
  created: boolean
  path: string
}

/** Returns the token in `<base>/api_token`, or creates it; see `ensureSecret`. */
export const ensureToken = (basePath: string): Promise<EnsuredToken> =>
  ensureSecret(basePath, tokenPathOf(basePath))

/**
 * Returns a secret from a file in the data directory (mode 0600). If there is none, creates it from 256
 * random bits. If several processes start at the same time, exactly one creates it.
 */
export async function ensureSecret(basePath: string, path: string): Promise<EnsuredToken> {
  await ensurePrivateDir(basePath)
  const stored = await readToken(path)
  if (stored !== undefined) return { token: stored, created: false, path }
  // Remove an empty file: a crash of version 0.1 may have left it.
  if ((await readText(path))?.trim() === '') await removeQuietly(path)
  const token = randomBytes(32).toString('base64url')
  const created = await createDurably(path, `${token}\n`)
  return { token: created ? token : ((await readToken(path)) ?? token), created, path }
}

/**
 * Reads a token file; undefined if there is none. Sets its mode to 0600, so that other users cannot read
 * it.
 */
async function readToken(path: string): Promise<string | undefined> {
  const text = await readText(path)
  if (text !== undefined) await makePrivate(path)
  return text?.trim() || undefined
}

const commonWords =
  /(pass(word|wd)?|secret|token|change.?me|admin|letmein|qwert[yz]|1234|abcd|test|svc|wechat|weixin|default|example)/gi

/** Whether a token is easy to guess: too short, too uniform, or made of common words. */
export function isGuessable(token: string): boolean {
  const rest = token.replace(commonWords, '')
  return rest.length < 12 || new Set(rest).size < 8
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
