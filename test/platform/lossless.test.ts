import { describe, expect, test } from 'bun:test'
import { parseInSlices, parseLossless, quoteLongIntegers, sliceArray } from '../../src/platform/lossless.ts'
import { failure } from '../support/failure.ts'

describe('parseLossless', () => {
  const cases: [name: string, text: string, expected: unknown][] = [
    ['the largest uint64', '{"message_id":18446744073709551615}', { message_id: '18446744073709551615' }],
    [
      'ids of any name, at any depth',
      '{"a":[{"svr_id":9007199254740993,"b":{"new_field":12345678901234567890}}],"z":1}',
      { a: [{ svr_id: '9007199254740993', b: { new_field: '12345678901234567890' } }], z: 1 },
    ],
    ['a negative one', '{"seq":-9223372036854775808}', { seq: '-9223372036854775808' }],
    [
      'spaces and newlines',
      '{ "msg_id" :\n  9007199254740993 ,"x": 1 }',
      { msg_id: '9007199254740993', x: 1 },
    ],
    ['in an array', '[9007199254740993,1]', ['9007199254740993', 1]],
    ['short integers stay numbers', '{"message_id":123456789012345}', { message_id: 123456789012345 }],
    ['fractions stay numbers', '{"a":0.12345678901234567,"b":1}', { a: Number('0.12345678901234567'), b: 1 }],
    [
      'exponents stay numbers',
      '{"message_id":1844674407370955161e1}',
      { message_id: Number('18446744073709551610') },
    ],
    ['a digit string stays as it is', '{"id":"9007199254740993"}', { id: '9007199254740993' }],
    [
      'an id property inside a text',
      JSON.stringify({ text: '{"message_id":9007199254740993,"x":1}' }),
      { text: '{"message_id":9007199254740993,"x":1}' },
    ],
    [
      'digits inside a text',
      '{"text":"card :6222021234567890123, ok"}',
      { text: 'card :6222021234567890123, ok' },
    ],
    ['a text that ends like a key', '{"a\\\\":9007199254740993}', { 'a\\': '9007199254740993' }],
    [
      'a text with an escaped quote before digits',
      '{"t":"\\":9007199254740993,","i":9007199254740993}',
      { t: '":9007199254740993,', i: '9007199254740993' },
    ],
    [
      'a quoted number inside a text',
      '{"t":"\\"9007199254740993\\"","u":"x \\"9007199254740993"}',
      { t: '"9007199254740993"', u: 'x "9007199254740993' },
    ],
    [
      'long digits in hashes, words and tokens',
      '{"h":"a1234567890123456b","t":"卡号6222021234567890123。","x":9007199254740993}',
      { h: 'a1234567890123456b', t: '卡号6222021234567890123。', x: '9007199254740993' },
    ],
    [
      'a text that begins or ends with long digits',
      '{"t":"6222021234567890123, yes","u":"no, 6222021234567890123"}',
      { t: '6222021234567890123, yes', u: 'no, 6222021234567890123' },
    ],
    [
      'texts that begin with a colon and long digits',
      '{"t":":9007199254740993, hi","u":[":9007199254740993 "],":9007199254740993 ":9007199254740993}',
      { t: ':9007199254740993, hi', u: [':9007199254740993 '], ':9007199254740993 ': '9007199254740993' },
    ],
    ['a text alone that begins so', '":9007199254740993 "', ':9007199254740993 '],
    ['a bare number', '9007199254740993', '9007199254740993'],
    ['null', 'null', null],
  ]
  test('what is no JSON is looked at once', () => {
    const odd = `"${'1'.repeat(20)} ${'\\"'.repeat(2_000_000)}`
    expect(quoteLongIntegers(odd)).toBe(odd)
    expect(quoteLongIntegers(`x${odd}`)).toBe(`x${odd}`)
    expect(quoteLongIntegers(`\\${odd}`)).toBe(`\\${odd}`)
  })

  for (const [name, text, expected] of cases) {
    test(name, () => expect(parseLossless(text)).toEqual(expected))
  }

  test('agrees with JSON.parse on random documents, but for long integers', () => {
    let seed = 42
    const random = (n: number) => {
      seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
      return (seed >>> 8) % n
    }
    const pieces = [...'"\\:,{}[] 你-', '9007199254740993', '12', 'message_id']
    const text = () => Array.from({ length: random(8) }, () => pieces[random(pieces.length)]).join('')
    const value = (depth: number): unknown => {
      switch (random(depth > 3 ? 4 : 6)) {
        case 0:
          return text()
        case 1:
          return `@${BigInt(random(1 << 24)) * 100000000000037n}`
        case 2:
          return random(1000) - 500
        case 3:
          return random(2) === 0 ? null : random(1000) / 7
        case 4:
          return Array.from({ length: random(4) }, () => value(depth + 1))
        default:
          return Object.fromEntries(Array.from({ length: random(4) }, () => [text(), value(depth + 1)]))
      }
    }
    for (let round = 0; round < 3000; round++) {
      const original = value(0)
      const indent = random(4) === 0 ? 1 : undefined
      // '@digits' stand for bare integers.
      const json = JSON.stringify(original, null, indent).replace(/"@(\d+)"/g, '$1')
      const expected = JSON.parse(
        JSON.stringify(original).replace(/"@(\d+)"/g, (_all, digits: string) =>
          digits.length >= 16 ? `"${digits}"` : digits,
        ),
      )
      expect(parseLossless(json)).toEqual(expected)
    }
  })
})

describe('sliceArray', () => {
  const cases: [name: string, text: string, expected: string[] | undefined][] = [
    [
      'each object as it stands',
      '{"ret":0,"msgs":[{"a": 1.0},{"b":[{}]}],"x":1}',
      ['{"a": 1.0}', '{"b":[{}]}'],
    ],
    ['spaces', '{ "msgs" : [ {"a":1} ,\n{"b":2} ] }', ['{"a":1}', '{"b":2}']],
    ['empty', '{"msgs":[]}', []],
    ['missing', '{"ret":0}', undefined],
    ['null', '{"msgs":null}', undefined],
    [
      'brackets and quotes in texts',
      '{"msgs":[{"t":"]}\\"{["},{"t":"\\\\"}]}',
      ['{"t":"]}\\"{["}', '{"t":"\\\\"}'],
    ],
    ['the same name deeper down', '{"x":{"msgs":[{"no":1}]},"msgs":[{"yes":1}]}', ['{"yes":1}']],
    ['the same name as a text', '{"x":"msgs","y":"\\"msgs\\":[{}]","msgs":[{"yes":1}]}', ['{"yes":1}']],
    ['of two equal keys the last, as JSON.parse', '{"msgs":[{"a":1}],"msgs":[{"b":1}]}', ['{"b":1}']],
  ]
  for (const [name, text, expected] of cases) {
    test(name, () => {
      expect(sliceArray(text, 'msgs')).toEqual(expected)
      const parsed = (JSON.parse(text) as { msgs?: unknown }).msgs
      if (Array.isArray(parsed)) expect(sliceArray(text, 'msgs')?.map(one => JSON.parse(one))).toEqual(parsed)
    })
  }
})

describe('parseInTurns', () => {
  const noTurn = async () => {}
  const read = (text: string, turn = noTurn) => parseInSlices(text, 'msgs', 100_000, turn)
  const whole = async (text: string) => {
    const { fields, parts } = await read(text)
    return { ...fields, ...(parts && { msgs: parts.map(({ value }) => value) }) }
  }
  const texts = [
    '{}',
    ' { } \n',
    '{"ret":0,"msgs":[{"a": 1.0},{"b":[{}]}],"x":1}',
    '{ "msgs" : [ {"a":1} ,\n{"b":2}, 3, "x", null, [ ], true ] , "y" : [[1],{"z":{}}] }',
    '{"msgs":[]}',
    '{"msgs":null}',
    '{"msgs":[{"t":"]}\\"{["},{"t":"\\\\"},"\\"","\\\\"]}',
    '{"x":{"msgs":[{"no":1}]},"msgs":[{"yes":1}]}',
    '{"x":"msgs","y":"\\"msgs\\":[{}]","m\\u0073gs":[{"yes":1}]}',
    '{"msgs":[{"a":1}],"msgs":[{"b":1}]}',
    '{"msgs":[1],"msgs":5}',
    '{"msgs":5,"msgs":[1]}',
    '{"id":18446744073709551615,"f":1e400,"msgs":[{"id":18446744073709551615,"t":"18446744073709551615"}]}',
    '{"__proto__":{"a":1},"msgs":[{"__proto__":1}]}',
  ]
  for (const text of texts)
    test(`as parseLossless: ${text}`, async () => {
      expect(await whole(text)).toEqual(parseLossless(text) as object)
    })

  test('what is no JSON object is a SyntaxError', async () => {
    for (const text of [
      ...['', ' ', 'null', '[]', '"a"', '{', '{"a"', '{"a":', '{"a":}', '{"a":1', '{"a":1,}', '{,}'],
      ...['{"a" 1}'],
      ...['{"a":1}x', '{"a":1}{}', '{a:1}', '{1:1}', '{"msgs":[', '{"msgs":[1', '{"msgs":[1,'],
      ...['{"msgs":[1,]}'],
      ...['{"msgs":[,]}', '{"msgs":[1 2]}', '{"msgs":[{]}]}', '{"msgs":[{}', '{"msgs":["a', '{"msgs":[01]}'],
      ...[
        '{"msgs":[{"a":[1}]}]}',
        '{"a":nul}',
        '\ufeff{}',
        '{"msgs":[{"a":1}}',
        `{"msgs":${'['.repeat(1e5)}`,
      ],
    ])
      expect(await failure(read(text)), text.slice(0, 40)).toBeInstanceOf(SyntaxError)
    expect(await failure(parseInSlices('{"msgs":[1,2,3]}', 'msgs', 2, noTurn))).toBeInstanceOf(SyntaxError)
  })

  test('a value that is very large or deep is given as it is, a field of that kind is refused', async () => {
    const deep = `{"a":${'['.repeat(600)}${']'.repeat(600)}}`
    const large = `{"a":"${'x'.repeat(1_100_000)}"}`
    const { parts } = await read(`{"msgs":[${deep},{"b":1},${large}]}`)
    expect(parts).toEqual([{ text: deep }, { text: '{"b":1}', value: { b: 1 } }, { text: large }])
    for (const field of [deep, large])
      expect(await failure(read(`{"x":${field},"msgs":[]}`))).toBeInstanceOf(SyntaxError)
  })

  test('others have their turn within a value, and between values', async () => {
    let turns = 0
    const turn = async () => {
      turns++
    }
    await failure(read(`{"msgs":${'['.repeat(100_000)}`, turn))
    expect(turns).toBeGreaterThan(90)
    await read(`{"msgs":[${Array(1000).fill('{}').join()}]}`, turn)
    expect(turns).toBeGreaterThan(1000)
  })
})
