import { describe, expect, test } from 'bun:test'
import stringWidth from 'string-width'
import { formatTable, shortenTo } from '../../src/cli/columns.ts'
import { formatSend } from '../../src/cli/commands/messages.ts'
import { describeEndpoint } from '../../src/cli/commands/webhook.ts'
import { formatExamples } from '../../src/cli/input-flags.ts'
import { formatSilent } from '../../src/cli/show.ts'
import { oneLine, safeLines } from '../../src/cli/terminal.ts'
import { adviceOf } from '../../src/model/next-step.ts'
import { verbs } from '../../src/operations/tools.ts'
import { toJsonLine } from '../../src/platform/escape-controls.ts'
import { formatLocalTime, quoteForShell } from '../../src/platform/format.ts'
import { sessionExpiredError } from '../../src/receive/token-check.ts'

describe('text for a terminal', () => {
  test('columns line up where letters are twice as wide, joined or combined', () => {
    const rows = [
      ['客服', 'connected', 'x'],
      ['👩‍👩‍👧', 'expired', 'x'],
      ['é', '', 'x'],
      ['plain', 'connected', 'x'],
    ]
    const heads = ['SESSION', 'STATUS', 'END']
    const columns = heads.map((head, nth) => [head, (row: string[]) => row[nth] ?? ''] as const)
    const lines = formatTable(rows, columns).trimEnd().split('\n')
    expect(lines).toHaveLength(5)
    const ends = lines.slice(1).map(line => stringWidth(line.slice(0, line.lastIndexOf('x'))))
    expect(new Set(ends).size).toBe(1)
  })

  test('what a terminal obeys is shown by its number, on one line or on several', () => {
    expect(oneLine('a\u001b[2J\u009b\u202eb\r\nc\u0000')).toBe('a\\u{1b}[2J\\u{9b}\\u{202e}b ⏎ c\\u{0}')
    expect(safeLines('a\nb\u0085c\u2028d\u0007')).toEqual(['a', 'b', 'c', 'd\\u{7}'])
  })

  test('a part that did not go names the session to log in, by a command', () => {
    const error = sessionExpiredError('work')
    const told = { code: error.code, detail: error.message, hint: adviceOf(error) }
    const part = { kind: 'text', sent_as: 'text', status: 'refused', error: told } as const
    const result = {
      success: false,
      status: 'partial',
      session: 'work',
      parts: [part],
      remaining: 0,
    } as const
    const text = formatSend({ ...result, parts: [part] }, 'x@im.wechat', ' --sandbox')
    const command = (words: readonly string[]) => `svc ${words.join(' ')} --sandbox`
    expect(text).toContain(adviceOf(error, { door: 'cli', command }))
  })

  test('a webhook in trouble says since when, why, and what to do', () => {
    const [failing_since, next_try_at, disabled_at] = [1767225600000, 1767229200000, 1767232800000]
    const lines = describeEndpoint({
      ...{ id: 'wh_1', url: 'https://a.example/', types: [], headers: {}, created_at: 0, status: 'disabled' },
      ...{ allow_private: false, replies: false },
      ...{ tries: { done: 1, failed: 2, gave_up: 0 }, failing_since, next_try_at, disabled_at },
      ...{ last_error: 'HTTP 500', disabled_reason: 'it was away for long' },
    })
    const text = lines.join(' ')
    for (const part of [failing_since, next_try_at, disabled_at].map(formatLocalTime))
      expect(text).toContain(part)
    for (const part of ['HTTP 500', 'away for long', 'svc webhook resume wh_1']) expect(text).toContain(part)
  })

  test('JSON says the same to a parser and nothing to a terminal', () => {
    const value = { text: '你好 \u001b\u009b\u007f\u202e\u2028 😀' }
    const line = toJsonLine(value)
    expect(JSON.parse(line)).toEqual(value)
    expect(line).toBe('{"text":"你好 \\u001b\\u009b\\u007f\\u202e\\u2028 😀"}')
  })

  test('cuts', () => {
    expect([shortenTo('你好吗', 5), shortenTo('abc', 3)]).toEqual(['你好…', 'abc'])
    // A flag and a family are one character each, of two columns.
    expect(shortenTo('🇩🇪🇫🇷🇪🇸', 5)).toBe('🇩🇪🇫🇷…')
    expect(shortenTo('👨‍👩‍👧👨‍👩‍👦x', 4)).toBe('👨‍👩‍👧…')
  })
})

describe('examples as command lines', () => {
  test('are words that a shell takes as they are meant', async () => {
    expect(quoteForShell("it's $HOME")).toBe("'it'\\''s $HOME'")
    for (const tool of Object.values(verbs)) {
      const lines = formatExamples(tool)
      expect(lines.length).toBeGreaterThan(0)
      for (const [line] of lines) expect(line).toContain(`svc ${tool.cli.path.join(' ')}`)
    }
    expect(formatExamples(verbs.history).map(([line]) => line)).toEqual([
      'svc history --user o9cq80x1y2z3@im.wechat --limit 2',
      'svc history 你好 --direction received --since 2026-01-01 --until 2026-01-02',
      'svc history -u Mum --since yesterday',
    ])
  })
})

test('recv names each silent session with the command that helps', () => {
  const note = formatSilent(
    [
      { name: '客服', status: 'expired' },
      { name: 'work', status: 'lapsed' },
    ],
    ' --sandbox',
  )
  expect(note).toContain('svc login 客服 --sandbox')
  expect(note).toContain('svc check work --sandbox')
  expect(formatSilent([], '')).toBeUndefined()
})
