import { expect, test } from 'bun:test'
import { sessionKey, sessionName } from '../../src/model/session.ts'

test('a name far beyond its length is refused without being normalised', () => {
  // Sorting these accents would take hours.
  const accents = `a${'\u0301\u0323'.repeat(500_000)}`
  expect(() => sessionName(accents)).toThrow('longer')
  expect(sessionKey(accents)).toHaveLength(accents.length)
})

test('a name of 64 decomposed characters is the one it composes to', () => {
  const name = 'ᾷ'.repeat(64)
  expect(sessionName(name.normalize('NFD'))).toBe(name.normalize('NFC'))
})
