/**
 * Baseline of `rest`: a bare Bun.serve handler that parses the body and answers with the JSON in its
 * argument.
 */
import process from 'node:process'

const answer: unknown = JSON.parse(process.argv[2] ?? 'null')
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  development: false,
  async fetch(request) {
    await request.json()
    return Response.json(answer)
  },
})
console.log(`ready ${server.url.origin}`)
