/** The secret key of a data directory: where it comes from, and what it must be. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { badArgument } from '../model/error.ts'
import type { Config } from './options.ts'
import { isGuessable, readTokenFile } from './token-file.ts'

/** Shortest text of a secret key. */
const leastCharacters = 32

const fileHint = 'svc secrets on --secret-key-file FILE makes a file with a good key.'

/**
 * Returns the configuration with the secret key in `secretKey`, if there is one. Each process calls it once:
 * the file may be a pipe.
 *
 * @param credentials systemd's folder of credentials for this process, if there is one
 * @param option name of the option with the file, for errors
 * @throws SvcError `invalid_arguments` for two keys, and for a key that is short, guessable or cannot be read
 */
export function withSecretKey(
  config: Config,
  credentials?: string,
  option: '--secret-key-file' | 'secretKeyFile' = '--secret-key-file',
): Config {
  const { secretKeyFile, secretKey } = config
  if (secretKeyFile !== undefined && secretKey !== undefined)
    throw badArgument(option, 'expected without a secret key beside it, got both', {
      hint: 'Use only one of them: unset SVC_SECRET_KEY (secretKey in the library), or leave the file out.',
    })
  if (secretKey !== undefined) {
    rejectWeak(option === 'secretKeyFile' ? 'secretKey' : 'SVC_SECRET_KEY', secretKey)
    return config
  }
  const path = secretKeyFile ?? findCredential(credentials)
  if (path === undefined) return config
  return Object.freeze({ ...config, secretKey: readSecretKeyFile(path, option) })
}

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

function findCredential(folder: string | undefined): string | undefined {
  const path = folder ? join(folder, 'svc_secret_key') : undefined
  return path !== undefined && existsSync(path) ? path : undefined
}
