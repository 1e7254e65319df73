/** Runs `svc login`: prints the QR code, each change of the login, and how it ended. */
import { SvcError } from '../model/error.ts'
import type { LoginNotice, LoginStatus } from '../model/login.ts'
import { adviceOf } from '../model/next-step.ts'
import { defaultSessionName } from '../model/session.ts'
import { forgetLogin } from '../operations/accounts.ts'
import { verbs } from '../operations/tools.ts'
import { toJsonLine } from '../platform/escape-controls.ts'
import { askPerson } from './ask.ts'
import { directoryFlagsOf, wordingOf } from './command.ts'
import { commandCall, createAsk, openForCommand } from './open.ts'
import { isJson, printError } from './print.ts'
import { formatNote } from './show.ts'
import { colours, columnsOf, type Io, oneLine } from './terminal.ts'
import type { Ask, OperationRequest } from './view.ts'

/** Runs the command. With `--json` it prints each change of the status as one line. */
export async function runLogin({ command, config, input, line }: OperationRequest): Promise<void> {
  const { io } = command
  const json = isJson(command)
  const askForCode = askPerson(io, () => call.signal, { silent: json })
  let typedCode = input.verify_code === undefined ? undefined : String(input.verify_code)
  using call = commandCall(io, {
    async ask(question) {
      const code = typedCode
      typedCode = undefined
      return code ?? (await askForCode(question))
    },
  })
  try {
    await using opened = await openForCommand(config, io, { createsDirectory: true })
    const { phoneUrl } = opened
    // The line helps if the directory's name was mistyped.
    if (opened.isNew && !json)
      await io.err.write(formatNote(`made the data directory ${oneLine(config.basePath)}`))
    const ask = createAsk(opened, call)
    const print = createLoginPrinter(io, phoneUrl)
    // Forgets an ended login, to get a new code. With digits the login is kept, because the digits belong
    // to it.
    if (typedCode === undefined) await ask(forgetLogin, { session: String(input.session_name ?? '') })
    const status = await followLogin(
      { ask, signal: call.signal },
      // Without a typed name, name the default session: a call without a name may join another caller's
      // login.
      { session_name: defaultSessionName, ...input },
      async status => {
        if (status.status === 'confirmed') line.changeMade = 'logged in'
        if (json) await io.out.write(`${toJsonLine(status)}\n`)
        else await print(status)
      },
    )
    if (status.status === 'confirmed') {
      if (!json) await io.err.write(formatNext(status, directoryFlagsOf(command), phoneUrl !== undefined))
    } else if (!call.stopSignal) {
      line.status = 1
      const error = toLoginError(status, phoneUrl !== undefined, input)
      printError(io.err, error, adviceOf(error, wordingOf(command)), json)
    }
  } catch (error) {
    if (!call.stopSignal) throw error
  }
  if (call.stopSignal) line.stopSignal = call.stopSignal
}

function formatNext(status: LoginStatus, again: string, sandboxed: boolean): string {
  const where = sandboxed ? 'on the phone' : 'in WeChat'
  const text =
    status.notice === 'already_connected'
      ? 'The session is connected already; --force logs it in again.'
      : `Next: svc recv --follow${again}, then write to the bot ${where}.`
  return `${colours.dim(text)}\n`
}

/**
 * Timeout of one call, in s. A change that another caller already got is returned only at the end of the
 * call.
 */
const callTimeoutS = 1

/**
 * Starts or joins a login and follows it to its end.
 *
 * @param input input of that tool; `timeout` is the longest wait for a change, in s; without it there is no
 *   limit
 * @param each called with the first status and with every new one
 * @returns the last status. It is not final after the timeout or the signal
 */
export async function followLogin(
  { ask, signal }: { ask: Ask; signal: AbortSignal },
  input: Readonly<Record<string, unknown>>,
  each: (status: LoginStatus) => Promise<void>,
): Promise<LoginStatus> {
  const { timeout, verify_code: _code, ...rest } = input
  const patienceMs = timeout === undefined ? Number.POSITIVE_INFINITY : Number(timeout) * 1000
  let status = await ask(verbs.login, { ...rest, timeout: Math.min(callTimeoutS, patienceMs / 1000) })
  await each(status)
  let changedAt = performance.now()
  while (!isFinal(status) && !signal.aborted) {
    const leftMs = patienceMs - (performance.now() - changedAt)
    // No digits came although the phone asked for them, or nothing changed within the timeout.
    if (status.status === 'need_verifycode' || leftMs <= 0) break
    const next = await ask(verbs.login, {
      ...rest,
      session_name: status.session,
      timeout: Math.min(callTimeoutS, leftMs / 1000),
    })
    const changed = next.status !== status.status || next.qr_url !== status.qr_url
    status = next
    if (!changed) continue
    changedAt = performance.now()
    await each(status)
  }
  return status
}

/** Returns true if the status is final. A login that gets a new code still has one to show, so it is not. */
const isFinal = (status: LoginStatus): boolean =>
  status.status === 'confirmed' || (status.qr_url === undefined && status.status !== 'waiting')

/** Returns a function that prints a status for the person, and the QR code whenever that is new. */
export function createLoginPrinter(
  io: Io,
  phoneUrl: string | undefined,
): (status: LoginStatus) => Promise<void> {
  const { write } = io.out
  let printedUrl: string | undefined
  let printedStatus: string | undefined
  return async status => {
    const { dim, green, yellow } = colours
    if (status.qr_url !== undefined && status.qr_text !== undefined && status.qr_url !== printedUrl) {
      if (printedUrl !== undefined) await write(`\n${yellow('The code was used up; here is a new one.')}\n`)
      printedUrl = status.qr_url
      await write(`\n${formatCode(io, status.qr_text)}\n${dim(oneLine(status.qr_url))}\n\n`)
      await write(
        phoneUrl === undefined
          ? 'Scan this code with WeChat on the phone: Me, Settings, Plugins.\n'
          : `Scan this code on the simulated phone: open ${phoneUrl} and press "Scan and agree".\n`,
      )
      printedStatus = 'waiting'
    }
    if (status.status === printedStatus) return
    printedStatus = status.status
    const name = oneLine(status.session)
    const words: Readonly<Record<LoginStatus['status'], string>> = {
      waiting: 'waiting for the scan',
      scaned: 'scanned: now confirm on the phone',
      need_verifycode: 'the phone shows a number',
      verify_code_blocked: 'too many wrong numbers',
      expired: 'the code has run out',
      // The error says why, and what to do.
      already_bound: 'not logged in',
      confirmed: green(`connected: session ${name}${status.bot_id ? `, bot ${oneLine(status.bot_id)}` : ''}`),
    }
    await write(`${words[status.status]}\n`)
  }
}

/**
 * Formats the QR code so that a phone can read it: black on white, whatever the terminal's colours are.
 * Without colours it is unchanged, which most phones read on a dark background too.
 */
function formatCode(io: Io, text: string): string {
  const lines = text.split('\n').filter(line => line !== '')
  const width = lines[0]?.length ?? 0
  if (io.out.isTerminal && columnsOf(io) < width)
    return `(The code needs ${width} columns: make the window wider.)`
  if (!io.out.hasColours) return lines.join('\n')
  return lines.map(line => `\u001b[38;5;16;48;5;231m${line}\u001b[0m`).join('\n')
}

/**
 * Returns the error of a login that ended without a session.
 *
 * @param sandboxed true if the code was for the simulated phone
 * @param typed the input, for the command line to propose
 */
export function toLoginError(
  { notice, session, status }: LoginStatus,
  sandboxed: boolean,
  typed: { readonly session_name?: unknown; readonly force?: unknown } = {},
): SvcError {
  const isUnanswered = status === 'waiting' || status === 'scaned'
  const how =
    status === 'need_verifycode'
      ? 'Give it within two minutes, in the place of NUMBER; or type it in a terminal when it asks.'
      : status === 'already_bound' && sandboxed
        ? 'On the phone press Add under People, then log in again and scan as that person.'
        : 'Log in again for a new code.'
  const name = session === defaultSessionName && !typed.session_name ? [] : [session]
  const force = typed.force === true ? ['--force'] : []
  const code = status === 'need_verifycode' ? ['--verify-code', 'NUMBER'] : []
  const command = ['login', ...name, ...force, ...code]
  return new SvcError(
    isUnanswered ? 'upstream_timeout' : 'not_connected',
    (notice && endTexts[notice]) ?? endTexts[status] ?? 'nothing happened on the phone in time',
    { hint: how, next: { action: 'run', command } },
  )
}

const endTexts: { readonly [E in LoginStatus['status'] | LoginNotice]?: string } = {
  need_verifycode: 'the phone shows a number that must be typed here',
  verify_code_blocked: 'too many wrong numbers were typed',
  expired: 'the QR code has run out',
  already_bound: 'the scanned account is connected here already, under another session; nothing was changed',
  called_off: 'the login was called off',
  failed: 'the login could not be finished; the log has the details',
}
