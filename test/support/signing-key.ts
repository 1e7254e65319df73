/** SSH keys for the tests of signatures. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { ended } from './ended.ts'

export interface SigningKey {
  path: string
  /** Type and key, as a line of `revoked`. */
  public: string
  /** A line of `signers`. */
  signer: string
}

export async function makeKey(folder: string, name: string): Promise<SigningKey> {
  const path = join(folder, `${name}.key`)
  const command = ['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', path]
  const { status, stderr } = await ended(command, { cwd: folder, env: { PATH: process.env.PATH! } })
  if (status !== 0) throw new Error(stderr)
  const [type, key] = (await readFile(`${path}.pub`, 'utf8')).split(' ')
  return { path, public: `${type} ${key}`, signer: `svc namespaces="svc-release" ${type} ${key}` }
}
