/** Several connections to PostgreSQL, of which each statement takes one. */
import pg from 'pg'
import {
  connectAny,
  connectionErrorOf,
  connectMs,
  isAnswer,
  PgConnectionError,
  type PgOptions,
  type PgQueries,
  queriesOf,
  StatementNames,
  socketOf,
} from './postgres.ts'

export interface PgPool extends PgQueries {
  /** Runs `work` in a transaction on one connection. Use it only where a script cannot do it. */
  transaction<T>(work: (queries: PgQueries) => Promise<T>): Promise<T>
  /** Statements that wait for a connection. They fail after some seconds in which none became free. */
  readonly waiting: number
  close(): Promise<void>
}

/**
 * Prepared statements have connections of their own, where the server makes one plan for all values: by itself it would
 * plan them again and again, which takes longer than to run them.
 *
 * @param most maximum number of connections
 */
export function createPgPool(options: PgOptions, most: { usual: number; prepared: number }): PgPool {
  const usual = openConnections(options, most.usual)
  const settings = { ...options.settings, plan_cache_mode: 'force_generic_plan' }
  const forPrepared = openConnections({ ...options, settings }, most.prepared)
  const send = (query: string | pg.QueryConfig) => {
    const { use } = typeof query === 'object' && query.name !== undefined ? forPrepared : usual
    return use(client => client.query(query as string))
  }
  return {
    ...queriesOf(send, new StatementNames()),
    transaction: work =>
      usual.use(async client => {
        const queries = queriesOf(query => client.query(query as string))
        await client.query('BEGIN')
        try {
          const result = await work(queries)
          await client.query('COMMIT')
          return result
        } catch (error) {
          if (isAnswer(error) || !(connectionErrorOf(error) instanceof PgConnectionError))
            await client.query('ROLLBACK')
          throw error
        }
      }),
    get waiting() {
      return usual.waiting + forPrepared.waiting
    },
    async close() {
      await Promise.all([usual.close(), forPrepared.close()])
    },
  }
}

/** Opens up to `most` connections as they are needed. `use` takes one for a piece of work. */
function openConnections(options: PgOptions, most: number) {
  let config: pg.ClientConfig = {}
  class Client extends pg.Client {
    constructor() {
      super(config)
    }
  }
  const pool = new pg.Pool({
    Client,
    connectionTimeoutMillis: connectMs,
    max: most,
    idleTimeoutMillis: 60_000,
    onConnect: async (client: pg.ClientBase) => {
      try {
        await options.opened?.(queriesOf(query => client.query(query as string)))
      } catch (error) {
        // Else the pool would wait for the goodbye of a server that does not answer.
        socketOf(client as pg.Client).destroy()
        throw error
      }
    },
  })
  // An idle connection that breaks is replaced when the next statement needs one.
  pool.on('error', () => {})
  let running = 0
  let endedAt = 0
  const queue: { resolve(): void; reject(error: Error): void; since: number }[] = []
  let isWatched = false
  // A long queue is no fault as long as it moves. If nothing ends any more, the database does not answer.
  const watch = () => {
    isWatched = queue.length > 0
    if (!isWatched) return
    const before = performance.now() - connectMs
    if (endedAt <= before)
      while (queue[0] && queue[0].since <= before)
        queue.shift()!.reject(new PgConnectionError('no connection to the database became free'))
    setTimeout(watch, connectMs / 4)
  }
  /** Resolves when fewer than `most` statements run. `end` lets the next one run. */
  const turn = () =>
    new Promise<void>((resolve, reject) => {
      if (running < most) {
        running++
        return resolve()
      }
      queue.push({ resolve, reject, since: performance.now() })
      if (!isWatched) watch()
    })
  const end = () => {
    endedAt = performance.now()
    const next = queue.shift()
    if (next) next.resolve()
    else running--
  }
  const use = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
    await turn()
    let client: pg.PoolClient
    try {
      client = await connectAny(options, next => {
        config = next
        return pool.connect()
      })
    } catch (error) {
      end()
      throw connectionErrorOf(error)
    }
    const ignore = () => {}
    client.on('error', ignore)
    try {
      const result = await work(client)
      client.release()
      return result
    } catch (error) {
      const made = connectionErrorOf(error)
      if (made instanceof PgConnectionError) socketOf(client).destroy()
      client.release(made instanceof PgConnectionError)
      throw made
    } finally {
      client.off('error', ignore)
      end()
    }
  }
  return {
    use,
    get waiting() {
      return queue.length
    },
    async close() {
      // A connection that does not answer would never end.
      await Promise.race([pool.end(), new Promise(resolve => setTimeout(resolve, 1000).unref?.())])
    },
  }
}
