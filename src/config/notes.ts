/** Where services listen, as they note it in their data directory for other processes on this machine. */
import { join } from 'node:path'
import { dataFiles } from '../model/data-files.ts'
import { readText } from '../platform/files.ts'
import { processState } from '../platform/other-process.ts'
import type { FailingTask } from '../platform/tasks.ts'

/** Where a service is reached. */
export interface ServiceAddress {
  /** `http://host:port`, `https://host:port`, or `unix:<path>`. */
  url: string
  /** The certificate of https, if it is known. */
  certificate?: {
    /** SHA-256 of the server's own certificate. */
    fingerprint: string
    /** Unix milliseconds. */
    expires_at: number
  }
}

/**
 * Address of a running service, as it wrote it into its data directory. A process that serves the panel alone is no
 * service to call: its `url` is ''.
 */
export interface NotedAddress extends ServiceAddress {
  pid: number
  /** URL of its panel, if it has one, and of --relay-port. */
  panel?: string
  relay?: string
  /** The address of --public-url. */
  public_url?: string
  /** True if other machines can reach it. */
  open?: true
  /** True if there seems to be a proxy in front, and it trusts none. */
  untrusted_proxy?: true
  /** Its work in the background that fails. */
  failing_tasks?: readonly FailingTask[]
}

/** Returns the URL under which the service of a directory that was started last is reached, best by others. @param door or by programs */
export async function findServiceUrl(dir: string, door?: 'relay'): Promise<string | undefined> {
  const urls = (await listNotes(dir)).map(one => one.public_url ?? (door && one.relay) ?? one.url)
  return urls.findLast(url => url.startsWith('http'))
}

/** Returns what the processes that run noted, first the one started first. */
export async function listNotes(dir: string): Promise<NotedAddress[]> {
  const text = (await readText(join(dir, dataFiles.address)).catch(() => undefined)) ?? ''
  const noted = await Promise.all(text.split('\n').map(parseRunning))
  return noted.filter(address => address !== undefined)
}

async function parseRunning(line: string): Promise<NotedAddress | undefined> {
  try {
    const noted: Partial<NotedAddress> = JSON.parse(line)
    const { url, pid, panel, public_url, relay, open, untrusted_proxy, certificate, failing_tasks } = noted
    const isRunning =
      typeof url === 'string' && typeof pid === 'number' && (await processState(pid)) !== 'gone'
    if (!isRunning) return undefined
    const { fingerprint, expires_at = Number.NaN } = certificate ?? {}
    return {
      url,
      pid,
      ...(typeof panel === 'string' && { panel }),
      ...(typeof public_url === 'string' && { public_url }),
      ...(typeof relay === 'string' && { relay }),
      ...(open === true && { open }),
      ...(untrusted_proxy === true && { untrusted_proxy }),
      ...(Array.isArray(failing_tasks) && { failing_tasks }),
      ...(typeof fingerprint === 'string' && {
        certificate: { fingerprint, expires_at: Number(expires_at) },
      }),
    }
  } catch {
    return undefined
  }
}
