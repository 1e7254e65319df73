import { describe, expect, test } from 'bun:test'
import { type TSchema, Type } from '@sinclair/typebox'
import { SvcError } from '../../src/model/error.ts'
import { checkVocabulary, parse } from '../../src/operations/parse.ts'
import { Id, parseTime, RowId, Time, toJsonSchema } from '../../src/operations/schema.ts'
import { fieldsOf } from '../support/failure.ts'

const strict = { additionalProperties: false }
const refused = (schema: TSchema, input: unknown): SvcError => {
  try {
    parse(schema, input)
  } catch (error) {
    if (error instanceof SvcError) return error
    throw error
  }
  throw new Error('was accepted')
}

const sample = Type.Object(
  {
    to: Type.String(),
    count: Type.Optional(Type.Integer({ minimum: 1, maximum: 10, default: 3 })),
    list: Type.Optional(
      Type.Array(Type.Object({ kind: Type.Unsafe({ type: 'string', enum: ['a', 'b'] }) }, strict), {
        maxItems: 2,
      }),
    ),
  },
  strict,
)

describe('parse', () => {
  test('defaults are filled in and given values kept', () => {
    expect(parse(sample, { to: 'x' })).toEqual({ to: 'x', count: 3 })
    expect(parse(sample, { to: 'x', count: 10 })).toEqual({ to: 'x', count: 10 })
  })

  test('half of a surrogate pair is refused in what is compared or stored, and left in what is only sent', () => {
    const schema = Type.Object(
      { key: Type.String({ maxLength: 9 }), id: Type.String({ pattern: '.' }), text: Type.String() },
      strict,
    )
    const whole = { key: '👋', id: '👋', text: 'x' }
    for (const half of ['\ud800', 'a\udc00', '\udc00\ud800', '👋\ud83d'])
      for (const field of ['key', 'id'])
        expect(fieldsOf(refused(schema, { ...whole, [field]: half }))).toEqual([field])
    expect(parse(schema, { ...whole, text: '\ud800' })).toEqual({ ...whole, text: '\ud800' })
  })

  test('all problems are told at once, by field', () => {
    const error = refused(sample, { count: 11, list: [{ kind: 'a' }, { kind: 'c' }], extra: 1 })
    expect(error.code).toBe('invalid_arguments')
    expect(fieldsOf(error)).toEqual(['to', 'count', 'list[1].kind', 'extra'])
  })

  test('a wrong value is never repeated in the error', () => {
    for (const value of ['s3cret-value', ['s3cret-value'], { a: 's3cret-value' }]) {
      const error = refused(sample, { to: 'x', count: value, list: value })
      expect(JSON.stringify([error.message, error.details, error.hint])).not.toContain('s3cret')
    }
  })

  test.each([
    ['a string for a number', { to: 'x', count: '3' }],
    ['a fraction for an integer', { to: 'x', count: 2.5 }],
    ['null', { to: null }],
    ['a number for a string', { to: 7 }],
    ['an array for an object', [{ to: 'x' }]],
    ['too many entries', { to: 'x', list: [{ kind: 'a' }, { kind: 'a' }, { kind: 'a' }] }],
    ['an inner unknown key', { to: 'x', list: [{ kind: 'a', other: 1 }] }],
    ['nothing', undefined],
    ['text', 'x'],
  ])('%s is refused, not converted', (_what, input) => {
    expect(refused(sample, input).code).toBe('invalid_arguments')
  })

  test('keys of Object.prototype are keys like any other', () => {
    const error = refused(
      sample,
      JSON.parse('{"to":"x","__proto__":{"count":1},"constructor":1,"toString":2}'),
    )
    expect(fieldsOf(error)).toEqual(['__proto__', 'constructor', 'toString'])
    expect(fieldsOf(refused(Type.Object({ toString: Type.String() }, strict), {}))).toEqual(['toString'])
  })

  test('thousands of unknown keys, or a very long one, give a short error', () => {
    const input = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`k${i}`, 1]))
    const error = refused(Type.Object({}, strict), { ...input, [`x${'y'.repeat(100_000)}`]: 1 })
    expect(error.message.length).toBeLessThan(3000)
    expect(fieldsOf(error)).toHaveLength(20)
    expect(refused(Type.Object({}, strict), { [`x${'y'.repeat(100_000)}`]: 1 }).message.length).toBeLessThan(
      200,
    )
  })

  test('a default is not shared between calls', () => {
    const schema = Type.Object({ tags: Type.Optional(Type.Array(Type.String(), { default: [] })) }, strict)
    const first = parse(schema, {})
    first.tags?.push('mine')
    expect(parse(schema, {})).toEqual({ tags: [] })
  })

  test('a keyword that parse does not know is found when the tool is defined', () => {
    expect(() => checkVocabulary({ type: 'number', multipleOf: 2 }, 'tool')).toThrow('multipleOf')
    expect(() =>
      checkVocabulary({ type: 'object', properties: { a: { type: 'string', format: 'uri' } } }, 'tool'),
    ).toThrow('tool.a')
  })
})

describe('ids', () => {
  const schema = Type.Object({ id: Id('') }, strict)
  test.each([
    ['9007199254740993', '9007199254740993'],
    ['local:abc', 'local:abc'],
    [42, '42'],
    [0, '0'],
  ])('%p becomes the string %p', (given, expected) => {
    expect(parse(schema, { id: given })).toEqual({ id: expected })
  })

  test.each([['', 2 ** 53, 1.5, null, true, ['1'], {}]].flat().map(value => [value]))(
    '%p is refused',
    value => {
      expect(refused(schema, { id: value }).code).toBe('invalid_arguments')
    },
  )

  test('row ids are numbers, written as integer or digits', () => {
    const rows = Type.Object({ after: RowId('') }, strict)
    expect(parse(rows, { after: 7 })).toEqual({ after: 7 })
    expect(parse(rows, { after: '7' })).toEqual({ after: 7 })
    for (const bad of [-1, 1.5, '-1', '7x', '', '99999999999999999999'])
      expect(fieldsOf(refused(rows, { after: bad }))).toEqual(['after'])
  })
})

describe('times', () => {
  test.each([
    ['2026-01-01', Date.UTC(2026, 0, 1)],
    ['2026-01-01T08:30', Date.UTC(2026, 0, 1, 8, 30)],
    ['2026-01-01 08:30:15', Date.UTC(2026, 0, 1, 8, 30, 15)],
    ['2026-01-01T08:30:15.25', Date.UTC(2026, 0, 1, 8, 30, 15, 250)],
    ['2026-01-01T08:30:15Z', Date.UTC(2026, 0, 1, 8, 30, 15)],
    ['2026-01-01T08:00:00+08:00', Date.UTC(2026, 0, 1)],
    ['2026-01-01T08:00:00+0800', Date.UTC(2026, 0, 1)],
    ['2025-12-31T16:00:00-08', Date.UTC(2026, 0, 1)],
    ['2026-01-01T24:00:00Z', Date.UTC(2026, 0, 2)],
    ['2024-02-29', Date.UTC(2024, 1, 29)],
    ['0001-01-01', Date.parse('0001-01-01T00:00:00Z')],
    ['1767225600000', 1767225600000],
  ])('%s is %d', (text, ms) => {
    expect(parseTime(text)).toBe(ms)
  })

  test.each(
    [
      '2025-02-29',
      '2026-13-01',
      '2026-00-10',
      '2026-01-32',
      '2026-01-01T25:00',
      '2026-01-01T10:60',
      '2026-01-01T24:00:01',
      '2026-01-01T10:00+25:00',
      'yesterday',
      '2026',
      '1767225600',
      '01/02/2026',
      '2026-01-01T10',
      '',
    ].map(text => [text]),
  )('%p is no time', text => {
    expect(parseTime(text)).toBeUndefined()
  })

  test('a time without zone does not depend on the zone of the machine', () => {
    const before = process.env.TZ
    try {
      for (const zone of ['Asia/Shanghai', 'America/New_York', 'UTC']) {
        process.env.TZ = zone
        expect(parseTime('2026-07-01T00:00')).toBe(1782864000000)
      }
    } finally {
      if (before === undefined) delete process.env.TZ
      else process.env.TZ = before
    }
  })

  test('parse takes both spellings and refuses the rest by name', () => {
    const schema = Type.Object({ since: Type.Optional(Time('')) }, strict)
    expect(parse(schema, { since: 5 })).toEqual({ since: 5 })
    expect(parse(schema, { since: '2026-01-01' })).toEqual({ since: Date.UTC(2026, 0, 1) })
    for (const bad of ['soon', 1.5, true, null, Number.MAX_SAFE_INTEGER])
      expect(fieldsOf(refused(schema, { since: bad }))).toEqual(['since'])
  })

  test('the outside sees plain JSON Schema', () => {
    expect(toJsonSchema(Time('when'))).toEqual({
      anyOf: [{ type: 'integer' }, { type: 'string', minLength: 4, maxLength: 40 }],
      description: 'when',
    })
  })
})
