import { expect, test } from 'bun:test'
import { join } from 'node:path'

const cases = [
  { when: 'now', size: 10, what: 'a short answer given at once' },
  { when: 'later', size: 10, what: 'a short answer that had to wait' },
  { when: 'now', size: 3_000_000, what: 'a long answer given at once' },
  { when: 'later', size: 3_000_000, what: 'a long answer that had to wait' },
]

for (const { when, size, what } of cases) {
  test(`${what} has left the process before it counts as written: death in that moment loses nothing`, async () => {
    const script = join(import.meta.dir, 'support/dies-when-settled.ts')
    const child = Bun.spawn([process.execPath, script, when, String(size)], { stdout: 'pipe' })
    let url: string | undefined
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      url = /listening on (\S+)/.exec(chunk)?.[1]
      if (url) break
    }
    const response = await fetch(`${url}/tools/default/recv`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ timeout: 50 }),
    })
    const messages = (await response.json()) as { text: string }[]
    expect(messages.map(message => message.text.length)).toEqual([size])
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
  })
}
