/** What a move would do: another program's folder read, our data directory looked at, nothing changed. */
import { join } from 'node:path'
import { badArgument, SvcError } from '../model/error.ts'
import { readText } from '../platform/files.ts'
import type { Adopted } from '../storage/sqlite/state/adopt.ts'
import { readOpenClaw } from './openclaw.ts'
import {
  type Conversation,
  type Finding,
  type Findings,
  type HistoryTally,
  type Program,
  programNames,
  type Source,
  type SourceHistory,
  type SourceSession,
} from './source.ts'
import { freeName, lookAtTarget, safeSessionName, type Target, type TargetSession } from './target.ts'
import { readWeiLink, weiLinkPolls } from './weilink.ts'

/** `added`: a new session; `kept`: svc has that login already; `renewed`: svc has an older login of that bot. */
type SessionAction = Adopted['login']

/** A session that comes over. Secret. */
export interface PlannedSession {
  source: SourceSession
  /** Of the session in svc. */
  name: string
  action: SessionAction
}

export interface PlanOptions {
  program: Program
  /** The folder of the other program. */
  from: string
  /** Our data directory. */
  into: string
  /** Of a session whose program does not say: the messaging API. */
  upstreamUrl: string
  /** Unix ms. */
  now: number
  storeMaxAgeDays: number
}

/** Everything a move will do. It holds a copy of the history open until `close`. */
export interface Plan extends AsyncDisposable {
  program: Program
  from: string
  into: string
  sessions: PlannedSession[]
  /** Name in svc of the default session, where svc has none yet. */
  defaultSession?: string
  history?: SourceHistory
  tally: HistoryTally
  /** The session in svc that a bot's messages belong to. */
  sessionOf(botId: string): string
  /** The other program works at this moment, as far as one can see. */
  running: boolean
  findings: readonly Finding[]
}

export const noTally = (): HistoryTally => ({ received: 0, sent: 0, damaged: 0, empty: 0, mediaLost: 0 })

/**
 * Plans the move.
 *
 * @throws SvcError `not_found` when there is nothing of the program's in the folder, `invalid_arguments` for a data
 *   directory that cannot be the target, `store_unavailable` when the source is being written to; the system's error
 */
export async function planMove(options: PlanOptions): Promise<Plan> {
  const { program, from, into, now } = options
  await refuseOurs(from)
  const read = program === 'weilink' ? readWeiLink : readOpenClaw
  const source = await read(from, now)
  if (!source) {
    throw new SvcError('not_found', `there is nothing of ${programNames[program]} in ${from}`, {
      hint: 'Name the folder where it keeps its data with --from.',
    })
  }
  try {
    const target = await lookAtTarget(into, from)
    const { findings } = source
    const sessions = planSessions(source, target, findings, options)
    const sessionOf = planHistory(source, sessions, target, findings)
    const tally = noTally()
    if (source.history) tellOfHistory(source.history, sessionOf, tally, findings, options)
    const running = program === 'weilink' && (await weiLinkPolls(from)) === true
    tellWhoRuns(program, running, findings)
    const defaultSession = defaultOf(source, sessions, target, findings)
    return {
      ...{ program, from, into, sessions, tally, sessionOf, running, findings: findings.list },
      defaultSession,
      ...(source.history && { history: source.history }),
      [Symbol.asyncDispose]: async () => source.history?.close(),
    }
  } catch (error) {
    await source.history?.close()
    throw error
  }
}

/** Ours looks much like WeiLink's. Only ours says in its lock file by which kind of lock it is held. */
async function refuseOurs(from: string): Promise<void> {
  const kind = (await readText(join(from, '.data.lock')).catch(() => undefined))?.split('\n')[0] ?? ''
  if (!/^(flock|lockfile)$/.test(kind)) return
  throw badArgument('--from', `${from} is a data directory of svc itself`, {
    hint: 'Nothing need be moved: use it with -d, or copy the whole folder while svc does not run.',
  })
}

/** One session per bot: the newest login of it. */
function planSessions(
  { sessions, program }: Source,
  target: Target,
  findings: Findings,
  { upstreamUrl }: PlanOptions,
): PlannedSession[] {
  const planned: PlannedSession[] = []
  const newestFirst = [...sessions].sort((a, b) => (b.created_at ?? 0) - (a.created_at ?? 0))
  for (const found of sessions) {
    const newest = newestFirst.find(({ bot_id }) => bot_id === found.bot_id)
    if (newest !== found) {
      findings.note(
        `session "${found.name}" has the same bot as "${newest?.name}", whose login is newer: only that one comes over`,
      )
      continue
    }
    const source = { ...found, base_url: baseUrlOf(found, upstreamUrl, findings) }
    const known = target.sessions.find(({ bot_id }) => bot_id === found.bot_id)
    if (known) {
      planned.push({ source, name: known.name, action: actionOn(known, source) })
      if (known.name !== found.name) {
        findings.note(`"${found.name}" is the session "${known.name}" in svc: it has that bot`)
      }
      continue
    }
    const safe = safeSessionName(found.name)
    const name = freeName(safe, target.taken)
    planned.push({ source, name, action: 'added' })
    if (name === found.name.normalize('NFC')) continue
    const why =
      safe === name ? 'its name is none that svc allows' : `svc has something else under the name "${safe}"`
    findings.warning(
      `${programNames[program]}'s session "${found.name}" will be "${name}" in svc: ${why}`,
      'rename_session gives it another name.',
    )
  }
  return planned
}

/** Two tokens of one bot: the login that is newer works. */
function actionOn(known: TargetSession, source: SourceSession): SessionAction {
  if (known.token === source.token) return 'kept'
  return known.expired_at !== undefined || (source.created_at ?? 0) > known.created_at ? 'renewed' : 'kept'
}

function baseUrlOf({ name, base_url }: SourceSession, upstreamUrl: string, findings: Findings): string {
  if (/^https?:\/\/[^/]/i.test(base_url) && URL.canParse(base_url)) return base_url.replace(/\/+$/, '')
  if (base_url !== '') {
    findings.warning(`session "${name}": its API address cannot be used; it gets ${upstreamUrl}`)
  }
  return upstreamUrl
}

/**
 * Messages go to the session that has their bot. A login makes a new bot, so those of earlier logins go to the session
 * of the same people, and those of nobody we know stand under the bot's own name.
 */
function planHistory(
  source: Source,
  planned: readonly PlannedSession[],
  target: Target,
  findings: Findings,
): (botId: string) => string {
  const names = new Map(target.sessions.map(({ bot_id, name }) => [bot_id, name]))
  for (const { source: session, name } of planned) names.set(session.bot_id, name)
  const orphans = new Map<string, Conversation[]>()
  for (const talk of source.history?.conversations ?? []) {
    if (!names.has(talk.bot_id)) orphans.set(talk.bot_id, [...(orphans.get(talk.bot_id) ?? []), talk])
  }
  for (const [botId, talks] of orphans) {
    const people = talks.sort((a, b) => b.messages - a.messages).map(({ user_id }) => user_id)
    const heir =
      people.map(user => planned.find(({ source: { user_id } }) => user_id === user)).find(Boolean) ??
      people.map(user => planned.find(({ source: { users } }) => users.has(user))).find(Boolean)
    const name = heir?.name ?? freeName(safeSessionName(botId.split('@')[0] || 'unknown'), target.taken)
    names.set(botId, name)
    const count = talks.reduce((sum, { messages }) => sum + messages, 0)
    findings.note(
      `messages of a bot that has no session any more (${botId || 'its id is unknown'}): ${count}. They stand under "${name}"${heir ? ', which has the same users' : ''}`,
    )
  }
  return botId => names.get(botId) ?? 'unknown'
}

const dayMs = 24 * 60 * 60_000

/** Goes through the whole history once, so that what is lost is known before anything is written. */
function tellOfHistory(
  history: SourceHistory,
  sessionOf: (botId: string) => string,
  tally: HistoryTally,
  findings: Findings,
  { program, now, storeMaxAgeDays }: PlanOptions,
): void {
  let old = 0
  for (const page of history.read(sessionOf, tally)) {
    for (const { timestamp } of page) if (timestamp < now - storeMaxAgeDays * dayMs) old += 1
  }
  if (tally.damaged > 0) {
    findings.problem(
      `damaged messages: ${tally.damaged}. Their text, user and time come over, media and quotes do not`,
    )
  }
  if (tally.mediaLost > 0) {
    findings.warning(
      `messages with media of which no address was kept: ${tally.mediaLost}. It cannot be downloaded`,
    )
  }
  if (tally.empty > 0) {
    findings.note(
      `messages of which nothing was kept, since ${programNames[program]} did not understand them: ${tally.empty}. They come over as UNKNOWN`,
    )
  }
  if (storeMaxAgeDays > 0 && old > 0) {
    const until = new Date(now + storeMaxAgeDays * dayMs).toISOString().slice(0, 10)
    findings.warning(
      `messages older than ${storeMaxAgeDays} days: ${old}. svc counts from the day of the move, and removes them after ${until}`,
      'To keep them, start svc with --store-max-age-days 0.',
    )
  }
}

/** Two programs that poll one bot take messages from each other. */
function tellWhoRuns(program: Program, running: boolean, findings: Findings): void {
  const name = programNames[program]
  findings.warning(
    running
      ? `${name} is running: it polls at this moment`
      : `${name} must not run on these accounts any more: two programs on one bot take messages from each other`,
    program === 'weilink'
      ? 'Stop WeiLink before svc starts, and take it out of every MCP client and service that starts it.'
      : "Stop OpenClaw's gateway, or take the WeChat channel out of it, before svc starts.",
  )
}

function defaultOf(
  source: Source,
  planned: readonly PlannedSession[],
  target: Target,
  findings: Findings,
): string | undefined {
  const chosen = planned.find(({ source: { name } }) => name === source.defaultSession)
  if (target.defaultSession === undefined) {
    // Where nothing was chosen the oldest login is meant, by WeiLink's rule and ours; noted, a later login does not take it.
    const age = ({ source: { created_at } }: PlannedSession) => created_at ?? Number.MAX_SAFE_INTEGER
    return (chosen ?? [...planned].sort((a, b) => age(a) - age(b))[0])?.name
  }
  if (!chosen || target.defaultSession === chosen.name) return undefined
  findings.note(
    `svc keeps its own default session; ${programNames[source.program]}'s is "${chosen.name}"`,
    'set_default changes it.',
  )
  return undefined
}
