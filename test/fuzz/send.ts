/** One call over the wire, and what is wrong with its answer. */
import { connect } from 'node:net'
import { errorCodes } from '../../src/model/error.ts'
import type { Call } from './doors.ts'
import { leakIn, secrets } from './secrets.ts'

export interface Answer {
  /** 0: none came. */
  status: number
  text: string
  /** The caller left. */
  left: boolean
}

/** Long enough for what waits for nobody. */
const patienceMs = 10_000
const waitsMs = 250

export async function send(url: string, call: Call): Promise<Answer> {
  if (call.framing === 'longer' || call.framing === 'shorter') return sendLying(url, call)
  const answer = await sendOver(url, call, true)
  // A connection that was kept may be closed for its idleness at the moment it is used again, on a busy machine.
  return answer.status === 0 && !answer.left ? sendOver(url, call, false) : answer
}

async function sendOver(url: string, call: Call, keepalive: boolean): Promise<Answer> {
  const gone = AbortSignal.timeout(call.waits ? waitsMs : patienceMs)
  let status = 0
  let text = ''
  try {
    const body = call.method === 'GET' || call.method === 'HEAD' ? undefined : call.body
    const response = await fetch(url + call.path, {
      ...{ method: call.method, headers: call.headers, redirect: 'manual', signal: gone, keepalive },
      ...(body !== undefined && { body: call.framing === 'chunked' ? inPieces(body) : body }),
    })
    status = response.status
    text = JSON.stringify([...response.headers])
    for await (const chunk of response.body ?? [])
      if (text.length < 4_000_000) text += Buffer.from(chunk).toString()
    return { status, text, left: false }
  } catch (error) {
    // What this client does not even send says nothing about the service.
    const isBroken = /^(ECONN|ConnectionClosed|UND_ERR_SOCKET)/.test(
      String((error as { code?: unknown }).code),
    )
    return { status, text, left: gone.aborted || !isBroken }
  }
}

const inPieces = (body: string | Uint8Array) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      const bytes = Buffer.from(body as string)
      for (let at = 0; at < bytes.length; at += 30_000)
        controller.enqueue(new Uint8Array(bytes.subarray(at, at + 30_000)))
      controller.close()
    },
  })

/** With a length that is not the body's; then the caller ends his side. */
function sendLying(url: string, { method, path, headers, body = '', framing }: Call): Promise<Answer> {
  const { hostname, port, host } = new URL(url)
  const bytes = Buffer.from(body as string).subarray(0, 100_000)
  const length = framing === 'longer' ? bytes.length + 10 : Math.max(0, bytes.length - 3)
  const lines = Object.entries({ host, ...headers, 'content-length': String(length) }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return new Promise(resolve => {
    let text = ''
    const socket = connect(Number(port), hostname)
    const end = (left: boolean) => {
      clearTimeout(timer)
      socket.destroy()
      resolve({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0), text, left })
    }
    const timer = setTimeout(() => end(true), 60)
    socket.on('data', chunk => {
      text += chunk.toString()
      if (text.includes('\r\n\r\n')) end(true)
    })
    socket.on('error', () => end(true))
    socket.on('close', () => end(true))
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
    socket.write(bytes)
  })
}

const codes: ReadonlySet<string> = new Set(errorCodes)
/** Of the health of the service, when it cannot store. */
const degraded = /"status":"degraded".*"store":"unavailable"/
const honest5xx = new Set(['upstream_error', 'upstream_timeout', 'store_unavailable', 'shutting_down'])

/** What no answer may be. */
export function wrongIn(call: Call, { status, text, left }: Answer): string | undefined {
  const secret = leakIn(text)
  if (secret !== undefined) return `a planted secret is in the answer: ${around(text, secret)}`
  // One white space: of a run of them each would be begun at.
  // A time of day is no place in a file.
  const trace = /\sat .{0,200}(?<!T\d\d):\d+:\d+|node_modules|\/src\/[a-z-]+\/[a-z-]+\.ts/.exec(text)
  if (trace) return `the answer shows the program's inside: ${around(text, trace[0])}`
  if (/"code":-32603/.test(text)) return `an internal error: ${text.slice(0, 800)}`
  if (status === 0) return left ? undefined : 'no answer came'
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  const isHonest =
    (code && honest5xx.has(code)) || (status === 503 && (call.door === 'mcp' || degraded.test(text)))
  if (status >= 500 && !isHonest) return `status ${status}: ${text.slice(0, 800)}`
  if (
    status >= 400 &&
    call.door !== 'mcp' &&
    !/^(HEAD|TRACE)$/.test(call.method) &&
    text.includes('problem+json') &&
    !(code && codes.has(code))
  )
    return `an error without a code of the catalogue: ${text.slice(0, 800)}`
  return undefined
}

const around = (text: string, part: string) => {
  const at = text.indexOf(part)
  return JSON.stringify(
    text.slice(Math.max(0, at - 300), at + part.length + 300).replaceAll(secrets.api, '(the API token)'),
  )
}
