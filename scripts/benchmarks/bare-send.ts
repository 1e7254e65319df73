/**
 * Baseline of `send`: `bare-send.ts <folder> <upstream> <callers> <seconds>`. Each caller loops: an intent
 * row in one durable transaction, the POST, the result in another. Ends with a line `{requests, seconds}`.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import process from 'node:process'

const [dir = '', upstream = '', callers = '1', seconds = '3'] = process.argv.slice(2)
const db = new Database(join(dir, 'bare.db'), { strict: true })
for (const pragma of ['journal_mode = WAL', 'synchronous = FULL', 'cache_size = -16000'])
  db.run(`PRAGMA ${pragma}`)
db.run(
  'CREATE TABLE message (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, status TEXT, peer TEXT, raw TEXT)',
)
const intent = db.prepare("INSERT INTO message (status, peer, raw) VALUES ('sending', ?, ?)")
const result = db.prepare("UPDATE message SET status = 'accepted', message_id = ? WHERE id = ?")

console.log('ready')
const from = performance.now()
const until = from + Number(seconds) * 1000
let requests = 0
async function call(nth: number): Promise<void> {
  while (performance.now() < until) {
    const to = `user${nth}@im.wechat`
    const item_list = [{ type: 1, text_item: { text: 'an answer' } }]
    const msg = { from_user_id: '', to_user_id: to, message_type: 2, message_state: 2, item_list }
    const body = JSON.stringify({ msg, base_info: { channel_version: '2.4.9' } })
    const { lastInsertRowid } = intent.run(to, body)
    const response = await fetch(`${upstream}/ilink/bot/sendmessage`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer bare' },
      body,
    })
    const { message_id } = JSON.parse(await response.text()) as { message_id: string }
    result.run(message_id, lastInsertRowid)
    requests++
  }
}
await Promise.all(Array.from({ length: Number(callers) }, (_none, nth) => call(nth)))
console.log(JSON.stringify({ requests, seconds: (performance.now() - from) / 1000 }))
