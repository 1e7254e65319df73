import { describe, expect, test } from 'bun:test'
import { isIssuedId, isUserId, matchUserId, readUserId } from '../../src/model/user-id.ts'

const id = 'o9cq80x35uYP39-_n@im.wechat'
const wide = id.replace(/[!-~]/g, char => String.fromCharCode(char.charCodeAt(0) + 0xfee0))

describe('an id as people paste it', () => {
  const quotes = ['""', "''", '“”', '‘’', '„“', '«»', '‹›', '「」', '『』', '``', '＂＂', '〝〞']
  const brackets = ['<>', '()', '[]', '{}', '（）', '【】', '《》', '〈〉', '〔〕', '［］', '＜＞']
  const pairs = [...quotes, ...brackets].map(pair => `${pair[0]}${id}${pair[1]}`)
  const others = [
    ...[
      ` ${id}\n`,
      `\u3000${id}\u00a0`,
      `${id},`,
      `${id}。`,
      `${id}；`,
      `${id}?`,
      `**${id}**`,
      `- "${id}",`.slice(2),
    ],
    ...[`mailto:${id}`, `<MAILTO:${id}>`, `user:${id}`, `@${id}`, `"'(${id})'",`],
    ...[
      `\u200b${id}\ufeff`,
      `\u202a${id}\u202c`,
      id.replace('cq', 'c\u00adq'),
      `${id}\0`,
      id.replace('@', '＠'),
      wide,
    ],
  ]
  test.each([id, ...pairs, ...others].map(given => [escape(given), given] as const))('%s', (_name, given) => {
    expect(isUserId(given)).toBe(true)
    expect(readUserId(given, 'to')).toBe(id)
  })

  test.each([
    ['a@', /one side/],
    ['"@b"', /one side/],
    ['(@)', /one side/],
    ['a b@c', /space/],
    ['<a@b c>', /space/],
    ['a@b@c', /more than one "@"/],
  ])('%j cannot be one, and the error says why', (given, why) => {
    expect(() => readUserId(given, 'to')).toThrow(why)
  })

  test('a name is none', () => {
    for (const name of ['Mum', '(Mum)', '"小明"']) expect(isUserId(name)).toBe(false)
  })
})

test('capitals are compared with known users only', () => {
  const known = new Set([id, 'two@x', 'TWO@x', '"odd"@x'])
  for (const given of [id.toUpperCase(), id.toLowerCase(), `"O${id.slice(1)}"`])
    expect([given, isIssuedId(given), matchUserId(given, known, 'to')]).toEqual([given, false, id])
  expect(matchUserId('TWO@x', known, 'to')).toBe('TWO@x')
  expect(() => matchUserId('Two@x', known, 'to')).toThrow(/capitals/)
  expect(matchUserId('"odd"@x', known, 'to')).toBe('"odd"@x')
  expect(matchUserId('(New@X)', known, 'to')).toBe('New@X')
})

test('a long one takes no time', () => {
  const began = performance.now()
  for (const char of [' ', '"', '@', '\u200b', '！'])
    expect(() => readUserId(`x@ y${char.repeat(512)}z`, 'to')).toThrow()
  expect(performance.now() - began).toBeLessThan(1000)
})
