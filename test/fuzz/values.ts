/** What is sent: values as a schema wants them, and hostile ones put in their places. All of it shrinks. */
import fc from 'fast-check'

/** JSON that `JSON.stringify` cannot write, such as 1e309 or a thousand brackets. */
class Verbatim {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A large value, made once it is used. */
class Later {
  readonly make: () => unknown
  readonly isText: boolean

  constructor(make: () => unknown, isText = false) {
    this.make = make
    this.isText = isText
  }
}
const now = (value: unknown) => (value instanceof Later ? value.make() : value)

/** The JSON text of a value that may hold such pieces. */
export function jsonText(value: unknown): string {
  if (value instanceof Verbatim) return value.text
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const fields = Object.entries(value).map(([key, entry]) => `${JSON.stringify(key)}:${jsonText(entry)}`)
  return `{${fields.join(',')}}`
}

/** Each order of magnitude up to 31,600, then what limits are made of, one less and one more. */
const sizes = [
  ...Array.from({ length: 91 }, (_, power) => Math.floor(10 ** (power / 20))),
  ...[200, 255, 4096, 10_000, 16_384, 65_536, 100_000, 163_840, 262_144, 1_000_000, 1_048_576].flatMap(
    size => [size - 1, size, size + 1],
  ),
].sort((a, b) => a - b)
const sizeFrom = (min: number, max: number) => fc.integer({ min, max }).map(at => sizes[at]!)
/** Most are small, since many calls find more. Shrinks towards 1. @param large of ten, how many have 65,535 and more */
const sized = (large: number) =>
  fc.oneof(
    { withCrossShrink: true },
    { arbitrary: sizeFrom(0, 40), weight: 5 },
    { arbitrary: sizeFrom(0, sizes.length - 19), weight: 5 - large },
    { arbitrary: sizeFrom(sizes.length - 18, sizes.length - 1), weight: large },
  )
const size = sized(1)

/** Marks that something is made of, then other letters. */
const units = [
  ...['`', '~~~', '=', '"', '\\', '<', '&lt;', '[', '(', '*', '_', '%', '../', '{"a":'],
  ...['a', ' ', '\n', '\r\n', '\t', '\0', '\u001b[31m', '1', ',', '字', '😀', '\ud800', '\u202e', '\u200b'],
  ...['\u{e0041}', '\u0301'],
]
const base64Units = ['=', '==', 'A', '/', '\n']
const writtenUnits = ['`', '```\n', '~~~\n', '\n', ' ', 'a', '*', '>', '[', '](', '|', '#', '。', '😀']
const ends = ['', 'A', 'a', '\n', '=', '!', '`', '\ud800']

/**
 * Long strings of one thing again and again, or of a pattern of a few: what backtracks, recurses or copies shows itself on
 * them. Lengths are drawn rather than counts, so that a limit is met whatever the pattern.
 */
const repeatedOf = (parts: readonly string[], length = size) =>
  fc
    .record({
      // What begins with something else than its pattern may be read as something else.
      first: fc.oneof(fc.constant(''), fc.constantFrom(...ends)),
      pattern: fc.oneof(
        { arbitrary: fc.constantFrom(...parts), weight: 3 },
        {
          arbitrary: fc
            .array(fc.constantFrom(...parts), { minLength: 2, maxLength: 4 })
            .map(several => several.join('')),
          weight: 2,
        },
      ),
      length,
      last: fc.constantFrom(...ends),
    })
    .map(
      ({ first, pattern, length, last }) =>
        new Later(() => first + pattern.repeat(Math.ceil(length / pattern.length)) + last, true),
    )

const repeated = repeatedOf(units)

const oddTexts = fc.constantFrom(
  ...['', ' ', '\0', '\ud83d', '\ude00\ud83d', '\u202egnp.exe', '\u001b]0;x\u0007', '\u009b2J'],
  ...['../../etc/passwd', '%2e%2e%2f'],
  ...['__proto__', 'constructor', 'toString', 'NaN', 'null', '0x10', '-0', '1e309', '18446744073709551616'],
  ...['{{7*7}}'],
  ...["' OR 1=1 --", '"><script>alert(1)</script>', 'con', 'nul.txt', 'a\nb: c', '2026-13-45T99:99:99Z'],
  ...['\ufeff{}'],
)

const oddNumbers = fc.oneof(
  fc.constantFrom<unknown>(-1, 0.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e21, 5e-324),
  fc
    .constantFrom(
      '9007199254740993',
      '18446744073709551615',
      '18446744073709551616',
      '-0',
      '1e309',
      '-1e309',
      '1e-400',
      '1E400',
    )
    .map(text => new Verbatim(text)),
  size.map(times => new Verbatim('9'.repeat(Math.min(times, 20_000)))),
)

/** What has no text and is no number. */
const unspeakable = fc.constantFrom<unknown>({ toString: 1 }, { valueOf: 1, toString: null }, [
  { toString: 1 },
])

const oddShapes = fc.oneof(
  fc.constantFrom<unknown>(null, true, false, [], {}, [[]], [null], ['a', 'b']),
  fc.constantFrom<unknown>({ toJSON: 1 }, { length: 1e9 }, { constructor: { prototype: { a: 1 } } }),
  fc
    .constantFrom(
      '{"__proto__":{"toString":1}}',
      '{"a":1,"a":{"a":2}}',
      '{"":0}',
      '[1e309]',
      '"\\ud800"',
      '{"\\u0000":1}',
    )
    .map(text => new Verbatim(text)),
  fc.tuple(fc.constantFrom('[]', '{"a":}'), size).map(([pair, times]) => {
    const depth = Math.min(times, 100_000)
    const half = pair.length === 2 ? 1 : pair.length - 1
    const middle = half > 1 ? '0' : ''
    return new Later(
      () => new Verbatim(pair.slice(0, half).repeat(depth) + middle + pair.slice(half).repeat(depth)),
    )
  }),
  size.map(times => {
    const count = Math.min(times, 50_000)
    return new Later(
      () => new Verbatim(`{${Array.from({ length: count }, (_, n) => `"k${n}":0`).join(',')}}`),
    )
  }),
  fc
    .tuple(fc.constantFrom<unknown>('a', 0, {}, null, 'u@im.wechat'), size)
    .map(([entry, times]) => new Later(() => Array(Math.min(times, 50_000)).fill(entry))),
)

/** A value that nobody expects there; `now` makes it. */
const hostile: fc.Arbitrary<unknown> = fc.oneof(
  { arbitrary: repeated, weight: 4 },
  { arbitrary: oddTexts, weight: 2 },
  { arbitrary: fc.string({ unit: 'binary', maxLength: 40 }), weight: 1 },
  { arbitrary: oddNumbers, weight: 3 },
  { arbitrary: unspeakable, weight: 4 },
  { arbitrary: oddShapes, weight: 3 },
)
const anyText = fc.oneof(repeated, oddTexts, fc.string({ unit: 'binary', maxLength: 40 }))
export const hostileText: fc.Arbitrary<string> = anyText.map(text => now(text) as string)

/** A JSON Schema, as far as it is read here. */
export interface Schema {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  maxItems?: number
}

/** What a schema cannot know: which values of a name lead further than the first check. */
export type Known = Readonly<Record<string, readonly unknown[]>>

/** Values that the schema allows. @param resolve finds what a `$ref` names */
export function valid(
  schema: Schema,
  known: Known,
  resolve: (ref: string) => Schema,
  name = '',
): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return valid(resolve(schema.$ref), known, resolve, name)
  const given = known[name]
  if (given) return fc.constantFrom(...given)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices) return fc.oneof(...choices.map(choice => valid(choice, known, resolve, name)))
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'integer':
    case 'number':
      return fc.integer({
        min: schema.minimum ?? 0,
        max: Math.min(schema.maximum ?? 50, (schema.minimum ?? 0) + 50),
      })
    case 'boolean':
      return fc.boolean()
    case 'array': {
      const entry = valid(schema.items ?? {}, known, resolve, name)
      // Mostly one: of several the first that is refused hides the others.
      return fc.oneof(
        { arbitrary: fc.tuple(entry), weight: 3 },
        { arbitrary: fc.array(entry, { maxLength: Math.min(schema.maxItems ?? 3, 3) }), weight: 1 },
      )
    }
    case 'object': {
      const fields = Object.entries(schema.properties ?? {}).map(([key, field]) => ({
        key,
        value: valid(field, known, resolve, key),
        weight: sizeOf(field, resolve),
      }))
      const isNeeded = ({ key }: { key: string }) => schema.required?.includes(key)
      const needed = Object.fromEntries(fields.filter(isNeeded).map(({ key, value }) => [key, value]))
      const rest = fields.filter(field => !isNeeded(field))
      const any = Object.fromEntries(rest.map(({ key, value }) => [key, value]))
      const some = fc.record({ ...needed, ...any }, { requiredKeys: Object.keys(needed) as never[] })
      // One at a time leads further: two that exclude each other are refused at once.
      const one = rest.map(({ key, value, weight }) => ({
        arbitrary: fc.record({ ...needed, [key]: value }),
        weight: Math.min(weight, 6),
      }))
      return fc.oneof({ arbitrary: fc.record(needed), weight: 1 }, ...one, { arbitrary: some, weight: 2 })
    }
    default:
      return fc.string({ minLength: schema.minLength ?? 0, maxLength: 12 })
  }
}
const absent = Symbol('absent')

/** How many values a schema holds: what takes more is called more often. */
export function sizeOf(schema: Schema, resolve: (ref: string) => Schema): number {
  if (schema.$ref !== undefined) return sizeOf(resolve(schema.$ref), resolve)
  // A text without a bound, such as what a user is sent, is looked at more than once by whoever takes it.
  if (schema.type === 'string' && !schema.enum && schema.maxLength === undefined) return 4
  const parts = [...Object.values(schema.properties ?? {}), ...(schema.items ? [schema.items] : [])]
  return Math.min(
    20,
    parts.reduce((sum, part) => sum + sizeOf(part, resolve), parts.length > 0 ? 0 : 1),
  )
}

/** The way to a text of a schema whose values are not listed, and its bound if it has one. */
interface TextPlace {
  path: string[]
  maxLength: number | undefined
}

function textsOf(schema: Schema, resolve: (ref: string) => Schema, path: string[] = []): TextPlace[] {
  if (schema.$ref !== undefined) return textsOf(resolve(schema.$ref), resolve, path)
  if (schema.enum || schema.const !== undefined) return []
  const choices = schema.anyOf ?? schema.oneOf
  // Choices share their way: one text of them is enough.
  if (choices) return choices.flatMap(choice => textsOf(choice, resolve, path)).slice(0, 1)
  if (schema.items) return textsOf(schema.items, resolve, [...path, '*'])
  const inner = Object.entries(schema.properties ?? {})
  if (inner.length > 0) return inner.flatMap(([key, field]) => textsOf(field, resolve, [...path, key]))
  return [schema.type].flat().includes('string') ? [{ path, maxLength: schema.maxLength }] : []
}

/** What a call needs, and one text in it. */
function around(
  schema: Schema,
  known: Known,
  resolve: (ref: string) => Schema,
  [key, ...rest]: string[],
  text: fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined) return around(resolve(schema.$ref), known, resolve, [key!, ...rest], text)
  if (key === undefined) return text
  if (key === '*') return fc.tuple(around(schema.items!, known, resolve, rest, text))
  const fields = (schema.required ?? []).map(
    name => [name, valid(schema.properties![name]!, known, resolve, name)] as const,
  )
  return fc.record({
    ...Object.fromEntries(fields),
    [key]: around(schema.properties![key]!, known, resolve, rest, text),
  })
}

/** From 10,000 to a million characters, as many of each order; what is slower than linear needs them to be seen. */
const longSize = fc.integer({ min: 80, max: 120 }).map(power => Math.floor(10 ** (power / 20)))

/**
 * Calls in which one text is as long as the door lets through and all the rest is as it should be: what is refused for
 * something else is not read to its end. @returns one for each text of a schema; what has no bound weighs most
 */
export const stretched = (
  schema: Schema,
  known: Known,
  resolve: (ref: string) => Schema,
): { arbitrary: fc.Arbitrary<Spoiled>; weight: number }[] =>
  textsOf(schema, resolve).map(({ path, maxLength }) => {
    const bound =
      maxLength === undefined ? longSize : fc.integer({ min: -1, max: 1 }).map(by => maxLength + by)
    const text = repeatedOf(unitsFor(path.at(-1)!), bound).map(later => later.make())
    return {
      arbitrary: around(schema, known, resolve, path, text).map(value => ({
        value,
        places: [path.join('.')],
      })),
      weight: maxLength === undefined ? 6 : 1,
    }
  })

/** A value, and where in it something hostile stands. */
export interface Spoiled {
  value: unknown
  places: string[]
}

/**
 * Values of which none, one or two parts at any depth are replaced, removed, repeated or wrapped.
 * Names of hosts and addresses get those of this machine alone: nothing is to be looked up or called elsewhere.
 *
 * @param favoursLast the last part is changed more often: in a call with one choice it is that choice
 */
export function spoiled(
  source: fc.Arbitrary<unknown>,
  places: readonly string[],
  favoursLast = false,
): fc.Arbitrary<Spoiled> {
  const change = fc.record({
    at: fc.nat({ max: 9999 }),
    how: fc.constantFrom(...Array(12).fill('replace'), 'remove', 'add', 'repeat', 'wrap'),
    text: anyText,
    // A text in a text's place passes the first check.
    staysText: fc.nat({ max: 3 }).map(chance => chance > 0),
    key: fc.oneof(fc.constantFrom('__proto__', 'toString', 'constructor', 'x', ''), anyText),
    value: hostile,
    encoded: repeatedOf(base64Units, sized(4)),
    written: repeatedOf(writtenUnits, sized(3)),
  })
  const changes = fc.oneof(
    { withCrossShrink: true },
    { arbitrary: fc.constant([]), weight: 1 },
    { arbitrary: fc.array(change, { minLength: 1, maxLength: 2, size: 'max' }), weight: 7 },
  )
  return fc.tuple(source, changes).map(([value, wanted]) => {
    const found: string[] = []
    let result = value
    for (const { at, how, key, value: other, text, staysText, ...texts } of wanted) {
      const path = pathIn(result, at, favoursLast)
      const last = path.at(-1) ?? ''
      found.push(path.map(part => (/^\d+$/.test(part) ? '*' : part)).join('.'))
      result = changed(result, path, old => {
        const any = staysText && typeof old === 'string' ? text : other
        const isText = typeof any === 'string' || (any instanceof Later && any.isText)
        const fits = now(isText ? (fitting(last, texts) ?? any) : any)
        const given = isText && /url|host/i.test(last) ? places[at % places.length] : fits
        if (
          how === 'add' &&
          typeof old === 'object' &&
          old &&
          !Array.isArray(old) &&
          !(old instanceof Verbatim)
        )
          return new Verbatim(
            `${jsonText(old).replace(/\}$/, Object.keys(old).length > 0 ? ',' : '')}${JSON.stringify(now(key))}:${jsonText(given)}}`,
          )
        // Many large ones are only slow.
        if (how === 'repeat')
          return Array(Math.min(2 + (at % 40), Math.ceil(1e6 / (jsonText(old).length + 1)))).fill(old)
        if (how === 'wrap') return { [`${last}x`]: old }
        return how === 'remove' ? absent : given
      })
    }
    return { value: result === absent ? new Verbatim('') : result, places: found }
  })
}

/** What is read letter by letter gets letters that mean something there. */
const isEncoded = (name: string) => /^data$|key|token|param|md5/.test(name)
const isWritten = (name: string) => /text|title|content/.test(name)
const unitsFor = (name: string) => (isEncoded(name) ? base64Units : isWritten(name) ? writtenUnits : units)

function fitting(name: string, { encoded, written }: { encoded: Later; written: Later }): Later | undefined {
  return isEncoded(name) ? encoded : isWritten(name) ? written : undefined
}

/** The way to one part: of four times, once to the whole or a group. */
function pathIn(value: unknown, at: number, favoursLast: boolean): string[] {
  const paths = pathsOf(value)
  const ends = paths.filter(({ isEnd }) => isEnd)
  if (at % 4 === 0 || ends.length === 0) return paths[(at >> 2) % paths.length]!.path
  return (favoursLast && at % 4 > 1 ? ends.at(-1)! : ends[(at >> 2) % ends.length]!).path
}

/** The way to each part, the whole included. */
function pathsOf(value: unknown, path: string[] = []): { path: string[]; isEnd: boolean }[] {
  const isEnd = typeof value !== 'object' || value === null || value instanceof Verbatim
  if (isEnd) return [{ path, isEnd }]
  // Of a long array the first entries stand for all.
  const entries = Object.entries(value).slice(0, 40)
  return [{ path, isEnd }, ...entries.flatMap(([key, entry]) => pathsOf(entry, [...path, key]))]
}

function changed(value: unknown, [key, ...rest]: string[], change: (old: unknown) => unknown): unknown {
  if (key === undefined) return change(value)
  const object = value as Record<string, unknown>
  const entry = changed(object[key], rest, change)
  if (Array.isArray(value))
    return value.flatMap((old, at) => (String(at) !== key ? [old] : entry === absent ? [] : [entry]))
  return Object.fromEntries(
    Object.entries(object).flatMap(([name, old]) =>
      name !== key ? [[name, old]] : entry === absent ? [] : [[name, entry]],
    ),
  )
}

/** A text with its repetitions counted, so that a person can read it. */
export function shown(text: string): string {
  let out = ''
  for (let at = 0; at < text.length && out.length < 4000; ) {
    const run = [1, 2, 3, 4, 5, 6, 7, 8]
      .map(size => [size, timesAt(text, at, size)] as const)
      .sort((a, b) => b[0] * b[1] - a[0] * a[1])[0]
    const [size, times] = run as readonly [number, number]
    if (size * times >= 40) {
      out += `⟨${JSON.stringify(text.slice(at, at + size)).slice(1, -1)} × ${times}⟩`
      at += size * times
    } else out += JSON.stringify(text[at++]).slice(1, -1)
  }
  return out.length < 4000 ? out : `${out} … (${text.length} characters)`
}

function timesAt(text: string, at: number, size: number): number {
  let times = 1
  while (
    at + (times + 1) * size <= text.length &&
    text.startsWith(text.slice(at, at + size), at + times * size)
  )
    times++
  return times
}
