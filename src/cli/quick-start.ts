/**
 * Runs `svc` without a command: leads to the first answered message, or prints the status if there is a
 * session.
 */

import type { Config } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { readStatus } from '../inspect/status-report.ts'
import { createDirectCall } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { adviceOf } from '../model/next-step.ts'
import { followMessages } from '../operations/reading.ts'
import { quoteForShell } from '../platform/format.ts'
import { version } from '../version.ts'
import { askPerson } from './ask.ts'
import { formatMessage } from './chat.ts'
import { type Command, directoryFlagsOf, wordingOf } from './command.ts'
import { formatStatus } from './commands/status.ts'
import { createLoginPrinter, followLogin, toLoginError } from './login.ts'
import { commandAddress, createAsk, isAbsent } from './open.ts'
import { type RunningService, serveOpenApi } from './serve.ts'
import { colours, oneLine } from './terminal.ts'

/**
 * Starts the service and logs in. If there is a session, or a service runs, it only prints the status.
 *
 * @param mayServe false for a call without options and without a terminal: it must not block on a service
 * @returns false if it did nothing
 */
export async function quickStart(config: Config, command: Command, mayServe: boolean): Promise<boolean> {
  const isNew = await isAbsent(config)
  if (!mayServe && isNew) return false
  const again = directoryFlagsOf(command)
  const { basePath, sandbox, storeUrl } = config
  // A missing directory is made later, by the service, which logs that.
  if (!isNew) await claimDirectory({ basePath, sandbox, storeUrl })
  const report = await readStatus({ basePath, sandbox, storeUrl, version })
  if (report.session_count > 0 || report.polling.active) {
    await command.io.out.write(
      `${formatStatus(report)}\n${formatNextCommands(line => `svc ${line}${again}`, report)}`,
    )
    return true
  }
  // The steps are for a person. With a JSON log a program reads the output.
  const beside =
    config.logFormat === 'text' ? (serving: RunningService) => guideBeginner(serving, command) : undefined
  if (mayServe) await serveOpenApi(config, command, beside)
  return mayServe
}

function formatNextCommands(
  typed: (line: string) => string,
  report: { session_count: number; polling: { active: boolean } },
): string {
  const commands: [line: string, does: string][] = [
    [typed('recv --follow'), 'what people write, as they write it'],
    [typed('users'), 'who has written, and may be answered'],
    [typed("send USER 'Hello!'"), 'answer one of them'],
    [typed('login NAME'), 'another account'],
    ['svc --help', 'everything else'],
  ]
  if (!report.polling.active) commands.unshift([typed('openapi'), 'start the service'])
  if (report.session_count === 0) commands.unshift([typed('login'), 'log in by QR code'])
  const width = Math.max(...commands.map(([line]) => line.length))
  return `Next:\n${commands.map(([line, does]) => `  ${line.padEnd(width)}  ${colours.dim(does)}\n`).join('')}`
}

/** Leads a person through the steps: scan, write, answer. If a step fails, the service continues. */
async function guideBeginner(serving: RunningService, command: Command): Promise<void> {
  const again = directoryFlagsOf(command)
  const { phoneUrl, stopping } = serving
  const { write } = command.io.out
  const call = {
    ...createDirectCall({ address: commandAddress(), signal: stopping }),
    ask: askPerson(command.io, () => stopping),
  }
  const ask = createAsk(serving, call)
  const received = await ask(followMessages, {})
  await write(`\n${colours.bold('1. Log in')}\n`)
  const failed = await followLogin(
    { ask, signal: stopping },
    {},
    createLoginPrinter(command.io, phoneUrl),
  ).then(
    status =>
      status.status === 'confirmed' ? undefined : `${toLoginError(status, phoneUrl !== undefined).message}.`,
    (error: Error) =>
      `${error.message}.${error instanceof SvcError ? ` ${adviceOf(error, wordingOf(command))}` : ''}`,
  )
  if (stopping.aborted) return
  if (failed !== undefined) {
    return write(`Not logged in: ${oneLine(failed)} The service goes on; try again with: svc login${again}\n`)
  }
  await write(
    `\n${colours.bold('2. Write to the bot')}\n${
      phoneUrl === undefined
        ? 'Open the new chat in WeChat on the phone and write something.\n'
        : `Write something in the chat at ${phoneUrl}\n`
    }`,
  )
  for await (const message of received.follow(stopping)) {
    await write(`\n${formatMessage(message, again)}\n${formatAnswerSteps(serving, message.from_user, again)}`)
    break
  }
}

function formatAnswerSteps({ config, url }: RunningService, user: string, again: string): string {
  const to = oneLine(user)
  const token = config.token === undefined ? '' : ` -H "Authorization: Bearer $(svc token${again})"`
  const body = quoteForShell(JSON.stringify({ to, text: 'Hello!' }))
  const lines = [
    colours.bold('3. Answer, in another terminal'),
    `  svc send ${quoteForShell(to)} 'Hello!'${again}`,
    'or from any program:',
    `  curl ${url}/tools/default/send -H 'Content-Type: application/json'${token} -d ${body}`,
    '',
    colours.dim('The service goes on until Ctrl-C. svc --help shows what else there is.'),
  ]
  return `${lines.join('\n')}\n`
}
