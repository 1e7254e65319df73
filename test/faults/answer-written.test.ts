import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { folderOfTest } from '../support/folder.ts'
import { openSession } from '../support/mcp-raw.ts'

const doors = [
  { door: 'REST', kind: 'rest', path: '/tools/default/recv', body: { timeout: 50 } },
  { door: 'REST over a socket', kind: 'socket', path: '/tools/default/recv', body: { timeout: 50 } },
  { door: 'MCP', kind: 'mcp', path: '/mcp', body: recv() },
  { door: 'MCP in a session', kind: 'mcp', path: '/mcp', body: recv(), inSession: true },
]
const answers = [
  { when: 'now', size: 10, what: 'a short answer given at once' },
  { when: 'later', size: 10, what: 'a short answer that had to wait' },
  { when: 'now', size: 3_000_000, what: 'a long answer given at once' },
  { when: 'later', size: 3_000_000, what: 'a long answer that had to wait' },
]

function recv() {
  const params = { name: 'recv', arguments: { timeout: 50, max_chars: 200_000 } }
  return { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
}

for (const { door, kind, path, body, inSession } of doors)
  for (const { when, size, what } of answers)
    test(`${door}: ${what} has left the process before it counts as written: death in that moment loses nothing`, async () => {
      const script = join(import.meta.dir, 'support/dies-when-settled.ts')
      const socket = join(folderOfTest(), 'svc.sock')
      const child = Bun.spawn([process.execPath, script, kind, when, String(size), socket], {
        stdout: 'pipe',
      })
      let url = ''
      for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
        url = /listening on (\S+)/.exec(chunk)?.[1] ?? ''
        if (url) break
      }
      const base = kind === 'socket' ? 'http://localhost' : url
      const response = await fetch(`${base}${path}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(inSession && (await openSession(`${base}${path}`))),
        },
        body: JSON.stringify(body),
        ...(kind === 'socket' && { unix: socket }),
      })
      let said = ''
      try {
        for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) said += piece
      } catch {
        // Only the end of the stream is missing.
      }
      expect(said.match(/x{10,}/g)?.map(text => text.length)).toContain(size)
      await child.exited
      expect(child.signalCode).toBe('SIGKILL')
    })
