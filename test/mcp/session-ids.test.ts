import { expect, test } from 'bun:test'
import { SessionIds } from '../../src/mcp/session-ids.ts'

const said = {
  protocolVersion: '2025-11-25',
  clientInfo: { name: 'codex', version: '0.169.0', title: 'Codex', websiteUrl: 'https://example.org' },
  capabilities: {
    elicitation: { form: {}, odd: { more: 1 } },
    roots: { listChanged: true },
    extensions: { x: {} },
  },
}

test('an id carries what opens its session again, for its caller alone', () => {
  const ids = new SessionIds('key')
  const id = ids.create(said, 'token a')
  expect(ids.read(id, 'token a')).toEqual({
    protocolVersion: '2025-11-25',
    clientInfo: { name: 'codex', version: '0.169.0' },
    capabilities: { elicitation: { form: {} }, roots: {} },
  })
  expect(id).toMatch(/^[\x21-\x7e]{1,512}$/)
  expect(ids.create(said, 'token a')).not.toBe(id)
  expect(new SessionIds('key').read(id, 'token a')).toBeDefined()
  expect([ids.read(id, 'token b'), new SessionIds('other').read(id, 'token a')]).toEqual([
    undefined,
    undefined,
  ])
})

test('what was changed, cut or made up is nobody’s, whatever it is', () => {
  const ids = new SessionIds('key')
  const id = ids.create(said, '')
  const [text, signature] = id.split('.') as [string, string]
  for (const one of [
    '',
    '.',
    '..',
    text,
    `${text}.`,
    `.${signature}`,
    `${text}.${signature}.`,
    `${text}.${signature.slice(1)}`,
    `${text.slice(1)}.${signature}`,
    `${text}A.${signature}`,
    `${text}.${signature.toLowerCase()}`,
    `${Buffer.from('{}').toString('base64url')}.${signature}`,
    'gone',
    '3f1c8a52-9d4e-4b7a-8c21-0a1b2c3d4e5f',
    'x'.repeat(100_000),
    `${'x'.repeat(5000)}.${signature}`,
    '__proto__.constructor',
  ])
    expect([one.slice(0, 40), ids.read(one, '')]).toEqual([one.slice(0, 40), undefined])
})

test('a client that says very much gets an id that fits into a header', () => {
  const much = { ...said, clientInfo: { name: 'n'.repeat(10_000), version: '字'.repeat(10_000) } }
  const ids = new SessionIds('key')
  const id = ids.create(much, '')
  expect(id.length).toBeLessThan(1000)
  expect(ids.read(id, '')!.clientInfo.name).toBe('n'.repeat(64))
})
