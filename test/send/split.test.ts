import { describe, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { splitText as splitAtMost, textLimitBytes } from '../../src/send/split.ts'

const splitText = (text: string, limit = textLimitBytes, most = 1000) => splitAtMost(text, limit, most)!
const bytes = (text: string) => Buffer.byteLength(text)
const noSpace = (text: string) => text.replace(/\s+/g, '')

describe('splitText', () => {
  test('a text that fits is one part, untouched', () => {
    expect(splitText('  hi \n')).toEqual(['  hi \n'])
    const exact = `${'你'.repeat(5461)}a`
    expect(bytes(exact)).toBe(textLimitBytes)
    expect(splitText(exact)).toEqual([exact])
  })

  test('one byte more makes two parts, and nothing but white space is lost', () => {
    const text = `${'a'.repeat(8000)} ${'b'.repeat(8384)}`
    expect(bytes(text)).toBe(textLimitBytes + 1)
    expect(splitText(text)).toEqual(['a'.repeat(8000), 'b'.repeat(8384)])
  })

  test('a paragraph end is preferred to a line end, a line end to a space, when the count stays the same', () => {
    expect(splitText('aa bb\n\ncc dd ee', 12)).toEqual(['aa bb', 'cc dd ee'])
    expect(splitText('aa bb\ncc dd ee', 12)).toEqual(['aa bb', 'cc dd ee'])
    expect(splitText('aaaa bbbb cccc', 10)).toEqual(['aaaa bbbb', 'cccc'])
  })

  test('the count comes before kindness', () => {
    // Cutting at the paragraph would need three parts.
    expect(splitText('a\n\nbbbb bbbb bbbb bbbb', 12)).toEqual(['a\n\nbbbb bbbb', 'bbbb bbbb'])
  })

  test('Chinese without spaces is cut after a sentence, else between characters', () => {
    expect(splitText('今天天气好。我们去公园', 24)).toEqual(['今天天气好。', '我们去公园'])
    expect(splitText('一二三四五六', 10)).toEqual(['一二三', '四五六'])
  })

  test('an emoji of several code points and a combining mark stay whole', () => {
    const family = '👨‍👩‍👧‍👦'
    for (const part of splitText(family.repeat(4), 30)) expect(part).toBe(family)
    const parts = splitText('é'.normalize('NFD').repeat(10), 10)
    for (const part of parts) expect(noSpace(part).length % 2).toBe(0)
  })

  test('a code fence that fits into one part is not cut', () => {
    const fence = '```ts\nconst a = 1\nconst b = 2\n```'
    const parts = splitText(`before it\n${fence}\nafter`, bytes(fence) + 4)
    expect(parts).toContain(fence)
  })

  test('a fence longer than a part is closed and opened again', () => {
    const lines = Array.from({ length: 40 }, (_, i) => `  line ${i}`)
    const parts = splitText(`\`\`\`py\n${lines.join('\n')}\n\`\`\``, 120)
    for (const part of parts) {
      expect(part.startsWith('```py\n')).toBe(true)
      expect(part.endsWith('\n```')).toBe(true)
      expect(bytes(part)).toBeLessThanOrEqual(120)
    }
    expect(parts.flatMap(part => part.split('\n').filter(line => !line.startsWith('```')))).toEqual(lines)
  })

  test('a fence of exactly the limit stays whole beside one that is cut', () => {
    const whole = `\`\`\`\n${'a'.repeat(92)}\n\`\`\``
    expect(bytes(whole)).toBe(100)
    const cut = `~~~\n${'line of code\n'.repeat(20)}~~~`
    const parts = splitText(`${cut}\n${whole}\nend`, 100)
    expect(parts).toContain(whole)
    for (const part of parts) expect(bytes(part)).toBeLessThanOrEqual(100)
  })

  test('a fence whose marks would fill the parts is cut like any text', () => {
    const opening = `\`\`\`${'x'.repeat(90)}`
    const parts = splitText(`${opening}\n${'code\n'.repeat(40)}\`\`\``, 120)
    expect(parts.filter(part => part.includes(opening))).toHaveLength(1)
    expect(parts).toHaveLength(3)
  })

  test('nothing is made of more parts than the most', () => {
    expect(splitAtMost('a'.repeat(101), 10, 10)).toBeUndefined()
    expect(splitAtMost('a'.repeat(100), 10, 10)).toHaveLength(10)
  })

  test('an accent on a space and a run of flags are not cut', () => {
    const text = `${'ab \u0301'.repeat(30)}${'🇩🇪'.repeat(400)}`
    for (const limit of [40, 61, 1001]) expect(cutCharacters(text, splitText(text, limit))).toBe(0)
  })
})

const mark = fc
  .record({ indent: fc.nat(3), character: fc.constantFrom('`', '~'), length: fc.integer({ min: 3, max: 6 }) })
  .map(({ indent, character, length }) => `${' '.repeat(indent)}${character.repeat(length)}`)
const piece = fc.oneof(
  fc.constantFrom(
    'word ',
    '你好',
    '。',
    '\n',
    '\n\n',
    '\r\n',
    ' ',
    '\t',
    '\u3000',
    '👍🏽',
    '👨‍👩‍👧‍👦',
    '🇩🇪',
    '\ud800',
    '\udc00',
  ),
  fc.constantFrom('\u0301', '\u200d', '\u00a0', 'e\u0301', '    code\n', '\n\n\n', '`a` ', '~~ '),
  mark.map(text => `\n${text}ts\n`),
  mark.map(text => `\n${text}\n`),
  fc.integer({ min: 1, max: 300 }).map(length => 'x'.repeat(length)),
  fc.integer({ min: 1, max: 90 }).map(length => `${' '.repeat(length)}\n`),
)
/** Texts of what makes splitting hard, some of it many times over. */
const texts = fc
  .array(
    fc.tuple(piece, fc.oneof({ weight: 5, arbitrary: fc.constant(1) }, fc.integer({ min: 2, max: 40 }))),
    { maxLength: 80 },
  )
  .map(pieces => pieces.map(([text, times]) => text.repeat(times)).join(''))

const graphemes = (text: string) =>
  [...new Intl.Segmenter(undefined, { granularity: 'grapheme' }).segment(text)].map(({ segment }) => segment)

/** How many characters of the text, as a reader sees them, are in no part as a whole. */
function cutCharacters(text: string, parts: readonly string[]): number {
  const visible = (list: readonly string[]) => list.map(one => one.trim()).filter(one => one !== '')
  const [wanted, found] = [visible(graphemes(text)), parts.flatMap(part => visible(graphemes(part)))]
  return Math.abs(found.length - wanted.length)
}

/** The text without white space, and without the marks that a cut fence gets. */
const content = (text: string) => text.replace(/\s+/g, '').replace(/[`~]|ts/g, '')

describe('splitText, for any text', () => {
  test('every part fits, none is empty, and nothing but white space and marks of fences comes or goes', () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 64, max: 400 }), (text, limit) => {
        const parts = splitText(text, limit)
        for (const part of parts) {
          expect(bytes(part)).toBeLessThanOrEqual(Math.max(limit, parts.length === 1 ? bytes(text) : 0))
          if (parts.length > 1) expect(part.trim()).not.toBe('')
        }
        expect(content(parts.join(''))).toBe(content(text))
        // Two neighbours that would fit into one message were not worth two, but for the marks they carry.
        expect(parts.length).toBeLessThanOrEqual((3 * bytes(text)) / limit + 1)
      }),
      { numRuns: 1500 },
    )
  })

  test('a long run of white space whose last one bears an accent is cut before that one', () => {
    const parts = splitText(`x${' \n'.repeat(80)}\u3000\u0301`, 64)
    expect(parts).toEqual(['x', '\u3000\u0301'])
  })

  test('the count is the least there is for words that fit', () => {
    const words = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 200 })
    const gaps = fc.constantFrom(' ', '\n', '\n\n')
    fc.assert(
      fc.property(
        words,
        fc.array(gaps, { minLength: 200, maxLength: 200 }),
        fc.integer({ min: 64, max: 300 }),
        (sizes, between, limit) => {
          const text = sizes
            .map((size, i) => 'w'.repeat(size) + (i < sizes.length - 1 ? between[i] : ''))
            .join('')
          let [least, used] = [1, 0]
          for (const [i, size] of sizes.entries()) {
            const gap = i === 0 || used === 0 ? 0 : between[i - 1]!.length
            if (used + gap + size <= limit) used += gap + size
            else [least, used] = [least + 1, size]
          }
          expect(splitText(text, limit)).toHaveLength(least)
          if (least > 1) expect(splitAtMost(text, limit, least - 1)).toBeUndefined()
        },
      ),
      { numRuns: 500 },
    )
  })

  test('no character is cut where one fits into a part', () => {
    const characters = fc.constantFrom(
      '👍🏽',
      '👨‍👩‍👧‍👦',
      '🇩🇪',
      'e\u0301',
      '你',
      '。',
      'a',
      ' ',
      ' \u0301',
      '…',
      '\n',
    )
    fc.assert(
      fc.property(
        fc.array(characters, { maxLength: 300 }),
        fc.integer({ min: 64, max: 200 }),
        (list, limit) => {
          const text = list.join('')
          expect(cutCharacters(text, splitText(text, limit))).toBe(0)
        },
      ),
      { numRuns: 500 },
    )
  })

  const unit = (character: string, units: number) => character.repeat(Math.ceil(units / character.length))
  const hostile: Record<string, (units: number) => string> = {
    'backticks alone': units => unit('`', units),
    'lines of backticks': units => unit('```\n', units),
    'fences in turn': units => unit('```\n~~~\n', units),
    'small fences': units => unit('```\nx\n```\n', units),
    'openings that grow': units => {
      const lines: string[] = []
      for (let size = 3, all = 0; all < units; all += size++ + 1) lines.push('`'.repeat(size))
      return lines.join('\n')
    },
    'a fence that stays open': units => `~~~\n${unit('code \n', units)}`,
    'an opening line without end': units => `~~~${unit('x ', units)}`,
    'spaces after a line end': units => unit(`\n${' '.repeat(5000)}`, units),
    'spaces within words': units => `a${unit(' ', units)}b`,
    'line ends': units => unit('\n', units),
    'an endless character': units => `e${unit('\u0301', units)}`,
    'joined people': units => unit('👩‍', units),
    flags: units => unit('🇩🇪', units),
    'lone surrogates': units => unit('\ud800', units),
    'ends of sentences': units => unit('。\u0301…！', units),
  }

  /** Code units looked at: the splitter reads its text through these alone. */
  function unitsRead(work: () => void): number {
    const read = String.prototype.charCodeAt
    let count = 0
    String.prototype.charCodeAt = function (this: string, index: number) {
      count++
      return read.call(this, index)
    }
    try {
      work()
    } finally {
      String.prototype.charCodeAt = read
    }
    return count
  }

  for (const [name, make] of Object.entries(hostile)) {
    test(`twice the text is twice the work: ${name}`, () => {
      const sizes = [20_000, 40_000, 80_000, 160_000]
      const work = sizes.map(size => unitsRead(() => splitAtMost(make(size), textLimitBytes, 1000)) / size)
      for (const each of work) expect(each).toBeLessThan(12)
      for (const part of splitText(make(110_000)) ?? []) {
        expect(bytes(part)).toBeLessThanOrEqual(textLimitBytes)
        expect(part.trim()).not.toBe('')
      }
    })
  }
})
