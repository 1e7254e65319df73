/** Finds out which program listens at an address, and what a service's GET /healthz answers. */
import { join } from 'node:path'
import type { Config } from '../config.ts'
import type { Health } from '../gateway/health.ts'
import { dataFiles } from '../model/data-files.ts'
import { apiFetch, failureTextOf, socketPathOf } from '../platform/fetch.ts'
import { readText } from '../platform/files.ts'
import { processState } from '../platform/other-process.ts'
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

/** Returns the URL by which this machine reaches a service bound to `host`. */
export function urlOf(host: string, port: number): string {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** Returns the URL of a service by its configuration; `unix:<path>` if it listens on a socket. */
export const configuredUrlOf = ({ socket, host, port }: Pick<Config, 'socket' | 'host' | 'port'>): string =>
  socket === undefined ? urlOf(host, port) : `unix:${socket}`

/** Address of a running service, as it wrote it into its data directory. */
export interface NotedAddress {
  /** URL in the form of `configuredUrlOf`. */
  url: string
  pid: number
  /** URL of its panel, if it has one. */
  panel?: string
  /** True if other machines can reach it. */
  open?: true
}

/**
 * Returns the addresses of the services that run, first the one started first. Skips services whose process
 * is gone.
 */
export async function listNotedAddresses(dir: string): Promise<NotedAddress[]> {
  const text = (await readText(join(dir, dataFiles.address)).catch(() => undefined)) ?? ''
  const noted = await Promise.all(text.split('\n').map(parseRunning))
  return noted.filter(address => address !== undefined)
}

async function parseRunning(line: string): Promise<NotedAddress | undefined> {
  try {
    const { url, pid, panel, open }: Partial<NotedAddress> = JSON.parse(line)
    return typeof url === 'string' && typeof pid === 'number' && (await processState(pid)) !== 'gone'
      ? { url, pid, ...(typeof panel === 'string' && { panel }), ...(open === true && { open }) }
      : undefined
  } catch {
    return undefined
  }
}

/**
 * Returns true if the answering service serves another directory. A service of this directory would poll
 * it, or another process would hold the poll lock.
 *
 * @param polling who polls the directory; undefined if unknown
 */
export const servesAnotherDirectory = ({ store }: Health, polling: Polling | undefined): boolean =>
  store === 'ok' && polling?.held === false

/** Requests GET /healthz of the service at `url`; never throws. */
export async function askHealth(url: string, deadlineMs: number): Promise<HealthAnswer> {
  const socket = socketPathOf(url)
  const base = socket === undefined ? url.replace(/\/+$/, '').replace(/\/healthz$/, '') : 'http://localhost'
  try {
    const response = await apiFetch(`${base}/healthz`, { timeoutMs: deadlineMs, socket })
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
  try {
    const value: Partial<Health> | null = JSON.parse(text)
    const isOurs =
      typeof value === 'object' &&
      value !== null &&
      (value.role === 'poller' || value.role === 'watcher') &&
      (value.status === 'ok' || value.status === 'degraded') &&
      typeof value.version === 'string'
    if (!isOurs) return undefined
    const { trouble, ...health } = value as Health
    return {
      ...health,
      ...(typeof trouble?.message === 'string' && typeof trouble.hint === 'string' && { trouble }),
    }
  } catch {
    return undefined
  }
}
