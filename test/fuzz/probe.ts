/**
 * A caller of its own thread, beside those who send: asks again and again for what costs the service next to nothing, keeps the
 * longest wait, and ends a service whose memory reaches the bound. Started as a worker by `target.ts`.
 *
 * Of a wait only so much counts as the main thread of the service has worked meanwhile: a machine in demand lets everybody wait.
 */
import { readFileSync } from 'node:fs'
import process from 'node:process'
import { secrets } from './secrets.ts'

/** Places in the shared numbers. */
export const cell = { pauseMs: 0, rssMb: 1, peakMb: 2, ended: 3, asks: 4 } as const

export interface ProbeOptions {
  url: string
  pid: number
  memoryMb: number
  cells: SharedArrayBuffer
  /** A tool without arguments; a path where there is nothing by default. */
  asked?: string
}

declare const self: { onmessage: ((event: { data: ProbeOptions }) => void) | null }

if (!Bun.isMainThread)
  self.onmessage = ({ data: { url, pid, memoryMb, cells, asked } }) => {
    const numbers = new Int32Array(cells)
    let askedAt = 0
    let busyBefore = 0
    const noted = () => {
      const tookMs = Math.round(Math.min(performance.now() - askedAt, busyMsOf(pid) - busyBefore))
      if (tookMs > numbers[cell.pauseMs]!) numbers[cell.pauseMs] = tookMs
    }
    setInterval(() => {
      if (askedAt) noted()
      const pages = Number(statm(pid).split(' ')[1])
      const mb = Math.round((pages * 4096) / 2 ** 20) || 0
      numbers[cell.rssMb] = mb
      numbers[cell.peakMb] = Math.max(numbers[cell.peakMb]!, mb)
      if (mb < memoryMb || numbers[cell.ended]) return
      numbers[cell.ended] = 1
      process.kill(pid, 'SIGKILL')
    }, 25)
    void (async () => {
      for (;;) {
        busyBefore = busyMsOf(pid)
        askedAt = performance.now()
        // Who has no token is made to wait.
        const headers = { authorization: `Bearer ${secrets.api}`, 'content-type': 'application/json' }
        const answer = asked
          ? fetch(`${url}/tools/default/${asked}`, { method: 'POST', headers, body: '{}' })
          : fetch(`${url}/nothing`, { headers })
        await answer.then(
          found => found.arrayBuffer(),
          () => {},
        )
        noted()
        askedAt = 0
        numbers[cell.asks]!++
        await Bun.sleep(50)
      }
    })()
  }

function statm(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/statm`, 'utf8')
  } catch {
    return ''
  }
}

/** Processor time of the main thread, ms. */
function busyMsOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
