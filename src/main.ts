#!/usr/bin/env bun
/** argv → command, exit status; nothing else. */
import process from 'node:process'
import { runCli } from './cli/cli.ts'
import { commandArguments } from './platform/process.ts'

process.exitCode = await runCli(commandArguments())
