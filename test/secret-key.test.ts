/** Where the secret key comes from, and what is refused as one. */
import { expect, test } from 'bun:test'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { withSecrets } from '../src/config/secrets.ts'
import { findCredentials, readConfig } from '../src/config.ts'
import { isSvcError } from '../src/model/error.ts'
import { fieldsOf } from './support/failure.ts'
import { folderOfFile } from './support/folder.ts'

const folder = folderOfFile()
const key = 'N3v1aJr0oQxK-4mZb8HtYw2LcPdGfSuE'
const other = `${key}-other`
const file = join(folder, 'key')
writeFileSync(file, `${key}\n`)
const credentials = join(folder, 'credentials')
mkdirSync(credentials)
writeFileSync(join(credentials, 'svc_secret_key'), other)

const keyOf = (flags: Record<string, string>, env: Record<string, string>) =>
  withSecrets(readConfig(flags, env), findCredentials(env)).secretKey

function fieldOf(flags: Record<string, string>, env: Record<string, string>) {
  try {
    return keyOf(flags, env)
  } catch (error) {
    if (!isSvcError(error, 'invalid_arguments')) throw error
    expect(JSON.stringify(error)).not.toContain(key)
    return fieldsOf(error)
  }
}

test('the file counts, then the variable, then the credential of systemd', () => {
  const systemd = { CREDENTIALS_DIRECTORY: credentials }
  expect(keyOf({}, {})).toBeUndefined()
  expect(keyOf({}, { CREDENTIALS_DIRECTORY: folder })).toBeUndefined()
  expect(keyOf({}, systemd)).toBe(other)
  expect(keyOf({}, { ...systemd, SVC_SECRET_KEY: key })).toBe(key)
  expect(keyOf({ secretKeyFile: file }, systemd)).toBe(key)
  expect(keyOf({}, { SVC_SECRET_KEY_FILE: file })).toBe(key)
})

test('two keys, and one that is short, guessable or unreadable, are refused', () => {
  expect(fieldOf({ secretKeyFile: file }, { SVC_SECRET_KEY: key })).toEqual(['--secret-key-file'])
  expect(fieldOf({ secretKeyFile: join(folder, 'absent') }, {})).toEqual(['--secret-key-file'])
  for (const text of ['', key.slice(0, 31), 'password'.repeat(8), `${key} ${key}`, 'a'.repeat(64)]) {
    const weak = join(folder, 'weak')
    writeFileSync(weak, text)
    expect(fieldOf({ secretKeyFile: weak }, {})).toEqual(['--secret-key-file'])
  }
  expect(fieldOf({}, { SVC_SECRET_KEY: 'a'.repeat(64) })).toEqual(['SVC_SECRET_KEY'])
  expect(fieldOf({}, { SVC_SECRET_KEY: key.slice(0, 31) })).toEqual(['SVC_SECRET_KEY'])
})
