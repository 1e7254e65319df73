import { expect, test } from 'bun:test'
import { SvcError } from '../../src/model/error.ts'
import { normalizeSessionName, sessionKeyOf } from '../../src/model/session.ts'
import { plainOf } from '../../src/model/typed-answer.ts'
import { nameKeyOf, normalizeUserName } from '../../src/model/user-name.ts'

test('a name far beyond its length is refused without being normalised', () => {
  // Sorting these accents would take hours.
  const accents = `a${'\u0301\u0323'.repeat(500_000)}`
  expect(() => normalizeSessionName(accents)).toThrow('longer')
  expect(sessionKeyOf(accents)).toHaveLength(accents.length)
})

test('a name of 64 decomposed characters is the one it composes to', () => {
  const name = 'ᾷ'.repeat(64)
  expect(normalizeSessionName(name.normalize('NFD'))).toBe(name.normalize('NFC'))
})

test('a name that means something to a file system, a terminal or a browser is no session name', () => {
  const hostile = [
    ...['.', '..', '../x', 'a/b', 'a\\b', '/etc', 'C:x', '.hidden', '~', 'a b', ' a', 'a ', 'a\nb', 'a\tb'],
    ...['a\0b', '%2e%2e'],
    ...['con', 'NUL', 'com1', 'lpt9', 'aux.txt', 'media', 'Sandbox', 'messages.db', 'messages.db-wal'],
    ...['api_token'],
    ...['a\u001b[2J', 'a\u202eb', 'a\u200bb', 'a\ud800', '<b>', '"', "'", '*', 'a?b', 'a|b', '$HOME', '`id`'],
    ...['x'.repeat(65), '名'.repeat(67)],
  ]
  const refused = (name: string) => {
    try {
      return normalizeSessionName(name) === undefined
    } catch {
      return true
    }
  }
  expect(hostile.filter(name => !refused(name))).toEqual([])
})

test('what nobody sees makes no other name', () => {
  for (const unseen of ['\u200b', '\u3164', '\u115f', '\u034f', '\ufe0f', '\u{e0061}']) {
    expect(() => normalizeSessionName(`wo${unseen}rk`)).toThrow()
    expect(nameKeyOf(`M${unseen}um`)).toBe(nameKeyOf('Mum'))
    expect(plainOf(`y${unseen}es`)).toBe(plainOf('yes'))
    expect(normalizeUserName(unseen)).toBeUndefined()
  }
  // A joiner that a script needs stays in the name itself.
  expect(normalizeUserName('نامه\u200cای')).toBe('نامه\u200cای')
})

test('why a name cannot be one is said for programs too', () => {
  const why = (name: string) => {
    try {
      return normalizeSessionName(name)
    } catch (error) {
      return error instanceof SvcError && error.details?.session_name
    }
  }
  const names = ['x'.repeat(65), '名'.repeat(67), '.a', 'a.', 'a b', 'media']
  expect(names.map(why)).toEqual(['too_long', 'too_long', 'dot', 'dot', 'characters', 'reserved'])
})
