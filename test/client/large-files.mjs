// Sends a file of 100 MB, saves it again, and says how much the memory of the program grew.
import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import process from 'node:process'
import { Svc } from 'svc/client'

const [, , url, key, folder] = process.argv
const svc = await Svc.connect(url, { key, mediaRoot: folder })
const file_path = `${folder}/large.bin`
const hash = createHash('sha256')
const file = await open(file_path, 'w')
for (let block = 0; block < 100; block++) {
  const bytes = Buffer.alloc(1_000_000, block)
  hash.update(bytes)
  await file.write(bytes)
}
await file.close()
const before = process.memoryUsage().rss
let most = before
const watch = setInterval(() => {
  most = Math.max(most, process.memoryUsage().rss)
}, 20)
let to
while (to === undefined) [{ user_id: to } = {}] = await svc.users()
const { message_id } = await svc.send({ to, file_path })
const saved = await svc.download({ message_id, digest: 'sha256' })
clearInterval(watch)
const grownMB = Math.round((most - before) / 1e6)
console.log(JSON.stringify({ grownMB, size: saved.size, same: saved.sha256 === hash.digest('hex') }))
await svc.close()
