/**
 * Checks the network exposure: what listens on the configured port, who can reach it, and how the token is
 * stored.
 */

import type { ServiceAddress } from '../config/notes.ts'
import { listOpenFiles, openFileWarning, secretFilesOf } from '../config/token-file.ts'
import { takeOverCommand } from '../inspect/advised-commands.ts'
import { type Finding, type Found, finding } from '../inspect/finding.ts'
import {
  askHealth,
  findConfigured,
  type HealthAnswer,
  listNotedAddresses,
  servesAnotherDirectory,
} from '../inspect/healthz.ts'
import { SvcError } from '../model/error.ts'
import { readText } from '../platform/files.ts'
import { formatLocalTime } from '../platform/format.ts'
import { isLoopback } from '../platform/serve.ts'
import { reasonOf } from '../platform/system-error.ts'
import { isExposed } from '../server/auth.ts'
import { lacksTrustedProxy, untrustedProxy } from '../server/behind-proxy.ts'
import { readTokenOption, tokenPathOf } from '../server/token.ts'
import type { DoctorContext } from './finding.ts'

/** Checks the port and the token. */
export async function examineExposure(context: DoctorContext): Promise<Found> {
  const { config, deadlineMs } = context
  const hasAddress = context.address !== undefined || config.port !== 0 || config.socket !== undefined
  const address = hasAddress && (context.address ?? (await findConfigured(config)))
  const noted = await listNotedAddresses(context.directory.dir)
  const open = noted.filter(one => one.open)
  const isSecure = open.length > 0 ? open.every(one => one.certificate) : config.tlsCert !== undefined
  const trustsNone = noted.length > 0 ? noted.some(one => one.untrusted_proxy) : lacksTrustedProxy(config)
  return [
    address && checkListener(context, address.url, await askHealth(address, Math.min(deadlineMs, 2000))),
    noted.map(one => one.certificate && checkCertificate(context, one.certificate)),
    open.length > 0 || (config.socket === undefined && !isLoopback(config.host))
      ? isSecure
        ? finding.ok('exposure', 'other machines can reach svc: it asks for the token, and serves https')
        : finding.note(
            'exposure',
            'other machines can reach svc: it asks for the token, and token and messages travel unencrypted',
            'Start svc with --tls-cert and --tls-key, put a proxy with TLS in front, or use --host 127.0.0.1.',
          )
      : finding.ok('exposure', 'no other machine can reach this address'),
    trustsNone && finding.note('proxy', untrustedProxy, 'Start svc with --trust-proxy ADDRESS.'),
    listOpenFiles(secretFilesOf(config)).map(path =>
      finding.warning('secret', openFileWarning(path), `chmod 600 ${path}`),
    ),
    await checkToken(context),
  ]
}

function checkListener(context: DoctorContext, url: string, answer: HealthAnswer): Finding {
  const { config, polling, version } = context
  const free = context.command(`openapi --port 0${config.sandbox ? ' --sandbox-port 0' : ''}`)
  const elsewhere = `Name the service's port with --port; to start it on a free port: ${free}`
  // If a process polls this directory, its service may listen on another port: only a note then.
  const taken = (what: string) =>
    polling?.held ? finding.note('port', what, elsewhere) : finding.error('port', what, free)
  switch (answer.kind) {
    case 'nobody':
      return polling?.held
        ? finding.note('port', `nothing listens on ${url}, though a process polls`, elsewhere)
        : finding.ok('port', `${config.socket ?? `port ${config.port}`} is free for the service`)
    case 'silent':
      return finding.error(
        'port',
        `something on ${url} accepts connections and does not answer`,
        polling?.pid === undefined ? free : `If that is svc, it hangs: kill ${polling.pid}`,
      )
    case 'stranger':
      return taken(`another program listens on ${url}`)
    case 'unreachable':
      return finding.error(
        'port',
        `${url} is not an address of this machine, or cannot be used (${answer.code})`,
        'Choose another with --host: 127.0.0.1 for this machine only, 0.0.0.0 for all machines.',
      )
  }
  const { seen, status } = answer
  const summary = `svc ${seen.version} answers on ${url} as ${seen.role}`
  if (servesAnotherDirectory(seen, polling))
    return finding.note('port', `${summary}, for another data directory`, elsewhere)
  if (status !== 200)
    return finding.error(
      'port',
      `${summary}; ${seen.trouble?.message ?? 'its message store does not work'}`,
      seen.trouble?.hint ?? 'Read its log. doctor checks its disk and store too.',
    )
  return seen.version === version
    ? finding.ok('port', summary)
    : finding.warning(
        'port',
        `${summary}; this is ${version}`,
        'Restart the service, so that it runs this version.',
      )
}

/** How long before its end a certificate is worth a warning. Most programs renew it a month before. */
const renewBeforeMs = 14 * 24 * 60 * 60_000

function checkCertificate(
  { clock }: DoctorContext,
  { expires_at }: NonNullable<ServiceAddress['certificate']>,
): Finding {
  const leftMs = expires_at - clock.now()
  const fix = 'Renew it: svc uses the replaced files within seconds. If they are new, read the log of svc.'
  if (leftMs <= 0)
    return finding.error('certificate', `its certificate expired on ${formatLocalTime(expires_at)}`, fix)
  const until = `its certificate is valid until ${formatLocalTime(expires_at)}`
  return leftMs < renewBeforeMs
    ? finding.warning('certificate', until, fix)
    : finding.ok('certificate', until)
}

/**
 * Reports where the token comes from. Does not judge its strength: svc does at start, and rejects a weak
 * token if others can reach it.
 */
async function checkToken({ config, directory }: DoctorContext): Promise<Finding> {
  const path = tokenPathOf(directory.dir)
  try {
    if ((await readTokenOption(config)) !== undefined) return finding.ok('token', 'a token is given')
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
    return finding.error('token', error.message, error.hint)
  }
  try {
    if ((await readText(path))?.trim()) return finding.ok('token', 'a token is stored in api_token')
  } catch (error) {
    if (directory.state === 'ours')
      return finding.error('token', `api_token cannot be read: ${reasonOf(error)}`, takeOverCommand(path))
  }
  return isExposed(config)
    ? finding.ok('token', 'svc creates a token in api_token when it starts')
    : finding.ok(
        'token',
        'svc serves only this machine: without a key it needs no token unless it was started with one',
      )
}
