/** Finds out which program listens at an address, and what a service's GET /healthz answers. */
import { listNotes, type NotedAddress, type ServiceAddress } from '../config/notes.ts'
import type { Config } from '../config.ts'
import type { Health } from '../gateway/health.ts'
import { apiFetch, failureTextOf, fetchTrusting, socketPathOf } from '../platform/fetch.ts'
import { parseFields } from '../platform/fields.ts'
import { formatUrl } from '../platform/http-server.ts'
import { isLoopback, toReachableUrl } from '../platform/serve.ts'
import type { Polling } from '../storage/inspection.ts'

/**
 * Result of asking an address.
 *
 * - svc: a service answered; `seen` is its answer
 * - stranger: another program answered
 * - silent: the connection succeeded, but no answer came before the deadline
 * - nobody: nothing listens there
 * - unreachable: no connection; `code` is the reason
 */
export type HealthAnswer =
  /** Status 200, or 503 while the service's store fails. */
  | { kind: 'svc'; status: number; seen: Health }
  | { kind: 'stranger'; status: number }
  | { kind: 'silent' }
  | { kind: 'nobody' }
  | { kind: 'unreachable'; code: string }

/**
 * Returns the URL by which this machine reaches a service, by its configuration; `unix:<path>` if it listens
 * on a socket.
 */
export const configuredUrlOf = ({
  socket,
  host,
  port,
  tlsCert,
}: Pick<Config, 'socket' | 'host' | 'port' | 'tlsCert'>): string =>
  socket === undefined ? toReachableUrl(formatUrl(host, port, tlsCert !== undefined)) : `unix:${socket}`

/**
 * Returns where a service is, by its configuration. If it runs, its note says whether it serves https, which
 * the options of another command do not say.
 */
export async function findConfigured(
  config: Pick<Config, 'socket' | 'host' | 'port' | 'tlsCert' | 'basePath'>,
): Promise<ServiceAddress & Partial<NotedAddress>> {
  const url = configuredUrlOf(config)
  const noted = await listNotedAddresses(config.basePath)
  return noted.find(one => withoutScheme(one.url) === withoutScheme(url)) ?? { url }
}

const withoutScheme = (url: string) => url.replace(/^https?:/, '')

/**
 * Returns the addresses of the services that run, first the one started first. Skips services whose process
 * is gone.
 */
export async function listNotedAddresses(dir: string): Promise<NotedAddress[]> {
  return (await listNotes(dir)).filter(({ url }) => url !== '')
}

/**
 * Returns true if the answering service serves another directory. A service of this directory would poll
 * it, or another process would hold the poll lock.
 *
 * @param polling who polls the directory; undefined if unknown
 */
export const servesAnotherDirectory = ({ store }: Health, polling: Polling | undefined): boolean =>
  store === 'ok' && polling?.held === false

/**
 * Requests GET /healthz of the service at this address; never throws. Trusts its known certificate. An unknown
 * one is trusted on loopback, because nothing secret is sent there.
 */
export async function askHealth(
  { url, certificate }: ServiceAddress,
  deadlineMs: number,
): Promise<HealthAnswer> {
  const socket = socketPathOf(url)
  const base = socket === undefined ? url.replace(/\/+$/, '').replace(/\/healthz$/, '') : 'http://localhost'
  const isOwn = isLoopback(URL.parse(base)?.hostname ?? '')
  const trust = certificate?.fingerprint ?? (isOwn && base.startsWith('https:') ? 'any' : undefined)
  try {
    const response =
      trust === undefined
        ? await apiFetch(`${base}/healthz`, { timeoutMs: deadlineMs, socket })
        : await fetchTrusting(trust, `${base}/healthz`, { signal: AbortSignal.timeout(deadlineMs) })
    const seen = parseHealth(await response.text())
    return seen === undefined
      ? { kind: 'stranger', status: response.status }
      : { kind: 'svc', status: response.status, seen }
  } catch (error) {
    const code = failureTextOf(error)
    if (code === 'timeout') return { kind: 'silent' }
    if (code === 'ECONNREFUSED' || (socket !== undefined && code === 'ENOENT')) return { kind: 'nobody' }
    // A program with another protocol, or one that closes the connection.
    if (/^(not HTTP|ECONNRESET)$/.test(code)) return { kind: 'stranger', status: 0 }
    return { kind: 'unreachable', code }
  }
}

function parseHealth(text: string): Health | undefined {
  const value: Partial<Health> = parseFields(text) ?? {}
  const isOurs =
    (value.role === 'poller' || value.role === 'watcher') &&
    (value.status === 'ok' || value.status === 'degraded') &&
    typeof value.version === 'string'
  if (!isOurs) return undefined
  const { trouble, ...health } = value as Health
  return {
    ...health,
    ...(typeof trouble?.message === 'string' && typeof trouble.hint === 'string' && { trouble }),
  }
}
