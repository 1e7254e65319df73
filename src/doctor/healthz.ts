/** GET /healthz of a service, and what its answer means. */
import type { Health } from '../gateway/face.ts'
import { apiFetch } from '../platform/fetch.ts'
import { failureOf } from './failure.ts'

/**
 * - svc: a service answered; `status` is 200, or 503 while its store fails
 * - stranger: something answered that is not svc
 * - silent: a connection came about, and no answer within the deadline
 * - nobody: nothing listens there
 * - unreachable: no connection, for `code`
 */
export type HealthAnswer =
  | { kind: 'svc'; status: number; health: Health }
  | { kind: 'stranger'; status: number }
  | { kind: 'silent' }
  | { kind: 'nobody' }
  | { kind: 'unreachable'; code: string }

/** The address under which this machine reaches a service bound to `host`. */
export function addressOf(host: string, port: number): string {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Asks the service at `url`; never throws. */
export async function askHealth(url: string, deadlineMs: number): Promise<HealthAnswer> {
  const address = `${url.replace(/\/+$/, '').replace(/\/healthz$/, '')}/healthz`
  try {
    const response = await apiFetch(address, { timeoutMs: deadlineMs })
    const health = healthIn(await response.text())
    return health
      ? { kind: 'svc', status: response.status, health }
      : { kind: 'stranger', status: response.status }
  } catch (error) {
    const code = failureOf(error)
    if (code === 'timeout') return { kind: 'silent' }
    if (code === 'ECONNREFUSED') return { kind: 'nobody' }
    // What speaks another language, or hangs up on us.
    if (/^(not HTTP|ECONNRESET|UnexpectedEOF)$/.test(code)) return { kind: 'stranger', status: 0 }
    return { kind: 'unreachable', code }
  }
}

function healthIn(text: string): Health | undefined {
  try {
    const value = JSON.parse(text) as Partial<Health> | null
    const isOurs =
      typeof value === 'object' &&
      value !== null &&
      (value.role === 'poller' || value.role === 'watcher') &&
      (value.status === 'ok' || value.status === 'degraded') &&
      typeof value.version === 'string'
    return isOurs ? (value as Health) : undefined
  } catch {
    return undefined
  }
}
