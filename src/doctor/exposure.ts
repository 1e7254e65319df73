/**
 * Checks the network exposure: what listens on the configured port, who can reach it, and how the token is
 * stored.
 */
import { takeOverCommand } from '../inspect/advised-commands.ts'
import {
  askHealth,
  configuredUrlOf,
  type HealthAnswer,
  listNotedAddresses,
  servesAnotherDirectory,
} from '../inspect/healthz.ts'
import { SvcError } from '../model/error.ts'
import { readText } from '../platform/files.ts'
import { reasonOf } from '../platform/system-error.ts'
import { isExposed, isLoopback } from '../server/auth.ts'
import { readTokenOption, tokenPathOf } from '../server/token.ts'
import {
  type DoctorContext,
  errorFinding,
  type Finding,
  noteFinding,
  okFinding,
  warningFinding,
} from './finding.ts'

/** Checks the port and the token. */
export async function examineExposure(context: DoctorContext): Promise<Finding[]> {
  const { config, deadlineMs } = context
  const found: Finding[] = []
  if (context.address !== undefined || config.port !== 0 || config.socket !== undefined) {
    const url = context.address ?? configuredUrlOf(config)
    found.push(checkListener(context, url, await askHealth(url, Math.min(deadlineMs, 2000))))
  }
  const isOpen = (await listNotedAddresses(context.directory.dir)).some(({ open }) => open)
  found.push(
    isOpen || (config.socket === undefined && !isLoopback(config.host))
      ? noteFinding(
          'exposure',
          'other machines can reach svc: it asks for the token, and token and messages travel unencrypted',
          'Put a proxy with TLS in front, or start svc with --host 127.0.0.1.',
        )
      : okFinding('exposure', 'no other machine can reach this address'),
  )
  return [...found, await checkToken(context)]
}

function checkListener(context: DoctorContext, url: string, answer: HealthAnswer): Finding {
  const { config, polling, version } = context
  const free = context.command(`openapi --port 0${config.sandbox ? ' --sandbox-port 0' : ''}`)
  const elsewhere = `Name the service's port with --port; to start it on a free port: ${free}`
  // If a process polls this directory, its service may listen on another port: only a note then.
  const taken = (what: string) =>
    polling?.held ? noteFinding('port', what, elsewhere) : errorFinding('port', what, free)
  switch (answer.kind) {
    case 'nobody':
      return polling?.held
        ? noteFinding('port', `nothing listens on ${url}, though a process polls`, elsewhere)
        : okFinding('port', `${config.socket ?? `port ${config.port}`} is free for the service`)
    case 'silent':
      return errorFinding(
        'port',
        `something on ${url} accepts connections and does not answer`,
        polling?.pid === undefined ? free : `If that is svc, it hangs: kill ${polling.pid}`,
      )
    case 'stranger':
      return taken(`another program listens on ${url}`)
    case 'unreachable':
      return errorFinding(
        'port',
        `${url} is not an address of this machine, or cannot be used (${answer.code})`,
        'Choose another with --host: 127.0.0.1 for this machine only, 0.0.0.0 for all machines.',
      )
  }
  const { seen, status } = answer
  const summary = `svc ${seen.version} answers on ${url} as ${seen.role}`
  if (servesAnotherDirectory(seen, polling))
    return noteFinding('port', `${summary}, for another data directory`, elsewhere)
  if (status !== 200)
    return errorFinding(
      'port',
      `${summary}; ${seen.trouble?.message ?? 'its message store does not work'}`,
      seen.trouble?.hint ?? 'Read its log. doctor checks its disk and store too.',
    )
  return seen.version === version
    ? okFinding('port', summary)
    : warningFinding(
        'port',
        `${summary}; this is ${version}`,
        'Restart the service, so that it runs this version.',
      )
}

/**
 * Reports where the token comes from. Does not judge its strength: svc does at start, and rejects a weak
 * token if others can reach it.
 */
async function checkToken({ config, directory }: DoctorContext): Promise<Finding> {
  const path = tokenPathOf(directory.dir)
  try {
    if ((await readTokenOption(config)) !== undefined) return okFinding('token', 'a token is given')
  } catch (error) {
    if (!(error instanceof SvcError)) throw error
    return errorFinding('token', error.message, error.hint)
  }
  try {
    if ((await readText(path))?.trim()) return okFinding('token', 'a token is stored in api_token')
  } catch (error) {
    if (directory.state === 'ours')
      return errorFinding('token', `api_token cannot be read: ${reasonOf(error)}`, takeOverCommand(path))
  }
  return isExposed(config)
    ? okFinding('token', 'svc creates a token in api_token when it starts')
    : okFinding(
        'token',
        'svc serves only this machine: without a key it needs no token unless it was started with one',
      )
}
