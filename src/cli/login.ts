/** `svc login`: the code to scan, what becomes of it, and how it ended. */
import { SvcError } from '../model/error.ts'
import type { LoginNotice, LoginStatus } from '../model/login.ts'
import { adviceOf } from '../model/next-step.ts'
import { defaultSessionName } from '../model/session.ts'
import { forgetLogin } from '../operations/accounts.ts'
import { verbs } from '../operations/tools.ts'
import { askPerson } from './ask.ts'
import { againFlags, wordingOf } from './command.ts'
import { asker, commandCall, openForCommand } from './open.ts'
import { isJson, jsonLine, printError } from './print.ts'
import { colours, columnsOf, type Io, oneLine } from './terminal.ts'
import type { Typed } from './view.ts'

/** Runs the command; with --json each change of the status is one line. */
export async function runLogin({ command, config, input, line }: Typed): Promise<void> {
  const { io } = command
  const json = isJson(command)
  const typed = askPerson(io, () => call.signal, { silent: json })
  let given = input.verify_code === undefined ? undefined : String(input.verify_code)
  using call = commandCall(io, {
    async ask(question) {
      const code = given
      given = undefined
      return code ?? (await typed(question))
    },
  })
  try {
    await using opened = await openForCommand(config, io, { makes: true })
    const { phoneUrl } = opened
    const ask = asker(opened, call)
    const print = loginPrinter(io, phoneUrl)
    // A new code is wanted, not how an earlier login ended; digits are for the one that asked for them.
    if (given === undefined) await ask(forgetLogin, { session: String(input.session_name ?? '') })
    const status = await followLogin(
      {
        signal: call.signal,
        call: next => ask(verbs.login, next),
      },
      // Without a name this is not the login that somebody else has under way.
      { session_name: defaultSessionName, ...input },
      async status => {
        if (status.status === 'confirmed') line.done = 'logged in'
        if (json) await io.out.write(`${jsonLine(status)}\n`)
        else await print(status)
      },
    )
    if (status.status === 'confirmed') {
      if (!json) await io.err.write(next(status, againFlags(command), phoneUrl !== undefined))
    } else if (!call.cutBy) {
      line.status = 1
      const error = loginFailure(status, phoneUrl !== undefined, input)
      printError(io.err, error, adviceOf(error, wordingOf(command)), json)
    }
  } catch (error) {
    if (!call.cutBy) throw error
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

/** One call waits this long. A change that another caller was told of, ours hears only at its end. */
const waitS = 1

/**
 * Follows a login to its end.
 *
 * @param call calls the tool login
 * @param input of the tool login; with `timeout` it is given up when nothing changes for so long
 * @param each is told of every status that is new, the first one included
 * @returns the last status; one that is not final when it was given up or the signal came
 */
export async function followLogin(
  { call, signal }: { call(input: Record<string, unknown>): Promise<LoginStatus>; signal: AbortSignal },
  input: Readonly<Record<string, unknown>>,
  each: (status: LoginStatus) => Promise<void>,
): Promise<LoginStatus> {
  const { timeout, verify_code: _code, ...rest } = input
  const patienceMs = timeout === undefined ? Number.POSITIVE_INFINITY : Number(timeout) * 1000
  let status = await call({ ...rest, timeout: Math.min(waitS, patienceMs / 1000) })
  await each(status)
  let changedAt = performance.now()
  while (!isOver(status) && !signal.aborted) {
    const leftMs = patienceMs - (performance.now() - changedAt)
    // Asked for digits and got none, or nobody did anything for as long as the caller wanted to wait.
    if (status.status === 'need_verifycode' || leftMs <= 0) break
    const next = await call({
      ...{ ...rest, session_name: status.session },
      timeout: Math.min(waitS, leftMs / 1000),
    })
    const changed = next.status !== status.status || next.qr_url !== status.qr_url
    status = next
    if (!changed) continue
    changedAt = performance.now()
    await each(status)
  }
  return status
}

/** Nothing more will come of it; one that is being renewed still has a code to show. */
const isOver = (status: LoginStatus): boolean =>
  status.status === 'confirmed' || (status.qr_url === undefined && status.status !== 'waiting')

/** What each status says to the person; codes are drawn anew when they are. */
export function loginPrinter(io: Io, phoneUrl: string | undefined): (status: LoginStatus) => Promise<void> {
  const { write } = io.out
  let shown: string | undefined
  let said: string | undefined
  return async status => {
    const { dim, green, yellow } = colours
    if (status.qr_url !== undefined && status.qr_text !== undefined && status.qr_url !== shown) {
      if (shown !== undefined) await write(`\n${yellow('The code was used up; here is a new one.')}\n`)
      shown = status.qr_url
      await write(`\n${drawnCode(io, status.qr_text)}\n${dim(oneLine(status.qr_url))}\n\n`)
      await write(
        phoneUrl === undefined
          ? 'Scan this code with WeChat on the phone.\n'
          : `Scan this code on the simulated phone: open ${phoneUrl} and press "Scan and agree".\n`,
      )
      said = 'waiting'
    }
    if (status.status === said) return
    said = status.status
    const name = oneLine(status.session)
    const words: Readonly<Record<LoginStatus['status'], string>> = {
      waiting: 'waiting for the scan',
      scaned: 'scanned: now confirm on the phone',
      need_verifycode: 'the phone shows a number',
      verify_code_blocked: 'too many wrong numbers',
      expired: 'the code has run out',
      // Why, and what to do, stands in the error.
      already_bound: 'not logged in',
      confirmed: green(`connected: session ${name}${status.bot_id ? `, bot ${oneLine(status.bot_id)}` : ''}`),
    }
    await write(`${words[status.status]}\n`)
  }
}

/**
 * The code so that a phone can read it: black on white whatever the colours of the terminal are. Without colours as it
 * is, which most phones read on dark ground too.
 */
function drawnCode(io: Io, text: string): string {
  const lines = text.split('\n').filter(line => line !== '')
  const width = lines[0]?.length ?? 0
  if (io.out.isTerminal && columnsOf(io) < width)
    return `(The code needs ${width} columns: make the window wider.)`
  if (!io.out.hasColours) return lines.join('\n')
  return lines.map(line => `\u001b[38;5;16;48;5;231m${line}\u001b[0m`).join('\n')
}

/** Why a login that ended without a session did; `sandboxed`: on the simulated phone; `typed`: as it was asked for. */
export function loginFailure(
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
    (notice && ends[notice]) ?? ends[status] ?? 'nothing happened on the phone in time',
    { hint: how, next: { action: 'run', command } },
  )
}

const ends: { readonly [E in LoginStatus['status'] | LoginNotice]?: string } = {
  need_verifycode: 'the phone shows a number that must be typed here',
  verify_code_blocked: 'too many wrong numbers were typed',
  expired: 'the QR code has run out',
  already_bound: 'the scanned account is connected here already, under another session; nothing was changed',
  called_off: 'the login was called off',
  failed: 'the login could not be finished; the log has the details',
}
