/** Runs `svc echo-agent`: one prompt and its answer, or ACP until stdin ends. */
import process from 'node:process'
import { echo, serveEchoOverAcp } from '../agent/echo.ts'
import { SvcError } from '../model/error.ts'
import { readStdin } from './ask.ts'
import type { Command } from './command.ts'

export async function runEchoAgent(command: Command): Promise<void> {
  const { io } = command
  if (command.opts().acp === true) return serveEchoOverAcp(io.in.stream, process.stdout)
  const prompt = command.args[0] ?? (await readStdin(io))
  const stop = new AbortController()
  using _forget = { [Symbol.dispose]: io.onStop(() => stop.abort()) }
  const answer = await echo(prompt, { folder: process.cwd(), signal: stop.signal }).catch((error: Error) => {
    throw new SvcError('internal', error.message, { hint: 'Write something else.', cause: error })
  })
  await io.out.write(`${answer}\n`)
}
