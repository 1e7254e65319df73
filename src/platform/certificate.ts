/**
 * The certificate of an https server, read from two PEM files. It is replaced while the server runs: renewal
 * programs write the files, rename new ones over them, or change a symbolic link on the way to them.
 */
import { Buffer } from 'node:buffer'
import type { KeyObject } from 'node:crypto'
import { open } from 'node:fs/promises'
import { badArgument, SvcError } from '../model/error.ts'
import { readOnlyFlags, rejectNonFile } from './files.ts'
import { formatLocalTime } from './format.ts'
import { nodeCrypto } from './lazy-crypto.ts'
import type { Log } from './log.ts'
import { reasonOf } from './system-error.ts'
import type { Tasks } from './tasks.ts'

/** A certificate chain and its private key, both as PEM. */
export interface Certificate {
  readonly cert: string
  readonly key: string
  /** SHA-256 of the server's own certificate. */
  readonly fingerprint: string
  /** Unix milliseconds. */
  readonly expiresAt: number
}

/** The paths of the files. */
export interface CertificateFiles {
  readonly cert: string
  readonly key: string
}

/** The certificate of the files, as it is now. */
export interface LiveCertificate {
  readonly current: Certificate
  /** Calls `replace` with each new certificate. If it rejects, the old certificate stays. */
  onReplace(replace: (next: Certificate) => Promise<void>): void
  close(): void
}

/** How often the files are read. */
const readEveryMs = 2000
/** Maximum bytes to read of a file. A chain has a few thousand. */
const maxFileBytes = 256 * 1024

/**
 * Reads the files, and from then on every few seconds.
 *
 * @param everyMs for tests
 * @throws SvcError `invalid_arguments` if they cannot be used; `internal` if the certificate is not valid at
 *   this time
 */
export async function followCertificate(
  files: CertificateFiles,
  log: Log,
  tasks: Tasks,
  everyMs = readEveryMs,
): Promise<LiveCertificate> {
  const texts = await readFiles(files)
  let current = parseCertificate(texts, files)
  // What the files held, or why they could not be read. It is used, or was reported as wrong.
  let handled = JSON.stringify(texts)
  // Two files are not replaced together, so what is wrong is reported only the second time.
  let doubtful: string | undefined
  /** Why what the files hold cannot be used. */
  let wrong: unknown
  const replacing: ((next: Certificate) => Promise<void>)[] = []
  const use = async (next: Certificate) => {
    if (next.fingerprint === current.fingerprint && next.key === current.key) return
    for (const replace of replacing) await replace(next)
    current = next
    log.info('the certificate was replaced', { expires: new Date(next.expiresAt).toISOString() })
  }
  const check = async () => {
    const read = await readFiles(files).catch((error: Error) => error)
    const content = read instanceof Error ? String(read) : JSON.stringify(read)
    if (content === handled) {
      if (wrong !== undefined) throw wrong
      return
    }
    wrong = undefined
    try {
      if (read instanceof Error) throw read
      await use(parseCertificate(read, files))
    } catch (error) {
      if (content !== doubtful) {
        doubtful = content
        return
      }
      wrong = error
    }
    handled = content
    if (wrong !== undefined) throw wrong
  }
  const stop = new AbortController()
  const failure = 'the new certificate cannot be used: the old one stays'
  const often = { everyMs, firstMs: everyMs, log, signal: stop.signal }
  tasks.repeat({ ...often, name: 'certificate', failure }, check)
  return {
    get current() {
      return current
    },
    onReplace: replace => void replacing.push(replace),
    close: () => stop.abort(),
  }
}

/** Reads the files once. @throws SvcError as `followCertificate` does */
export const readCertificate = async (files: CertificateFiles): Promise<Certificate> =>
  parseCertificate(await readFiles(files), files)

/** @throws SvcError `invalid_arguments` if a file cannot be read */
async function readFiles(files: CertificateFiles): Promise<CertificateFiles> {
  return { cert: await readFile('--tls-cert', files.cert), key: await readFile('--tls-key', files.key) }
}

async function readFile(option: string, path: string): Promise<string> {
  try {
    await using file = await open(path, readOnlyFlags)
    rejectNonFile(path, await file.stat())
    const { buffer, bytesRead } = await file.read(Buffer.alloc(maxFileBytes), 0, maxFileBytes, 0)
    return buffer.toString('latin1', 0, bytesRead)
  } catch (error) {
    throw badArgument(option, `${path} cannot be read: ${reasonOf(error)}`, {
      hint: 'Name a file that the user of the service may read, with the folders on the way to it.',
      cause: error,
    })
  }
}

/** @throws SvcError `invalid_arguments`, `internal` if the chain or the key cannot be used now, or do not belong together */
function parseCertificate({ cert, key }: CertificateFiles, files: CertificateFiles): Certificate {
  const privateKey = parseKey(key, files.key)
  const [own, ...others] = parseChain(cert, files.cert)
  if (!own?.checkPrivateKey(privateKey)) {
    const isOrder = others.some(one => one.checkPrivateKey(privateKey))
    throw badArgument('--tls-key', `${files.key} is not the key of the first certificate in ${files.cert}`, {
      hint: isOrder
        ? "Put the server's own certificate first in that file, then those of its issuers."
        : 'Name the key that this certificate was made for.',
    })
  }
  const [validFrom, expiresAt] = [Date.parse(own.validFrom), Date.parse(own.validTo)]
  const now = Date.now()
  // Not `invalid_arguments`: systemd starts svc again until the certificate is renewed, or the clock is right.
  if (now > expiresAt)
    throw new SvcError('internal', `${files.cert} expired on ${formatLocalTime(expiresAt)}`, {
      field: '--tls-cert',
      hint: 'Renew the certificate; check the clock of this machine if it is not old.',
    })
  if (now < validFrom)
    throw new SvcError('internal', `${files.cert} is valid only from ${formatLocalTime(validFrom)}`, {
      field: '--tls-cert',
      hint: 'Check the clock of this machine.',
    })
  // One form for every runtime: they do not read all the forms that OpenSSL writes.
  const exported = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  return { cert, key: exported, fingerprint: own.fingerprint256, expiresAt }
}

function parseKey(key: string, path: string): KeyObject {
  if (/ENCRYPTED/.test(key))
    throw badArgument('--tls-key', `${path} is encrypted with a passphrase`, {
      hint: `Write it without: openssl pkey -in ${path} -out <file>, in a folder for the user of the service alone.`,
    })
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(key))
    throw badArgument('--tls-key', `expected a private key as PEM in ${path}`, {
      hint: 'It begins with -----BEGIN PRIVATE KEY-----. From DER: openssl pkey -inform der -in <file>.',
    })
  try {
    return nodeCrypto().createPrivateKey(key)
  } catch (error) {
    throw badArgument(
      '--tls-key',
      `the private key in ${path} is damaged, or of a kind that svc cannot use`,
      {
        hint: 'Use an RSA or EC key.',
        cause: error,
      },
    )
  }
}

function parseChain(cert: string, path: string) {
  const blocks = cert.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)
  if (!blocks)
    throw badArgument('--tls-cert', `expected a certificate as PEM in ${path}`, {
      hint: 'It begins with -----BEGIN CERTIFICATE-----. From DER: openssl x509 -inform der -in <file>.',
    })
  const { X509Certificate } = nodeCrypto()
  return blocks.map((block, nth) => {
    try {
      return new X509Certificate(block)
    } catch (error) {
      throw badArgument('--tls-cert', `certificate ${nth + 1} in ${path} is damaged`, {
        hint: 'Copy the file again.',
        cause: error,
      })
    }
  })
}
