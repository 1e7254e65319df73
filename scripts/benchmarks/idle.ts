import {
  cpuSecondsOf,
  createTemporaryFolder,
  memoryOf,
  post,
  type Service,
  startBenchService,
  startUpstream,
  waitUntil,
  writeSession,
} from './process.ts'
import { type Benchmark, median } from './report.ts'

export const idle: Benchmark = {
  name: 'idle',
  compares:
    'resident memory and processor time per idle session in a long poll (held 30 s), measured after its first poll has ended, compared with the same service without sessions at the same age.',
  async run({ quick }) {
    const sessions = quick ? 200 : 1000
    const seconds = quick ? 5 : 65
    using folder = createTemporaryFolder()
    using emptyFolder = createTemporaryFolder()
    await using upstream = await startUpstream()
    for (let i = 0; i < sessions; i++) writeSession(folder.path, `session-${i}`, upstream.ready)
    await using service = await startBenchService(folder.path, upstream.ready)
    await using empty = await startBenchService(emptyFolder.path, upstream.ready)
    await post(`${upstream.ready}/control/parked`, { count: sessions })
    await waitUntil('all sessions poll', async () => {
      const listed = await post(`${service.url}/tools/default/sessions`)
      return listed.length === sessions ? true : undefined
    })
    await post(`${empty.url}/tools/default/sessions`)
    // Wait for the end of the first poll, which is held for 30 s: its cursor goes to the disk, and that is
    // not idling.
    await Bun.sleep(quick ? 2000 : 32_000)

    const sizes: Record<'ours' | 'empty', number[]> = { ours: [], empty: [] }
    const cpu = (running: Service) => cpuSecondsOf(running.pid)
    const before = [cpu(service), cpu(empty)] as const
    const from = performance.now()
    while (performance.now() - from < seconds * 1000) {
      sizes.ours.push(memoryOf(service.pid).rss)
      sizes.empty.push(memoryOf(empty.pid).rss)
      await Bun.sleep(500)
    }
    const took = (performance.now() - from) / 1000
    const share = ((cpu(service) - before[0]) / took) * 100
    const emptyShare = ((cpu(empty) - before[1]) / took) * 100
    const each = (median(sizes.ours) - median(sizes.empty)) / 1024 / sessions
    const most = (Math.max(...sizes.ours) - median(sizes.empty)) / 1024 / sessions
    const mib = (bytes: number) => `${(bytes / 1024 ** 2).toFixed(1)} MiB`
    const about = `${sessions} idle sessions`
    return [
      {
        name: 'idle',
        what: `${about}: memory each`,
        ours: mib(median(sizes.ours)),
        baseline: mib(median(sizes.empty)),
        result: `${each.toFixed(1)} KB`,
        goal: '≤ 60 KB',
        met: each <= 60,
        spread: `at most ${most.toFixed(1)} KB in ${seconds} s`,
      },
      {
        name: 'idle',
        what: `${about}: share of a core`,
        ours: `${share.toFixed(2)} %`,
        baseline: `${emptyShare.toFixed(2)} %`,
        result: `${share.toFixed(2)} %`,
        goal: '≤ 3 %',
        met: share <= 3,
        spread: `over ${took.toFixed(0)} s`,
      },
    ]
  },
}
