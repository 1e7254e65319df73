/** What to do next after an error, as data; and the words that each door has for it. */

/** One of those who have a name. */
export interface Bearer {
  readonly session: string
  readonly user_id: string
}

/** An action with its arguments. */
export type Next =
  /** Log a session in, or log it in again. */
  | { action: 'login'; session?: string }
  /** Run a command of svc, given as its words. */
  | { action: 'run'; command: readonly string[] }
  /** Look something up: names, ids, arguments. */
  | { action: 'see'; what: 'sessions' | 'messages' | 'media' | 'users' | 'webhooks' | 'arguments' }
  /** Look up what waits: to go out, or for a person to say yes. */
  | { action: 'see'; what: 'outbox' | 'approvals' }
  /** Say which of several users is meant, by the session or by the id. */
  | { action: 'say which user'; users: readonly Bearer[] }
  /** Give a file in the way that works from where the caller is. */
  | { action: 'upload' }
  /** Let the message wait in the outbox until it may go. */
  | { action: 'queue' }
  /** Repeat the call after the error's `retryAfter`. */
  | { action: 'wait' }

/**
 * Who is told: `http` a program that calls the REST API, `mcp` an agent elsewhere, `local` an agent whose client started
 * svc on this machine, `cli` a person or script that typed a command, `library` a program that holds a `Svc`.
 */
export type Door = 'http' | 'mcp' | 'local' | 'cli' | 'library'

/** How a door says things. */
export interface Wording {
  readonly door: Door
  /** A command of svc as one may type it there. */
  command(words: readonly string[]): string
  /** The command whose help shows every argument. */
  readonly help?: string
}

/** Commands without anything to add. */
export const plainly = (door: Door): Wording => ({ door, command: words => ['svc', ...words].join(' ') })

/** An error as far as the advice goes. */
interface Advised {
  /** `hint` is right at every door and comes first. */
  readonly advice: { readonly hint?: string; readonly next?: Next }
  /** Seconds. */
  readonly retryAfter?: number
}

/** What to do next after an error, in the words of a door. */
export function adviceOf(
  { advice: { hint, next }, retryAfter }: Advised,
  wording: Wording = plainly('http'),
): string {
  const own = next && wording.door === 'library' ? inProgram(next) : undefined
  const step = own ?? (next && stepOf(next, wording, retryAfter))
  return [hint, step].filter(Boolean).join(' ')
}

/** What a program calls in place of a tool or an address; the rest it is told as the others are. */
function inProgram(next: Next): string | undefined {
  switch (next.action) {
    case 'login': {
      const named = next.session === undefined ? '' : `{ session_name: ${JSON.stringify(next.session)} }`
      return `Log in with svc.login(${named}), then call again.`
    }
    case 'see':
      return seenBy[next.what]
    case 'queue':
      return "With when_closed: 'queue' the message waits for that by itself, where there is a store."
    default:
      return undefined
  }
}

const seenBy: { readonly [What in Extract<Next, { action: 'see' }>['what']]?: string } = {
  sessions: 'svc.sessions() lists the names.',
  messages: 'svc.history() and svc.recv() show message ids.',
  users: 'svc.users() lists the users.',
  webhooks: 'svc.webhooks.list() shows the ids.',
  outbox: 'svc.outbox.list() shows what waits.',
  approvals: 'svc.outbox.list() shows what waits.',
  arguments: 'Correct the named field; the types of the package show every argument.',
}

function stepOf(next: Next, { door, command, help }: Wording, retryAfter: number | undefined): string {
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
        case 'users':
          if (isCli) return `${command(['users'])} lists the users.`
          return door === 'http'
            ? 'GET /users lists the users.'
            : 'Take from_user of a message that recv or history returned, or read the resource svc://users.'
        case 'arguments':
          if (isCli) return `See ${help ?? 'svc --help'}.`
          return `Correct the named field; ${door === 'http' ? '/docs' : "the tool's input schema"} shows every argument.`
      }
      break
    case 'say which user': {
      const users = next.users.map(({ session, user_id }) => `${user_id} of ${session}`).join(', ')
      return `Say of which session with ${isCli ? '-s' : 'the argument session'}, or give the user id: ${users}.`
    }
    case 'upload':
      return isHere
        ? 'You can name a file by its path.'
        : 'You can upload the file with POST /media and pass its upload_id.'
    case 'queue':
      return `With ${isCli ? '--when-closed queue' : 'when_closed "queue"'} the message waits for that by itself.`
    case 'wait': {
      if (door === 'http') return 'Wait for retry_after seconds, then send once.'
      if (!isCli) return `Wait ${retryAfter ?? 'some'} seconds, then send once.`
      const when = retryAfter === undefined ? 'later' : `in ${retryAfter} s`
      return `Try again ${when}; --pace sets how fast you may send.`
    }
  }
}
