/** Output that is the same for every command: errors, JSON results, the banner. */

import type { SvcError } from '../model/error.ts'
import { toJsonLine, unsafeCharacters } from '../platform/escape-controls.ts'
import { type LogFormat, maskText } from '../platform/log.ts'
import { nameOfProcess } from '../platform/process.ts'
import { problemOf } from '../server/errors.ts'
import type { Command } from './command.ts'
import { colours, type Output, oneLine } from './terminal.ts'

/**
 * Prints an error to `err` on one line: `error: … (what to do)`.
 *
 * @param json true: print the error object that REST and the other interfaces use; `'log'`: print a JSON log
 *   line
 */
export function printError(err: Output, error: SvcError, hint: string, json: boolean | 'log'): void {
  const detail = maskText(error.message)
  const problem = { ...problemOf(error), detail, hint }
  const plain = () => `${colours.red('error:')} ${escapeUnsafe(detail)}. ${colours.dim(hint)}`
  err.print(json === 'log' ? toLogLine('ERROR', detail, problem) : json ? toJsonLine(problem) : plain())
}

/** Escapes control characters, since an error may quote typed or foreign text. */
const escapeUnsafe = (text: string) =>
  text
    .replace(/\p{Cc}/gu, ' ')
    .replace(unsafeCharacters, character => `\\u{${character.charCodeAt(0).toString(16)}}`)

/** Returns true for wrong usage (exit status 2). Every other error is a failure (exit status 1). */
export const isBadUsage = (error: SvcError): boolean => error.code === 'invalid_arguments'

/** Returns true if the command was called with `--json`. */
export const isJson = (command: Command): boolean => command.opts().json === true

/** Writes a result to stdout: the value as JSON with `--json`, else the text. */
export const writeResult = (command: Command, value: unknown, text: string): Promise<void> =>
  command.io.out.write(isJson(command) ? `${toJsonLine(value)}\n` : text)

/** A line that a service prints beside its log, with the facts in it as fields for programs. */
export interface ServiceLine {
  readonly text: string
  readonly url?: string
  readonly token?: string
}

/** Formats a JSON line like those of the log, but without masking `fields`. */
const toLogLine = (level: 'INFO' | 'ERROR', event: string, fields: object): string =>
  toJsonLine({ time: new Date().toISOString(), level, room: '', event, node: nameOfProcess(), ...fields })

/** Returns a function that prints a service's line in the format of the log. */
export const createLinePrinter =
  ({ print }: Output, format: LogFormat) =>
  ({ text, ...fields }: ServiceLine): void =>
    print(format === 'json' ? toLogLine('INFO', text, fields) : text)

export const formatBanner = (version: string): string => `
${colours.green('  ___ __   __  ___ ')}
${colours.green(' (_-<\\ \\ / / / _| ')}  ${colours.bold('svc')} ${version}
${colours.green(' /__/ \\_/_/  \\__| ')}  WeChat bot accounts as tools
`

const { red, yellow, cyan, green } = colours
const levelSigns: Readonly<Record<string, readonly [string, (text: string) => string]>> = {
  ok: ['✓', green],
  note: ['·', cyan],
  warning: ['!', yellow],
  error: ['✗', red],
  problem: ['✗', red],
}

/** Formats a finding and its fix: with signs on a coloured terminal, with words elsewhere. */
export function formatFinding(
  { hasColours }: Output,
  { level, what, fix }: { level: string; what: string; fix: string | undefined },
  indent = '',
): string[] {
  const [sign, paint] = levelSigns[level]!
  const mark = paint(hasColours ? sign : level.padEnd('warning'.length))
  const inner = ' '.repeat(hasColours ? 2 : 'warning '.length)
  return [
    `${indent}${mark} ${oneLine(what)}`,
    ...(fix === undefined ? [] : [`${indent}${inner}${colours.dim('fix:')} ${oneLine(fix)}`]),
  ]
}
