/** Talks through the library: answers a text with a text and a picture, and prints a voice message as base64 of a WAV file. */
import { readFile } from 'node:fs/promises'
import process from 'node:process'
import { Svc } from 'svc'

const [, , sandboxUrl, basePath, data] = process.argv
await using svc = await Svc.open({ sandboxUrl, basePath, store: true })
const messages = svc.messages({ consumer: 'default' })
while ((await svc.login({ timeout: 30 })).status !== 'confirmed');
for await (const { message_id, msg_type, from_user: to, text } of messages) {
  if (msg_type === 'VOICE') {
    const { path } = await svc.download({ message_id })
    process.stdout.write(await readFile(path, 'base64'))
    break
  }
  await svc.send({ to, text: `You said: ${text}`, media: [{ kind: 'image', data, file_name: 'dot.png' }] })
}
