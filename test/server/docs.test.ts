import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { brotliDecompressSync } from 'node:zlib'
import { contentSha512, outfile, sha512 } from '../../scripts/scalar.ts'
import { docsPaths } from '../../src/server/docs.ts'
import { forFile } from '../support/folder.ts'
import { startRest } from '../support/rest.ts'

const rest = forFile(await startRest())

describe('the docs page', () => {
  test.each(docsPaths.map(path => [path]))('%s is served, compressed, and not sent twice', async path => {
    const plain = await fetch(`${rest.url}${path}`, { headers: { 'accept-encoding': 'identity' } })
    expect(plain.status).toBe(200)
    expect(plain.headers.get('content-encoding')).toBeNull()
    const bytes = await plain.bytes()
    expect(bytes.length).toBeGreaterThan(100)
    for (const coding of ['br', 'gzip']) {
      const coded = await fetch(`${rest.url}${path}`, {
        headers: { 'accept-encoding': coding },
        decompress: false,
      })
      if (bytes.length > 1000) {
        expect(coded.headers.get('content-encoding')).toBe(coding)
        expect((await coded.bytes()).length).toBeLessThan(bytes.length)
        const decoded = await fetch(`${rest.url}${path}`, { headers: { 'accept-encoding': coding } })
        expect(Buffer.compare(await decoded.bytes(), bytes)).toBe(0)
      }
      const etag = coded.headers.get('etag') ?? ''
      const again = await fetch(`${rest.url}${path}`, {
        headers: { 'if-none-match': etag, 'accept-encoding': coding },
      })
      expect([again.status, await again.text()]).toEqual([304, ''])
    }
    expect(plain.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(plain.headers.get('x-content-type-options')).toBe('nosniff')
  })

  test('a coding that the client rules out is not used', async () => {
    const response = await fetch(`${rest.url}/docs/page.js`, {
      headers: { 'accept-encoding': 'br;q=0, gzip;q=0.0, identity' },
    })
    expect(response.headers.get('content-encoding')).toBeNull()
  })

  test('/ and /docs/ lead to it', async () => {
    for (const path of ['/', '/docs/']) {
      const response = await fetch(`${rest.url}${path}`, { redirect: 'manual' })
      expect([response.status, response.headers.get('location')]).toEqual([302, '/docs'])
    }
  })
})

test('the program of the docs page is the one that its script names', async () => {
  expect(sha512(brotliDecompressSync(await readFile(outfile)))).toBe(contentSha512)
})
