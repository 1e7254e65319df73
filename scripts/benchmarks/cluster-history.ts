import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import { connectPg } from '../../src/platform/postgres.ts'
import { toJsonb } from '../../src/platform/postgres-values.ts'
import { constantSql, sql } from '../../src/platform/sql.ts'
import { PgDatabase } from '../../src/storage/postgres/database.ts'
import { GramIndexer } from '../../src/storage/postgres/grams.ts'
import { placesPerMessage } from '../../src/storage/postgres/tables.ts'
import { isPostgresThere } from '../../test/support/postgres.ts'
import { startBenchCluster } from './cluster-nodes.ts'
import { botId, post, startUpstream } from './process.ts'
import { type Benchmark, formatNumber, formatSpread, median, percentile, type Row } from './report.ts'
import { absentWord, createMessage, createRandom, createText, toWireText } from './texts.ts'

const distinct = 100_000

/** Writes messages, with the index of their texts: as if they had come long ago. */
async function fillHistory(url: string, rows: number): Promise<void> {
  const connection = await connectPg({ url, name: 'bench', answerMs: 3_600_000 })
  const db = new PgDatabase({ url, clock: systemClock, log: silentLog, node: crypto.randomUUID() })
  try {
    const indexes = await connection.all<{
      name: string
      made: string
    }>(sql`SELECT indexname AS name, indexdef AS made
      FROM pg_indexes WHERE tablename IN ('message', 'gram') AND indexname NOT LIKE '%_pkey' AND schemaname = 'svc'`)
    await connection.run(sql`SET statement_timeout = 0`)
    for (const { name } of indexes)
      await connection.script([sql`SET synchronous_commit = off`, constantSql(`DROP INDEX ${name}`)])
    const next = createRandom(1)
    const [first] = await connection.all<{ key: number }>(
      sql`INSERT INTO session (name, name_key) VALUES ('shop', 'shop') RETURNING key`,
    )
    const most = Math.min(rows, distinct)
    for (let n = 0; n < most; ) {
      const all = Array.from({ length: Math.min(5000, most - n) }, () => {
        const message = { ...createMessage(0, n++, botId('shop'), 5000, next), text: createText(next) }
        return { id: n, peer: message.from, at: message.at, text: message.text, raw: toWireText(message) }
      })
      await connection.run(sql`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp,
          stored_at, content_hash, text, raw)
        SELECT id, 'm' || id, ${first!.key}, 0, ${botId('shop')}, peer, 'TEXT', at, at, 'h' || id, text, raw
        FROM jsonb_to_recordset(${toJsonb(all)}::jsonb) AS one(id bigint, peer text, at bigint, text text, raw text)`)
    }
    await connection.run(sql`UPDATE head SET last = ${most}, place = ${most * placesPerMessage}`)
    await db.barrier()
    const indexer = new GramIndexer({ db, clock: systemClock, log: silentLog })
    await connection.run(constantSql(indexes.find(({ name }) => name === 'gram_pairs')!.made))
    while (await indexer.step(1, 20_000));
    await connection.run(constantSql('DROP INDEX gram_pairs'))
    // The first element of a row is that of its block.
    await connection.run(sql`INSERT INTO gram SELECT id + nth * ${most}::bigint, ARRAY[(-((id + nth * ${most}::bigint) >> 16) - 1)::integer] || pairs[2:]
      FROM gram CROSS JOIN generate_series(1, ${rows / most - 1}::bigint) AS nth ORDER BY nth, id`)
    await connection.run(sql`INSERT INTO message (id, message_id, session, sent, bot_id, peer, msg_type, timestamp, stored_at,
        content_hash, text, raw)
      SELECT id + nth * ${most}::bigint, 'm' || (id + nth * ${most}::bigint), session, sent, bot_id, peer, msg_type,
        timestamp + nth * ${most}::bigint * 37, stored_at + nth * ${most}::bigint * 37, 'h' || (id + nth * ${most}::bigint), text, raw
      FROM message CROSS JOIN generate_series(1, ${rows / most - 1}::bigint) AS nth ORDER BY nth, id`)
    for (const { made } of indexes) await connection.run(constantSql(made))
    await connection.run(
      sql`INSERT INTO session_bot VALUES (${botId('shop')}, ${first!.key}) ON CONFLICT DO NOTHING`,
    )
    await connection.run(sql`UPDATE head SET last = ${rows}, place = ${rows * placesPerMessage}`)
    await connection.run(sql`UPDATE indexed SET upto = ${rows}`)
    await connection.run(constantSql('VACUUM ANALYZE'))
    await db.barrier()
  } finally {
    await db.close()
    connection.destroy()
  }
}

export const clusterHistory: Benchmark = {
  name: 'cluster-history',
  compares:
    'ms of a whole POST /tools/default/history on a node, one after the other, p50: the newest 50, a word of two Chinese characters, a word of two frequent characters that never stand together. Needs PostgreSQL.',
  async run({ quick, rounds, note }) {
    if (!isPostgresThere()) throw new Error('there is no PostgreSQL here')
    const count = quick ? 100_000 : 1_000_000
    await using upstream = await startUpstream()
    const from = performance.now()
    await using cluster = await startBenchCluster(upstream.ready, {
      sessions: [{ name: 'other' }],
      nodes: 1,
      fill: url => fillHistory(url, count),
    })
    note(
      `${formatNumber(count)} messages on PostgreSQL: made in ${formatNumber((performance.now() - from) / 1000)} s`,
    )
    const { url } = cluster.nodes[0]!
    const text = createText(createRandom(1))
    const word = /[\u4e00-\u9fff]{2}/.exec(text)![0]
    const kinds = [
      { what: 'newest 50', input: {}, limit: 5 },
      { what: `a word of two characters`, input: { text_contains: word }, limit: 20 },
      { what: 'an absent word', input: { text_contains: absentWord }, limit: 60 },
    ]
    const found: Row[] = []
    for (const { what, input, limit } of kinds) {
      const each: number[] = []
      for (let round = 0; round < Math.min(rounds, 3); round++) {
        const took: number[] = []
        for (let nth = 0; nth < 40; nth++) {
          const at = performance.now()
          const answer = await post(`${url}/tools/default/history`, input)
          took.push(performance.now() - at)
          if ((answer.messages.length === 0) !== (what === 'an absent word'))
            throw new Error(`${what}: wrong`)
        }
        each.push(percentile(took, 0.5))
      }
      found.push({
        name: 'cluster-history',
        what: `${formatNumber(count)} messages: ${what}, p50`,
        ours: `${formatNumber(median(each), 1)} ms`,
        baseline: '–',
        result: `${formatNumber(median(each), 1)} ms`,
        goal: `≤ ${limit} ms`,
        met: median(each) <= limit,
        spread: formatSpread(each),
      })
    }
    return found
  },
}
