/** How texts are read as answers to a question. */
import { describe, expect, test } from 'bun:test'
import { findCommand } from '../../src/agent/commands.ts'
import type { QuestionOption } from '../../src/index.ts'
import { chooseOption, findNamed, readAnswer } from '../../src/model/typed-answer.ts'

const options: readonly QuestionOption[] = [
  { id: 'once', name: 'Yes', kind: 'allow_once' },
  { id: 'ever', name: 'Always', kind: 'allow_always' },
  { id: 'no', name: 'No', kind: 'reject_once' },
]
/** Returns the option, `unclear` for what looks like an answer and is none, or `prompt`. */
const meaningOf = (text: string, given = options): string => {
  const said = readAnswer(text, code => code === 'A4RN')
  return said ? (chooseOption(said, given)?.id ?? 'unclear') : 'prompt'
}

/** What phones and people add to an answer without changing it. */
const around: readonly ((text: string) => string)[] = [
  text => text,
  text => text.toLowerCase(),
  text => ` ${text} `,
  text => `${text}.`,
  text => `${text}。`,
  text => `${text}!!`,
  text => `${text}！`,
  text => `“${text}”`,
  text => `（${text}）`,
  text => `${text}～`,
  text => `${text}\n`,
  text => `please ${text}`,
  text => `${text}, thanks`,
  text => `${text} thank you!`,
  text => `请${text}谢谢`,
  text => `${text}，谢谢`,
  text => `${text}吧`,
  text => `你好，${text}`,
  text => `${text} 🙏`,
  text => [...text].join('\u2060'),
  text => `\u200b${text}\ufeff`,
  text => `\u2067${text}\u2069`,
  // Full width.
  text => text.replace(/[!-~]/g, one => String.fromCodePoint((one.codePointAt(0) ?? 0) + 0xfee0)),
]

const plain: Readonly<Record<string, readonly string[]>> = {
  once: [
    'yes',
    'Y',
    'OK',
    'okay',
    'sure',
    'allow',
    '1',
    '是',
    '好的',
    '可以',
    '行',
    '允许',
    '同意',
    '嗯',
    '👍',
    'yes yes',
    'yes 1',
    '选1',
    '一',
    '第一个',
    '第1个',
    '选项1',
    '1️⃣',
    'first',
    'The first one.',
    'yes, the first',
  ],
  ever: ['2', 'yes 2', 'the second one', 'Second option'],
  no: [
    'no',
    'N',
    'nope',
    "don't",
    'deny',
    '3',
    '不',
    '不行',
    '不允许',
    '不可以',
    '拒绝',
    '算了',
    '👎',
    'no no',
    'no 3',
    '不 3',
  ],
  unclear: [
    '4',
    '99',
    'yes no',
    'no 1',
    'yes 3',
    '好不好',
    'yes?',
    '可以吗',
    '1?',
    '1 2',
    'first, second',
    'the first?',
    '1.5',
    '2/3',
    '始终允许',
    'yes always',
  ],
}
const coded: Readonly<Record<string, readonly string[]>> = {
  once: [
    'A4RN 1',
    'A4RN1',
    'A4RN-1',
    'A4RN: 1',
    'A4RN，1',
    'A4RN yes',
    'yes A4RN 1',
    'A4RN好的',
    '1 A4RN',
    '选 A4RN 1',
  ],
  ever: ['A4RN 2', 'A4RN2'],
  no: ['A4RN 3', 'A4RN no', 'no A4RN 3', 'A4RN不'],
  unclear: [
    'A4RN',
    'A4RN 0',
    'A4RN 4',
    'A4RN 12',
    'not A4RN 1',
    'no A4RN 1',
    'A4RN 1 2',
    'A4RN 1?',
    'A4RN yes 3',
  ],
}

describe.each(Object.entries(plain))('plain: %s', (meaning, texts) => {
  test.each([...texts])('%s, with all that people add', text => {
    for (const add of around) expect([add(text), meaningOf(add(text))]).toEqual([add(text), meaning])
  })
})

describe.each(Object.entries(coded))('with the code: %s', (meaning, texts) => {
  test.each([...texts])('%s, with all that people add', text => {
    for (const add of around) expect([add(text), meaningOf(add(text))]).toEqual([add(text), meaning])
  })
})

test('a sentence is no answer, and one with an open code is not for the agent', () => {
  const sentences = [
    'what does A4RN 1 do?',
    'not A4RN 1',
    'do not A4RN 1',
    'A4RN 1 or A4RN 2',
    'is A4RN safe',
    'A4RN 是什么意思',
    '不要 A4RN 1',
  ]
  for (const text of sentences) expect([text, meaningOf(text)]).toEqual([text, 'unclear'])
  const prompts = [
    ...[
      'hello',
      'thanks',
      '谢谢',
      '你好',
      '',
      '。',
      '?',
      'please',
      'permission granted',
      'yes we can meet at 5',
      'no idea',
      '不错',
      '好看吗',
    ],
    ...[
      'page 2',
      '2026 11',
      '100',
      'H264',
      'A4RM',
      'A4RMS 1',
      'XA4RN 1',
      'what is 1',
      '可以帮我查一下天气',
      '一会儿',
      '十分好',
      'option B',
      'always',
      'the one',
      'first look at the log',
      'one',
    ],
    `yes ${'y'.repeat(100)}`,
  ]
  for (const text of prompts) expect([text, meaningOf(text)]).toEqual([text, 'prompt'])
})

test('the form of a code that is not open counts only with a space and a number', () => {
  const read = (text: string) => readAnswer(text, () => false)
  for (const text of ['H2K4 1', 'h2k4 １。', 'please H2K4 12'])
    expect(read(text)).toMatchObject({ code: 'H2K4', isUnclear: false })
  for (const text of ['H2K4', 'H2K41', 'use H2K4 1', 'H2K4 100', '2026 11', 'YEAH 1'])
    expect(read(text)?.code).toBeUndefined()
})

test('where nothing or several options allow once, a yes is not clear; without a rejection, a no', () => {
  const [once, ever] = options
  expect(meaningOf('yes', [ever!])).toBe('unclear')
  expect(meaningOf('yes', [once!, { ...once!, id: 'other' }])).toBe('unclear')
  expect(meaningOf('no', [once!, ever!])).toBe('unclear')
  expect(meaningOf('A4RN 1', [{ id: 'odd', name: 'No', kind: 'other' }])).toBe('odd')
})

test('a command may have punctuation around it, in any width and case, and nothing else', () => {
  const stops = [
    '/stop',
    '/STOP',
    ' /Stop\n',
    '／ｓｔｏｐ',
    '停止',
    '停止。',
    '停止！',
    '“停止”',
    '停\u2060止',
    '/stop.',
    '（停止）',
  ]
  for (const text of stops) expect([text, findCommand(text)?.word]).toEqual([text, 'stop'])
  expect(findCommand('新对话。')?.word).toBe('new')
  for (const text of ['stop', '停止？', '/stop?', '请停止', '//stop', '停止 1', 'do not /stop', ''])
    expect([text, findCommand(text)]).toEqual([text, undefined])
})

describe('an option is named as it is shown, or by a part of that', () => {
  const drinks: readonly QuestionOption[] = ['tea', 'coffee (black)', '+1', '-1', 'rm -rf a: b'].map(
    (name, nth) => ({ id: String(nth + 1), name, kind: 'other' }),
  )
  const idsOf = (text: string) => findNamed(text, 'A4RN', drinks).map(({ id }) => id)
  test.each([
    ['A4RN 2 = coffee (black)', '2'],
    ['a4rn 2 ＝ coffee (black)。', '2'],
    ['A4RN coffee （black）', '2'],
    ['A4RN: Tea!', '1'],
    ['1. tea', '1'],
    ['1、tea', '1'],
    ['1) tea', '1'],
    ['“ＴＥＡ”', '1'],
    ['+1', '3'],
    ['A4RN 5 = rm -rf a: b', '5'],
  ])('%s', (text, id) => {
    for (const add of [...around.slice(0, 10), around.at(-1)!])
      expect([add(text), idsOf(add(text))]).toEqual([add(text), [id]])
  })
  test.each([
    '2 = tea',
    'A4RN 1 = coffee (black)',
    'tea?',
    'no tea',
    'A4RN 1 but only tea',
    'tea and coffee',
  ])('%s names none', text => expect(idsOf(text)).toEqual([]))
})
