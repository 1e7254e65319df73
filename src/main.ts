#!/usr/bin/env bun
/** argv → command, exit status; nothing else. */
import process from 'node:process'
import { runCli } from './cli/cli.ts'
import { commandArguments, raiseFetchLimit } from './platform/process.ts'

raiseFetchLimit()
process.exitCode = await runCli(commandArguments())
