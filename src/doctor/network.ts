/** Upstream: whether API and CDN can be reached, through the proxy where one is set; of a sandbox, whether it runs. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { readText } from '../platform/files.ts'
import { lookAtLock } from '../platform/lock-look.ts'
import { proxyFor } from '../platform/process.ts'
import type { Patient } from './context.ts'
import { bad, type Found, note, ok, warning } from './finding.ts'
import { type Reached, reach, type Step } from './probe.ts'

export interface NetworkSight {
  found: Found[]
  /** Of the API, for its clock. */
  upstream?: Reached
}

const mostServers = 6

/** Asks API and CDN, and the servers that sessions were sent to. */
export async function examineNetwork(patient: Patient): Promise<NetworkSight> {
  if (patient.place.isSandbox) return { found: [await sandboxOf(patient)] }
  const { config, sessions, deadlineMs } = patient
  const servers = [
    { url: config.upstreamUrl, name: 'API' },
    { url: config.cdnUrl, name: 'CDN' },
  ]
  const origin = new URL(config.upstreamUrl).origin
  for (const { name, status, bot } of sessions.sessions) {
    if (status !== 'connected' || !bot || !URL.canParse(bot.base_url)) continue
    const own = new URL(bot.base_url).origin
    if (own !== origin && servers.every(({ url }) => url !== own) && servers.length < mostServers)
      servers.push({ url: own, name: `API of "${name}"` })
  }
  const answers = await Promise.all(
    servers.map(async ({ url, name }) => {
      const proxy = proxyFor(new URL(url))
      const reached = await reach(url, { deadlineMs, proxied: proxy !== undefined })
      return { url, name, reached, proxy: proxy?.host }
    }),
  )
  const upstream = answers.find(({ name }) => name === 'API')?.reached
  return { found: answers.map(answer => told(answer, deadlineMs)), upstream }
}

function told(
  { url, name, reached, proxy }: { url: string; name: string; reached: Reached; proxy?: string },
  deadlineMs: number,
): Found {
  const { host, hostname } = new URL(url)
  const via = proxy === undefined ? '' : ` through the proxy ${proxy}`
  const check = name === 'API' ? 'api' : name === 'CDN' ? 'cdn' : 'session_api'
  if (reached.ok) {
    const { status, tookMs } = reached
    if (status === 407)
      return bad(
        check,
        `${name}: the proxy ${proxy ?? ''} wants a user name and password`,
        'Put them into HTTPS_PROXY: http://user:password@host:port.',
      )
    return status < 500
      ? ok(check, `${name}: ${host} answers${via} in ${(tookMs / 1000).toFixed(1)} s`)
      : warning(
          check,
          `${name}: ${host} answers${via} with status ${status}`,
          'Upstream has trouble, or the proxy has: try again later.',
        )
  }
  const { step, code } = reached
  const broken = code === 'timeout' ? `no answer within ${deadlineMs / 1000} s` : `it broke off (${code})`
  const reasons: Record<Step, readonly [why: string, fix: string]> = {
    name: [`its name is not found (${code})`, `Look at the network and its DNS: getent hosts ${hostname}`],
    connection: [
      `no connection (${code})`,
      proxy === undefined
        ? 'Look at the network and the firewall; where a proxy is needed, set HTTPS_PROXY.'
        : 'Look whether the proxy in HTTPS_PROXY runs there.',
    ],
    certificate: [
      `its certificate is not trusted (${code})`,
      'Check the clock first. Behind a proxy that reads along, name its certificate in NODE_EXTRA_CA_CERTS.',
    ],
    answer: [broken, `Look at the network and the firewall, and at what answers there: curl -v ${url}`],
  }
  const [why, fix] = reasons[step]
  return bad(check, `${name}: ${host} cannot be reached${via}: ${why}`, fix)
}

/** Whether the sandbox of this directory runs and answers. */
async function sandboxOf({ place, polling, deadlineMs, command }: Patient): Promise<Found> {
  const dir = join(place.dir, dataFiles.sandbox)
  const lock = await lookAtLock(join(dir, '.lock'))
  const start = command('sandbox')
  if (!lock?.held)
    return polling?.held
      ? bad('sandbox', 'the sandbox does not run, and a process polls it', start)
      : note('sandbox', 'the sandbox does not run', start)
  const url = ((await readText(join(dir, 'address'))) ?? '').trim()
  const reached = URL.canParse(url) ? await reach(`${url}/phone/stats`, { deadlineMs }) : undefined
  if (reached?.ok && reached.status === 200) {
    const here = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
    return ok('sandbox', `the sandbox runs, its phone is on ${here}/phone`)
  }
  return bad(
    'sandbox',
    'a process holds the sandbox, and it does not answer',
    `Restart that process${lock.pid === undefined ? '' : `: kill ${lock.pid}`}, then: ${start}`,
  )
}
