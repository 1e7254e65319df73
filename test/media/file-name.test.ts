import { expect, test } from 'bun:test'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cutName, fileNameOf, toDiskName } from '../../src/media/file-name.ts'
import { createUnique } from '../../src/platform/files.ts'
import { folderOfTest } from '../support/folder.ts'

const bytes = (text: string) => Buffer.byteLength(text)
const nameOf = (given: string) => fileNameOf(given, 'fallback').file_name

test('a name that can be borne is kept as it is, and nothing is said of it', () => {
  const names = [
    ...['report.pdf', '.env', '.gitignore', '..env', '...', 'a"b.txt', "it's.txt", 'a:b.txt'],
    ...['what?<now>|*.txt'],
    ...[' a  b .txt ', 'ends with a dot.', 'nul', 'CON.txt', '照片 2026.jpg', 'файл.doc', 'ملف.pdf'],
    ...['हिन्दी.txt'],
    ...['می\u200cخواهم.pdf', '👩‍👩‍👧‍👦 ❤️.png', '100%.txt', '%2e%2e%2f', '~', '-rf', '$(x)', 'a;b&c.txt'],
    ...['é.txt'],
    ...['x'.repeat(240), `${'长'.repeat(80)}.docx`, 'a\\'.slice(0, 1)],
  ]
  for (const name of names) expect(fileNameOf(name, 'fallback')).toEqual({ file_name: name })
})

test('what cannot be borne goes, and is said', () => {
  const cases: [string, string][] = [
    ['../../etc/passwd', 'passwd'],
    ['..\\..\\windows\\system.ini', 'system.ini'],
    ['..\\x', 'x'],
    ['C:\\x\\y.txt', 'y.txt'],
    ['..', 'fallback'],
    ['.', 'fallback'],
    ['a/..', 'fallback'],
    ['a\\.', 'fallback'],
    ['.\u202e.', 'fallback'],
    ['a/', 'fallback'],
    ['   ', 'fallback'],
    ['\u200b', 'fallback'],
    ['a\0b\nc\x7f.txt', 'abc.txt'],
    ['invoice\u202Egpj.exe', 'invoicegpj.exe'],
    ['a\u2066b\u200fc.txt', 'abc.txt'],
    ['a\u200cb.txt', 'ab.txt'],
    ['\ufeffx.txt', 'x.txt'],
    ['lone\ud800.txt', 'lone.txt'],
    ['in\u{e0049}\u{e0067}voice\u3164\u{e0100}.txt', 'invoice.txt'],
  ]
  expect(cases.map(([name]) => [name, nameOf(name)])).toEqual(cases)
  for (const [name] of cases) expect(fileNameOf(name, 'fallback').renamed).toBeString()
  // Nothing was given, or the same letters in another form.
  expect(fileNameOf('', 'fallback')).toEqual({ file_name: 'fallback' })
  expect(fileNameOf('cafe\u0301.txt', 'f')).toEqual({ file_name: 'caf\u00e9.txt' })
  expect(fileNameOf('..', '/../').file_name).toBe('file')
})

test('a long name is cut between characters and keeps its extension', () => {
  for (const unit of ['x', 'é', '中', '😀', '👩‍👩‍👧‍👦', 'e\u0323\u0301']) {
    const { file_name, renamed } = fileNameOf(`${unit.repeat(300)}.jpeg`, 'f')
    expect(bytes(file_name)).toBeLessThanOrEqual(255)
    expect(bytes(file_name)).toBeGreaterThan(255 - bytes(unit) - 1)
    expect(file_name.endsWith('.jpeg')).toBe(true)
    expect(file_name.slice(0, -5).replaceAll(unit.normalize('NFC'), '')).toBe('')
    expect(renamed).toBeString()
  }
  expect(bytes(nameOf(`x.${'y'.repeat(500)}`))).toBe(255)
  expect(bytes(nameOf(`a${'\u0301\u0323'.repeat(1_000_000)}`))).toBeLessThanOrEqual(255)
  expect(bytes(nameOf(`${'a/'.repeat(1_000_000)}${'中'.repeat(1_000_000)}.txt`))).toBeLessThanOrEqual(255)
})

test('on Windows a name leads to no stream, device or other drive, and elsewhere the same name stays', () => {
  const cases: [string, string][] = [
    ['C:evil.txt', 'C_evil.txt'],
    ['a.txt:hidden', 'a.txt_hidden'],
    ['a.txt::$DATA', 'a.txt__$DATA'],
    ['what?<now>|"x"*.txt', 'what__now___x__.txt'],
    ['nul', '_nul'],
    ['CON.txt', '_CON.txt'],
    ['com1', '_com1'],
    ['lpt¹.png', '_lpt¹.png'],
    ['x. .', 'x'],
    ['...', '_'],
    ['NUL .txt', '_NUL .txt'],
  ]
  for (const [given, name] of cases) {
    const windows = toDiskName(fileNameOf(given, 'f'), true)
    expect([given, windows.file_name]).toEqual([given, name])
    expect(windows.renamed).toBeString()
    if (!given.startsWith('.'))
      expect(toDiskName(fileNameOf(given, 'f'), false)).toEqual({ file_name: given })
  }
  for (const name of ['console.txt', '照片 2026.jpg', 'a  b.txt'])
    expect(toDiskName(fileNameOf(name, 'f'), true)).toEqual({ file_name: name })
  expect(bytes(toDiskName({ file_name: `con.${'x'.repeat(251)}` }, true).file_name)).toBe(255)
})

test('on a disk no name begins with a dot, and that is said', () => {
  const long = `.${'x'.repeat(250)}.txt`
  for (const isWindows of [false, true])
    for (const given of ['.env', '.bashrc', '..env', '.a.txt.0123abcd.part', '.\u200bzshrc', long]) {
      const sent = fileNameOf(given, 'f')
      const { file_name, renamed } = toDiskName(sent, isWindows)
      expect(sent.file_name).toStartWith('.')
      expect(file_name).toStartWith(`_${sent.file_name}`.slice(0, 200))
      expect(bytes(file_name)).toBeLessThanOrEqual(255)
      expect(renamed).toBeString()
      expect(renamed).not.toBe(sent.renamed)
    }
  expect(toDiskName(fileNameOf('...', 'f'), false)).toMatchObject({ file_name: '_...' })
})

test('a long name that is taken gets its number, and the disk takes it', async () => {
  const dir = folderOfTest()
  for (const name of ['x'.repeat(255), `${'长'.repeat(83)}.jpeg`, `a.${'e'.repeat(253)}`]) {
    writeFileSync(join(dir, name), 'old')
    const { path, handle } = await createUnique(dir, mark => cutName(name, mark))
    await handle.close()
    expect(path.normalize('NFC')).toContain(' (1)')
  }
  for (const name of readdirSync(dir)) expect(bytes(name)).toBeLessThanOrEqual(255)
  expect(readdirSync(dir)).toHaveLength(6)
})
