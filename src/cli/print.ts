/** What every command prints alike: errors, results as JSON, the banner. */

import type { SvcError } from '../model/error.ts'
import { type LogFormat, maskText } from '../platform/log.ts'
import { problemOf } from '../server/errors.ts'
import type { Command } from './command.ts'
import { colours, type Output, oneLine } from './terminal.ts'

// What JSON leaves as it is and a terminal may obey: C1 controls, and what turns the direction of writing.
const obeyed = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/**
 * `error: … (what to do)` on `err`, one line; for machines one JSON object, in the shape of every door, or of a log line.
 */
export function printError(err: Output, error: SvcError, hint: string, json: boolean | 'log'): void {
  const detail = maskText(error.message)
  const problem = { ...problemOf(error), detail, hint }
  const plain = () => `${colours.red('error:')} ${harmless(detail)}. ${colours.dim(hint)}`
  err.print(json === 'log' ? logLine('ERROR', detail, problem) : json ? jsonLine(problem) : plain())
}

/** What was typed, or came from elsewhere, may stand in an error. */
const harmless = (text: string) =>
  text.replace(/\p{Cc}/gu, ' ').replace(obeyed, character => `\\u{${character.charCodeAt(0).toString(16)}}`)

/** Wrong options are wrong usage (2); everything else failed (1). */
export const isBadUsage = (error: SvcError): boolean => error.code === 'invalid_arguments'

/** A value as one line of JSON that does nothing to a terminal; a parser reads the same value. */
export const jsonLine = (value: unknown): string =>
  JSON.stringify(value).replace(
    obeyed,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Whether a program reads what the command prints. */
export const isJson = (command: Command): boolean => command.opts().json === true

/** Writes a result: the value as JSON where a program reads it, else the text. */
export const writeResult = (command: Command, value: unknown, text: string): Promise<void> =>
  command.io.out.write(isJson(command) ? `${jsonLine(value)}\n` : text)

/** What a service says beside its log: a line, and for programs what stands in it. */
export interface Said {
  readonly text: string
  readonly url?: string
  readonly token?: string
}

/** A line of JSON in the form of the log's, whose `fields` are not masked. */
export const logLine = (level: 'INFO' | 'ERROR', event: string, fields: object): string =>
  jsonLine({ time: new Date().toISOString(), level, room: '', event, ...fields })

/** Says it on `output`, by the format of the log. */
export const sayer =
  ({ print }: Output, format: LogFormat) =>
  ({ text, ...fields }: Said): void =>
    print(format === 'json' ? logLine('INFO', text, fields) : text)

export const banner = (version: string): string => `
${colours.green('  ___ __   __  ___ ')}
${colours.green(' (_-<\\ \\ / / / _| ')}  ${colours.bold('svc')} ${version}
${colours.green(' /__/ \\_/_/  \\__| ')}  WeChat bot accounts as tools
`

const { red, yellow, cyan, green } = colours
const signs: Readonly<Record<string, readonly [string, (text: string) => string]>> = {
  ...{ ok: ['✓', green], note: ['·', cyan], warning: ['!', yellow], error: ['✗', red], problem: ['✗', red] },
}

/** What was found, and what to do about it: signs where there are colours, words elsewhere. */
export function findingLines(
  { hasColours }: Output,
  { level, what, fix }: { level: string; what: string; fix: string | undefined },
  indent = '',
): string[] {
  const [sign, paint] = signs[level]!
  const mark = paint(hasColours ? sign : level.padEnd('warning'.length))
  const inner = ' '.repeat(hasColours ? 2 : 'warning '.length)
  return [
    `${indent}${mark} ${oneLine(what)}`,
    ...(fix === undefined ? [] : [`${indent}${inner}${colours.dim('fix:')} ${oneLine(fix)}`]),
  ]
}
