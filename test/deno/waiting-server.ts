/** A server of the platform, run under Deno by the tests: it tells which clients left. */
import process from 'node:process'
import { serve } from '../../src/platform/serve.ts'

const say = (words: string) => process.stdout.write(`${words}\n`)
const encoder = new TextEncoder()

const server = await serve({
  hostname: '127.0.0.1',
  port: 0,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const left = new Promise<void>(resolve => request.signal.addEventListener('abort', () => resolve()))
    void left.then(() => say(`left ${pathname}`))
    say(`asked ${pathname} ${(await request.text()).length}`)
    if (pathname === '/wait') await left
    if (pathname === '/events') {
      const stream = new ReadableStream({
        start: controller => controller.enqueue(encoder.encode(': open\n\n')),
      })
      return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
    }
    return new Response('whole')
  },
})
say(`listening on ${server.url}`)
