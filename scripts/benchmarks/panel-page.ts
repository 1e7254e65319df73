/** Drives a browser on the panel and measures the work of its main thread. */
import type { CDPSession, Page } from 'playwright-core'

/**
 * Script time of the page's main thread in ms: of the busiest frame and of the 99th percentile; and the
 * number of frames.
 */
export interface FrameTimes {
  worst: number
  p99: number
  frames: number
}

interface TraceEvent {
  name: string
  ph: string
  ts: number
  dur?: number
  tdur?: number
  pid: number
  tid: number
  args?: { name?: string }
}

const scripts = new Set([
  'FunctionCall',
  'EvaluateScript',
  'v8.run',
  'RunMicrotasks',
  'TimerFire',
  'EventDispatch',
])
const frameEnds = 'Commit'

/** Returns the script time per frame while `work` runs, from Chromium's trace. */
export const scriptPerFrame = async (page: Page, work: () => Promise<void>): Promise<FrameTimes> =>
  summarizeFrames(await trace(page, work))

/** Returns the longest task of the page's main thread while `work` runs, in ms of processor time. */
export async function longestTask(page: Page, work: () => Promise<void>): Promise<number> {
  // More trace categories would make tasks longer.
  const events = await trace(page, work, ['disabled-by-default-devtools.timeline', '__metadata'])
  const mains = events.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
  const tasks = events.filter(
    ({ name, pid, tid }) => name === 'RunTask' && mains.some(main => main.pid === pid && main.tid === tid),
  )
  return Math.max(0, ...tasks.map(({ dur = 0, tdur = dur }) => tdur / 1000))
}

const categories = [
  'devtools.timeline',
  'disabled-by-default-devtools.timeline',
  'devtools.timeline.frame',
  'v8',
  '__metadata',
]

async function trace(page: Page, work: () => Promise<void>, included = categories): Promise<TraceEvent[]> {
  const cdp = await page.context().newCDPSession(page)
  const events: TraceEvent[] = []
  cdp.on('Tracing.dataCollected', ({ value }) => void events.push(...(value as unknown as TraceEvent[])))
  await cdp.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: included },
  })
  await work()
  await stop(cdp)
  return events
}

async function stop(cdp: CDPSession): Promise<void> {
  const complete = new Promise(resolve => cdp.once('Tracing.tracingComplete', resolve))
  await cdp.send('Tracing.end')
  await complete
  await cdp.detach()
}

function summarizeFrames(events: readonly TraceEvent[]): FrameTimes {
  const mains = events.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
  let best: number[] = []
  for (const { pid, tid } of mains) {
    const own = events.filter(event => event.pid === pid && event.tid === tid).sort((a, b) => a.ts - b.ts)
    const frames = [0]
    let until = 0
    for (const { name, ph, ts, dur = 0, tdur } of own) {
      if (name === frameEnds) frames.push(0)
      // An event inside another one is counted with that.
      if (ph !== 'X' || !scripts.has(name) || ts < until) continue
      until = ts + dur
      frames[frames.length - 1]! += (tdur ?? dur) / 1000
    }
    if (frames.length > best.length) best = frames
  }
  const sorted = best.toSorted((a, b) => b - a)
  return { worst: sorted[0] ?? 0, p99: sorted[Math.floor(sorted.length / 100)] ?? 0, frames: sorted.length }
}

/**
 * Returns a function that returns the number of bytes received for all requests that have finished.
 * Compressed bodies count with their compressed size.
 */
export async function watchTransfer(page: Page): Promise<() => number> {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('Network.enable')
  let bytes = 0
  cdp.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  return () => bytes
}
