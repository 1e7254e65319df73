/**
 * Baseline of `push`: `bare-push.ts <upstream> <receiver> <bytes>` polls the upstream and passes each message
 * on at once: as a POST to the receiver, if one is given, and to the readers of `GET /events`, in a frame of
 * `bytes` bytes, if that is given. It stores, signs and repeats nothing.
 */
import process from 'node:process'

const [upstream = '', receiver = '', bytes] = process.argv.slice(2)
const readers = new Set<ReadableStreamDefaultController<Uint8Array>>()
const encoder = new TextEncoder()

const server: Bun.Server<undefined> = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  fetch() {
    let own: ReadableStreamDefaultController<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        own = controller
        readers.add(controller)
        controller.enqueue(encoder.encode(': here\n\n'))
      },
      cancel: () => void (own && readers.delete(own)),
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  },
})
console.log(`ready ${server.url.origin}`)

const headers = { 'content-type': 'application/json' }
for (let cursor = ''; ; ) {
  const request = { method: 'POST', headers, body: JSON.stringify({ get_updates_buf: cursor }) }
  const reply = (await (await fetch(`${upstream}/ilink/bot/getupdates`, request)).json()) as {
    msgs?: object[]
    get_updates_buf: string
  }
  cursor = reply.get_updates_buf
  for (const message of reply.msgs ?? []) {
    const body = JSON.stringify({ type: 'message.received', data: message })
    const frame = encoder.encode(`data: ${bytes ? body.padEnd(+bytes - 8).slice(0, +bytes - 8) : body}\n\n`)
    for (const reader of readers) reader.enqueue(frame)
    if (receiver) void fetch(receiver, { method: 'POST', headers, body }).then(response => response.text())
  }
}
