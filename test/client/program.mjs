// A program of a user of `svc/client`, for every runtime: it answers until it reads "bye", then sends a file and saves it.
import { readFile, writeFile } from 'node:fs/promises'
import process from 'node:process'
import { isSvcError, Svc } from 'svc/client'

const [, , url, key, folder] = process.argv
const svc = await Svc.connect(url, { key, mediaRoot: folder })
console.log('ready')
for await (const { from_user: to, id, text } of svc.messages({ consumer: 'program' })) {
  await svc.send({ to, text: `You said: ${text}`, idempotency_key: `program-${id}` })
  console.log(`answered ${text}`)
  if (text !== 'bye') continue
  const file_path = `${folder}/sent.txt`
  await writeFile(file_path, 'numbers')
  await svc.send({ to, file_path })
  const part = svc.as({ name: 'reader', can: ['history', 'download'] })
  const { messages } = await part.history({ direction: 'sent', limit: 1 })
  const saved = await part.download({ message_id: messages[0].message_id, digest: 'sha256' })
  console.log(`saved ${await readFile(saved.path, 'utf8')}`)
  const denied = await part.send({ to, text: 'no' }).catch(error => error)
  console.log(`denied ${isSvcError(denied, 'forbidden')}`)
  for await (const event of svc.events({ after: '0' })) {
    console.log(`event ${event.type}`)
    break
  }
  break
}
await svc.close()
console.log('closed')
