/** A cluster to measure: nodes on a PostgreSQL server of their own, with sessions and users written into the database. */

import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { connectPg, type PgConnection } from '../../src/platform/postgres.ts'
import { createSealer } from '../../src/platform/sealing.ts'
import { sql } from '../../src/platform/sql.ts'
import { openPgStorage } from '../../src/storage/postgres/open.ts'
import { mapContextToken } from '../../src/storage/sealed-places.ts'
import { clusterSecret } from '../../test/support/cluster.ts'
import { type Postgres, startPostgres } from '../../test/support/postgres.ts'
import { botId, createTemporaryFolder, type Service, startBenchService } from './process.ts'

export interface BenchCluster extends AsyncDisposable {
  readonly postgres: Postgres
  readonly nodes: readonly Service[]
  /** A connection of the measurement. */
  readonly queries: PgConnection
  /** Runs statements as the superuser in the database. */
  psql(sql: string): Promise<string>
}

/** A session, and how many users have written to it, with an unlimited number of answers. */
export interface BenchSession {
  name: string
  users?: number
}

export interface BenchClusterOptions {
  sessions: readonly BenchSession[]
  /** Writes the sessions when the nodes run: each takes its share of them from the start. */
  areLate?: boolean
  nodes?: number
  /** A running server; default: one of its own. */
  postgres?: Postgres
  /** Called when the database has its tables and sessions, before the nodes start. */
  fill?(url: string): Promise<void>
  args?: string[]
}

const settings = {
  shared_buffers: '128MB',
  'pg_stat_statements.track_planning': 'on',
  ...(process.env.TRACK && { 'pg_stat_statements.track': 'all' }),
}

export const startBenchPostgres = (): Promise<Postgres> => startPostgres({ settings })

/** Starts nodes that ask `upstream`. */
export async function startBenchCluster(
  upstream: string,
  options: BenchClusterOptions,
): Promise<BenchCluster> {
  await using stack = new AsyncDisposableStack()
  const postgres = options.postgres ?? stack.use(await startBenchPostgres())
  const name = `bench_${crypto.randomUUID().slice(0, 8)}`
  await postgres.createDatabase(name)
  const url = postgres.url(name)
  await writeSessions(url, upstream, options.areLate ? [] : options.sessions)
  const queries = await connectPg({ url, name: 'bench', answerMs: 600_000 })
  stack.defer(() => queries.destroy())
  await postgres.psql('CREATE EXTENSION IF NOT EXISTS pg_stat_statements', name)
  await options.fill?.(url)
  const nodes: Service[] = []
  for (let nth = 0; nth < (options.nodes ?? 3); nth++) {
    const folder = stack.use(createTemporaryFolder())
    nodes.push(stack.use(await startBenchNode(nth, folder.path, url, upstream, options.args)))
  }
  if (options.areLate) await writeSessions(url, upstream, options.sessions)
  const own = stack.move()
  return {
    postgres,
    nodes,
    queries,
    psql: text => postgres.psql(text, name),
    [Symbol.asyncDispose]: () => own.disposeAsync(),
  }
}

/** A node reports another client version than the others, so that the upstream can tell them. */
const startBenchNode = (nth: number, dir: string, url: string, upstream: string, args: string[] = []) =>
  startBenchService(dir, upstream, {
    args,
    env: { SVC_STORE_URL: url, SVC_SECRET_KEY: clusterSecret, SVC_CHANNEL_VERSION: `2.4.${nth + 1}` },
  })

async function writeSessions(
  url: string,
  upstream: string,
  sessions: readonly BenchSession[],
): Promise<void> {
  const storage = await openPgStorage({
    url,
    secret: clusterSecret,
    clock: systemClock,
    log: silentLog,
    maxAgeDays: 0,
    maxCount: 0,
  })
  const connection = await connectPg({ url, name: 'bench', answerMs: 60_000 })
  const { seal } = createSealer(clusterSecret)
  try {
    const save = ({ name }: BenchSession) =>
      storage.state.sessions.save(name, {
        bot_id: botId(name),
        token: `${botId(name)}:${name}`,
        base_url: upstream,
        user_id: 'owner@im.wechat',
        cursor: '',
        created_at: Date.now(),
      })
    // Some at a time share the wait for the disk.
    for (let nth = 0; nth < sessions.length; nth += 50)
      await Promise.all(sessions.slice(nth, nth + 50).map(save))
    for (const { name, users = 0 } of sessions) {
      if (users === 0) continue
      const peers = Array.from({ length: users }, (_none, nth) => `user${nth}@im.wechat`)
      const tokens = peers.map(peer => mapContextToken('A'.repeat(120), peer, seal))
      await connection.run(sql`INSERT INTO session (name, name_key) SELECT ${name}, ${name}
        WHERE NOT EXISTS (SELECT 1 FROM session WHERE name_key = ${name})`)
      await connection.run(sql`INSERT INTO outbox_lane (session, peer, token, received_at, first_seen, used)
        SELECT (SELECT key FROM session WHERE name_key = ${name}), one.*, ${Date.now()}::bigint, ${Date.now()}::bigint, -1000000
        FROM unnest(${peers}::text[], ${tokens}::text[]) one`)
    }
  } finally {
    connection.destroy()
    await storage.close()
  }
}
