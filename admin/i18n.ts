/** Texts in the viewer's language. The texts themselves lie in `locales/`, one file per language. */
import { signal } from '@preact/signals'
import type en from '../locales/en.json'
import { base, start } from './service-urls.ts'

/** A key of a text; plural forms end with `_one` and `_other` and are asked for without that. */
type Written = keyof typeof en
export type TextKey = Written extends infer Key
  ? Key extends `${infer Stem}_one` | `${infer Stem}_other`
    ? Stem
    : Key
  : never

export type Texts = Readonly<Record<string, string>>

export interface Language {
  code: string
  /** In itself. */
  name: string
}

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
  new Worker(`${base}/language-data.js`, { name: language.value })
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

const made = new Map<string, unknown>()
/** A formatter of the language in use, made once: to make one takes as long as to draw a row. */
export function inLanguage<F, O>(Formatter: new (language: string, options?: O) => F, options?: O): F {
  const key = `${Formatter.name} ${language.value} ${JSON.stringify(options)}`
  const known = (made.get(key) as F | undefined) ?? new Formatter(language.value, options)
  made.set(key, known)
  return known
}

/** These write a small whole number as a program does. The first formatter of a page takes long, and most counts need none. */
const plainly = /^(en|zh)\b/

/** A number as the language writes it. */
export const number = (value: number): string =>
  Number.isInteger(value) && value >= 0 && value < 1000 && plainly.test(language.value)
    ? String(value)
    : inLanguage(Intl.NumberFormat).format(value)

/** What stands between two sentences: after a full stop of Chinese, nothing. */
export const gap = (): string => (/^(zh|ja)\b/.test(language.value) ? '' : ' ')

/** a, b, and c */
export const listed = (words: readonly string[]): string =>
  inLanguage(Intl.ListFormat, { type: 'conjunction' }).format(words)

/** Bytes, rounded to what a person wants to know. */
export function bytes(size: number): string {
  const units = ['byte', 'kilobyte', 'megabyte', 'gigabyte'] as const
  const step = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, size)) / 3)))
  return inLanguage(Intl.NumberFormat, {
    style: 'unit',
    unit: units[step]!,
    unitDisplay: step === 0 ? 'long' : 'short',
    maximumFractionDigits: step < 2 ? 0 : 1,
  }).format(size / 1000 ** step)
}
