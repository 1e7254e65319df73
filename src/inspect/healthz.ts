/** Who listens at an address, and what GET /healthz of a service means. */
import { join } from 'node:path'
import type { Config } from '../config.ts'
import type { Health } from '../gateway/health.ts'
import { dataFiles } from '../model/data-files.ts'
import { apiFetch, failureOf, socketIn } from '../platform/fetch.ts'
import { readText } from '../platform/files.ts'
import { processState } from '../platform/other-process.ts'
import type { Polling } from '../storage/sight.ts'

/**
 * - svc: a service answered, and `seen` is what it said of itself
 * - stranger: something answered that is not svc
 * - silent: a connection came about, and no answer within the deadline
 * - nobody: nothing listens there
 * - unreachable: no connection, for `code`
 */
export type HealthAnswer =
  /** 200, or 503 while the store of the service fails. */
  | { kind: 'svc'; status: number; seen: Health }
  | { kind: 'stranger'; status: number }
  | { kind: 'silent' }
  | { kind: 'nobody' }
  | { kind: 'unreachable'; code: string }

/** The address under which this machine reaches a service bound to `host`. */
export function addressOf(host: string, port: number): string {
  const name = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}

/** The same of a service as it is configured: `unix:<path>` where it listens on a socket. */
export const addressIn = ({ socket, host, port }: Pick<Config, 'socket' | 'host' | 'port'>): string =>
  socket === undefined ? addressOf(host, port) : `unix:${socket}`

/** Where a service of a data directory listens, as it noted there. */
export interface NotedAddress {
  /** As `addressIn`. */
  url: string
  pid: number
  /** Where its panel is, if it has one. */
  panel?: string
  /** Other machines can reach it. */
  open?: true
}

/** What the services that run noted, as far as that can be told from here: the one that was started first comes first. */
export async function notedAddresses(dir: string): Promise<NotedAddress[]> {
  const text = (await readText(join(dir, dataFiles.address)).catch(() => undefined)) ?? ''
  const noted = await Promise.all(text.split('\n').map(running))
  return noted.filter(one => one !== undefined)
}

async function running(line: string): Promise<NotedAddress | undefined> {
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
 * Whether a service that answers is not of the directory: it would poll it, or follow the process that does.
 *
 * @param polling who polls the directory; absent where that cannot be told
 */
export const isOfAnother = ({ store }: Health, polling: Polling | undefined): boolean =>
  store === 'ok' && polling?.held === false

/** Asks the service at `url`; never throws. */
export async function askHealth(url: string, deadlineMs: number): Promise<HealthAnswer> {
  const socket = socketIn(url)
  const base = socket === undefined ? url.replace(/\/+$/, '').replace(/\/healthz$/, '') : 'http://localhost'
  try {
    const response = await apiFetch(`${base}/healthz`, { timeoutMs: deadlineMs, socket })
    const seen = healthIn(await response.text())
    return seen === undefined
      ? { kind: 'stranger', status: response.status }
      : { kind: 'svc', status: response.status, seen }
  } catch (error) {
    const code = failureOf(error)
    if (code === 'timeout') return { kind: 'silent' }
    if (code === 'ECONNREFUSED' || (socket !== undefined && code === 'ENOENT')) return { kind: 'nobody' }
    // What speaks another language, or hangs up on us.
    if (/^(not HTTP|ECONNRESET)$/.test(code)) return { kind: 'stranger', status: 0 }
    return { kind: 'unreachable', code }
  }
}

function healthIn(text: string): Health | undefined {
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
