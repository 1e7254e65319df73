import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliDecompressSync } from 'node:zlib'
import { contentSha512, outfile, sha512 } from '../../scripts/scalar.ts'
import { docsPaths, mark } from '../../src/server/docs.ts'
import { forFile } from '../support/folder.ts'
import { type Json, startRest } from '../support/rest.ts'

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

test('the mark is the one of the panel', async () => {
  const icon = await readFile(join(import.meta.dirname, '../../admin/icon.svg'), 'utf8')
  expect(mark).toBe(icon.replace(/<title>.*<\/title>/, '').replaceAll(/\n */g, ''))
})

test('from the first key on, the documents say that calls need it', async () => {
  await using open = await startRest()
  const required = async () => {
    const [openapi, asyncapi] = await Promise.all(
      ['openapi', 'asyncapi'].map(async name => (await fetch(`${open.url}/${name}.json`)).json()),
    )
    return [openapi.security, Boolean(Object.values<Json>(asyncapi.servers)[0].security)]
  }
  expect(await required()).toEqual([[{}, { bearer: [] }], false])
  Object.assign(open.gateway.keys, { hasAny: () => true })
  expect(await required()).toEqual([[{ bearer: [] }], true])
  Object.assign(open.gateway.keys, { hasAny: () => Promise.reject(new Error('no store')) })
  expect(await required()).toEqual([[{ bearer: [] }], true])
})

test('the program of the docs page is the one that its script names', async () => {
  expect(sha512(brotliDecompressSync(await readFile(outfile)))).toBe(contentSha512)
})

test('a reader of Chinese gets a title for each operation and each tag, and none is left over', async () => {
  const [texts, openapi] = await Promise.all(
    ['docs/zh.json', 'openapi.json'].map(async path => (await fetch(`${rest.url}/${path}`)).json()),
  )
  const operations = Object.values<Json>(openapi.paths).flatMap(methods => Object.values<Json>(methods))
  expect(Object.keys(texts.operations).sort()).toEqual(
    operations.map(({ operationId }) => operationId).sort(),
  )
  const tags = openapi.tags.map(({ name }: Json) => name)
  expect(Object.keys(texts.tags)).toEqual(expect.arrayContaining(tags))
  for (const text of Object.values({ ...texts.operations, ...texts.tags }))
    expect(text).toMatch(/\p{Script=Han}/u)
})
