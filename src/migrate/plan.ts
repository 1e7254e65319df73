/** Plans a move: reads the other program's folder and svc's data directory, and changes nothing. */
import { join } from 'node:path'
import { badArgument, SvcError } from '../model/error.ts'
import { readText } from '../platform/files.ts'
import { formatCount } from '../platform/format.ts'
import type { AdoptResult } from '../storage/sqlite/state/adopt.ts'
import { readOpenClaw } from './openclaw.ts'
import {
  type HistoryTally,
  type MoveFinding,
  type MoveFindings,
  type PastConversation,
  type Program,
  programNames,
  type Source,
  type SourceHistory,
  type SourceSession,
} from './source.ts'
import { inspectTarget, type Target, type TargetSession, takeFreeName, toSafeSessionName } from './target.ts'
import { isWeiLinkPolling, readWeiLink } from './weilink.ts'

/**
 * `added`: a new session; `kept`: svc already has this login; `renewed`: svc has an older login of the same
 * bot.
 */
type SessionAction = AdoptResult['login']

/** A session to move. Contains secrets. */
export interface PlannedSession {
  source: SourceSession
  /** Name of the session in svc. */
  name: string
  action: SessionAction
}

export interface PlanOptions {
  program: Program
  /** Folder of the other program. */
  from: string
  /** Data directory of svc. */
  into: string
  /** Base URL of the messaging API for a session without one. */
  upstreamUrl: string
  /** Secret key of the data directory, if it has one. */
  secretKey?: string | undefined
  /** Unix ms. */
  now: number
  storeMaxAgeDays: number
}

/** The whole plan. It keeps a copy of the history open until it is disposed. */
export interface MovePlan extends AsyncDisposable {
  program: Program
  from: string
  into: string
  sessions: PlannedSession[]
  /** Name in svc of the new default session; undefined if svc has one already. */
  defaultSession?: string
  history?: SourceHistory
  tally: HistoryTally
  /** Returns the session in svc for a bot's messages. */
  sessionOf(botId: string): string
  /** True if the other program seems to run now. */
  running: boolean
  findings: readonly MoveFinding[]
}

export const createTally = (): HistoryTally => ({ received: 0, sent: 0, damaged: 0, empty: 0, mediaLost: 0 })

/**
 * Plans a move.
 *
 * @throws SvcError `not_found` if the folder has no data of the program, `invalid_arguments` for a data
 * directory that cannot be the target, `store_unavailable` if the source is being written to; the system's
 * error
 */
export async function planMove(options: PlanOptions): Promise<MovePlan> {
  const { program, from, into, now } = options
  await rejectOwnDirectory(from)
  const read = program === 'weilink' ? readWeiLink : readOpenClaw
  const source = await read(from, now)
  if (!source) {
    throw new SvcError('not_found', `${from} has no data of ${programNames[program]}`, {
      hint: 'Name its data folder with --from.',
    })
  }
  try {
    const target = await inspectTarget(options)
    const { findings } = source
    const sessions = planSessions(source, target, findings, options)
    const sessionOf = planHistory(source, sessions, target, findings)
    const tally = createTally()
    if (source.history) reportHistory(source.history, sessionOf, tally, findings, options)
    const running = program === 'weilink' && (await isWeiLinkPolling(from)) === true
    reportPoller(program, running, findings)
    const defaultSession = chooseDefault(source, sessions, target, findings)
    return {
      program,
      from,
      into,
      sessions,
      tally,
      sessionOf,
      running,
      findings: findings.list,
      defaultSession,
      ...(source.history && { history: source.history }),
      [Symbol.asyncDispose]: async () => source.history?.close(),
    }
  } catch (error) {
    await source.history?.close()
    throw error
  }
}

/**
 * Rejects svc's own data directory, which resembles WeiLink's. Only svc writes the kind of lock into its
 * lock file.
 */
async function rejectOwnDirectory(from: string): Promise<void> {
  const kind = (await readText(join(from, '.data.lock')).catch(() => undefined))?.split('\n')[0] ?? ''
  if (!/^(flock|lockfile)$/.test(kind)) return
  throw badArgument('--from', `${from} is a data directory of svc itself`, {
    hint: 'You need not move it: use it with -d, or copy the whole folder while svc does not run.',
  })
}

/** Plans one session per bot: its newest login. */
function planSessions(
  { sessions, program }: Source,
  target: Target,
  findings: MoveFindings,
  { upstreamUrl }: PlanOptions,
): PlannedSession[] {
  const planned: PlannedSession[] = []
  const newestFirst = [...sessions].sort((a, b) => (b.created_at ?? 0) - (a.created_at ?? 0))
  for (const found of sessions) {
    const newest = newestFirst.find(({ bot_id }) => bot_id === found.bot_id)
    if (newest !== found) {
      findings.addNote(
        `session "${found.name}" has the same bot as "${newest?.name}", whose login is newer: only the newer one is moved`,
      )
      continue
    }
    const source = { ...found, base_url: baseUrlOf(found, upstreamUrl, findings) }
    const known = target.sessions.find(({ bot_id }) => bot_id === found.bot_id)
    if (known) {
      planned.push({ source, name: known.name, action: actionOf(known, source) })
      if (known.name !== found.name) {
        findings.addNote(`"${found.name}" is the session "${known.name}" in svc, which has the same bot`)
      }
      continue
    }
    const safe = toSafeSessionName(found.name)
    const name = takeFreeName(safe, target.taken)
    planned.push({ source, name, action: 'added' })
    if (name === found.name.normalize('NFC')) continue
    const why =
      safe === name ? 'svc does not allow its name' : `svc has something else under the name "${safe}"`
    findings.addWarning(
      `${programNames[program]}'s session "${found.name}" will be "${name}" in svc: ${why}`,
      'You can rename it with rename_session.',
    )
  }
  return planned
}

/** If two tokens of one bot differ, only the newer login works. */
function actionOf(known: TargetSession, source: SourceSession): SessionAction {
  if (known.token === source.token) return 'kept'
  return known.expired_at !== undefined || (source.created_at ?? 0) > known.created_at ? 'renewed' : 'kept'
}

function baseUrlOf({ name, base_url }: SourceSession, upstreamUrl: string, findings: MoveFindings): string {
  if (/^https?:\/\/[^/]/i.test(base_url) && URL.canParse(base_url)) return base_url.replace(/\/+$/, '')
  if (base_url !== '') {
    findings.addWarning(`session "${name}": its API address cannot be used; it gets ${upstreamUrl}`)
  }
  return upstreamUrl
}

/**
 * Assigns messages to the session of their bot. A login creates a new bot. So messages of an earlier bot go
 * to the session with the same users. If there is no such session, they go to a session named after the bot.
 */
function planHistory(
  source: Source,
  planned: readonly PlannedSession[],
  target: Target,
  findings: MoveFindings,
): (botId: string) => string {
  const names = new Map(target.sessions.map(({ bot_id, name }) => [bot_id, name]))
  for (const { source: session, name } of planned) names.set(session.bot_id, name)
  const orphans = new Map<string, PastConversation[]>()
  for (const conversation of source.history?.conversations ?? []) {
    if (!names.has(conversation.bot_id))
      orphans.set(conversation.bot_id, [...(orphans.get(conversation.bot_id) ?? []), conversation])
  }
  for (const [botId, conversations] of orphans) {
    const people = conversations.sort((a, b) => b.messages - a.messages).map(({ user_id }) => user_id)
    const heir =
      people.map(user => planned.find(({ source: { user_id } }) => user_id === user)).find(Boolean) ??
      people.map(user => planned.find(({ source: { users } }) => users.has(user))).find(Boolean)
    const name = heir?.name ?? takeFreeName(toSafeSessionName(botId.split('@')[0] || 'unknown'), target.taken)
    names.set(botId, name)
    const count = conversations.reduce((sum, { messages }) => sum + messages, 0)
    findings.addNote(
      `messages of a bot without a session (${botId || 'its id is unknown'}): ${count}. They are assigned to "${name}"${heir ? ', which has the same users' : ''}`,
    )
  }
  return botId => names.get(botId) ?? 'unknown'
}

const dayMs = 24 * 60 * 60_000

/** Reads the whole history once, so that losses are known before anything is written. */
function reportHistory(
  history: SourceHistory,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
  findings: MoveFindings,
  { program, now, storeMaxAgeDays }: PlanOptions,
): void {
  let old = 0
  for (const page of history.read(sessionOf, tally)) {
    for (const { timestamp } of page) if (timestamp < now - storeMaxAgeDays * dayMs) old += 1
  }
  if (tally.damaged > 0) {
    findings.addProblem(
      `damaged messages: ${tally.damaged}. Their text, user and time are moved, their media and quotes are not`,
    )
  }
  if (tally.mediaLost > 0) {
    findings.addWarning(
      `messages whose media address is missing: ${tally.mediaLost}. Their media cannot be downloaded`,
    )
  }
  if (tally.empty > 0) {
    findings.addNote(
      `messages without content, since ${programNames[program]} did not understand them: ${tally.empty}. They are moved as UNKNOWN`,
    )
  }
  if (storeMaxAgeDays > 0 && old > 0) {
    const until = new Date(now + storeMaxAgeDays * dayMs).toISOString().slice(0, 10)
    findings.addWarning(
      `messages older than ${formatCount(storeMaxAgeDays, 'day')}: ${old}. svc counts from the day of the move, and removes them after ${until}`,
      'To keep them, start svc with --store-max-age-days 0.',
    )
  }
}

/** Warns about a second poller: two programs that poll one bot take messages from each other. */
function reportPoller(program: Program, running: boolean, findings: MoveFindings): void {
  const name = programNames[program]
  findings.addWarning(
    running
      ? `${name} is running and polls`
      : `${name} must no longer use these accounts: two programs that poll one bot take messages from each other`,
    program === 'weilink'
      ? 'Stop WeiLink before svc starts, and remove it from every MCP client and service that starts it.'
      : "Stop OpenClaw's gateway, or remove its WeChat channel, before svc starts.",
  )
}

function chooseDefault(
  source: Source,
  planned: readonly PlannedSession[],
  target: Target,
  findings: MoveFindings,
): string | undefined {
  const chosen = planned.find(({ source: { name } }) => name === source.defaultSession)
  if (target.defaultSession === undefined) {
    // If no default was chosen, the oldest login is the default, in WeiLink and in svc. It is stored, so
    // that a later login does not change it.
    const age = ({ source: { created_at } }: PlannedSession) => created_at ?? Number.MAX_SAFE_INTEGER
    return (chosen ?? [...planned].sort((a, b) => age(a) - age(b))[0])?.name
  }
  if (!chosen || target.defaultSession === chosen.name) return undefined
  findings.addNote(
    `svc keeps its own default session; ${programNames[source.program]}'s is "${chosen.name}"`,
    'You can change it with set_default.',
  )
  return undefined
}
