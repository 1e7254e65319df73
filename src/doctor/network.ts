/** Checks the network: can API and CDN be reached (through a proxy if set), or for a sandbox: does it run. */

import { join } from 'node:path'
import { type Finding, type Found, finding } from '../inspect/finding.ts'
import { dataFiles } from '../model/data-files.ts'
import { apiFetch, failureTextOf, isCertificateError } from '../platform/fetch.ts'
import { readText } from '../platform/files.ts'
import { inspectLock } from '../platform/lock-look.ts'
import { proxyFor } from '../platform/process.ts'
import { toReachableUrl } from '../platform/serve.ts'
import type { DoctorContext } from './finding.ts'

export interface NetworkFindings {
  found: Found
  /** Answer of the API; the clock check uses its time. */
  upstream?: ServerAnswer
}

/** Requests API and CDN, and reports the result. */
export async function examineNetwork(context: DoctorContext): Promise<NetworkFindings> {
  if (context.directory.isSandbox) return { found: [await checkSandbox(context)] }
  const { config, deadlineMs } = context
  const [upstream, cdn] = await Promise.all([
    request(config.upstreamUrl, deadlineMs),
    request(config.cdnUrl, deadlineMs),
  ])
  const found = [
    describeAnswer('api', config.upstreamUrl, upstream),
    describeAnswer('cdn', config.cdnUrl, cdn),
  ]
  return { found, upstream }
}

/** Causes of a failed request by error code, with advice; the first match counts. */
const failures: readonly (readonly [code: RegExp, why: string, fix: string])[] = [
  [/^(ENOTFOUND|EAI_\w+)$/, 'its name is not found', 'Check the network and its DNS: getent hosts'],
  [/^timeout$/, 'no answer in time', 'Check the network and the firewall, and see what answers: curl -v'],
  [/./, 'no connection', 'Check the network, the firewall, and HTTPS_PROXY if you need a proxy: curl -v'],
]

function describeAnswer(
  check: 'api' | 'cdn',
  url: string,
  { status, tookMs, code = '' }: ServerAnswer,
): Finding {
  const { host, hostname } = new URL(url)
  const proxy = proxyFor(new URL(url))?.host
  const via = proxy === undefined ? '' : ` through the proxy ${proxy}`
  const name = check.toUpperCase()
  if (status !== undefined)
    return status < 500 && status !== 407
      ? finding.ok(check, `${name}: ${host} answers${via} in ${(tookMs / 1000).toFixed(1)} s`)
      : finding.warning(
          check,
          `${name}: ${host} answers${via} with status ${status}`,
          'Check the proxy; else try again later.',
        )
  const unreachable = `${name}: ${host} cannot be reached${via}`
  if (isCertificateError(code))
    return finding.error(
      check,
      `${unreachable}: its certificate is not trusted (${code})`,
      'Check the clock first. If a proxy decrypts the traffic, name its certificate in NODE_EXTRA_CA_CERTS.',
    )
  const [, why, fix] = failures.find(([pattern]) => pattern.test(code)) ?? ['', 'no answer', 'curl -v']
  return finding.error(
    check,
    `${unreachable}: ${why} (${code})`,
    `${fix} ${fix.endsWith('hosts') ? hostname : url}`,
  )
}

/** Checks that the sandbox of this directory runs and answers. */
async function checkSandbox({ directory, polling, deadlineMs, command }: DoctorContext): Promise<Finding> {
  const dir = join(directory.dir, dataFiles.sandbox)
  const lock = await inspectLock(join(dir, '.lock'))
  const start = command('sandbox')
  if (!lock?.held)
    return polling?.held
      ? finding.error('sandbox', 'the sandbox does not run, and a process polls it', start)
      : finding.note('sandbox', 'the sandbox does not run', start)
  const url = ((await readText(join(dir, 'address'))) ?? '').trim()
  const reached = URL.canParse(url) ? await request(`${url}/phone/stats`, deadlineMs) : undefined
  if (reached?.status === 200) {
    return finding.ok('sandbox', `the sandbox runs, its phone is on ${toReachableUrl(url)}/phone`)
  }
  return finding.error(
    'sandbox',
    'a process runs the sandbox, but it does not answer',
    `Restart that process${lock.pid === undefined ? '' : `: kill ${lock.pid}`}, then: ${start}`,
  )
}

/** Result of a request to one server. */
export interface ServerAnswer {
  /** HTTP status; absent without an answer. */
  status?: number
  /** Server's clock in Unix ms; absent if the answer has no date. */
  date?: number
  /** Local clock in Unix ms at the middle of the exchange. */
  localAt: number
  tookMs: number
  /** Why there was no answer, as `failureTextOf` gives it. */
  code?: string
}

/** Sends GET to `url`; any answer counts as reached. */
async function request(url: string, deadlineMs: number): Promise<ServerAnswer> {
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
    return { ...took(), code: failureTextOf(error) }
  }
}
