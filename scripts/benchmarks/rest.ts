import { readConfig } from '../../src/config.ts'
import { openGateway } from '../../src/gateway/gateway.ts'
import { owner } from '../../src/model/principal.ts'
import { silentLog } from '../../src/platform/log.ts'
import {
  cpuSecondsOf,
  createTemporaryFolder,
  post,
  startBenchService,
  startChild,
  startUpstream,
  writeSession,
} from './process.ts'
import { alternate, type Benchmark, createSpeedRow, median } from './report.ts'

/** Makes a key that is limited to the session `shop`. */
async function addKey(dir: string): Promise<string> {
  const config = readConfig({ basePath: dir }, {})
  const gateway = await openGateway({ config, log: silentLog, version: '0' })
  const { key } = await gateway.keys.add({ name: 'bench', can: ['read'], sessions: ['shop'] }, owner)
  await gateway.close()
  return key
}

const path = '/tools/default/sessions'

export const rest: Benchmark = {
  name: 'rest',
  compares:
    'requests/s of POST /tools/default/sessions with one connected session, compared with a bare Bun.serve handler that parses the body and answers with the same JSON; 32 connections of plain sockets from another process. With 10 sessions on one connection: compared with the service with one session. With a key that is limited to that session: compared with the same service without keys.',
  async run({ quick, rounds, note }) {
    using folder = createTemporaryFolder()
    await using upstream = await startUpstream()
    writeSession(folder.path, 'shop', upstream.ready)
    await using service = await startBenchService(folder.path, upstream.ready)
    await post(`${upstream.ready}/control/parked`, { count: 1 })
    const answer = await post(`${service.url}${path}`)
    await using bare = await startChild('bare-rest.ts', [JSON.stringify(answer)])

    const cpu: Record<'ours' | 'bare', number[]> = { ours: [], bare: [] }
    const measure = async (url: string, pid: number, kept: number[], connections = '32', token?: string) => {
      const before = cpuSecondsOf(pid)
      const args = [url, path, '{}', connections, quick ? '1' : '4', ...(token === undefined ? [] : [token])]
      await using load = await startChild('load.ts', args)
      const code = await load.exited
      const lines = (await load.output()).trim().split('\n')
      if (code !== 0) throw new Error('the load process failed')
      const { requests, seconds } = JSON.parse(lines.at(-1) ?? '') as { requests: number; seconds: number }
      kept.push(((cpuSecondsOf(pid) - before) / requests) * 1e6)
      return requests / seconds
    }
    // During the first seconds the runtime still compiles.
    await measure(bare.ready, bare.pid, [])
    await measure(service.url, service.pid, [])
    const paired = await alternate(
      rounds,
      () => measure(bare.ready, bare.pid, cpu.bare),
      () => measure(service.url, service.pid, cpu.ours),
    )
    using tenFolder = createTemporaryFolder()
    for (let i = 0; i < 10; i++) writeSession(tenFolder.path, `shop-${i}`, upstream.ready)
    await using ten = await startBenchService(tenFolder.path, upstream.ready)
    await measure(ten.url, ten.pid, [], '1')
    const many = await alternate(
      rounds,
      () => measure(service.url, service.pid, [], '1'),
      () => measure(ten.url, ten.pid, [], '1'),
    )
    using keyFolder = createTemporaryFolder()
    writeSession(keyFolder.path, 'shop', upstream.ready)
    await using keyed = await startBenchService(keyFolder.path, upstream.ready)
    const key = await addKey(keyFolder.path)
    await measure(keyed.url, keyed.pid, [], '32', key)
    const keyCosts: Record<'without' | 'with', number[]> = { without: [], with: [] }
    const byKey = await alternate(
      rounds,
      () => measure(service.url, service.pid, keyCosts.without),
      () => measure(keyed.url, keyed.pid, keyCosts.with, '32', key),
    )
    note(
      `rest: processor time per request with a key ${median(keyCosts.with).toFixed(1)} µs, without ${median(keyCosts.without).toFixed(1)} µs`,
    )
    note(
      `rest: processor time per request ${median(cpu.ours).toFixed(1)} µs, bare ${median(cpu.bare).toFixed(1)} µs`,
    )
    return [
      createSpeedRow(paired, { name: 'rest', what: 'small tool call (sessions)', unit: 'req/s', goal: 0.65 }),
      createSpeedRow(byKey, { name: 'rest', what: 'small tool call with a key', unit: 'req/s', goal: 0.9 }),
      createSpeedRow(many, { name: 'rest', what: '10 sessions, 1 connection', unit: 'req/s', goal: 0.5 }),
    ]
  },
}
