import { describe, expect, test } from 'bun:test'
import { splitText, textLimitBytes } from '../../src/gateway/split.ts'

const bytes = (text: string) => new TextEncoder().encode(text).length
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

  test('every part fits, none is empty, and the visible text is whole, over many shapes', () => {
    const pieces = [
      'word ',
      '你好',
      '。',
      '\n',
      '\n\n',
      '👍🏽',
      'x'.repeat(50),
      ' ',
      '\ud800',
      'é',
      '```\ncode\n```\n',
    ]
    let seed = 7
    const random = () => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff
      return seed / 0x7fffffff
    }
    for (let round = 0; round < 300; round++) {
      const text = Array.from({ length: 60 }, () => pieces[Math.floor(random() * pieces.length)]).join('')
      const limit = 80 + Math.floor(random() * 200)
      const parts = splitText(text, limit)
      for (const part of parts) {
        expect(bytes(part)).toBeLessThanOrEqual(limit)
        expect(part.trim()).not.toBe('')
      }
      expect(parts.length).toBeLessThanOrEqual(Math.ceil(bytes(text) / limit) * 2 + 2)
      const marks = (value: string) => noSpace(value).replaceAll('```', '')
      expect(marks(parts.join(''))).toBe(marks(text))
    }
  })
})
