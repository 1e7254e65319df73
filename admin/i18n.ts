/**
 * Texts in the viewer's language, and the formatters of the whole panel. The texts themselves lie in `locales/`, one file per
 * language; how numbers and times look is the browser's own way.
 */
import { computed, signal } from '@preact/signals'
import type en from '../locales/en.json'
import { base, type Language, start, type Texts } from './service-urls.ts'

/** A key of a text; plural forms end with `_one` and `_other` and are asked for without that. */
type Written = keyof typeof en
export type TextKey = Written extends infer Key
  ? Key extends `${infer Stem}_one` | `${infer Stem}_other`
    ? Stem
    : Key
  : never

const chosenAt = 'svc.language'
const texts = signal<Texts>({})

/** The language in use, and those there are. */
export const language = signal('en')
/** The service's own words are understood. */
export const isEnglish = (): boolean => /^en\b/.test(language.value)
export const languages = signal<readonly Language[]>([])

/** The language that was chosen here, else the first of the browser's that there is, else English. */
export async function startTexts(): Promise<void> {
  languages.value = start.languages
  const known = (code: string) => start.languages.find(one => one.code === code)?.code
  const wished = [localStorage.getItem(chosenAt) ?? '', ...navigator.languages]
  const code = wished.map(one => known(one) ?? known(one.split('-')[0]!.toLowerCase())).find(Boolean) ?? 'en'
  if (code === start.language) show(code, start.texts)
  else await load(code)
}

/** Reads the language's data beside the drawing; a formatter that is asked for sooner reads it itself. */
export function readLanguage(): void {
  new Worker(`${base}/language-data.js`, { name: locale.value })
}

/** Follows the language that another tab chooses. If that tab forgets its choice, the next page load decides. */
export function followLanguage(): void {
  addEventListener('storage', ({ key, newValue }: StorageEvent) => {
    // Without the service this page keeps its language.
    if (key === chosenAt && languages.value.some(({ code }) => code === newValue))
      load(newValue!).catch(() => {})
  })
}

/** Switches, and keeps the choice. */
export async function chooseLanguage(code: string): Promise<void> {
  localStorage.setItem(chosenAt, code)
  await load(code)
}

let wished = ''
async function load(code: string): Promise<void> {
  wished = code
  const all = (await (await fetch(`${base}/locales/${code}.json`)).json()) as Texts
  // Another one was chosen meanwhile.
  if (wished === code) show(code, all)
}

function show(code: string, all: Texts): void {
  texts.value = all
  language.value = code
  document.documentElement.lang = code
}

/**
 * The text of a key, `{name}` replaced by the parameter of that name. With `count`, the plural form of the language.
 * Reading it inside a component renders that again when the language changes.
 */
export function t(key: TextKey, params: Readonly<Record<string, string | number>> = {}): string {
  const table = texts.value
  const { count } = params
  const form = typeof count === 'number' ? `${key}_${inLanguage(Intl.PluralRules).select(count)}` : key
  const text = table[form] ?? table[`${key}_other`] ?? table[key] ?? key
  return text.replace(/\{(\w+)\}/g, (all, name: string) => {
    const value = params[name]
    return value === undefined ? all : typeof value === 'number' ? number(value) : value
  })
}

/** The browser's own locale: the first that its user named. */
const own = computed(() => {
  try {
    return new Intl.Locale(navigator.languages?.[0] ?? language.value)
  } catch {
    // A browser on a minimal Linux may name a locale that does not exist, such as en-US@posix.
    return new Intl.Locale(language.value)
  }
})

/** The language of the texts as it is written where the browser is at home: en-GB, and en-DE in a German browser. */
export const locale = computed(() => {
  const texts = new Intl.Locale(language.value)
  const { region } = own.value.maximize()
  if (texts.region !== undefined || region === undefined) return language.value
  const { script } = texts.maximize()
  const there = new Intl.Locale(language.value, { region })
  // Where another script is usual, as in Taiwan, ours stays.
  if (there.maximize().script !== script)
    return new Intl.Locale(language.value, { region, script: script! }).toString()
  if (own.value.language === texts.language) return there.toString()
  // English of Brazil is not known to browsers, and would come out as that of the United States.
  const isKnown = new Intl.DateTimeFormat(there.toString()).resolvedOptions().locale !== language.value
  return isKnown || !isDayFirst() ? there.toString() : `${language.value}-001`
})

/** For what is written without words: the browser's own way, in digits that the texts have. */
const wordless = computed(() =>
  own.value.language === new Intl.Locale(language.value).language
    ? locale.value
    : new Intl.Locale(own.value, { numberingSystem: 'latn', calendar: 'gregory' }).toString(),
)

const isDayFirst = (): boolean => {
  const parts = new Intl.DateTimeFormat(own.value.toString()).formatToParts().map(({ type }) => type)
  return parts.indexOf('day') < parts.indexOf('month')
}

/** Whether a day has 24 hours or twice 12: said to formatters whose language is not the browser's. */
const hours = computed((): Pick<Intl.DateTimeFormatOptions, 'hourCycle'> => {
  if (wordless.value === locale.value) return {}
  const { hourCycle } = new Intl.DateTimeFormat(wordless.value, { hour: 'numeric' }).resolvedOptions()
  return hourCycle === undefined ? {} : { hourCycle }
})
/** A time of day is then digits alone. */
export const isTwentyFour = (): boolean => /^h2[34]$/.test(hours.value.hourCycle ?? '')

const made = new Map<string, unknown>()
/** A formatter, made once: to make one takes as long as to draw a row. */
function maker<F, O>(Formatter: new (locale: string, options?: O) => F, at: string, options?: O): F {
  const key = `${Formatter.name} ${at} ${JSON.stringify(options)}`
  const known = (made.get(key) as F | undefined) ?? new Formatter(at, options)
  made.set(key, known)
  return known
}

/** A formatter of the language in use, as it is written where the browser is at home. */
export const inLanguage = <F, O>(Formatter: new (locale: string, options?: O) => F, options?: O): F =>
  maker(Formatter, locale.value, options)

/** Of times. `isWordless`: digits alone, in the browser's own order. */
export const timeFormat = (options: Intl.DateTimeFormatOptions, isWordless = false): Intl.DateTimeFormat =>
  maker(Intl.DateTimeFormat, isWordless ? wordless.value : locale.value, { ...options, ...hours.value })

/** These write a small whole number as a program does. The first formatter of a page takes long, and most counts need none. */
const plainly = /^(en|zh)\b/

/** A number as the browser's own locale writes it. */
export const number = (value: number): string =>
  Number.isInteger(value) && value >= 0 && value < 1000 && plainly.test(language.value)
    ? String(value)
    : maker(Intl.NumberFormat, wordless.value).format(value)

const digits = /^(integer|group|decimal|fraction)$/

/** A number with its unit: the words are those of the texts. */
function withUnit(value: number, options: Intl.NumberFormatOptions): string {
  const { maximumFractionDigits } = options
  const plain = maker(Intl.NumberFormat, wordless.value, { maximumFractionDigits }).format(value)
  const parts = inLanguage(Intl.NumberFormat, options).formatToParts(value)
  const first = parts.findIndex(({ type }) => digits.test(type))
  return parts.map((part, at) => (at === first ? plain : digits.test(part.type) ? '' : part.value)).join('')
}

/** 25 % */
export const percent = (share: number): string =>
  inLanguage(Intl.NumberFormat, { style: 'percent' }).format(share)

/** What stands between two sentences: after a full stop of Chinese, nothing. */
export const gap = (): string => (/^(zh|ja)\b/.test(language.value) ? '' : ' ')

/** a, b, and c */
export const listed = (words: readonly string[]): string =>
  inLanguage(Intl.ListFormat, { type: 'conjunction' }).format(words)

/** Bytes, rounded to what a person wants to know. */
export function bytes(size: number): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, size)) / 3)))
  return withUnit(size / 1000 ** step, {
    style: 'unit',
    unit: units[step]!,
    unitDisplay: step === 0 ? 'long' : 'short',
    maximumFractionDigits: step < 2 ? 0 : 1,
  })
}

/** A foreign name inside a sentence of ours: its writing direction stays its own. */
export const isolated = (name: string): string => `\u2068${name}\u2069`
