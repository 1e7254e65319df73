/** Requests to the sandbox: it lives in one process and is used by others, which outlive it. */
import { type Fetch, type FetchInit, networkError } from '../ilink/http.ts'
import type { Log } from '../platform/log.ts'

/**
 * `fetch` to the pretend WeChat at `url`, whose failures name it as what it is. That it is gone is told once, until it is
 * there again.
 */
export function pretendedFetch(fetch: Fetch, url: string, log: Log): Fetch {
  // Whoever uses it goes on asking at this address: another port would help nobody.
  const { port } = new URL(url)
  const keep = `svc sandbox${port && ` --sandbox-port ${port}`}`
  const hint = `It ended with the process that ran it: start that again, or keep it running with: ${keep} (for the same directory).`
  let told = false
  return async (url: string, init: FetchInit) => {
    try {
      const response = await fetch(url, init)
      told = false
      return response
    } catch (error) {
      if (init.signal?.aborted) throw error
      const failed = networkError(error, undefined, 'the pretend WeChat', hint)
      if (failed.neverSent && !told) {
        told = true
        log.warn(`the pretend WeChat is not there. ${hint}`)
      }
      throw failed
    }
  }
}
