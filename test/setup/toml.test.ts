import { describe, expect, test } from 'bun:test'
import { type Edit, UnreadableSettingsError, valueAt } from '../../src/setup/edit.ts'
import { toml } from '../../src/setup/toml.ts'

const entry: Edit = {
  path: ['mcp_servers', 'svc'],
  value: { command: 'C:\\Program Files\\svc.exe', args: ['mcp', '-d', 'it\'s "here"'] },
}
const block = String.raw`[mcp_servers.svc]
command = "C:\\Program Files\\svc.exe"
args = [ "mcp", "-d", "it's \"here\"" ]`

const lived = `# my settings
model = "o9" # the new one

[mcp_servers.files]
command = "files"
args = [
  "[mcp_servers.svc]",
]

[notes]
text = """
[mcp_servers.svc]
command = "not this one"
"""

[[profiles]]
name = "a"
`

const texts: [what: string, text: string][] = [
  ['an empty file', ''],
  ['one line', 'model = "x"\n'],
  ['one line without end', 'model = "x"'],
  ['blank lines at the end', 'model = "x"\n\n\n'],
  ['blank lines alone', '\n\n'],
  ['lived in', lived],
  ['lived in, CRLF', lived.replaceAll('\n', '\r\n')],
  ['lived in, no last line end', lived.trimEnd()],
]

describe('an entry in TOML', () => {
  for (const [what, text] of texts)
    test(`${what}: goes in and out again, and the rest stays`, () => {
      const after = toml.put(text, entry)
      expect(valueAt(toml.parse(after), entry.path)).toEqual(entry.value)
      expect(after.replaceAll('\r\n', '\n')).toContain(block)
      expect(toml.remove(after, entry.path).trimEnd()).toBe(text.trimEnd())
    })

  test('what came after it stays', () => {
    const more = '\n# by the program itself\n[projects."/x"]\ntrust_level = "trusted"\n'
    expect(toml.remove(toml.put(lived, entry) + more, entry.path)).toBe(lived + more)
  })

  test('a changed entry takes the place of the old one', () => {
    const more = '\n[later]\nx = 1\n'
    const other = { ...entry, value: { url: 'http://127.0.0.1:8000/mcp' } }
    expect(toml.put(toml.put(lived, entry) + more, other)).toBe(toml.put(lived + more, other))
  })

  test('other spellings of the head are known', () => {
    for (const head of ['[ mcp_servers . svc ]', '["mcp_servers"."svc"] # ours', "[mcp_servers.'svc']"]) {
      expect(toml.remove(`a = 1\n\n${head}\ncommand = "x"\n`, entry.path)).toBe('a = 1\n')
    }
  })

  const byHand = [
    'mcp_servers = { files = { command = "files" } }\n',
    'mcp_servers.svc.command = "x"\n',
    '[mcp_servers.svc]\ncommand = "x"\n\n[mcp_servers.svc.env]\nA = "1"\n',
  ]
  for (const text of byHand)
    test(`${JSON.stringify(text)} is left to a person`, () => {
      expect(() => toml.put(text, entry)).toThrow(UnreadableSettingsError)
      if (valueAt(toml.parse(text), entry.path) !== undefined)
        expect(() => toml.remove(text, entry.path)).toThrow(UnreadableSettingsError)
    })

  test('what does not parse is refused, with the line', () => {
    expect(() => toml.put('a = 1\nb = \n', entry)).toThrow(/\bline 2\b/)
  })
})
