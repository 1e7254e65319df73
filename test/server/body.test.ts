/** Bodies of requests that are large, many, or made to be slow to read. */
import { expect, test } from 'bun:test'
import { checkShape, createJsonLimit, readJson, releaseBody } from '../../src/server/body.ts'
import { failure } from '../support/failure.ts'

const mb = 1024 * 1024
const post = (text: string) =>
  new Request('http://localhost/', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': String(text.length) },
    body: text,
  })

test('large bodies in work have a bound together; what is done makes room, and small ones always go', async () => {
  const large = JSON.stringify({ data: 'x'.repeat(20 * mb) })
  const held: Request[] = []
  const read = async (text: string) => {
    const request = post(text)
    held.push(request)
    return readJson(request, createJsonLimit(24 * mb))
  }
  try {
    for (let nth = 0; nth < 4; nth++) await read(large)
    expect(await failure(read(large))).toMatchObject({ code: 'rate_limited' })
    expect(await read('{"a":1}')).toEqual({ a: 1 })
    for (const request of held.splice(0)) {
      releaseBody(request)
      releaseBody(request)
    }
    for (let nth = 0; nth < 4; nth++) await read(large)
    expect(await failure(read(large))).toMatchObject({ code: 'rate_limited' })
  } finally {
    for (const request of held) releaseBody(request)
  }
})

test('a long body of many or deeply nested values is refused before it is parsed; a long text is not', async () => {
  const long = 'x'.repeat(2 * mb)
  for (const text of [
    '['.repeat(2 * mb),
    `{"a":"${long}","b":${'['.repeat(200)}${']'.repeat(200)}}`,
    `[${'1,'.repeat(mb)}1]`,
    `{"a":"${long}","b":[${'{},'.repeat(60_000)}{}]}`,
    `[${'"a","b",'.repeat(mb / 4)}1]`,
  ])
    expect(await failure(checkShape(text))).toMatchObject({ code: 'payload_too_large' })
  for (const text of [
    JSON.stringify({ media: [{ kind: 'file', data: long }] }),
    JSON.stringify({ text: '[[[{{"\\,'.repeat(mb) }),
    `{"a":"${'\\'.repeat(2 * mb)}","b":1}`,
    '['.repeat(1000),
    `"${long}`,
  ])
    expect(await checkShape(text)).toBeUndefined()
})
