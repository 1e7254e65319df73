/** `svc login`: follows the login to its end, with the code and the status on the screen. */

import { SvcError } from '../model/error.ts'
import type { LoginStatus } from '../model/login.ts'
import { adviceOf } from '../model/next-step.ts'
import { defaultSessionName } from '../model/session.ts'
import { createLog } from '../platform/log.ts'
import { invoke, verbs } from '../tools/index.ts'
import { againFlags, wordingOf } from './advice.ts'
import { askPerson } from './ask.ts'
import { commandCall } from './call.ts'
import { followLogin, loginFailure, loginPrinter } from './login.ts'
import { openForCommand } from './open.ts'
import { jsonLine, printError, printProblem } from './print.ts'
import { readToolRun, type ToolRun } from './run-tool.ts'
import { colours, writeErr, writeOut } from './terminal.ts'

/** Runs the command; with --json each change of the status is one line. */
export async function runLogin(run: ToolRun): Promise<void> {
  const { command, line, flags } = run
  const { config, input, json } = await readToolRun(run)
  const log = createLog(config.logLevel)
  const typed = askPerson(() => call.signal, { silent: json })
  let given = input.verify_code === undefined ? undefined : String(input.verify_code)
  using call = commandCall({
    async ask(question) {
      const code = given
      given = undefined
      return code ?? (await typed(question))
    },
  })
  try {
    await using stack = new AsyncDisposableStack()
    const { gateway, phoneUrl } = await openForCommand(config, log, stack)
    const write = json ? async () => {} : writeOut
    const print = loginPrinter({ write, colours }, phoneUrl)
    const status = await followLogin(
      {
        signal: call.signal,
        call: next => invoke(verbs.login, gateway, next, call, log),
      },
      // Without a name this is not the login that somebody else has under way.
      { session_name: defaultSessionName, ...input },
      async status => {
        if (json) await writeOut(`${jsonLine(status)}\n`)
        else await print(status)
      },
    )
    if (status.status === 'confirmed') {
      if (!json) await writeErr(next(status, againFlags(command), phoneUrl !== undefined))
    } else if (!call.cutBy) {
      line.status = 1
      const error = loginFailure(status, phoneUrl !== undefined)
      const hint = adviceOf(error, wordingOf(command))
      if (json) printProblem(error, hint)
      else printError(error.message, hint)
    }
  } catch (error) {
    if (!call.cutBy) throw error instanceof SvcError ? flags.told(error) : error
  }
  if (call.cutBy) line.cutBy = call.cutBy
}

function next(status: LoginStatus, again: string, sandboxed: boolean): string {
  const where = sandboxed ? 'on the phone' : 'in WeChat'
  const said =
    status.notice === 'already_connected'
      ? 'The session is connected already; --force logs it in again.'
      : `Next: svc recv --follow${again}, then write to the bot ${where}.`
  return `${colours.dim(said)}\n`
}
