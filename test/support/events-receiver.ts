/** A callback of MCP Events over https on loopback, written from the text of SEP-3415 alone. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { openssl } from './certificate.ts'
import type { Json } from './mcp-events.ts'

export const newSecret = (bytes = 32): string =>
  `whsec_${Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString('base64')}`

/** Makes a certificate for 127.0.0.1 in a folder of its own. It is valid for a hundred years: fixtures keep one. */
export function makeCertificate() {
  const folder = mkdtempSync(join(tmpdir(), 'callback-'))
  const own = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', 'key.pem']
  const names = ['-subj', '/CN=callback.test', '-addext', 'subjectAltName=IP:127.0.0.1']
  openssl(folder, 'req', '-x509', ...own, ...names, '-out', 'cert.pem', '-days', '36500')
  return {
    folder,
    caFile: join(folder, 'cert.pem'),
    cert: read(folder, 'cert.pem'),
    key: read(folder, 'key.pem'),
  }
}
const read = (folder: string, name: string) => readFileSync(join(folder, name), 'utf8')

export interface Posted {
  id: string
  subscription: string
  body: Json
  headers: Headers
}

/** @param pair removed with the receiver */
export function eventsReceiver(secrets: string[], port = 0, pair = makeCertificate()) {
  const { folder, caFile, cert, key } = pair
  const got: Posted[] = []
  const own = {
    got,
    caFile,
    /** Status of the answers to events and control envelopes. */
    answer: (_posted: Posted): number => 204,
    /** Answer to a challenge. */
    echo: (challenge: string): Response => Response.json({ challenge }),
    url: '',
    prefix: '',
    /** Posts with events, that were accepted. */
    events: () => got.filter(({ body }) => body.eventId !== undefined),
    ofType: (type: string) => got.filter(({ body }) => body.type === type),
    [Symbol.dispose]() {
      void server.stop(true)
      rmSync(folder, { recursive: true })
    },
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port,
    tls: { cert, key },
    idleTimeout: 0,
    async fetch(request) {
      const text = await request.text()
      const given = Object.fromEntries(request.headers)
      const isSigned = secrets.some(secret => {
        try {
          return new Webhook(secret).verify(text, given) !== undefined
        } catch {
          return false
        }
      })
      if (!isSigned) return new Response('', { status: 401 })
      const posted: Posted = {
        id: given['webhook-id']!,
        subscription: given['x-mcp-subscription-id']!,
        body: JSON.parse(text),
        headers: request.headers,
      }
      if (posted.body.type === 'verification') {
        got.push(posted)
        return own.echo(posted.body.challenge)
      }
      const status = own.answer(posted)
      if (status < 300) got.push(posted)
      return new Response(null, { status })
    },
  })
  own.prefix = `https://127.0.0.1:${server.port}/`
  own.url = `${own.prefix}hook?key=1`
  return own
}
