/** Tokens and keys in files, and how well they are chosen. */
import { Buffer } from 'node:buffer'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import process from 'node:process'
import { badArgument } from '../model/error.ts'
import { reasonOf } from '../platform/system-error.ts'
import type { Config } from './options.ts'
import { parseToken } from './values.ts'

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
export function readTokenFile(option: string, path: string, hint: string): string {
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

const commonWords =
  /(pass(word|wd)?|secret|token|change.?me|admin|letmein|qwert[yz]|1234|abcd|test|svc|wechat|weixin|default|example)/gi

/** Whether a token is easy to guess: too short, too uniform, or made of common words. */
export function isGuessable(token: string): boolean {
  const rest = token.replace(commonWords, '')
  return rest.length < 12 || new Set(rest).size < 8
}

/**
 * Returns those of these files with secrets that every user of this machine may read. As ssh does, it judges only files
 * of this user: others are made by who deploys (Docker, Kubernetes, systemd), with the rights that are usual there.
 */
export const listOpenFiles = (paths: readonly (string | undefined)[]): string[] =>
  paths.flatMap(path => {
    const file = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false })
    if (path === undefined || !file?.isFile() || file.uid !== process.getuid?.()) return []
    return (file.mode & 0o004) === 0 ? [] : [path]
  })

/** What is said about such a file. */
export const openFileWarning = (path: string): string =>
  `every user of this machine may read the secret in ${path}: chmod 600 ${path}`

/** Returns the files with secrets that a configuration names. */
export const secretFilesOf = (config: Config): (string | undefined)[] => [
  ...[config.tokenFile, config.keyFile, config.passphraseFile, config.secretKeyFile, config.newSecretKeyFile],
  ...[config.storeUrlFile, config.tlsKey],
]
