/** One server asked for one answer, and where it failed if it did: name, connection, certificate, answer. */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { failureOf, isAboutCertificate } from '../inspect/failure.ts'
import { systemClock } from '../platform/clock.ts'
import { apiFetch } from '../platform/fetch.ts'

export type Step = 'name' | 'connection' | 'certificate' | 'answer'

export type Reached =
  | {
      ok: true
      status: number
      /** Unix ms of the server's clock, where it told. */
      date?: number
      /** Unix ms of our own clock at the middle of the exchange. */
      localAt: number
      tookMs: number
    }
  | { ok: false; step: Step; code: string }

/** Asks for `url` with GET; any answer counts. At most about twice the deadline. */
export async function reach(
  url: string,
  options: { deadlineMs: number; proxied?: boolean },
): Promise<Reached> {
  const { deadlineMs, proxied = false } = options
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  if (!proxied && isIP(host) === 0) {
    const code = await resolves(host, deadlineMs)
    if (code !== undefined) return { ok: false, step: 'name', code }
  }
  const begunAt = Date.now()
  const begun = performance.now()
  try {
    const response = await apiFetch(url, { timeoutMs: deadlineMs })
    const tookMs = performance.now() - begun
    await response.body?.cancel().catch(() => {})
    const date = Date.parse(response.headers.get('date') ?? '')
    return {
      ok: true,
      status: response.status,
      date: Number.isFinite(date) ? date : undefined,
      ...{ localAt: begunAt + tookMs / 2, tookMs },
    }
  } catch (error) {
    const code = failureOf(error)
    if (/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|FailedToOpenSocket)$/.test(code)) {
      return { ok: false, step: 'connection', code }
    }
    if (code !== 'timeout' && isAboutCertificate(error)) return { ok: false, step: 'certificate', code }
    return { ok: false, step: 'answer', code }
  }
}

async function resolves(host: string, deadlineMs: number): Promise<string | undefined> {
  const waiting = new AbortController()
  const late = systemClock.sleep(deadlineMs, waiting.signal).then(() => 'timeout')
  const answer = lookup(host).then(
    () => undefined,
    error => failureOf(error),
  )
  try {
    return await Promise.race([answer, late])
  } finally {
    waiting.abort()
  }
}
