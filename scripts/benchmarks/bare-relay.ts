/**
 * Baseline of `delivery`: `bare-relay.ts <folder> <upstream>`. It polls, stores what came as one durable row, then answers
 * the call that waits. Nothing is checked, leased or indexed.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import process from 'node:process'

const [dir = '', upstream = ''] = process.argv.slice(2)
const db = new Database(join(dir, 'relay.db'), { strict: true })
for (const pragma of ['journal_mode = WAL', 'synchronous = FULL', 'cache_size = -16000'])
  db.run(`PRAGMA ${pragma}`)
db.run('CREATE TABLE message (id INTEGER PRIMARY KEY AUTOINCREMENT, raw TEXT)')
const insert = db.prepare('INSERT INTO message (raw) VALUES (?)')

let came = Promise.withResolvers<string>()
const headers = { 'content-type': 'application/json' }

const server: Bun.Server<undefined> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  async fetch(request) {
    await request.text()
    return new Response(await came.promise, { headers })
  },
})
console.log(`ready ${server.url.origin}`)

for (let cursor = ''; ; ) {
  const asked = { method: 'POST', headers, body: JSON.stringify({ get_updates_buf: cursor }) }
  const reply = (await (await fetch(`${upstream}/ilink/bot/getupdates`, asked)).json()) as {
    msgs: object[]
    get_updates_buf: string
  }
  cursor = reply.get_updates_buf
  if (reply.msgs.length === 0) continue
  const raw = JSON.stringify(reply.msgs)
  insert.run(raw)
  came.resolve(raw)
  came = Promise.withResolvers()
}
