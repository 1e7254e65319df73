/** Upstream: whether API and CDN can be reached, through the proxy where one is set; of a sandbox, whether it runs. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { apiFetch, failureOf, isAboutCertificate } from '../platform/fetch.ts'
import { readText } from '../platform/files.ts'
import { lookAtLock } from '../platform/lock-look.ts'
import { proxyFor } from '../platform/process.ts'
import { reachable } from '../platform/serve.ts'
import { bad, type DoctorContext, type Found, note, ok, warning } from './finding.ts'

export interface NetworkFindings {
  found: Found[]
  /** Of the API, for its clock. */
  upstream?: Reached
}

/** Asks API and CDN. */
export async function examineNetwork(context: DoctorContext): Promise<NetworkFindings> {
  if (context.directory.isSandbox) return { found: [await sandboxOf(context)] }
  const { config, deadlineMs } = context
  const [upstream, cdn] = await Promise.all([
    reach(config.upstreamUrl, deadlineMs),
    reach(config.cdnUrl, deadlineMs),
  ])
  const found = [told('api', config.upstreamUrl, upstream), told('cdn', config.cdnUrl, cdn)]
  return { found, upstream }
}

/** What a failed request means, and what to do; the first that fits. */
const failures: readonly (readonly [code: RegExp, why: string, fix: string])[] = [
  [/^(ENOTFOUND|EAI_\w+)$/, 'its name is not found', 'Look at the network and its DNS: getent hosts'],
  [
    /^timeout$/,
    'no answer in time',
    'Look at the network and the firewall, and at what answers there: curl -v',
  ],
  [
    /./,
    'no connection',
    'Look at the network, the firewall, and HTTPS_PROXY where a proxy is needed: curl -v',
  ],
]

function told(check: 'api' | 'cdn', url: string, { status, tookMs, code = '' }: Reached): Found {
  const { host, hostname } = new URL(url)
  const proxy = proxyFor(new URL(url))?.host
  const via = proxy === undefined ? '' : ` through the proxy ${proxy}`
  const name = check.toUpperCase()
  if (status !== undefined)
    return status < 500 && status !== 407
      ? ok(check, `${name}: ${host} answers${via} in ${(tookMs / 1000).toFixed(1)} s`)
      : warning(
          check,
          `${name}: ${host} answers${via} with status ${status}`,
          'Look at the proxy; else try again later.',
        )
  const unreachable = `${name}: ${host} cannot be reached${via}`
  if (isAboutCertificate(code))
    return bad(
      check,
      `${unreachable}: its certificate is not trusted (${code})`,
      'Check the clock first. Behind a proxy that reads along, name its certificate in NODE_EXTRA_CA_CERTS.',
    )
  const [, why, fix] = failures.find(([pattern]) => pattern.test(code)) ?? ['', 'no answer', 'curl -v']
  return bad(check, `${unreachable}: ${why} (${code})`, `${fix} ${fix.endsWith('hosts') ? hostname : url}`)
}

/** Whether the sandbox of this directory runs and answers. */
async function sandboxOf({ directory, polling, deadlineMs, command }: DoctorContext): Promise<Found> {
  const dir = join(directory.dir, dataFiles.sandbox)
  const lock = await lookAtLock(join(dir, '.lock'))
  const start = command('sandbox')
  if (!lock?.held)
    return polling?.held
      ? bad('sandbox', 'the sandbox does not run, and a process polls it', start)
      : note('sandbox', 'the sandbox does not run', start)
  const url = ((await readText(join(dir, 'address'))) ?? '').trim()
  const reached = URL.canParse(url) ? await reach(`${url}/phone/stats`, deadlineMs) : undefined
  if (reached?.status === 200) {
    return ok('sandbox', `the sandbox runs, its phone is on ${reachable(url)}/phone`)
  }
  return bad(
    'sandbox',
    'a process holds the sandbox, and it does not answer',
    `Restart that process${lock.pid === undefined ? '' : `: kill ${lock.pid}`}, then: ${start}`,
  )
}

/** What came of asking one server. */
export interface Reached {
  /** Absent where there was no answer. */
  status?: number
  /** Unix ms of the server's clock, where it told. */
  date?: number
  /** Unix ms of our own clock at the middle of the exchange. */
  localAt: number
  tookMs: number
  /** Why not, as of `failureOf`. */
  code?: string
}

/** Asks for `url` with GET; any answer counts. */
async function reach(url: string, deadlineMs: number): Promise<Reached> {
  const begunAt = Date.now()
  const begun = performance.now()
  const took = () => {
    const tookMs = performance.now() - begun
    return { tookMs, localAt: begunAt + tookMs / 2 }
  }
  try {
    const response = await apiFetch(url, { timeoutMs: deadlineMs })
    const times = took()
    await response.body?.cancel().catch(() => {})
    const date = Date.parse(response.headers.get('date') ?? '')
    return { ...times, status: response.status, ...(Number.isFinite(date) && { date }) }
  } catch (error) {
    return { ...took(), code: failureOf(error) }
  }
}
