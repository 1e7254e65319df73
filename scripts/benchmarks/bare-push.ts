/**
 * Baseline of `push`: `bare-push.ts <upstream> <receiver>` polls the upstream and hands each message on as it comes, by a POST to
 * the receiver and to whoever reads `GET /events`. Nothing is stored, signed or repeated.
 */
import process from 'node:process'

const [upstream = '', receiver = ''] = process.argv.slice(2)
const readers = new Set<ReadableStreamDefaultController<string>>()

const server: Bun.Server<undefined> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  fetch() {
    let own: ReadableStreamDefaultController<string> | undefined
    const body = new ReadableStream<string>({
      start(controller) {
        own = controller
        readers.add(controller)
        controller.enqueue(': here\n\n')
      },
      cancel: () => void (own && readers.delete(own)),
    })
    return new Response(body as unknown as BodyInit, { headers: { 'content-type': 'text/event-stream' } })
  },
})
console.log(`ready ${server.url.origin}`)

const headers = { 'content-type': 'application/json' }
for (let cursor = ''; ; ) {
  const asked = { method: 'POST', headers, body: JSON.stringify({ get_updates_buf: cursor }) }
  const reply = (await (await fetch(`${upstream}/ilink/bot/getupdates`, asked)).json()) as {
    msgs?: object[]
    get_updates_buf: string
  }
  cursor = reply.get_updates_buf
  for (const message of reply.msgs ?? []) {
    const body = JSON.stringify({ type: 'message.received', data: message })
    for (const reader of readers) reader.enqueue(`data: ${body}\n\n`)
    void fetch(receiver, { method: 'POST', headers, body }).then(response => response.text())
  }
}
