/** The nodes of a cluster under faults: each may be killed, suspended, cut from the database, or have its clock set. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Cluster, ClusterNode } from '../../support/cluster.ts'
import { end } from '../../support/family.ts'
import type { ServiceOptions } from '../../support/service.ts'
import type { Span } from './polls.ts'
import type { Answer } from './program.ts'
import type { Door } from './readers.ts'

/** Debian's package libfaketime. It gives a program another clock, which can be set while it runs. */
const libfaketime = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'
export const canSetClocks = existsSync(libfaketime)

/** Longest wait for an answer. A suspended node answers later, or never. */
const answerMs = 20_000
/** WeChat hears so late, at the worst, that a node has ended a poll. */
const cutMs = 2000

export interface Nodes extends Disposable {
  /** The process at each place; undefined between its death and the start of the next one. */
  readonly at: (ClusterNode | undefined)[]
  readonly doors: Door[]
  /** Process id by the client version that it reports, of all processes so far. */
  readonly pids: ReadonlyMap<string, number>
  readonly suspended: readonly Span[]
  readonly killed: ReadonlySet<string>
  /** Nodes that ended by themselves, with the end of their logs. */
  readonly crashes: readonly string[]
  /** Whether a node had no lease any more at a time (Unix ms), and ended its polls: by its log. */
  hasCutPolls(channelVersion: string, at: number): boolean
  start(place: number): Promise<void>
  kill(place: number): Promise<void>
  suspend(place: number, ms: number): Promise<void>
  /** Sets the clock of a node ahead, or back, of the true time. */
  setClock(place: number, aheadMs: number): void
}

export function nodesOf(cluster: Cluster, count: number, options: ServiceOptions = {}): Nodes {
  const dir = mkdtempSync(join(tmpdir(), 'svc-clocks-'))
  const at: (ClusterNode | undefined)[] = Array.from({ length: count })
  const pids = new Map<string, number>()
  const suspended: Span[] = []
  const killed = new Set<string>()
  const crashes: string[] = []
  const clockFile = (place: number) => join(dir, String(place))
  /** How far ahead the clock of each process was at any time, by its client version. */
  const ahead = new Map<string, Set<number>>()
  const noteClock = (channelVersion: string, ms: number) =>
    void ahead.set(channelVersion, (ahead.get(channelVersion) ?? new Set()).add(ms))
  const setClock = (place: number, aheadMs: number) => {
    const node = at[place]
    if (node) noteClock(node.channelVersion, aheadMs)
    writeFileSync(clockFile(place), `${aheadMs < 0 ? '-' : '+'}${Math.abs(aheadMs) / 1000}\n`)
  }
  return {
    ...{ at, pids, suspended, killed, crashes, setClock },
    doors: at.map((_, place) => () => {
      const node = at[place]
      return node && { pid: node.pid, call: (tool, input, signal) => ask(node, tool, input, signal) }
    }),
    hasCutPolls(channelVersion, at) {
      const log = cluster.nodes.find(node => node.channelVersion === channelVersion)?.log() ?? ''
      return [...log.matchAll(/^(\S+) WARNING store: this node polls no session/gm)].some(([, time]) =>
        // The log has the times of its clock.
        [...(ahead.get(channelVersion) ?? [])].some(ms => Math.abs(Date.parse(time!) - ms - at) < cutMs),
      )
    },
    async start(place) {
      setClock(place, 0)
      const node = await cluster.addNode({
        ...options,
        env: {
          ...options.env,
          ...(canSetClocks && {
            LD_PRELOAD: libfaketime,
            FAKETIME_TIMESTAMP_FILE: clockFile(place),
            FAKETIME_CACHE_DURATION: '1',
            FAKETIME_DONT_FAKE_MONOTONIC: '1',
          }),
        },
      })
      pids.set(node.channelVersion, node.pid)
      noteClock(node.channelVersion, 0)
      at[place] = node
      void node.exited.then(status => {
        if (at[place] === node) crashes.push(`node ${place} ended (${status}): ${node.log().slice(-5000)}`)
      })
    },
    async kill(place) {
      const node = at[place]
      at[place] = undefined
      if (!node) return
      // Its polls end when it is gone.
      killed.add(node.channelVersion)
      await node.kill('SIGKILL')
    },
    async suspend(place, ms) {
      const { channelVersion, pid } = at[place]!
      const span = { channelVersion, from: Date.now(), to: Number.POSITIVE_INFINITY }
      suspended.push(span)
      end(pid, 'SIGSTOP')
      await Bun.sleep(ms)
      end(pid, 'SIGCONT')
      span.to = Date.now()
    },
    [Symbol.dispose]() {
      rmSync(dir, { recursive: true, force: true })
      // The library leaves them if its program is killed.
      for (const pid of pids.values())
        for (const name of [`faketime_shm_${pid}`, `sem.faketime_sem_${pid}`])
          rmSync(`/dev/shm/${name}`, { force: true })
    },
  }
}

/**
 * Makes a call on a connection of its own: fetch would repeat a call in silence if a kept connection breaks.
 *
 * @throws if the connection breaks, and after `answerMs`, also if fetch never settles
 */
export async function ask(
  { url }: Pick<ClusterNode, 'url'>,
  tool: string,
  input: unknown = {},
  signal?: AbortSignal,
): Promise<Answer> {
  const abandoned = new AbortController()
  const leave = () => abandoned.abort()
  signal?.addEventListener('abort', leave)
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`no answer to ${tool}`)), answerMs)
  const answered = (async () => {
    const response = await fetch(`${url}/tools/default/${tool}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(input),
      keepalive: false,
      signal: abandoned.signal,
    })
    return { status: response.status, body: await response.json() }
  })()
  try {
    return await Promise.race([answered, late.promise])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', leave)
    leave()
  }
}
