#!/usr/bin/env bun
/** Runs the command of the arguments, and sets the exit status. */
import process from 'node:process'
import { isServing } from './cli/commands.ts'
import { partWords, program, raiseFetchLimit, readArguments } from './platform/process.ts'

program.isSvc = true
const args = readArguments()
if (args[0] === partWords.decodeVoice) await import('./media/decode-voice.ts')
else if (args[0] === partWords.remind) await import('./agent/remind-stdio.ts')
else await runCommand()

async function runCommand(): Promise<void> {
  // Each session holds a request. This runs before the rest is loaded, because code loaded earlier would be
  // loaded twice.
  if (isServing(args)) raiseFetchLimit()
  const { runCli } = await import('./cli/cli.ts')
  process.exitCode = await runCli(args)
  // Only the log can still keep the process running, in a pipe whose reader does not read. It gets one more
  // second.
  setTimeout(() => process.exit(), 1000).unref()
}
