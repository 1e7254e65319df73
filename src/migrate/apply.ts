/**
 * Carries out a plan: first the history, then the contexts and login of each session, then the default
 * session. Each step can be repeated: if a move was interrupted, run the same move again.
 */
import { join } from 'node:path'
import type { Config } from '../config.ts'
import { claimDirectory } from '../gateway/directory.ts'
import { dataFiles } from '../model/data-files.ts'
import { SvcError } from '../model/error.ts'
import type { Clock } from '../platform/clock.ts'
import { openLock } from '../platform/lock.ts'
import type { Log } from '../platform/log.ts'
import type { Sealer } from '../platform/sealing.ts'
import { openSealer } from '../storage/sqlite/secret-state.ts'
import { type AdoptResult, adopt } from '../storage/sqlite/state/adopt.ts'
import { openState } from '../storage/sqlite/state/state.ts'
import { openSqliteStore } from '../storage/sqlite/store.ts'
import { createTally, type MovePlan, type PlannedSession } from './plan.ts'
import { MoveFindings } from './source.ts'

/** Result of a move. */
export interface MoveResult {
  /** Results by the session's name in svc. */
  sessions: Map<string, AdoptResult | { failed: string }>
  history: {
    /** Messages that are new in svc. */
    added: number
    /** Messages left out, since svc's retention would remove them immediately. */
    leftOut: number
  }
  findings: MoveFindings
}

/**
 * Carries out a plan.
 *
 * @throws SvcError `invalid_arguments`, `store_unavailable` if the data directory cannot be used;
 * `poll_lock_held` if WeiLink is still polling (for OpenClaw this cannot be checked)
 */
export async function applyMove(
  plan: MovePlan,
  { config, clock, log }: { config: Config; clock: Clock; log: Log },
): Promise<MoveResult> {
  if (plan.running && plan.program === 'weilink') {
    throw new SvcError('poll_lock_held', `WeiLink is running on ${plan.from} and polls`, {
      hint: 'Stop it, then try again. --dry-run works while it runs.',
    })
  }
  await claimDirectory({ basePath: config.basePath, sandbox: false })
  const sealer = await openSealer(config.basePath, config.secretKey, log)
  await using lock = await openLock(join(config.basePath, dataFiles.dataLock))
  const applied: MoveResult = {
    sessions: new Map(),
    history: { added: 0, leftOut: 0 },
    findings: new MoveFindings(),
  }
  await moveHistory(plan, applied, { config, clock, log, sealer })
  const state = openState({ dir: config.basePath, lock, log: log.child('state'), sealer })
  for (const planned of plan.sessions) {
    applied.sessions.set(planned.name, await moveSession(planned, applied))
  }
  if (plan.defaultSession !== undefined && (await state.sessions.getDefaultName()) === undefined) {
    await state.sessions.setDefault(plan.defaultSession).catch(error => {
      if (!(error instanceof SvcError && error.code === 'session_not_found')) throw error
    })
  }
  return applied

  async function moveSession(planned: PlannedSession, { findings }: MoveResult) {
    const { name, action, source } = planned
    const { bot_id, token, base_url, user_id, cursor, created_at = clock.now() } = source
    const bot = { bot_id, token, base_url, ...(user_id !== undefined && { user_id }), cursor, created_at }
    try {
      return await adopt(state, lock, { name, bot, renews: action === 'renewed', users: source.users })
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'session_exists') throw error
      findings.addProblem(error.message, error.hint)
      return { failed: error.message }
    }
  }
}

async function moveHistory(
  { history, sessionOf }: MovePlan,
  applied: MoveResult,
  { config, clock, log, sealer }: { config: Config; clock: Clock; log: Log; sealer: Sealer },
): Promise<void> {
  if (!history || history.rows === 0) return
  const store = await openSqliteStore({
    path: join(config.basePath, dataFiles.store),
    clock,
    log: log.child('store'),
    sealer,
    maxAgeDays: 0,
    maxCount: 0,
  })
  const read = () => history.read(sessionOf, createTally())
  try {
    // Retention keeps the newest rows by number. Too many old rows would push out messages that were not
    // read yet.
    const maxRows = config.storeMaxCount === 0 ? Number.POSITIVE_INFINITY : config.storeMaxCount
    const free = Math.max(0, maxRows - (await store.intake.count()))
    let tooMany = 0
    if (history.rows > free) {
      let fresh = 0
      for (const page of read()) fresh += (await store.intake.has(page)).filter(known => !known).length
      tooMany = Math.max(0, fresh - free)
    }
    for (const page of read()) {
      let batch = page
      if (applied.history.leftOut < tooMany) {
        const known = await store.intake.has(page)
        batch = page.filter((_message, nth) => {
          if (applied.history.leftOut >= tooMany || known[nth]) return true
          applied.history.leftOut += 1
          return false
        })
      }
      applied.history.added += await store.intake.add(batch)
      // Lets other work of this process run between two pages.
      await clock.sleep(0)
    }
  } finally {
    await store.maintenance.close()
  }
  if (applied.history.leftOut > 0) {
    applied.findings.addProblem(
      `oldest messages that were not moved: ${applied.history.leftOut}. svc keeps at most ${config.storeMaxCount}`,
      'To have them, move again with --store-max-count 0, and start svc with the same option.',
    )
  }
}
