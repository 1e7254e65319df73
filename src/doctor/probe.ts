/** One server asked for one answer. */
import { apiFetch } from '../platform/fetch.ts'
import { failureOf } from '../platform/network-error.ts'

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
export async function reach(url: string, deadlineMs: number): Promise<Reached> {
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
