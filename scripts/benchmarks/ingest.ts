import {
  botId,
  type Child,
  createTemporaryFolder,
  post,
  startBenchService,
  startChild,
  startUpstream,
  writeSession,
} from './process.ts'
import { alternate, type Benchmark, createSpeedRow } from './report.ts'

const batchSize = 100
export const session = 'shop'
/** The number of users who write in a backlog. */
const users = 200

let runs = 0

/** Prepares a backlog that shares no id with earlier ones. */
export const prepareBacklog = (upstream: Child, messages: number, from = users): Promise<unknown> =>
  post(`${upstream.ready}/control/backlog`, {
    run: ++runs,
    batches: messages / batchSize,
    size: batchSize,
    to: botId(session),
    users: from,
  })

/** Returns messages per second, from the first poll to the poll that sends the last cursor. */
export async function readIngestSpeed(upstream: Child, messages: number): Promise<number> {
  const { ms } = await post(`${upstream.ready}/control/took`)
  return messages / (ms / 1000)
}

/** Lets a service take in a backlog, in an empty folder or in `dir`. @returns messages per second */
export async function ingestWithSvc(upstream: Child, messages: number, dir?: string): Promise<number> {
  using folder = createTemporaryFolder()
  const base = dir ?? folder.path
  await prepareBacklog(upstream, messages)
  writeSession(base, session, upstream.ready)
  await using service = await startBenchService(base, upstream.ready)
  const speed = await readIngestSpeed(upstream, messages)
  if (service.log()) throw new Error(`the service complained:\n${service.log()}`)
  return speed
}

async function ingestBare(upstream: Child, messages: number): Promise<number> {
  using folder = createTemporaryFolder()
  await prepareBacklog(upstream, messages)
  await using _bare = await startChild('bare-ingest.ts', [folder.path, upstream.ready])
  return await readIngestSpeed(upstream, messages)
}

export const ingest: Benchmark = {
  name: 'ingest',
  compares:
    'messages/s from the first poll to the poll with the last cursor, batches of 100 from 200 users. Baseline: a process that loops over fetch, JSON.parse, the same rows into the same tables, indexes and full-text index (with the same gramsOf) in one synchronous=FULL transaction, then the cursor into a file with fsync and rename. It keeps no context tokens, which svc also writes durably for each batch.',
  async run({ quick, rounds }) {
    const messages = quick ? 5000 : 20_000
    await using upstream = await startUpstream()
    const paired = await alternate(
      rounds,
      () => ingestBare(upstream, messages),
      () => ingestWithSvc(upstream, messages),
    )
    const what = `backlog of ${messages.toLocaleString('en-US')} messages`
    return [createSpeedRow(paired, { name: 'ingest', what, unit: 'msg/s', goal: 0.6 })]
  },
}
