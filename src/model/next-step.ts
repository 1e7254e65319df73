/** What to do next after an error: as data, and worded for each door. */

/** A user who has a given name. */
export interface UserWithName {
  readonly session: string
  readonly user_id: string
}

/** An action with its arguments. */
export type NextStep =
  /** Log a session in, or log it in again. */
  | { action: 'login'; session?: string }
  /** Run a command of svc, given as a list of words. */
  | { action: 'run'; command: readonly string[] }
  /** Look up names, ids or arguments. */
  | { action: 'see'; what: 'sessions' | 'messages' | 'media' | 'users' | 'webhooks' | 'keys' | 'arguments' }
  /** Look up the messages that wait to go out, or that wait for approval. */
  | { action: 'see'; what: 'outbox' | 'approvals' }
  /** Look up what there is to call. */
  | { action: 'see'; what: 'paths' }
  /** Choose one of several users, by the session or by the id. */
  | { action: 'say which user'; users: readonly UserWithName[] }
  /** Provide a file in a form that works from where the caller is. */
  | { action: 'upload' }
  /** Queue the message in the outbox until it may go. */
  | { action: 'queue' }
  /** Repeat the call after the error's `retryAfter`. */
  | { action: 'wait' }

/**
 * The door of the caller. `http`: a program that calls the REST API. `panel`: one that calls the panel's API.
 * `mcp`: an agent on another machine. `local`: an agent whose client started svc on this machine. `cli`: a person
 * or script that typed a command. `library`: a program that holds an `Svc`.
 */
export type Door = 'http' | 'panel' | 'mcp' | 'local' | 'cli' | 'library'

/** How a door words its advice. */
export interface Wording {
  readonly door: Door
  /** Formats a command of svc as it can be typed there. */
  command(words: readonly string[]): string
  /** The command whose help lists every argument. */
  readonly help?: string
}

/** Returns the wording of a door that types commands as they are. */
export const plainWordingOf = (door: Door): Wording => ({
  door,
  command: words => ['svc', ...words].join(' '),
})

/** The part of an error that the advice needs. */
interface AdvisedError {
  /** `hint` is right at every door, and comes first. */
  readonly advice: { readonly hint?: string; readonly next?: NextStep }
  /** Seconds. */
  readonly retryAfter?: number
}

/** Returns what to do next after an error, worded for a door. */
export function adviceOf(
  { advice: { hint, next }, retryAfter }: AdvisedError,
  wording: Wording = plainWordingOf('http'),
): string {
  const { door } = wording
  const own = door === 'library' ? libraryAdviceOf : door === 'panel' ? inPanel : undefined
  const step = next && (own?.(next) ?? stepOf(next, wording, retryAfter))
  return [hint, step].filter(Boolean).join(' ')
}

/** Returns the library call in place of a tool or URL; undefined for advice that is the same at all doors. */
function libraryAdviceOf(next: NextStep): string | undefined {
  switch (next.action) {
    case 'login': {
      const loginOptions =
        next.session === undefined ? '' : `{ session_name: ${JSON.stringify(next.session)} }`
      return `Log in with svc.login(${loginOptions}), then call again.`
    }
    case 'see':
      return libraryHints[next.what]
    case 'queue':
      return "With when_closed: 'queue' the message is queued until then, if there is a store."
    default:
      return undefined
  }
}

const libraryHints: { readonly [What in Extract<NextStep, { action: 'see' }>['what']]?: string } = {
  sessions: 'svc.sessions() lists the names.',
  messages: 'svc.history() and svc.recv() show message ids.',
  users: 'svc.users() lists the users.',
  webhooks: 'svc.webhooks.list() shows the ids.',
  keys: 'svc.keys.list() shows the ids.',
  outbox: 'svc.outbox.list() shows what waits.',
  approvals: 'svc.outbox.list() shows what waits.',
  arguments: 'Correct the named field; the types of the package show every argument.',
}

/** What is called at the address of the panel, which has no tools; the rest is the same there. */
function inPanel(next: NextStep): string | undefined {
  switch (next.action) {
    case 'login':
      return 'Log in with POST /api/call/start_login, then call again.'
    case 'see':
      return seenInPanel[next.what]
    case 'upload':
      return 'You can upload the file with POST /api/media and pass its upload_id.'
    case 'wait':
      return 'Wait for retry_after seconds, then call once.'
    default:
      return undefined
  }
}

const seenInPanel: typeof libraryHints = {
  sessions: 'POST /api/call/list_accounts shows the names.',
  messages: 'POST /api/call/list_messages shows message ids.',
  users: 'POST /api/call/list_users lists the users.',
  webhooks: 'POST /api/call/list_webhooks shows the ids.',
  keys: 'POST /api/call/list_keys shows the ids.',
  outbox: 'POST /api/call/list_outbox shows what waits.',
  approvals: 'POST /api/call/list_outbox shows what waits.',
  arguments: 'Correct the named field; /docs shows every argument.',
  paths: 'See /docs for what exists.',
}

function stepOf(next: NextStep, { door, command, help }: Wording, retryAfter: number | undefined): string {
  const isCli = door === 'cli'
  const isHere = isCli || door === 'local' || door === 'library'
  switch (next.action) {
    case 'login':
      return isCli
        ? `Log in with ${command(['login', ...(next.session === undefined ? [] : [next.session])])}, then try again.`
        : `Log in${next.session === undefined ? '' : ` session "${next.session}"`} with the tool login, then call again.`
    case 'run':
      return `Run ${command(next.command)}.`
    case 'see':
      switch (next.what) {
        case 'sessions':
          return isCli ? `${command(['sessions'])} shows the names.` : 'Call sessions to see the names.'
        case 'messages':
          return isCli
            ? `${command(['history', '--json'])} shows the ids.`
            : 'Call history or recv to see message ids.'
        case 'media':
          return isCli
            ? `${command(['history'])} shows which messages have media.`
            : 'Choose a message whose items have has_media true.'
        case 'outbox':
        case 'approvals':
          return `${isHere ? command([next.what]) : 'GET /outbox'} shows what waits.`
        case 'webhooks':
          return `${isHere ? command(['webhook']) : 'GET /webhooks'} shows the ids.`
        case 'keys':
          return `${isHere ? command(['key']) : 'GET /keys'} shows the ids.`
        case 'users':
          if (isCli) return `${command(['users'])} lists the users.`
          return door === 'http'
            ? 'GET /users lists the users.'
            : 'Take from_user of a message that recv or history returned, or read the resource svc://users.'
        case 'paths':
          return isCli
            ? 'svc --help lists the commands.'
            : 'See /docs for what exists, or GET /tools for the tools.'
        case 'arguments':
          if (isCli) return `See ${help ?? 'svc --help'}.`
          return `Correct the named field; ${door === 'http' ? '/docs' : "the tool's input schema"} shows every argument.`
      }
      break
    case 'say which user': {
      const users = next.users.map(({ session, user_id }) => `${user_id} of ${session}`).join(', ')
      const isOneSession = new Set(next.users.map(({ session }) => session)).size === 1
      if (isOneSession) return `Pass the user id: ${users}.`
      return `Name the session with ${isCli ? '-s' : 'the argument session'}, or pass the user id: ${users}.`
    }
    case 'upload':
      return isHere
        ? 'You can name a file by its path.'
        : 'You can upload the file with POST /media and pass its upload_id.'
    case 'queue':
      return `With ${isCli ? '--when-closed queue' : 'when_closed "queue"'} the message is queued until then.`
    case 'wait': {
      if (door === 'http') return 'Wait for retry_after seconds, then send once.'
      if (!isCli)
        return `Wait ${retryAfter === undefined ? 'some seconds' : `${retryAfter} s`}, then send once.`
      const when = retryAfter === undefined ? 'later' : `in ${retryAfter} s`
      return `Try again ${when}; --pace sets how fast you may send.`
    }
  }
}
