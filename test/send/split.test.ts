import { describe, expect, test } from 'bun:test'
import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { splitText as splitAtMost, textLimitBytes } from '../../src/send/split.ts'
import { runs } from '../support/properties.ts'

const splitText = (text: string, limit = textLimitBytes, most = 1000) => splitAtMost(text, limit, most)!
const bytes = (text: string) => Buffer.byteLength(text)
/** Without white space, and without what shows nothing: a part of that alone is left out. */
const noSpace = (text: string) => text.replace(/[\s\p{Default_Ignorable_Code_Point}]+/gu, '')

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

  const rows = (count: number, lead: string, row = (i: number) => `| r${i} | a\\|b |`) =>
    Array.from({ length: count }, (_, i) => lead + row(i))

  for (const [name, lead, header, rule, row] of [
    ['a plain one', '', '| Name | Value |', '|:---|---:|', undefined],
    ['one without outer pipes', '', 'Name | Value', ':-- | :-:', (i: number) => `c${i} | d${i}`],
    ['one of a single column', '', '| Name |', '|---|', (i: number) => `| row ${i} |`],
    ['one in a quote', '> ', '| Name | Value |', '| --- | --- |', undefined],
    ['one in nested quotes', '>> ', '| Name | Value |', '| --- | --- |', undefined],
    ['one in a list', '   ', '| Name | Value |', '| --- | --- |', undefined],
    [
      'one in Chinese with escaped pipes',
      '',
      '| 名字\\|别名 | 值 |',
      '|-|-|',
      (i: number) => `| 行${i} | \\| |`,
    ],
  ] as const)
    test(`a table that is cut has its header in each part: ${name}`, () => {
      const [head, lines] = [[lead + header, lead + rule], rows(20, lead, row)]
      const intro = lead === '   ' ? ['1. Look:'] : ['Look:', '']
      const parts = splitText([...intro, ...head, ...lines, '', 'The end.'].join('\n'), 130)
      expect(parts.length).toBeGreaterThan(1)
      for (const part of parts) {
        expect(bytes(part)).toBeLessThanOrEqual(130)
        if (part.split('\n').some(line => lines.includes(line)))
          expect(part.split('\n').filter(line => head.includes(line))).toEqual(head)
      }
      const all = parts.flatMap(part => part.split('\n'))
      expect(all.filter(line => lines.includes(line))).toEqual(lines)
    })

  test('what only looks like a table has no header', () => {
    for (const head of ['| a | b |\n|---|', 'a | b\n--', 'a \\| b\n--|--', '    | a | b |\n    |---|---|']) {
      const parts = splitText(`${head}\n\n${'word '.repeat(60)}`, 80)
      expect(parts.join(' ').split('--').length).toBe(head.split('--').length)
    }
    // Its rows are over at the blank line, at a heading, at a list.
    for (const end of ['', '# Title', '- item']) {
      const parts = splitText(`| a | b |\n|---|---|\n| 1 | 2 |\n${end}\n${'| 3 | 4 |\n'.repeat(20)}`, 80)
      expect(parts.join('').split('|---|---|')).toHaveLength(2)
    }
  })

  test('a table that fits is whole where that costs no part, and one with too long a header is cut without it', () => {
    const table = `| a | b |\n|---|---|\n${rows(4, '').join('\n')}`
    expect(splitText(`${'words '.repeat(10)}\n${table}`, 90)).toContain(table)
    const header = `| ${'h'.repeat(200)} | b |`
    const parts = splitText(`${header}\n|---|---|\n${rows(20, '').join('\n')}`, 100)
    expect(parts.join('').match(/h/g)).toHaveLength(200)
    expect(parts.join('\n').split('|---|---|')).toHaveLength(2)
  })

  test('a text that only goes without headers goes without them', () => {
    const text = `| ${'h'.repeat(40)} | b |\n|---|---|\n${rows(20, '').join('\n')}`
    const most = splitText(text, 120).length - 1
    const parts = splitAtMost(text, 120, most)!
    expect(parts.length).toBeLessThanOrEqual(most)
    expect(parts.join('\n')).toBe(text)
  })

  for (const [name, before, lead, opening, closing] of [
    ['in a quote', '> Say:', '> ', '```ts title=x', '```'],
    ['in a quote without a space', '>Say:', '>', '~~~', '~~~'],
    ['in nested quotes', '> > Say:', '> > ', '````', '````'],
    ['in a list', '- Do:', '  ', '```sh', '```'],
    ['in a numbered list', '10. Do:', '    ', '~~~~~ sh', '~~~~~'],
    ['in a list in a list', '- Do:\n  1. this', '     ', '```sh', '```'],
    ['in a quote in a list', '- Do:', '  > ', '```sh', '```'],
    ['in a list in a quote', '> - Do:', '>   ', '```sh', '```'],
  ] as const)
    test(`a fence is closed and opened again as it was: ${name}`, () => {
      const code = Array.from({ length: 30 }, (_, i) => `${lead}  echo ${i}${i % 7 ? '' : ' # ``` and ~~~'}`)
      const text = [before, lead + opening, ...code, lead + closing, 'After it.'].join('\n')
      const parts = splitText(text, 120)
      for (const part of parts) {
        expect(bytes(part)).toBeLessThanOrEqual(120)
        if (!part.includes('echo')) continue
        const marks = part.split('\n').filter(line => /^[> ]*[`~]/.test(line))
        expect(marks).toEqual([lead + opening, lead + closing])
      }
      const echoed = parts.flatMap(part => part.split('\n').filter(line => line.includes('echo')))
      expect(echoed).toEqual(code)
    })

  test('a fence that begins behind a list marker is opened again without it', () => {
    const code = Array.from({ length: 12 }, (_, i) => `  echo ${i}`).join('\n')
    const [first, ...others] = splitText(`- ~~~sh\n${code}\n  ~~~\n- next`, 60)
    expect(first).toStartWith('- ~~~sh\n')
    for (const part of others) expect(part).toStartWith('  ~~~sh\n')
  })

  test('a code line too long for a part stays in its quote', () => {
    const parts = splitText(`> \`\`\`\n> ${'x'.repeat(150)}\n> \`\`\`\nend`, 60)
    expect(parts.join('').match(/x/g)).toHaveLength(150)
    for (const part of parts)
      for (const line of part.split('\n')) expect(line === 'end' || line.startsWith('> ')).toBe(true)
  })

  test('code of a quote ends where the quote does, and indented code is none', () => {
    const [, ...others] = splitText(`> \`\`\`\n> code\n${'free text '.repeat(20)}`, 60)
    expect(others.join('')).not.toContain('`')
    expect(
      splitText(`Text\n\n    \`\`\`\n\n${'free text '.repeat(20)}`, 60)
        .join('')
        .match(/```/g),
    ).toHaveLength(1)
  })

  const address = 'https://example.com/a/b?c=d&e=(f),g#h'
  for (const [name, text, whole] of [
    ['in Chinese', `${'字'.repeat(15)}${address}${'文'.repeat(30)}`, address],
    ['after words', `Read this and that ${address}${'文'.repeat(30)}`, address],
    ['in a link', `${'字'.repeat(15)}[点 这 里](${address})${'文'.repeat(30)}`, `[点 这 里](${address})`],
    [
      'with a title',
      `${'a b '.repeat(10)}[c d e](${address} "f g")${' h'.repeat(30)}`,
      `[c d e](${address} "f g")`,
    ],
    ['in angle brackets', `${'字'.repeat(15)}<${address}>${'文'.repeat(30)}`, `<${address}>`],
    ['in round ones', `${'字'.repeat(15)}(${address})${'文'.repeat(30)}`, address],
    [
      'of other letters, in a link',
      `${'字'.repeat(9)}[a](https://例.中国/软件_(甲))${'文'.repeat(30)}`,
      'https://例.中国/软件_(甲)',
    ],
    [
      'of a foreign host',
      `${'字'.repeat(15)}https://例.中国/path/x，${'文'.repeat(30)}`,
      'https://例.中国/path/x',
    ],
    ['as a picture', `${'字'.repeat(15)}![a b](${address})${'文'.repeat(30)}`, `![a b](${address})`],
    [
      'as a picture in a link',
      `${'字'.repeat(9)}[![a](https://b.c/d)](https://e.f/g)${'文'.repeat(30)}`,
      '[![a](https://b.c/d)](https://e.f/g)',
    ],
    [
      'of another scheme',
      `${'字'.repeat(15)}weixin://dl/business/?t=abc${'文'.repeat(30)}`,
      'weixin://dl/business/?t=abc',
    ],
    [
      'without a scheme',
      `${'字'.repeat(15)}www.example.com/some/path${'文'.repeat(30)}`,
      'www.example.com/some/path',
    ],
    [
      'in a table',
      `| a |\n|---|\n| ${'字'.repeat(12)}${address}${'文'.repeat(9)} |\n| ${'x'.repeat(70)} |`,
      address,
    ],
    ['in code', `\`\`\`\n${'字'.repeat(12)}${address}${'文'.repeat(30)}\n\`\`\``, address],
  ] as const)
    test(`an address is not cut: ${name}`, () => {
      for (let limit = 72; limit < 140; limit++) {
        const parts = splitText(text, limit)
        expect(parts.some(part => part.includes(whole))).toBe(true)
        for (const part of parts) expect(bytes(part)).toBeLessThanOrEqual(limit)
      }
    })

  test('an address ends where Chinese begins, another follows in a list, or its part is full', () => {
    // No more parts than without it: what follows it fills the part.
    expect(splitText(`${address}${'文'.repeat(100)}`, 100)).toHaveLength(Math.ceil((37 + 300) / 99))
    const list = splitText(Array.from({ length: 6 }, () => address).join(','), 80)
    for (const part of list) expect(part.replace(/,$/, '')).toBe(`${address},${address}`)
    const long = `${address}${'x'.repeat(200)}`
    expect(splitText(`看${long}`, 80).join('')).toBe(`看${long}`)
    expect(splitText(`看${long}`, 80)).toHaveLength(3)
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
  fc
    .tuple(fc.constantFrom('', '> ', '>', '- ', '  ', '1. ', '   ', '> - ', '    '), mark)
    .map(([lead, text]) => `\n${lead}${text}ts\n${lead}code`),
  fc
    .tuple(fc.constantFrom('', '> ', '  '), fc.integer({ min: 1, max: 40 }))
    .map(
      ([lead, size]) =>
        `\n${lead}| h | ${'h'.repeat(size)} |\n${lead}|---|:-:|\n${lead}| a\\|b | c |\n${lead}| d | e |`,
    ),
  fc.constantFrom('\na | b\n--|--\n', '\n| c | d |', '|', '\\', '\n> q', '\n- i', '\n# t\n', '\n---\n'),
  fc.constantFrom(
    'https://a.b/c?d',
    '[l m](https://a.b/c)',
    '<https://a.b/c>',
    'www.x.y',
    '](',
    '[',
    ')',
    '://',
  ),
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

/**
 * Whether the parts, without what a part may repeat in front (up to two lines, and the quote marks of a cut line) and close
 * with (one line), are the text: white space between them aside.
 */
function isWhole(text: string, parts: readonly string[]): boolean {
  const wanted = noSpace(text)
  const repeated = (line: string) => wanted.includes(noSpace(line))
  let places = new Set([0])
  for (const part of parts) {
    const lines = part.split('\n')
    const next = new Set<number>()
    for (const first of [0, 1, 2])
      for (const last of [0, 1]) {
        if (
          first + last > lines.length ||
          !lines.slice(0, first).every(line => repeated(line.replace(/^[> ]*/, '')))
        )
          continue
        const own = noSpace(lines.slice(first, lines.length - last).join('\n'))
        const leads = first === 0 ? 0 : (/^>*/.exec(own)?.[0].length ?? 0)
        for (let lead = 0; lead <= leads; lead++)
          for (const at of places)
            if (wanted.startsWith(own.slice(lead), at)) next.add(at + own.length - lead)
      }
    places = next
  }
  return places.has(wanted.length)
}

describe('splitText, for any text', () => {
  test('every part fits, none is empty, and nothing but white space and what is repeated comes or goes', () => {
    fc.assert(
      fc.property(texts, fc.integer({ min: 64, max: 400 }), (text, limit) => {
        const parts = splitText(text, limit)
        for (const part of parts) {
          expect(bytes(part)).toBeLessThanOrEqual(Math.max(limit, parts.length === 1 ? bytes(text) : 0))
          if (parts.length > 1) expect(part.trim()).not.toBe('')
        }
        expect(isWhole(text, parts)).toBe(true)
        // Two neighbours that would fit into one message were not worth two, but for what they repeat.
        expect(parts.length).toBeLessThanOrEqual((5 * bytes(text)) / limit + 1)
      }),
      runs(800),
    )
  })

  test('no part shows nothing', () => {
    for (const blank of ['\u200b', '\u2800', '\0', '\u3164', '\u{e0041}'])
      expect(splitText(`x${blank.repeat(80)}y`, 64)?.filter(part => !/[xy]/.test(part))).toEqual([])
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
      runs(500),
    )
  })

  test('no character is cut where one fits into a part', () => {
    const characters = fc.constantFrom(...graphemes('👍🏽👨‍👩‍👧‍👦🇩🇪e\u0301你。a  \u0301…\n'))
    fc.assert(
      fc.property(
        fc.array(characters, { maxLength: 300 }),
        fc.integer({ min: 64, max: 200 }),
        (list, limit) => {
          const text = list.join('')
          expect(cutCharacters(text, splitText(text, limit))).toBe(0)
        },
      ),
      runs(500),
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
    'quote marks': units => unit('>', units),
    'lines of quotes': units => unit(`${'> '.repeat(200)}\n`, units),
    'list markers': units => unit('- ', units),
    'lines of list markers': units => unit(`${'1. '.repeat(200)}\n\n`, units),
    'fences in quotes that end': units => unit('> ```\nx\n', units),
    'a table': units => `| a | b |\n|---|---|\n${unit('| c | d |\n', units)}`,
    'tables in turn': units => unit('| a | b |\n|---|---|\n', units),
    'a row of pipes': units => `${unit('|', units / 2)}\n${unit('-|', units / 2)}`,
    'rows of backslashes': units => unit(`|${'\\'.repeat(500)}|\n|-|\n`, units),
    'an address without end': units => `https://${unit('a/', units)}`,
    'beginnings of addresses': units => unit('a://', units),
    'beginnings of links': units => unit('](a://', units),
    'brackets that open': units => unit('[', units),
    'links in links': units => `${unit('[', units / 2)}${unit('](a://b)', units / 2)}`,
    'titles that do not end': units => unit(`[a](b://c${' '.repeat(8)}"`, units),
    'letters of a scheme': units => unit('a+', units),
  }

  /** Code units looked at, or copied, one by one or in the texts and patterns that the splitter reads its text through. */
  function unitsRead(work: () => void): number {
    let count = 0
    const [text, pattern] = [String.prototype, RegExp.prototype]
    const wrapped: (() => void)[] = []
    // biome-ignore lint/suspicious/noExplicitAny: any method of two classes
    const wrap = (object: any, name: string, costOf: (self: any, result: any, given: any[]) => number) => {
      const method = object[name]
      // biome-ignore lint/suspicious/noExplicitAny: as above
      object[name] = function (...given: any[]) {
        const result = method.apply(this, given)
        count += costOf(this, result, given)
        return result
      }
      wrapped.push(() => {
        object[name] = method
      })
    }
    wrap(text, 'charCodeAt', () => 1)
    wrap(text, 'slice', (_, result) => result.length)
    wrap(text, 'trimEnd', self => self.length / 10)
    wrap(text, 'startsWith', (_, __, [start]) => start.length)
    wrap(text, 'indexOf', (self, result, [, from = 0]) => (result < 0 ? self.length : result) - from)
    // From where it began to what it found, or to the end.
    let from = 0
    wrap(pattern, 'exec', (self, result, [given]) => {
      const began = self.global ? Math.min(from, result?.index ?? given.length) : 0
      from = self.global ? self.lastIndex : from
      return self.sticky ? (result?.[0].length ?? 1) : (result?.index ?? given.length) - began
    })
    try {
      work()
    } finally {
      for (const undo of wrapped) undo()
    }
    return count
  }

  for (const [name, make] of Object.entries(hostile)) {
    test(`twice the text is twice the work: ${name}`, () => {
      const sizes = [20_000, 100_000]
      const work = sizes.map(size => unitsRead(() => splitAtMost(make(size), textLimitBytes, 1000)) / size)
      for (const each of work) expect(each).toBeLessThan(30)
      for (const part of splitText(make(110_000)) ?? []) {
        expect(bytes(part)).toBeLessThanOrEqual(textLimitBytes)
        expect(part.trim()).not.toBe('')
      }
    })
  }
})
