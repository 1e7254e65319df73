import { expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Glob } from 'bun'
import { tools } from '../../src/tools/index.ts'
import { describedLocally, saidLocally } from '../../src/tools/wording.ts'

const http = /\b(GET|POST|PUT|DELETE) \/|media root/

test('no tool and no hint speaks of our HTTP paths to a caller on this machine', async () => {
  for (const { description, inputSchema, outputSchema } of tools)
    expect(
      [
        saidLocally(description),
        saidLocally(description, false),
        ...[inputSchema, outputSchema].map(one => JSON.stringify(describedLocally(one))),
      ].join(),
    ).not.toMatch(http)
  const src = join(import.meta.dir, '../../src')
  const hints: string[] = []
  for await (const path of new Glob('{gateway,platform,store,state,tools}/**/*.ts').scan(src)) {
    const text = await readFile(join(src, path), 'utf8')
    for (const [, hint = ''] of text.matchAll(/hint:\s*['"`](.+)['"`],?$/gm)) hints.push(hint)
  }
  expect(hints.filter(hint => http.test(hint)).length).toBeGreaterThan(3)
  // A path outside the media root is refused to distant callers only.
  for (const hint of hints.filter(one => !one.startsWith('Name a file inside the media root')))
    expect(saidLocally(hint)).not.toMatch(http)
})

test('what it says reads as it should', () => {
  expect(saidLocally('Check the URL, or upload the file with POST /media and pass its upload_id.')).toBe(
    'Check the URL, or name a file by its path.',
  )
  expect(
    describedLocally({
      description: 'See GET /outbox.',
      nested: [{ description: { type: 'x' } }],
      text: 'GET /outbox',
    }),
  ).toEqual({
    description: 'See svc outbox.',
    nested: [{ description: { type: 'x' } }],
    text: 'GET /outbox',
  })
})
