import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readSources } from '../support/panel-texts.ts'

const folder = resolve(import.meta.dirname, '../../locales')
const files = readdirSync(folder)
  .filter(name => name.endsWith('.json'))
  .map(name => ({
    language: name.replace('.json', ''),
    texts: JSON.parse(readFileSync(join(folder, name), 'utf8')) as Record<string, string>,
  }))
const english = files.find(({ language }) => language === 'en')!.texts

const plural = /_(zero|one|two|few|many|other)$/
const stemOf = (key: string): string =>
  `${key.replace(plural, '')}_other` in english ? key.replace(plural, '') : key
const stemsOf = (texts: object) => [...new Set(Object.keys(texts).map(stemOf))].sort()
const isPlural = (stem: string) => `${stem}_other` in english
const placeholders = (text: string) =>
  [...new Set([...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!))].sort()
const sources = await readSources()

for (const { language, texts } of files) {
  test(`${language}: the same texts as in English, with the same placeholders, none empty`, () => {
    expect(stemsOf(texts)).toEqual(stemsOf(english))
    for (const [key, text] of Object.entries(texts)) {
      expect([key, text.trim() === '', text === text.trim() || key === 'overview.you']).toEqual([
        key,
        false,
        true,
      ])
    }
    for (const stem of stemsOf(texts)) {
      const wanted = placeholders(english[stem] ?? english[`${stem}_other`]!)
      if (!isPlural(stem)) expect([stem, placeholders(texts[stem]!)]).toEqual([stem, wanted])
      else expect([stem, placeholders(texts[`${stem}_other`]!)]).toEqual([stem, wanted])
      for (const [key, text] of Object.entries(texts)) {
        if (stemOf(key) === stem)
          expect([key, placeholders(text).filter(one => !wanted.includes(one))]).toEqual([key, []])
      }
    }
  })

  test(`${language}: the plural forms that the language has, and no others`, () => {
    const { pluralCategories } = new Intl.PluralRules(language).resolvedOptions()
    for (const stem of stemsOf(texts).filter(isPlural)) {
      const forms = Object.keys(texts).filter(key => stemOf(key) === stem)
      expect(forms.sort()).toEqual(pluralCategories.map(form => `${stem}_${form}`).sort())
    }
  })

  test(`${language}: sorted by key`, () => {
    expect(Object.keys(texts)).toEqual(Object.keys(texts).sort())
  })
}

test('one word for one thing: contacts write, persons sign in, guests join, keys are added', () => {
  const chinese = files.find(({ language }) => language === 'zh')!.texts
  const found = (texts: Record<string, string>, wrong: RegExp) =>
    Object.keys(texts).filter(key => wrong.test(texts[key]!.replace(/\{\w+\}/g, '')))
  // Users of the system, and the user name in a URL.
  const ofSystems = ['access.limits_note', 'access.use_stdio_about', 'webhooks.url_bad']
  expect(found(english, /\busers?\b|\bforg[eo]t|\b[Ii]ds?\b/)).toEqual(ofSystems)
  expect(found(chinese, /用户/)).toEqual(ofSystems)
  expect(found(english, /\b[Pp]eople\b|\b[Cc]reate[ds]?\b/)).toEqual([])
  expect(found(chinese, /此人|客服|编号|同意(?!。)|人来|人工|创建/)).toEqual([])
})

test('zh: the punctuation of Chinese', () => {
  const wrong = Object.entries(files.find(({ language }) => language === 'zh')!.texts).filter(([, text]) =>
    /\p{Script=Han}\s?[,:;!?()]|[,;!?()]\p{Script=Han}|\.{3}/u.test(text),
  )
  expect(wrong).toEqual([])
})

test('zh: says 你 throughout', () => {
  const { texts } = files.find(({ language }) => language === 'zh')!
  expect(Object.entries(texts).filter(([, text]) => text.includes('您'))).toEqual([])
})

test('every text is used, and every used text exists and gets its parameters', () => {
  const stems = new Set(stemsOf(english))
  const isAskedFor = (stem: string) =>
    sources.strings.has(stem) || sources.asked.some(({ pattern }) => pattern?.test(stem))
  expect([...stems].filter(stem => stem !== 'language.name' && !isAskedFor(stem))).toEqual([])
  const missing = sources.asked.flatMap(({ where, keys = [] }) =>
    keys.filter(key => !stems.has(key)).map(key => `${where} ${key}`),
  )
  expect(missing).toEqual([])
  const wanting = sources.asked.flatMap(({ where, keys = [], params }) =>
    keys.flatMap(key => {
      const wanted = placeholders(english[key] ?? english[`${key}_other`] ?? '')
      if (isPlural(key)) wanted.push('count')
      return wanted.filter(name => params && !params.includes(name)).map(name => `${where} ${key}: ${name}`)
    }),
  )
  expect(wanting).toEqual([])
  expect(sources.asked.length).toBeGreaterThan(100)
})

test('formatters are made in one place, and nothing uses another locale', async () => {
  const made =
    /\bIntl\.(?!DateTimeFormatOptions|NumberFormatOptions|RelativeTimeFormatUnit)\w+|\.toLocale(Date|Time)?String\(/
  const root = resolve(import.meta.dirname, '../../admin')
  const found: string[] = []
  for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!/\.tsx?$/.test(name)) continue
    const lines = readFileSync(join(root, name), 'utf8').split('\n')
    // `inLanguage` makes the formatter itself.
    const own = lines.filter(line => made.test(line.replaceAll(/\binLanguage\(Intl\.\w+/g, '')))
    found.push(...own.map(line => `${name.replaceAll('\\', '/')}: ${line.trim()}`))
  }
  expect(found.filter(line => !/^(i18n|language-data)\.ts:/.test(line))).toEqual([])
  expect(found.length).toBeGreaterThan(5)
})

test('no page contains a text of its own', () => {
  expect(sources.loose).toEqual([])
})

test('the check finds loose texts in all places', async () => {
  const { loose, asked } = await readSources({
    'sample.tsx': `
      export const Sample = ({ open, name }) => (
        <div title="Title" class="not text" aria-label={open ? 'Open' : t('a.b', { name })}>
          Words {open && 'More'} {\`Hello \${name}\`} svc {open ? '99+' : name} {t(open ? 'one.key' : 'two.key')}
          <img alt="" src="picture" /> {'a' + name} {tell('Done')} {t(\`state.\${name}\`)}
        </div>
      )`,
  })
  expect(loose.map(line => line.replace(/^\S+ /, ''))).toEqual([
    'Title',
    'Open',
    'Words',
    'More',
    'Hello',
    'a',
    'Done',
  ])
  expect(asked.map(({ keys, params, pattern }) => [keys ?? pattern, params])).toEqual([
    [['a.b'], ['name']],
    [['one.key', 'two.key'], []],
    [/^state\.\w+$/, []],
  ])
})
