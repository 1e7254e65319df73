/** The words of the code: what `src/README.md`, "Words" says, as far as a machine can check it. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '..')
const folders = ['src', 'admin', 'scripts', 'test/support']

const files = folders.flatMap(folder =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter(path => /\.tsx?$/.test(path) && !path.endsWith('.d.ts'))
    .map(path => ({ path: `${folder}/${path}`, text: readFileSync(join(root, folder, path), 'utf8') })),
)

interface Comment {
  /** `file:line`. */
  place: string
  /** On one line, without its marks. */
  words: string
}

const comment = /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/ .*(?:\n\s*\/\/ .*)*/gm

const comments = files.flatMap(({ path, text }) =>
  [...text.matchAll(comment)].map(
    ({ 0: raw, index }): Comment => ({
      place: `${path}:${text.slice(0, index).split('\n').length}`,
      words: raw
        .replace(/^\/\*\*?|\*\/$/g, '')
        .replace(/\n\s*(\*|\/\/)?/g, ' ')
        .replace(/^\s*\/\/ /, '')
        .replace(/\s+/g, ' ')
        .trim(),
    }),
  ),
)

/** Words and forms that readers had to read twice, and what to write. */
const banned: [form: RegExp, write: string][] = [
  [/\bwhoever\b/i, 'name the subject: "a client that …"'],
  [/\bof (what|whom)\b/i, 'name the thing'],
  [/\banew\b/i, 'again'],
  [/\bshall\b/i, 'present tense'],
  [/\bthat there is not\b/i, 'an unknown …'],
  [
    /(^|[.:;] )Of \w/,
    'begin with the subject: "The newest of each session is kept" → "Keeps the newest of …"',
  ],
  [/\bof before\b/i, 'earlier, older'],
  [/\bas of `/i, 'same as `x`'],
  [/\b(he|she|him|his|her)\b/i, 'the user, the caller'],
  [/\b(is|are|was|were) told\b/i, 'is notified, is reported'],
]

/** Names of a file's own declarations that were riddles, or had several meanings. */
const bannedNames =
  /^(export )?(async )?(class|interface|type|function|const|let) (Ground|Roll|Sight|Ways|Letter|told|said|shown|heard|meant|asked|judged|given|wanted|letter|turn)\b/gm

test('there is something to read', () => {
  expect(files.length).toBeGreaterThan(400)
  expect(comments.length).toBeGreaterThan(4000)
})

test.each(banned)('no comment says %p; write: %s', form => {
  const found = comments
    .filter(({ words }) => form.test(words))
    .map(({ place, words }) => `${place}: ${words}`)
  expect(found).toEqual([])
})

test('no declaration bears a name that means several things', () => {
  const found = files
    .filter(({ path }) => !path.startsWith('test/'))
    .flatMap(({ path, text }) => [...text.matchAll(bannedNames)].map(([name]) => `${path}: ${name}`))
  expect(found).toEqual([])
})

/** Values in front of a plural that are never 1, as limits and the lengths of long texts, or that are no numbers. */
const neverOne =
  /^(texts|count|waiting|most[\w.]*|alike\.length|text\.length|schema\.maxLength)$|\b(again|command|host|url|version)$/

test('no number that may be 1 stands before a fixed plural', () => {
  const own = files.filter(({ path }) => path.startsWith('src/'))
  const constants = new Set(
    own.flatMap(({ text }) => [...text.matchAll(/const (\w+) = [\d_ *]+$/gm)].map(([, name]) => name)),
  )
  const counted = own.flatMap(({ text }) =>
    [...text.matchAll(/formatCount\(.+?, '([a-z ]+)'(?:, '([a-z ]+)')?/g)].map(([, one, many = `${one}s`]) =>
      many.split(' ').at(-1),
    ),
  )
  expect(counted).toContain('messages')
  const plural = new RegExp(`\\$\\{([\\w.#]+)\\} (?:more )?(?:${[...new Set(counted)].join('|')})\\b`, 'g')
  const found = own.flatMap(({ path, text }) =>
    [...text.matchAll(plural)].flatMap(([words, value = '']) =>
      constants.has(value) || neverOne.test(value) ? [] : `${path}: ${words}`,
    ),
  )
  expect(found).toEqual([])
})

test('texts of the panel have both forms of a number, or words that fit each number', () => {
  const texts: Record<string, string> = JSON.parse(readFileSync(join(root, 'locales/en.json'), 'utf8'))
  const one = Object.keys(texts).filter(key => key.endsWith('_one'))
  expect(one.length).toBeGreaterThan(20)
  const halves = one.filter(key => !(key.replace(/one$/, 'other') in texts))
  // Names, and numbers that are never 1.
  const others = /\{(most|chars|maker|name|pid|who)\}/
  const fixed = Object.entries(texts)
    .filter(([key]) => !/_(one|other)$/.test(key))
    .filter(([, text]) =>
      /\{\w+\} (?:[a-z]+ )?[a-z]{2,}s\b/.test(text.replaceAll(new RegExp(others, 'g'), '')),
    )
  expect([halves, fixed]).toEqual([[], []])
})

test('no object literal is spread only to save lines', () => {
  const found = files.flatMap(({ path, text }) =>
    [...text.matchAll(/\.\.\.\{ ?[\w$'"]/g)].map(
      ({ index }) => `${path}:${text.slice(0, index).split('\n').length}`,
    ),
  )
  expect(found).toEqual([])
})

test('an exported type or class bears its name alone', () => {
  const places = Map.groupBy(
    files
      // The library names the results of its methods for programs, after the schemas in `model`.
      .filter(({ path }) => path.startsWith('src/') && path !== 'src/client/verbs.ts')
      .flatMap(({ path, text }) =>
        [...text.matchAll(/^export (?:abstract )?(?:class|interface|type) (\w+)/gm)].map(([, name]) => ({
          name,
          path,
        })),
      ),
    ({ name }) => name,
  )
  const shared = [...places].filter(([, all]) => new Set(all.map(({ path }) => path)).size > 1)
  expect(shared.map(([name, all]) => `${name}: ${all.map(({ path }) => path).join(', ')}`)).toEqual([])
})
