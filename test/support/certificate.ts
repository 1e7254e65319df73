/** Certificates that a test makes with openssl. */
import { join } from 'node:path'

/** Whether this machine can make certificates. */
export const hasOpenssl = Bun.which('openssl') !== null

/** Runs openssl in a folder. @throws Error if it fails */
export function openssl(folder: string, ...args: readonly string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(['openssl', ...args], { cwd: folder })
  if (exitCode !== 0) throw new Error(stderr.toString())
}

/** The paths of a certificate and its key. */
export interface Pair {
  readonly cert: string
  readonly key: string
}

/**
 * Makes `<name>.crt` and `<name>.key` in a folder. The certificate names `<name>.test`.
 *
 * @param issuer name of the pair that signs it; by default it signs itself
 * @param days from now until it expires
 */
export function makePair(
  folder: string,
  name: string,
  { issuer, days = 30 }: { issuer?: string; days?: number } = {},
): Pair {
  const [cert, key, request] = ['crt', 'key', 'csr'].map(end => `${name}.${end}`) as [string, string, string]
  const own = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key]
  const subject = ['-subj', `/CN=${name}.test`, '-addext', `subjectAltName=DNS:${name}.test`]
  if (issuer === undefined)
    openssl(folder, 'req', '-x509', ...own, ...subject, '-out', cert, '-days', String(days))
  else {
    const signs = [
      '-CA',
      `${issuer}.crt`,
      '-CAkey',
      `${issuer}.key`,
      '-CAcreateserial',
      '-copy_extensions',
      'copy',
    ]
    openssl(folder, 'req', ...own, ...subject, '-out', request)
    openssl(folder, 'x509', '-req', '-in', request, ...signs, '-out', cert, '-days', String(days))
  }
  return { cert: join(folder, cert), key: join(folder, key) }
}
