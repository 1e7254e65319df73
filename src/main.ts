#!/usr/bin/env bun
/** argv → command, exit status; nothing else. */
import process from 'node:process'
import { commandArguments, tuneRuntime } from './platform/process.ts'

tuneRuntime()
// Loaded after: what comes before the line above is done twice.
const { runCli } = await import('./cli/cli.ts')
process.exitCode = await runCli(commandArguments())
