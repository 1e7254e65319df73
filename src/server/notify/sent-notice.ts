/** Texts and other values from a body, for the readers of this folder. A sender may have written anything. */
import { nothingSaid } from '../../model/topic.ts'
import type { SentNotice } from '../../operations/notices.ts'
import { isObject } from '../../platform/fields.ts'
import { cutMiddle } from '../../platform/format.ts'

/** Returns a value as a text; '' for one that has none. */
export const textOf = (value: unknown): string =>
  typeof value === 'string'
    ? value
    : typeof value === 'number' || typeof value === 'boolean'
      ? `${value}`
      : ''

/** Returns the object at a key; an empty one if there is none. */
export function objectAt(value: unknown, key: string): Record<string, unknown> {
  const inner = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
  return isObject(inner) ? inner : {}
}

/** Returns the text at a key; '' if there is none. */
export const textAt = (value: unknown, key: string): string =>
  isObject(value) && Object.hasOwn(value, key) ? textOf(value[key]) : ''

/** Makes one text of lines, without those that are empty. */
export const joinLines = (...lines: readonly string[]): string =>
  lines
    .map(line => line.trim())
    .filter(Boolean)
    .join('\n')

/** Whether a text is an address that a browser opens. */
export const isWebAddress = (text: string): boolean => /^https?:\/\/[^\s]+$/i.test(text)

/** Control characters, and marks of direction, which can make a line look like another one. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g

/**
 * Returns a notice without control characters and marks of direction, with its title on one line. Empty fields are left out. One that says
 * nothing says `triggered`, as in ntfy.
 */
export function tidyNotice({ title = '', text, tags = [], click = '', ...rest }: SentNotice): SentNotice {
  const clean = (dirty: string) =>
    cutMiddle(dirty, maxLength)
      .replace(/\r\n?|[\u0085\u2028\u2029]/g, '\n')
      .replace(controls, '')
      .toWellFormed()
      .trim()
  const address = clean(click)
  const heading = clean(title).replace(/\s+/g, ' ')
  // A topic shows the beginning of a longer title alone.
  const whole = heading.length > maxTitle ? joinLines(heading, clean(text)) : clean(text)
  const words = tags
    .slice(0, maxTags)
    .map(tag => clean(tag).replace(/\s+/g, ' '))
    .filter(Boolean)
  return {
    ...rest,
    text: whole || (heading || rest.file || rest.resolved ? '' : nothingSaid),
    ...(heading && { title: heading }),
    ...(words.length > 0 && { tags: words }),
    ...(isWebAddress(address) && { click: address }),
  }
}

/** What a topic shows is much less. */
const maxTags = 20
const maxTitle = 250
/** Bytes. What a message cannot hold is a file, too. */
const maxLength = 1024 * 1024
