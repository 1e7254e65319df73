/** What a request has besides its address: headers, a body, and how the body is announced. */
import fc from 'fast-check'
import { secrets } from './secrets.ts'
import { hostileText, jsonText, spoiled } from './values.ts'

/** As it is, in chunks, as longer or shorter than it comes. */
export type Framing = 'length' | 'chunked' | 'longer' | 'shorter'

export interface Body {
  headers: Record<string, string>
  body?: string | Uint8Array<ArrayBuffer>
  places: string[]
}
export const none: Body = { headers: {}, places: [] }
export const json = { 'content-type': 'application/json' }
export const mcpHeaders = { ...json, accept: 'application/json, text/event-stream' }

/** JSON, most of it whole; some is cut, of another type, or no text at all. @param places addresses that it may name */
export function jsonBody(places: readonly string[], source: fc.Arbitrary<unknown>): fc.Arbitrary<Body> {
  const whole = spoiled(source, places, true).map(
    ({ value, places: found }): Body => ({ headers: json, body: jsonText(value), places: found }),
  )
  return fc.oneof(
    { arbitrary: whole, weight: 20 },
    {
      arbitrary: fc.tuple(whole, fc.nat({ max: 30 })).map(
        ([{ body }, at]): Body => ({
          headers: json,
          body: (body as string).slice(0, at),
          places: ['(cut)'],
        }),
      ),
      weight: 1,
    },
    {
      arbitrary: whole.map(
        ({ body }): Body => ({
          headers: json,
          body: new Uint8Array([
            0xff,
            0xc0,
            0xed,
            0xa0,
            0x80,
            ...new TextEncoder().encode((body as string).slice(0, 2000)),
          ]),
          places: ['(bytes)'],
        }),
      ),
      weight: 1,
    },
    {
      arbitrary: fc
        .tuple(
          whole,
          fc.constantFrom(
            'text/plain',
            'application/json; charset=utf-16',
            'application/x-www-form-urlencoded',
            'multipart/form-data',
            '*/*',
            'application/json, text/plain',
          ),
        )
        .map(
          ([{ body }, type]): Body => ({
            headers: { 'content-type': type },
            body,
            places: ['(content-type)'],
          }),
        ),
      weight: 1,
    },
  )
}

const disposition = fc.constantFrom(
  'form-data; name="file"; filename="a.txt"',
  'form-data; name=file; filename=a',
  'form-data; name="kind"',
  'form-data; name="file"; filename*=UTF-8\'\'%00%ff',
  'form-data',
  'attachment',
  'form-data; name="__proto__"',
  'form-data; name="file"; filename="../../x"; filename="b"',
)
export const uploadBody: fc.Arbitrary<Body> = fc.oneof(
  hostileText.map(
    (text): Body => ({
      headers: { 'content-type': 'application/octet-stream' },
      body: text.slice(0, 100_000),
      places: ['(bytes)'],
    }),
  ),
  fc
    .record({
      parts: fc.array(fc.tuple(disposition, hostileText, fc.constantFrom('\r\n', '\r\n', '\n')), {
        maxLength: 4,
      }),
      boundary: fc.constantFrom('b', 'x'.repeat(70), '"q"', '', '-', 'x'.repeat(2000)),
      end: fc.constantFrom('--\r\n', '--', '', '\r\n', '----'),
    })
    .map(({ parts, boundary, end }): Body => {
      const texts = parts.map(
        ([how, text, line]) =>
          `--${boundary}${line}Content-Disposition: ${how}${line}${line}${text.slice(0, 50_000)}\r\n`,
      )
      return {
        headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
        body: `${texts.join('')}--${boundary}${end}`,
        places: ['(form)'],
      }
    }),
)

export const framing = fc.oneof(
  { arbitrary: fc.constant<Framing>('length'), weight: 60 },
  { arbitrary: fc.constantFrom<Framing[]>('chunked', 'longer', 'shorter'), weight: 1 },
)
export const bearer = { authorization: `Bearer ${secrets.api}` }
export const printable = fc
  .oneof(
    fc.string({ maxLength: 30 }),
    fc
      .tuple(fc.constantFrom('a', '=', ',', ';', '"', '%'), fc.integer({ min: 1, max: 4000 }))
      .map(([unit, times]) => unit.repeat(times)),
  )
  .map(text => text.replace(/[^\x20-\x7e]/g, '?').trim())
/** The right token, and now and then something odd. */
export const someHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { arbitrary: fc.constant<Record<string, string>>(bearer), weight: 30 },
  { arbitrary: printable.map((value): Record<string, string> => ({ authorization: value })), weight: 1 },
  {
    arbitrary: fc
      .tuple(
        fc.constantFrom(
          'cookie',
          'range',
          'if-none-match',
          'accept',
          'accept-encoding',
          'content-encoding',
          'origin',
          'referer',
          'expect',
          'last-event-id',
          'idempotency-key',
          'x-forwarded-for',
          'forwarded',
          'accept-language',
        ),
        printable,
      )
      .map(([name, value]): Record<string, string> => ({ ...bearer, [name]: value })),
    weight: 3,
  },
)
