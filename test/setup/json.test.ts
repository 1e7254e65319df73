import { describe, expect, test } from 'bun:test'
import { type Edit, listLeaves, UnreadableSettingsError, valueAt } from '../../src/setup/edit.ts'
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

const texts: [what: string, text: string][] = [
  ['an empty file', ''],
  ['blank lines', '\n  \n'],
  ['an empty object', '{}'],
  ['a line inside', '{\n}\n'],
  ['one line', '{"a":1,"mcpServers":{"b":{}}}'],
  ['an empty object of servers', '{\n  "mcpServers": {}\n}\n'],
  ['empty ones over two lines', '{\n\t"mcpServers": {\n\t},\n\t"hooks": {\n\t\t"Prompt": [\n\t\t]\n\t}\n}'],
  ['only a comment inside', '{ // nothing yet\n}\n'],
  ['a comment over lines after the brace', '{ /* a\n b */ "x": 1\n}\n'],
  ['comments at both ends', '// first\n{ "x": [1, 2] }\n// last'],
  ['lived in', lived],
  ['lived in, CRLF', lived.replaceAll('\n', '\r\n')],
  ['lived in, by tabs', lived.replaceAll('  ', '\t')],
  ['lived in, no last line end', lived.trimEnd()],
]

const commentsIn = (text: string) => text.match(/\/\/[^\r\n]*|\/\*[\s\S]*?\*\//g)
describe('an entry in JSON', () => {
  for (const [what, text] of texts)
    test(`${what}: goes in and out again; other entries and all comments stay`, () => {
      for (const edits of [[entry], [inList], [entry, inList], [inList, entry]]) {
        const after = edits.reduce(json.put, text)
        for (const { path, value } of edits) expect(valueAt(json.parse(after), path)).toEqual(value)
        expect(commentsIn(after)).toEqual(commentsIn(text))
        const left = edits.map(({ path }) => path).reduce(json.remove, after)
        for (const { path } of edits) expect(valueAt(json.parse(left), path)).toBeUndefined()
        expect(commentsIn(left)).toEqual(commentsIn(text))
        expect(listLeaves(json.parse(left))).toEqual(listLeaves(json.parse(text)))
      }
    })

  test('what an entry made around itself goes with it; what holds something, or a comment, stays', () => {
    for (const edits of [[entry], [inList], [entry, inList]]) {
      const made = edits.reduce(json.put, '')
      expect(json.parse(edits.map(({ path }) => path).reduce(json.remove, made))).toEqual({})
    }
    const full = json.put('{"mcpServers":{"b":{}},"hooks":{"Other":[]}}', inList)
    const left = json.remove(json.remove(json.put(full, entry), entry.path), inList.path)
    expect(json.parse(left)).toEqual({ mcpServers: { b: {} }, hooks: { Other: [] } })
    const commented = '{\n  "mcpServers": {\n    // mine\n  }\n}\n'
    expect(json.parse(json.remove(json.put(commented, entry), entry.path))).toEqual({ mcpServers: {} })
  })

  test('the file’s own indentation and line ends are used', () => {
    expect(json.put('{\r\n\t"a": 1\r\n}', { path: ['b', 'c'], value: 1 })).toBe(
      '{\r\n\t"b": {\r\n\t\t"c": 1\r\n\t},\r\n\t"a": 1\r\n}',
    )
  })

  test('a changed entry is replaced where it stands', () => {
    const other = { ...entry, value: { command: '/opt/svc' } }
    expect(json.put(json.put(lived, entry), other)).toBe(json.put(lived, other))
  })

  test('as the last one it goes with the comma of the one before, not with its comment', () => {
    const last = '{\n  "mcpServers": {\n    "b": {}, // b\n    "svc": {} // ours\n  }\n}'
    expect(json.remove(last, entry.path)).toBe('{\n  "mcpServers": {\n    "b": {} // b // ours\n  }\n}')
  })

  test('what is not there is not taken', () => expect(json.remove(lived, entry.path)).toBe(lived))

  const broken: [text: string, says: RegExp][] = [
    ['{\n  "a": 1\n  "b": 2\n}', /line 3, column 3/],
    ['{ "a": ', /not valid JSON/],
    ['[1]', /not an object/],
    ['{"mcpServers": []}', /something else/],
    ['{"mcpServers": "x"}', /something else/],
  ]
  for (const [text, says] of broken)
    test(`${JSON.stringify(text)} is refused, with the reason`, () => {
      expect(() => json.put(text, entry)).toThrow(UnreadableSettingsError)
      expect(() => json.put(text, entry)).toThrow(says)
    })
})
