/** The secret key, and the address of a store on PostgreSQL: where they come from, and what they must be. */
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { getEnvironment } from '../config.ts'
import { badArgument } from '../model/error.ts'
import { completePgUrl, PgUrlError, parsePgUrl } from '../platform/postgres-url.ts'
import type { Config } from './options.ts'
import { isGuessable, readTokenFile } from './token-file.ts'

/** Shortest text of a secret key. */
const leastCharacters = 32

const fileHint = 'svc secrets on --secret-key-file FILE makes a file with a good key.'

/** How errors call the options with files. */
interface FileOptions {
  secretKeyFile: string
  newSecretKeyFile: string
  storeUrlFile: string
}

const flags: FileOptions = {
  secretKeyFile: '--secret-key-file',
  newSecretKeyFile: '--new-secret-key-file',
  storeUrlFile: '--store-url-file',
}

/**
 * Returns the configuration with the secret key in `secretKey` and the address of the store in `storeUrl`, if they
 * are given; with that address also the next secret key in `newSecretKey`. Each process calls it once: the files may be pipes.
 *
 * @param credentials systemd's folder of credentials for this process, if there is one
 * @throws SvcError `invalid_arguments` for two keys or addresses, for a key that is short or guessable, and for a file
 *   that cannot be read
 */
export function withSecrets(config: Config, credentials?: string, options: FileOptions = flags): Config {
  const secretKey = findKey('secretKey', config, credentials, options)
  const storeUrl = findStoreUrl(config, credentials, options.storeUrlFile)
  // In a data directory only svc secrets rotate uses it, and may make it.
  const newSecretKey = storeUrl && findKey('newSecretKey', config, credentials, options)
  return Object.freeze({
    ...config,
    ...(secretKey && { secretKey }),
    ...(storeUrl && { storeUrl }),
    ...(newSecretKey && { newSecretKey }),
  })
}

const keyNames = {
  secretKey: { variable: 'SVC_SECRET_KEY', credential: 'svc_secret_key' },
  newSecretKey: { variable: 'SVC_NEW_SECRET_KEY', credential: 'svc_new_secret_key' },
} as const

function findKey(
  name: keyof typeof keyNames,
  config: Config,
  credentials: string | undefined,
  options: FileOptions,
): string | undefined {
  const [key, file, option] = [config[name], config[`${name}File`], options[`${name}File`]]
  const { credential, variable } = keyNames[name]
  if (file !== undefined && key !== undefined)
    throw badArgument(option, 'expected without a secret key beside it, got both', {
      hint: `Use only one of them: unset ${variable} (${name} in the library), or leave the file out.`,
    })
  if (key !== undefined) {
    rejectWeak(options === flags ? variable : name, key)
    return key
  }
  const path = file ?? findCredential(credentials, credential)
  return path === undefined ? undefined : readSecretKeyFile(path, option)
}

function findStoreUrl(config: Config, credentials: string | undefined, option: string): string | undefined {
  const { storeUrl, storeUrlFile } = config
  if (storeUrl !== undefined && storeUrlFile !== undefined)
    throw badArgument(option, 'expected without an address of the store beside it, got both', {
      hint: 'Use only one of them: unset SVC_STORE_URL (storeUrl in the library), or leave the file out.',
    })
  const path = storeUrlFile ?? findCredential(credentials, 'svc_store_url')
  const name = option === flags.storeUrlFile ? 'SVC_STORE_URL' : 'storeUrl'
  if (path === undefined) return storeUrl === undefined ? undefined : checked(name, storeUrl)
  return checked(option, readTokenFile(option, path, storeUrlHint))
}

/** @throws SvcError `invalid_arguments` for an address that svc cannot follow */
function checked(option: string, text: string): string {
  try {
    parsePgUrl(text)
    const url = completePgUrl(text, getEnvironment())
    parsePgUrl(url).encryptions()
    return url
  } catch (error) {
    if (!(error instanceof PgUrlError)) throw error
    throw badArgument(option, error.message, { hint: error.hint })
  }
}

/** Returns what gives the address that its file has by then. A pipe is read once, by `withSecrets`. */
export function followStoreUrl({ storeUrlFile: path }: Config, address: string): string | (() => string) {
  if (path === undefined || !statSync(path).isFile()) return address
  return () => {
    try {
      address = checked(flags.storeUrlFile, readTokenFile(flags.storeUrlFile, path, storeUrlHint))
    } catch {
      // It is being written. The address that was last known may still be right.
    }
    return address
  }
}

const storeUrlHint = 'The file has one line, as in postgres://svc:PASSWORD@db.example:5432/svc'

/** Returns the secret key in a file. @throws SvcError `invalid_arguments` */
export function readSecretKeyFile(path: string, option = '--secret-key-file'): string {
  const secret = readTokenFile(option, path, fileHint)
  rejectWeak(option, secret)
  return secret
}

function rejectWeak(option: string, secret: string): void {
  if (secret.length >= leastCharacters && !isGuessable(secret)) return
  throw badArgument(
    option,
    `expected a key of at least ${leastCharacters} characters that nobody can guess`,
    {
      hint: fileHint,
    },
  )
}

function findCredential(folder: string | undefined, name: string): string | undefined {
  const path = folder ? join(folder, name) : undefined
  return path !== undefined && existsSync(path) ? path : undefined
}
