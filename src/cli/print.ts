/** What people see in a terminal: errors in one line, the banner. */

import process from 'node:process'
import pc from 'picocolors'
import type { SvcError } from '../model/error.ts'
import { maskText } from '../platform/log.ts'

/** `error: … (what to do)` on stderr, one line. */
export function printError(text: string, hint: string): void {
  process.stderr.write(`${pc.red('error:')} ${maskText(text)}. ${pc.dim(hint)}\n`)
}

/** Wrong options are wrong usage (2); everything else failed (1). */
export const isBadUsage = (error: SvcError): boolean => error.code === 'invalid_arguments'

export const print = (line: string): void => void process.stdout.write(`${line}\n`)

export const banner = (version: string): string => `
${pc.green('  ___ __   __  ___ ')}
${pc.green(' (_-<\\ \\ / / / _| ')}  ${pc.bold('svc')} ${version}
${pc.green(' /__/ \\_/_/  \\__| ')}  WeChat bot accounts as tools
`
