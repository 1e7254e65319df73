import { expect, test } from 'bun:test'
import { createBadJsonError, findFault } from '../../src/model/bad-json.ts'

test.each([
  ['{"a":1,}', 1, 8],
  ['{"a": 1,\n "b": 2,\n}', 3, 1],
  ['{"a": 1,\r\n "b": 2\r\n "c": 3}', 3, 2],
  ['[1,2,]', 1, 6],
  ['{"a":', 1, 6],
  ['{"a":\n', 2, 1],
  ['{"a":"bc', 1, 9],
  ['{"a":[1,2', 1, 10],
  ['{"a"', 1, 5],
  ["{'a':1}", 1, 2],
  ['{"a":NaN}', 1, 6],
  ['{"a":Infinity}', 1, 6],
  ['{"a":undefined}', 1, 6],
  ['{a:1}', 1, 2],
  ['\ufeff{"a":1}', 1, 1],
  ['{"a":1}}', 1, 8],
  ['{"a":1} {}', 1, 9],
  ['{"a":1 "b":2}', 1, 8],
  ['{"a" 1}', 1, 6],
  ['{"a":"x\ny"}', 1, 8],
  ['{"a":"\\x"}', 1, 6],
  ['{"a":01}', 1, 7],
  ['{"a":1.}', 1, 8],
  ['// c\n{}', 1, 1],
  ['{"a":1,,"b":2}', 1, 8],
  ['{"名":"字",}', 1, 10],
  ['', 1, 1],
])('%j: line %i, column %i', async (text, line, column) => {
  expect(() => JSON.parse(text)).toThrow()
  expect(await findFault(text)).toMatchObject({ line, column })
})

test('what is JSON has no fault, and what is nested beyond measure none that is looked for', async () => {
  expect(await findFault(' {"a":[1,-2.5e3,true,null,"\\u00e4\u2028"]}\n')).toBeUndefined()
  for (const text of ['['.repeat(200_000), '{"a":'.repeat(50_000)])
    expect(await findFault(text)).toBeUndefined()
  expect(await findFault(`[${','.repeat(200_000)}`)).toMatchObject({ line: 1, column: 2 })
  expect(await findFault(`${'\n'.repeat(200_000)}x`)).toMatchObject({ line: 200_001, column: 1 })
})

test('a text that is too long to look through is refused without a place', async () => {
  for (const text of [`[${'1,'.repeat(200_000)}`, `{"a":"${'\n'.repeat(10_000_000)}`, ','.repeat(300_000)])
    expect(await createBadJsonError('The body', text)).toMatchObject({ code: 'bad_json', details: undefined })
})

test('the error says where, and nothing of what stands there', async () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  for (const text of [
    `{"a":"${secret}`,
    `{"a":${secret}}`,
    `{${secret}:1}`,
    `{"a":"${secret}" "${secret}"}`,
  ]) {
    const error = await createBadJsonError('The body', text)
    expect(error).toMatchObject({ code: 'bad_json', details: { line: 1, column: expect.any(Number) } })
    expect(JSON.stringify([error.message, error.hint, error.details])).not.toContain(secret.slice(0, 6))
  }
})
