/**
 * A bare loop over a backlog: reads the messages of a store in order, 64 at a time, and POSTs each as JSON.
 * The page cache and the times of garbage collection are those of svc. Arguments: the file, the URL.
 */
import { Agent, request } from 'node:http'
import { createByteCounter } from '../../src/platform/memory.ts'
import { openDatabase } from '../../src/platform/sqlite.ts'

const [path = '', url = ''] = process.argv.slice(2)
const db = await openDatabase(path)
db.exec('PRAGMA cache_size = -16000')
const agent = new Agent({ keepAlive: true })
const passed = createByteCounter()

function post(body: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const headers = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }
  const sent = request(url, { method: 'POST', agent, headers }, answer => answer.resume().on('end', resolve))
  sent.on('error', reject)
  sent.end(body)
  return promise.finally(() => passed(64 * 1024))
}

console.log('ready')
for (let last = 0; ; ) {
  const rows = db.all`SELECT * FROM message WHERE id > ${last} ORDER BY id LIMIT 64`
  if (rows.length === 0) break
  await Promise.all(rows.map(row => post(JSON.stringify(row))))
  last = Number(rows.at(-1)?.id)
}
await new Promise(() => setInterval(() => {}, 60_000))
