import { expect, test } from 'bun:test'
import { hostname } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { createLog, LineLimit, type LogFormat, maskAddress, maskText } from '../../src/platform/log.ts'
import { runs } from '../support/properties.ts'

function logged(event: string, fields: Record<string, unknown>, format?: LogFormat): string {
  const lines: string[] = []
  createLog('DEBUG', line => void lines.push(line), format)
    .child('room')
    .error(event, fields)
  expect(lines).toHaveLength(1)
  return lines[0]!
}

const obeyed = /[\p{Cc}\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e0fff}]/u
const characters = [
  'a',
  '\n',
  '\r',
  '\t',
  '\x1b',
  '\x9b',
  '\u2028',
  '\u202e',
  '\u2066',
  '\ud800',
  '\u{e0041}',
  '"',
  '= ',
  '\\',
]

test('each event is one line without what a terminal obeys, whatever it holds', () => {
  const odd = fc.array(fc.constantFrom(...characters), { maxLength: 12 }).map(all => all.join(''))
  const value: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>(tie => ({
    value: fc.oneof(
      { depthSize: 'small' },
      odd,
      odd.map(text => new Error(text, { cause: new TypeError(text) })),
      odd.map(text => ({ toString: 1, message: text, stack: text })),
      fc.array(tie('value'), { maxLength: 2 }),
      fc.dictionary(odd, tie('value'), { maxKeys: 2 }),
    ),
  })).value
  fc.assert(
    fc.property(odd, fc.dictionary(odd, value, { maxKeys: 3 }), (event, fields) => {
      for (const format of ['text', 'json'] as const) {
        const line = logged(event, fields, format)
        expect(line.endsWith('\n')).toBe(true)
        expect(line.slice(0, -1)).not.toMatch(obeyed)
        if (format === 'json') expect(JSON.parse(line)).toMatchObject({ level: 'ERROR', room: 'room' })
      }
    }),
    runs(500),
  )
})

test('an error that is its own cause is told as far as it goes', () => {
  const error = new Error('turns in a circle')
  error.cause = error
  expect(logged('failed', { error })).toContain('turns in a circle (turns in a circle')
})

test('emoji and scripts stay as they are', () => {
  expect(logged('said', { text: '👩‍👩‍👧‍👦 你好 می‌خواهم' })).toContain('"👩‍👩‍👧‍👦 你好 می‌خواهم"')
})

test('as JSON a line is an object, its fields beside the event, and secrets are masked', () => {
  const fields = {
    ms: 1.5,
    event: 'another',
    node: 'elsewhere',
    token: 'abc',
    nested: { aes_key: 'x', text: 'a\nb' },
  }
  const { time, node, ...rest } = JSON.parse(logged('happened', fields, 'json'))
  expect(node).toBe(`${hostname()}:${process.pid}`)
  expect(new Date(time).toISOString()).toBe(time)
  expect(rest).toEqual({
    ...{ level: 'ERROR', room: 'room', event: 'happened', ms: 1.5 },
    ...{ token: '***', nested: { aes_key: '***', text: 'a\nb' } },
  })
})

test.each([
  ['http://admin:s3cr3t@cam/x.jpg', 'http://***@cam/x.jpg'],
  ['http://admin:s3/cr3t@cam:81/x.jpg?w=1', 'http://***@cam:81/x.jpg?w=1'],
  [
    'https://a.example/b?token=abc&w=640&Access_Token=d',
    'https://a.example/b?token=***&w=640&Access_Token=***',
  ],
  [
    'https://a.example/b?key=1&sig=2&password=3&X-Amz-Signature=4&page=5',
    'https://a.example/b?key=***&sig=***&password=***&X-Amz-Signature=***&page=5',
  ],
  [
    'https://hooks.example/services/T024BE7LD/B01/Qk3vXz9TaLm2PwRn7YcHd5Ef',
    'https://hooks.example/services/T024BE7LD/B01/***',
  ],
  ['https://ping.example/3f0c7d52-9a41-4c1e-8b1d-0f6e2a7c9b10/fail', 'https://ping.example/***/fail'],
  ['https://api.example/bot99887766:AAHk-x/photo', 'https://api.example/***/photo'],
  ['https://a.example/#access_token=abc', 'https://a.example/#***'],
  [
    'https://social.example/@anna/snapshots-of-the-front-door.jpg',
    'https://social.example/@anna/snapshots-of-the-front-door.jpg',
  ],
])('of an address that svc calls, the host stays and secrets go: %s', (address, expected) => {
  expect(maskAddress(address)).toBe(expected)
  expect(maskText(`GET ${address} failed`)).toBe(`GET ${expected} failed`)
})

test('lines of one turn arrive in their order, also when the process ends within it', async () => {
  const module = JSON.stringify(join(import.meta.dirname, '../../src/platform/log.ts'))
  for (const end of ['process.exit(0)', 'setTimeout(() => {}, 1)', "throw new Error('over')"]) {
    const script = `import { createLog } from ${module}
      const log = createLog('INFO')
      for (let n = 0; n < 5; n++) log.child('room').info('said', { n })
      ${end}`
    const child = Bun.spawn([process.execPath, '-e', script], {
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    })
    const text = await new Response(child.stderr).text()
    expect([...text.matchAll(/said n=(\d)/g)].map(found => found[1]!)).toEqual(['0', '1', '2', '3', '4'])
  }
})

test('a failure that repeats itself has ten lines a second, and what others have to say is told', () => {
  const lines: string[] = []
  const log = createLog('DEBUG', line => void lines.push(line))
  const begun = performance.now()
  for (let nth = 0; nth < 1000; nth++) {
    log.child(`room${nth % 3}`).warn('the disk is full', { nth })
    log.error('it fails')
  }
  log.error('another one')
  for (let nth = 0; nth < 100; nth++) log.info('answered')
  // A second may have begun meanwhile.
  const seconds = Math.ceil((performance.now() - begun) / 1000) + 1
  expect(lines.filter(line => line.includes('full') || line.includes('fails')).length).toBeLessThanOrEqual(
    12 * seconds,
  )
  expect(lines.some(line => line.includes('another one'))).toBe(true)
  expect(lines.filter(line => line.includes('answered'))).toHaveLength(100)
})

test('of few lines the next one that passes says how many did not', () => {
  const few = new LineLimit()
  const passed = Array.from({ length: 25 }, () => few.next(100)).filter(({ passes }) => passes)
  expect(passed).toHaveLength(10)
  expect(few.next(1100)).toEqual({ passes: true, unlogged: 15 })
  expect(few.next(1200)).toEqual({ passes: true })
})
