/** The token that callers send: given, or generated once and kept. */
import { Buffer } from 'node:buffer'
import { closeSync, openSync, readSync } from 'node:fs'
import { localFiles } from '../config/local-files.ts'
import { tokenIn } from '../config/values.ts'
import type { Config } from '../config.ts'
import { badArgument, SvcError } from '../model/error.ts'
import { createDurably, ensurePrivateDir, makePrivate, readText, removeQuietly } from '../platform/files.ts'
import { randomBytes } from '../platform/lazy-crypto.ts'
import { reasonOf } from '../platform/system-error.ts'

/** Where a generated token is kept. */
export const tokenPath = (basePath: string): string => localFiles(basePath).apiToken

/**
 * The token that was given, in itself or in a file; undefined for none.
 *
 * @throws SvcError `invalid_arguments` for both at once, and for a file that holds no token or cannot be read
 */
export async function givenToken({
  token,
  tokenFile,
}: Pick<Config, 'token' | 'tokenFile'>): Promise<string | undefined> {
  if (tokenFile === undefined) return token
  if (token !== undefined) {
    throw badArgument('--token-file', 'expected without --token, got both', {
      hint: 'Give one of them; SVC_TOKEN_FILE and SVC_TOKEN count too.',
    })
  }
  const read = tokenIn(readTokenFile(tokenFile).trim())
  if (read !== undefined) return read
  throw badArgument(
    '--token-file',
    `expected one line of printable ASCII characters without spaces in ${tokenFile}`,
    { hint: 'head -c 32 /dev/urandom | base64 | tr -d /+= prints one.' },
  )
}

/** More is no token. */
const longestFile = 4096

/** A pipe too (`--token-file <(pass show svc)`): it is the user who names it. */
function beginningOf(path: string): string {
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(longestFile)
    let length = 0
    for (let read = -1; read !== 0 && length < longestFile; length += read)
      read = readSync(file, bytes, length, longestFile - length, null)
    return bytes.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

function readTokenFile(path: string): string {
  try {
    return beginningOf(path)
  } catch (error) {
    throw badArgument('--token-file', `${path} cannot be read: ${reasonOf(error)}`, {
      hint: 'Name a file that the user of the service may read.',
      cause: error,
    })
  }
}

/** The token that callers of a service on this directory send, as far as there is one: given, else kept. */
export async function currentToken(
  config: Pick<Config, 'token' | 'tokenFile' | 'basePath'>,
): Promise<string | undefined> {
  return (await givenToken(config)) ?? ((await readText(tokenPath(config.basePath)))?.trim() || undefined)
}

/** The generated token, and whether this call made it: then the command line shows it, once. */
export interface EnsuredToken {
  token: string
  created: boolean
  path: string
}

/** The token kept in `<base>/api_token`, as of `ensureSecret`. */
export const ensureToken = (basePath: string): Promise<EnsuredToken> =>
  ensureSecret(basePath, tokenPath(basePath))

/**
 * A secret kept in a file of the data directory (0600), made on first need from 256 random bits. Of several processes that
 * start at once exactly one makes it.
 */
export async function ensureSecret(basePath: string, path: string): Promise<EnsuredToken> {
  await ensurePrivateDir(basePath)
  const kept = await readToken(path)
  if (kept !== undefined) return { token: kept, created: false, path }
  // An empty file, as a crash of version 0.1 may have left it, is nobody's token.
  if ((await readText(path))?.trim() === '') await removeQuietly(path)
  const token = randomBytes(32).toString('base64url')
  const created = await createDurably(path, `${token}\n`)
  return { token: created ? token : ((await readToken(path)) ?? token), created, path }
}

/** Undefined where none is kept; a file that others may read is closed to them. */
async function readToken(path: string): Promise<string | undefined> {
  const text = await readText(path)
  if (text !== undefined) await makePrivate(path)
  return text?.trim() || undefined
}

const commonWords =
  /(pass(word|wd)?|secret|token|change.?me|admin|letmein|qwert[yz]|1234|abcd|test|svc|wechat|weixin|default|example)/gi

/** Whether somebody could try it out: too short, too uniform, or made of the words that everybody takes. */
export function isGuessable(token: string): boolean {
  const rest = token.replace(commonWords, '')
  return rest.length < 12 || new Set(rest).size < 8
}

/** Why such a token is refused where others may reach the service. @param keptIn its file, where svc keeps it */
export const guessableToken = (keptIn?: string): SvcError =>
  new SvcError(
    'invalid_arguments',
    `${keptIn ? `the token in ${keptIn}` : '--token: the token'} can be guessed, and others may reach this service`,
    {
      hint: keptIn
        ? `Remove ${keptIn} and start svc again, which makes a good one.`
        : 'head -c 32 /dev/urandom | base64 | tr -d /+= prints a good one; without --token svc makes one itself.',
    },
  )
