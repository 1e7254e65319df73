import { describe, expect, test } from 'bun:test'
import { byteOrderMark, type Edit, Unreadable, valueAt } from '../../src/setup/edit.ts'
import { json } from '../../src/setup/json.ts'

const entry: Edit = {
  path: ['mcpServers', 'svc'],
  value: { command: '/usr/bin/svc', args: ['mcp', '-t', 'stdio'] },
}
const isOurs = (element: unknown) => valueAt(element, ['id']) === 'svc'
const inList: Edit = { path: ['hooks', 'Prompt', isOurs], value: { id: 'svc' } }

const lived = `{
  // what I like
  "theme": "dark", /* really */
  "mcpServers": { // mine
    "files": { "command": "files", "args": [] }, // keep "svc" out, [ and { too
    /* "old": {}, */
  },
  "hooks": { "Prompt": [ { "id": "a" }, ], "Other": [] },
}
`

/** How files look before: none, empty ones, small ones, lived-in ones. */
const before: [what: string, text: string | undefined][] = [
  ['no file', undefined],
  ['an empty file', ''],
  ['blank lines', '\n  \n'],
  ['a mark alone', byteOrderMark],
  ['an empty object', '{}'],
  ['an empty object with a line end', '{}\n'],
  ['a blank inside', '{ }\n'],
  ['a line inside', '{\n}\n'],
  ['one line', '{"a":1,"mcpServers":{"b":{}}}'],
  ['one line with blanks', '{ "a": 1 }\n'],
  ['an empty object of servers', '{\n  "mcpServers": {}\n}\n'],
  ['one over two lines', '{\n\t"mcpServers": {\n\t},\n\t"hooks": {\n\t\t"Prompt": [\n\t\t]\n\t}\n}'],
  ['only a comment inside', '{ // nothing yet\n}\n'],
  ['a comment over lines after the brace', '{ /* a\n b */ "x": 1\n}\n'],
  ['comments at both ends', '// first\n{ "x": [1, 2] }\n// last'],
  ['lived in', lived],
  ['lived in, CRLF', lived.replaceAll('\n', '\r\n')],
  ['lived in, with a mark', byteOrderMark + lived],
  ['lived in, by tabs', lived.replaceAll('  ', '\t')],
  ['lived in, no last line end', lived.trimEnd()],
]

describe('an entry in JSON', () => {
  for (const [what, text] of before) {
    for (const edit of [entry, inList]) {
      const kind = edit === entry ? 'object' : 'list'
      test(`${what}: into an ${kind} and out again gives back the same bytes`, () => {
        const after = json.put(text, edit)
        expect(valueAt(json.parse(after), edit.path)).toEqual(edit.value)
        expect(json.take(after, edit.path)).toBe(text)
      })
    }
  }

  test('two entries go out again in the order in which they came', () => {
    for (const [, text] of before) {
      const after = json.put(json.put(text, entry), inList)
      const left = json.take(after, entry.path)
      expect(left === undefined ? undefined : json.take(left, inList.path)).toBe(text)
    }
  })

  test('nothing of what was there is lost or moved', () => {
    const after = json.put(lived, entry)
    const lines = new Set(after.split('\n'))
    expect(lived.split('\n').filter(line => !lines.has(line))).toEqual([])
    expect(after).toContain('"mcpServers": { // mine\n    "svc": {\n      "command": "/usr/bin/svc",')
    const { mcpServers, ...rest } = json.parse(after) as Record<string, object>
    expect(rest).toEqual(json.parse(lived.replace(/ {2}"mcpServers"[\s\S]*?\n {2}\},\n/, '')) as typeof rest)
    expect(Object.keys(mcpServers!)).toEqual(['svc', 'files'])
  })

  test('the file’s own indentation and line ends are used', () => {
    expect(json.put('{\r\n\t"a": 1\r\n}', entry)).toBe(
      '{\r\n\t"mcpServers": {\r\n\t\t"svc": {\r\n\t\t\t"command": "/usr/bin/svc",\r\n\t\t\t"args": ["mcp", "-t", "stdio"]\r\n\t\t}\r\n\t},\r\n\t"a": 1\r\n}',
    )
  })

  test('a changed entry is replaced where it stands', () => {
    const other = { ...entry, value: { command: '/opt/svc' } }
    const after = json.put(json.put(lived, entry), other)
    expect(after).toBe(json.put(lived, other))
  })

  test('after another program wrote the file its own way, the entry goes and the rest stays', () => {
    const rewritten = JSON.stringify(json.parse(json.put(lived, entry)), null, 2)
    const left = json.take(rewritten, entry.path)
    expect(json.parse(left!)).toEqual(json.parse(lived))
    // The last of several, the one before it kept its comma.
    const last = '{\n  "mcpServers": {\n    "b": {}, // b\n    "svc": {} // ours\n  }\n}'
    expect(json.take(last, entry.path)).toBe('{\n  "mcpServers": {\n    "b": {} // b // ours\n  }\n}')
  })

  test('what is not there is not taken', () => expect(json.take(lived, entry.path)).toBe(lived))

  const broken: [text: string, says: RegExp][] = [
    ['{\n  "a": 1\n  "b": 2\n}', /is not valid JSON \(line 3: CommaExpected\)/],
    ['{ "a": ', /is not valid JSON/],
    ['[1]', /not an object/],
    ['{"mcpServers": []}', /something else where "svc" is expected/],
    ['{"mcpServers": "x"}', /something else/],
    ['{"mcpServers": {}, "mcpServers": {}}', /"mcpServers" twice/],
  ]
  for (const [text, says] of broken)
    test(`${JSON.stringify(text)} is refused, with the reason`, () => {
      expect(() => json.put(text, entry)).toThrow(Unreadable)
      expect(() => json.put(text, entry)).toThrow(says)
    })
})
