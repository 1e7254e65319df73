/** What agents write arrives as it was meant: certain Markdown is read, all else stays as it is. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { toAnswer } from '../../src/agent/answer.ts'
import { runs } from '../support/properties.ts'
import { asWritten, read } from './arrivals.ts'

async function arrivalOf(text: string): Promise<string> {
  const { parts } = await toAnswer(text, { folder: '/nowhere' })
  return parts.map(part => ('text' in part ? part.text : `<${part.name}>`)).join('\n<next>\n')
}

/** Returns the pairs of which something else arrives. */
async function wrongOf(pairs: readonly (readonly [text: string, arrives: string])[]) {
  const all = await Promise.all(
    pairs.map(async ([text, arrives]) => ({ text, arrives, got: await arrivalOf(text) })),
  )
  return all.filter(({ arrives, got }) => got !== arrives)
}

test('sentences, names, sums, patterns, logs and settings arrive as they are', async () => {
  expect(await wrongOf(asWritten.map(text => [text, text]))).toEqual([])
})

test('they do so beside Markdown too, except what is a list or a heading there', async () => {
  const sentences = asWritten.filter(
    text => !/\n|^[-*#>] |\*[\p{L} ]+\*|&\w+;|<br>|^[-*_]{3}$|^\s|^~~~/u.test(text),
  )
  expect(sentences.length).toBeGreaterThan(200)
  expect(await wrongOf(sentences.map(text => [`**Note:** ok\n\n${text}`, `Note: ok\n\n${text}`]))).toEqual([])
})

test('Markdown is read', async () => {
  expect(await wrongOf(read)).toEqual([])
})

const letters = [
  ...'0123abxYzéßжλשع你好かな한ไ',
  '👍',
  '1.',
  '=',
  '+',
  '/',
  '.',
  ',',
  '!',
  '"',
  '$',
  '`',
  '<b>',
  '&lt;',
]
const marks = [
  ...'**__~~##>>||[[]](())\\\\::--',
  '**',
  '__',
  '~~',
  '](',
  '- ',
  '* ',
  '1. ',
  '[x]',
  ' ',
  ' ',
  '\n',
  '\n',
  '\n\n',
]
const texts = fc
  .array(fc.constantFrom(...letters, ...marks), { maxLength: 60, size: 'max' })
  .map(pieces => pieces.join(''))

/** What may be Markdown: headings, fences, tasks, tables, and lines with two pairs of marks. */
const mayBeMarkdown = [
  /^[ >]*#{1,6} /m,
  /^[ >]*(?:(?:[-*]|\d+[.)]) +)?~{3}|`{3}/m,
  /^[ >]*(?:[-*]|\d+[.)]) +\[[ xX]\] /m,
  /^[ >]*[|:\- ]*-[|:\- ]*$/m,
  /\*\*.*\*\*|__.*__/,
  /\]\([^)]*[./]/,
  /~~.*~~/,
  /^ {0,3}(?:> )+\S{0,3}\p{L}/mu,
]

test('any text without Markdown arrives as it is', async () => {
  let plain = 0
  await fc.assert(
    fc.asyncProperty(texts, async text => {
      if (mayBeMarkdown.some(pattern => pattern.test(text))) return
      plain += 1
      // Nobody sees white space around a text, and in empty lines.
      const expected = text.replace(/^ +$/gm, '').replace(/^\n+/, '').trimEnd()
      expect(await arrivalOf(text)).toBe(expected)
    }),
    runs(1500),
  )
  expect(plain).toBeGreaterThan(700)
})

test('of any text, no letter and no digit is lost, doubled or moved', async () => {
  // The x of a check box becomes a sign; beside "](" it is a letter like others, and nobody can tell which one it was.
  const only = (text: string) => text.replace(/&(?:lt|gt|amp|quot|nbsp);|[xX]|[^\p{L}\p{N}]/gu, '')
  await fc.assert(
    fc.asyncProperty(texts, async text => {
      expect(only(await arrivalOf(text))).toBe(only(text))
    }),
    runs(1500),
  )
})
