import { expect, test } from 'bun:test'
import { parseDisposition } from '../../src/platform/header.ts'

test('both forms of a file name are read, as servers, browsers and curl write them', () => {
  expect(parseDisposition('; name="file"; filename="a \\"b\\" c.txt"')).toEqual({
    name: 'file',
    fileName: 'a "b" c.txt',
  })
  expect(parseDisposition("attachment; filename=x.bin; filename*=UTF-8''%e4%bd%a0.txt").fileName).toBe(
    '你.txt',
  )
  expect(parseDisposition("attachment; filename*=utf-8''%zz; filename = ok").fileName).toBe('ok')
  expect(parseDisposition('attachment; filename="one;two.txt"').fileName).toBe('one;two.txt')
  expect(parseDisposition('attachment; filename="a; filename*=utf-8\'\'b.exe"').fileName).toBe(
    "a; filename*=utf-8''b.exe",
  )
  expect(parseDisposition('form-data; name=file; filename=""')).toEqual({ name: 'file', fileName: '' })
  expect(parseDisposition('inline').fileName).toBeUndefined()
})

test('a part of a form keeps backslashes, and its escapes are decoded once', () => {
  const nameOf = (value: string) =>
    parseDisposition(`form-data; name="file"; filename="${value}"`, { isForm: true }).fileName
  expect(nameOf('C:\\photos\\x.png')).toBe('C:\\photos\\x.png')
  expect(nameOf('a %22b%22 c.txt')).toBe('a "b" c.txt')
  expect(nameOf('a \\"b\\" c.txt')).toBe('a "b" c.txt')
  expect(nameOf("x'; name=y; filename*=utf-8''b.exe")).toBe("x'; name=y; filename*=utf-8''b.exe")
})
