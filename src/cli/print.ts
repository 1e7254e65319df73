/** What people see in a terminal: errors in one line, the banner. */

import { fstatSync } from 'node:fs'
import type { SvcError } from '../model/error.ts'
import { maskText } from '../platform/log.ts'

/** Colours where there is a terminal. Elsewhere they are not even loaded: asking the streams takes 6 ms of a start. */
const pc = isTerminal() ? (await import('picocolors')).default : uncoloured()

function isTerminal(): boolean {
  try {
    return fstatSync(1).isCharacterDevice()
  } catch {
    return false
  }
}

function uncoloured() {
  const same = (text: string) => text
  return { red: same, green: same, dim: same, bold: same }
}

/** `error: … (what to do)` on stderr, one line. */
export function printError(text: string, hint: string): void {
  console.error(`${pc.red('error:')} ${maskText(text)}. ${pc.dim(hint)}`)
}

/** Wrong options are wrong usage (2); everything else failed (1). */
export const isBadUsage = (error: SvcError): boolean => error.code === 'invalid_arguments'

/** A line on stdout. By the console, which opens no stream for it and does not fail when nobody reads any more. */
export const print = (line: string): void => console.log(line)

export const banner = (version: string): string => `
${pc.green('  ___ __   __  ___ ')}
${pc.green(' (_-<\\ \\ / / / _| ')}  ${pc.bold('svc')} ${version}
${pc.green(' /__/ \\_/_/  \\__| ')}  WeChat bot accounts as tools
`
