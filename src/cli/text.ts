/** Text from outside, made safe for a terminal. */
import { seen } from '../platform/escape-controls.ts'

/** Text from outside on one line: whatever a terminal would obey, and what turns the direction of writing, by number. */
export const oneLine = (text: string): string => seen(text.replace(/\r\n|[\n\v\f\u0085\u2028\u2029]/g, ' ⏎ '))

/** The lines of a text from outside, each made safe. */
export const safeLines = (text: string): string[] =>
  text.split(/\r\n|[\n\v\f\u0085\u2028\u2029]/).map(line => seen(line))
