/** Which addresses of private networks callbacks may reach. */
import { expect, test } from 'bun:test'
import { openCallbacks } from '../../src/push/callbacks.ts'

test('only what lies below an allowed address, however the path is written', async () => {
  const { reachOf } = await openCallbacks(['https://h.example/ok/', 'http://10.0.0.1:8080/a%20b'], undefined)
  const isAllowed = (url: string) => reachOf(url).allow_private
  for (const url of [
    'https://h.example/ok/',
    'https://h.example/ok/a/b?x=../',
    'https://h.example/ok/100%25',
    'https://h.example/%6fk/a..b/...',
    'http://10.0.0.1:8080/a b/c',
    'http://10.0.0.1:8080/a%20b',
  ])
    expect([url, isAllowed(url)]).toEqual([url, true])
  for (const url of [
    'https://h.example/ok/..%2fprivate',
    'https://h.example/ok/%2e%2e%2Fprivate',
    'https://h.example/ok/..%5cprivate',
    'https://h.example/ok/%252e%252e%252fprivate',
    'https://h.example/ok/%25252e%25252e/private',
    'https://h.example/ok/..;/private',
    'https://h.example/ok/%2e%2e;a=b/private',
    'https://h.example/okay/',
    'https://h.example:444/ok/',
    'http://h.example/ok/',
    'http://10.0.0.1:8080/a%20bc',
  ])
    expect([url, isAllowed(url)]).toEqual([url, false])
})
