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
  expect(parseDisposition('filename="one;two.txt"').fileName).toBe('one;two.txt')
  expect(parseDisposition('form-data; name=file; filename=""')).toEqual({ name: 'file', fileName: '' })
  expect(parseDisposition('inline').fileName).toBeUndefined()
})
