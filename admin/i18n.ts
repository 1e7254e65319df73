/**
 * Texts in the viewer's language, and all formatters of the panel. The texts are in `locales/`, one file per
 * language. Numbers and times are written as the browser's locale writes them.
 */
import { computed, signal } from '@preact/signals'
import type en from '../locales/en.json'
import { base, type Language, start, type Texts } from './service-urls.ts'

/** All keys of texts. Plural forms end with `_one` and `_other`; callers leave that out. */
type Written = keyof typeof en
export type TextKey = Written extends infer Key
  ? Key extends `${infer Stem}_one` | `${infer Stem}_other`
    ? Stem
    : Key
  : never

const chosenAt = 'svc.language'
const texts = signal<Texts>({})

/** The language in use. */
export const language = signal('en')
/** Whether the viewer reads English: then the service's own words can be shown. */
export const isEnglish = (): boolean => /^en\b/.test(language.value)
/** The languages to choose from. */
export const languages = signal<readonly Language[]>([])

/**
 * Loads the texts of the first language that exists: the one chosen earlier, the browser's languages in their
 * order, English.
 */
export async function startTexts(): Promise<void> {
  languages.value = start.languages
  const known = (code: string) => start.languages.find(one => one.code === code)?.code
  const wished = [localStorage.getItem(chosenAt) ?? '', ...navigator.languages]
  const code = wished.map(one => known(one) ?? known(one.split('-')[0]!.toLowerCase())).find(Boolean) ?? 'en'
  show(start.language, start.texts)
  if (code !== start.language) await load(code)
}

/** Loads the language's data in a worker. A formatter that is needed sooner loads it itself. */
export function readLanguage(): void {
  new Worker(`${base}/language-data.js`, { name: locale.value })
}

/**
 * Follows the language that another tab chooses. If that tab forgets its choice, the next page load decides.
 */
export function followLanguage(): void {
  addEventListener('storage', ({ key, newValue }: StorageEvent) => {
    if (key === chosenAt && languages.value.some(({ code }) => code === newValue)) void load(newValue!)
  })
}

/** Switches the language and saves the choice. */
export async function chooseLanguage(code: string): Promise<void> {
  localStorage.setItem(chosenAt, code)
  await load(code)
}

let wished = ''
/** Shows a language. If its texts do not come, the page keeps its language and asks for them again later. */
async function load(code: string, waitMs = 1000): Promise<void> {
  wished = code
  const all = await textsOf(code).catch(() => undefined)
  // Somebody may have chosen another language while this one loaded.
  if (wished !== code) return
  if (all) show(code, all)
  else setTimeout(() => wished === code && void load(code, Math.min(2 * waitMs, longestWaitMs)), waitMs)
}
const longestWaitMs = 30_000

async function textsOf(code: string): Promise<Texts | undefined> {
  const answer = await fetch(`${base}/locales/${code}.json`)
  return answer.ok ? await answer.json() : undefined
}

function show(code: string, all: Texts): void {
  texts.value = all
  language.value = code
  document.documentElement.lang = code
}

/**
 * Returns the text of a key, with `{name}` replaced by the parameter of that name. With `count`, the plural
 * form of the language. A component that calls it renders again when the language changes.
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

/** The browser's locale: the first one of its language settings. */
const own = computed(() => {
  try {
    return new Intl.Locale(navigator.languages?.[0] ?? language.value)
  } catch {
    // A browser on a minimal Linux may name a locale that does not exist, such as en-US@posix.
    return new Intl.Locale(language.value)
  }
})

/** The language of the texts with the region of the browser: en-GB; en-DE in a German browser. */
export const locale = computed(() => {
  const texts = new Intl.Locale(language.value)
  const { region } = own.value.maximize()
  if (texts.region !== undefined || region === undefined) return language.value
  const { script } = texts.maximize()
  const there = new Intl.Locale(language.value, { region })
  // Keep our script where the region usually writes another one, such as Taiwan.
  if (there.maximize().script !== script)
    return new Intl.Locale(language.value, { region, script: script! }).toString()
  if (own.value.language === texts.language) return there.toString()
  // Browsers do not know English of Brazil. They would write it as in the United States, with the month
  // first.
  const isKnown = new Intl.DateTimeFormat(there.toString()).resolvedOptions().locale !== language.value
  return isKnown || !isDayFirst() ? there.toString() : `${language.value}-001`
})

/** The locale for text without words, such as 06/11/2026: the browser's, with the digits of our texts. */
const wordless = computed(() =>
  own.value.language === new Intl.Locale(language.value).language
    ? locale.value
    : new Intl.Locale(own.value, { numberingSystem: 'latn', calendar: 'gregory' }).toString(),
)

const isDayFirst = (): boolean => {
  const parts = new Intl.DateTimeFormat(own.value.toString()).formatToParts().map(({ type }) => type)
  return parts.indexOf('day') < parts.indexOf('month')
}

/** The 12 or 24 hour clock, for formatters whose language is not the browser's. */
const hours = computed((): Pick<Intl.DateTimeFormatOptions, 'hourCycle'> => {
  if (wordless.value === locale.value) return {}
  const { hourCycle } = new Intl.DateTimeFormat(wordless.value, { hour: 'numeric' }).resolvedOptions()
  return hourCycle === undefined ? {} : { hourCycle }
})
/** Whether the clock has 24 hours. A time of day then needs no words. */
export const isTwentyFour = (): boolean => /^h2[34]$/.test(hours.value.hourCycle ?? '')

const made = new Map<string, unknown>()
/** Makes a formatter and keeps it. Making one takes as long as drawing a row. */
function maker<F, O>(Formatter: new (locale: string, options?: O) => F, at: string, options?: O): F {
  const key = `${Formatter.name} ${at} ${JSON.stringify(options)}`
  const known = (made.get(key) as F | undefined) ?? new Formatter(at, options)
  made.set(key, known)
  return known
}

/** Returns a formatter for `locale`. */
export const inLanguage = <F, O>(Formatter: new (locale: string, options?: O) => F, options?: O): F =>
  maker(Formatter, locale.value, options)

/**
 * Returns a formatter of times. With `isWordless` it writes digits only, in the order of the browser's
 * locale.
 */
export const timeFormat = (options: Intl.DateTimeFormatOptions, isWordless = false): Intl.DateTimeFormat =>
  maker(Intl.DateTimeFormat, isWordless ? wordless.value : locale.value, { ...options, ...hours.value })

/**
 * Languages that write small whole numbers as plain digits. The first formatter is slow, and most counts need
 * none.
 */
const plainly = /^(en|zh)\b/

/** Returns a number as the browser's own locale writes it. */
export const number = (value: number): string =>
  Number.isInteger(value) && value >= 0 && value < 1000 && plainly.test(language.value)
    ? String(value)
    : maker(Intl.NumberFormat, wordless.value).format(value)

const digits = /^(integer|group|decimal|fraction)$/

/**
 * Returns a number with its unit. The unit is in the language of the texts. The digits follow the
 * browser's locale.
 */
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

/** Returns the space between two sentences. There is none after a Chinese or Japanese full stop. */
export const gap = (): string => (/^(zh|ja)\b/.test(language.value) ? '' : ' ')

/** a, b, and c. In Chinese a、b、c: its "and" would stand beside Latin names without a space. */
export const listed = (words: readonly string[]): string =>
  inLanguage(Intl.ListFormat, { style: gap() ? 'long' : 'narrow' }).format(words)

/** Returns a size in bytes with a unit, rounded for people. */
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

/** A foreign name inside one of our sentences. It keeps its own writing direction. */
export const isolated = (name: string): string => `\u2068${name}\u2069`
