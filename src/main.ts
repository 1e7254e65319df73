#!/usr/bin/env bun
/** argv → command, exit status; nothing else. */
import process from 'node:process'
import { isServing } from './cli/commands.ts'
import { commandArguments, raiseFetchLimit } from './platform/process.ts'

const args = commandArguments()
// Each session holds a request. Before the rest is loaded, which would be loaded twice.
if (isServing(args)) raiseFetchLimit()
const { runCli } = await import('./cli/cli.ts')
process.exitCode = await runCli(args)
// What still holds the process is its log, in a pipe whose reader stands still: that has a second to go on.
setTimeout(() => process.exit(), 1000).unref()
