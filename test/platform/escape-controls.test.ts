import { describe, expect, test } from 'bun:test'
import { escapeControls, escapeControlsIn, isVisible } from '../../src/platform/escape-controls.ts'

const numbers = (text: string) => [...text].map(one => `\\u{${one.codePointAt(0)!.toString(16)}}`).join('')
const range = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_none, at) => String.fromCodePoint(from + at))

test('emoji and scripts stay as they are written', () => {
  for (const text of [
    '❤️ ☎︎ ❤️‍🔥 🏳️‍🌈 👁️‍🗨️ 👩‍👩‍👧 🧑🏽‍❤️‍💋‍🧑🏻 🧔🏿‍♂️ 👨‍💻 1️⃣ #️⃣ *️⃣ ⌚️ 🇩🇪 ☝🏽 🏴‍☠️',
    'می‌خواهم کتاب‌ها را ه‍',
    'नमस्ते क्‍ष क्‌ष',
    'ന്‍ අක්‍ෂ ক্‍ষ র‍্যাব',
    'ᠠ᠋ ᠮᠣᠩᠭᠣᠯ',
    '葛︀ ≨︀ က︀',
    '⠓⠑⠇⠇⠕⠀⠺⠕⠗⠇⠙',
    'naïve ﬁne Ωμέγα 한국어 ภาษาไทย ខ្មែរ မြန်မာ 日本語　全角',
  ])
    expect(escapeControls(text)).toBe(text)
})

test('a second joiner or selector, and any without a base that takes it, is numbered', () => {
  for (const [text, shown] of [
    ['a\ufe0f', 'a\\u{fe0f}'],
    ['1\ufe0f', '1\\u{fe0f}'],
    ['a\u200db\u200cc', 'a\\u{200d}b\\u{200c}c'],
    ['❤️\ufe0f', '❤️\\u{fe0f}'],
    ['❤️\u200d', '❤️\\u{200d}'],
    ['😀\u200da', '😀\\u{200d}a'],
    ['👩\u200d\u200d👧', '👩\\u{200d}\\u{200d}👧'],
    ['م\u200c\u200cن', 'م\u200c\\u{200c}ن'],
    ['葛\ufe00\ufe01', '葛\ufe00\\u{fe01}'],
    ['葛\ufe0f', '葛\\u{fe0f}'],
    ['ᠠ\u180b\u180c\u180e', 'ᠠ\u180b\\u{180c}\\u{180e}'],
    ['\u200d', '\\u{200d}'],
    ['م \u200c', 'م \\u{200c}'],
    ['⵰\u2d7f\u2d7f', '⵰\\u{2d7f}\\u{2d7f}'],
    ['\u2800a', '\\u{2800}a'],
  ] as const)
    expect(escapeControls(text)).toBe(shown)
})

test('a run of invisible characters carries nothing, whichever block it is of, after whatever base', () => {
  const runs = [
    range(0xfe00, 0xfe0f),
    range(0xe0100, 0xe01ef),
    range(0xe0000, 0xe007f),
    range(0x200b, 0x200f),
    range(0x202a, 0x202e),
    range(0x2060, 0x206f),
    range(0x180b, 0x180f),
    range(0x13430, 0x13440),
    range(0x1bca0, 0x1bca3),
    range(0x1d173, 0x1d17a),
    range(0xfff9, 0xfffb),
    [
      ...'\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u2d7f\u3164\ufeff\uffa0\u{1107f}\u{16fe4}\u{1bc9d}\u{1d159}',
    ],
  ]
  for (const base of ['', 'a', '1', '😀', '❤', '葛', 'م', 'क', 'ᠠ', '≨'])
    for (const run of runs) {
      // The same one again and again, and all in a row.
      for (const text of [...run.map(one => one.repeat(8)), run.join('').repeat(2)]) {
        const shown = escapeControls(base + text)
        expect(
          [...text].length - [...shown.replaceAll(/\\u\{[0-9a-f]+\}/g, '')].length + [...base].length,
        ).toBeGreaterThanOrEqual([...text].length - 1)
        expect(shown.endsWith(numbers([...text].slice(1).join('')))).toBe(true)
      }
    }
})

test('values of JSON are held to the same, but for line ends and tabs', () => {
  expect<unknown>(escapeControlsIn({ 'k\u200d': ['a\n\tb\ufe00', '👨‍💻'] })).toEqual({
    'k\\u{200d}': ['a\n\tb\\u{fe00}', '👨‍💻'],
  })
})

describe('whether a reader sees anything', () => {
  /** The report of the tests is XML, which holds few controls. */
  const named = (text: string) => [escape(text), text] as const
  const nothing = [
    ...[
      '',
      ' ',
      '\n\t',
      '\u3000',
      '\u2028',
      '\u200b',
      '\u2800',
      '\0',
      '\x1b\x07',
      '\ufeff',
      '\u3164',
      '\uffa0',
      '\u00ad',
    ],
    ...[
      '\u200e\u200f\u202e',
      '\ufe0f',
      '\u{e0041}\u{e007f}',
      '\u2060',
      '\u115f\u1160',
      '\u180e',
      '\u034f',
      '\u200c\u200d',
    ],
    ...['\u{1d159}', '\u{16fe4}', '\ufff9', '\uffff', ' \u200b\u2800\0\n\ufeff'],
  ]
  test.each(nothing.map(named))('of %s: no', (_name, text) => expect(isVisible(text)).toBe(false))

  const something = [
    ...[
      '.',
      '0',
      '`',
      '👨‍👩‍👧',
      '1️⃣',
      '🏳️‍🌈',
      '🏴\u{e0067}\u{e007f}',
      '\u{1f3fb}',
      '\ue001',
      '\ufffd',
      '\u0301',
    ],
    ...['한', '\u1112', 'ㅋ', '⠃', '⠃⠀⠁', 'لا\u200cب', 'न्\u200d', 'ᠠ\u180b', 'a\0b', '\u200b\n\u2800.'],
  ]
  test.each(something.map(named))('of %s: yes', (_name, text) => expect(isVisible(text)).toBe(true))
})
