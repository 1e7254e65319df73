/** The health of a gateway. Any caller may read it, so it contains no paths. */
import { type Static, Type } from '@sinclair/typebox'
import { SvcError } from '../model/error.ts'
import { isConnected, sessionStatusOf } from '../model/session.ts'
import { flag, oneOf, optional } from '../model/shapes.ts'
import { waitForAbort } from '../platform/signals.ts'
import type { Tasks } from '../platform/tasks.ts'
import type { Directory } from './foundations.ts'
import type { Receive } from './rooms.ts'

export const Health = Type.Object(
  {
    status: oneOf(
      ['ok', 'degraded'],
      'degraded: the store fails or is slow, the poller is stalled, the disk is nearly full, or an account is not connected or its polls fail, or work in the background fails.',
    ),
    version: Type.String(),
    role: oneOf(['poller', 'watcher'], 'watcher: another process polls, this one follows the store.'),
    stalled: flag('For a watcher: the polling process keeps its lock but does not respond.'),
    sessions: Type.Integer(),
    connected: Type.Integer(),
    failing: optional.integer(
      'Number of accounts whose polls have failed for 30 s or more; absent if there are none.',
    ),
    failing_tasks: optional(
      Type.Array(Type.String(), {
        description: 'Names of the tasks in the background that fail; absent if there are none.',
      }),
    ),
    store: oneOf(['ok', 'unavailable']),
    draining: optional.flag(
      'The process was asked to stop, and still answers: send calls elsewhere. Absent otherwise.',
    ),
    disk: oneOf(
      ['ok', 'low'],
      'low: the free space is below what is reserved for messages. Uploads and downloads are rejected; messages are still stored.',
    ),
    trouble: optional(
      Type.Object(
        { message: Type.String(), hint: Type.String() },
        { description: 'Only if the store is unavailable or slow: what is wrong, and what to do.' },
      ),
    ),
  },
  { description: 'The health of the service.' },
)
export type Health = Static<typeof Health>

/** Longest wait for a list of sessions: `svc health` waits 2 s for everything. */
const patienceMs = 1700
/** A commit that takes longer makes everything slow. */
const slowMs = 800
const databaseHint = 'Check that the database can be reached and is not overloaded; svc recovers by itself.'

export async function healthOf(
  version: string,
  { node, space, state, store }: Directory,
  { pollingRole, poller }: Receive,
  tasks: Pick<Tasks, 'listFailing'>,
): Promise<Health> {
  // A directory that cannot be read is reported as a problem, not thrown.
  const listing = state.sessions.list().catch(error => ({ error }))
  const checking = store.maintenance.checkWritable()
  // A database that is away answers nothing for seconds. Callers of the health do not wait as long.
  const checked = checking.then(error => (error ? { error } : listing))
  const late = AbortSignal.timeout(patienceMs)
  const found = await (node
    ? Promise.race([listing, checked, waitForAbort(late).then(() => ({ error: lateError() }))])
    : listing)
  const all = 'error' in found ? [] : found
  const connected = all.filter(({ bot }) => isConnected(sessionStatusOf(bot))).length
  const failing = all.filter(({ bot }) => bot?.failing_since !== undefined).length
  const trouble =
    'error' in found
      ? unreadableError(found.error)
      : ((await checking) ??
        (poller.isStuck ? stuckError() : node?.leaseLeftMs === 0 ? leaseError() : undefined))
  const disk = (await space.isLow()) ? 'low' : 'ok'
  const slow = trouble || !node || node.commitMs < slowMs ? undefined : slowError(node.commitMs)
  const said = trouble ?? slow
  const failingTasks = tasks.listFailing().map(({ name }) => name)
  const isWell =
    !said &&
    failingTasks.length === 0 &&
    !pollingRole.isPollerStalled &&
    connected === all.length &&
    failing === 0 &&
    disk === 'ok'
  return {
    status: isWell ? 'ok' : 'degraded',
    version,
    role: pollingRole.role,
    stalled: pollingRole.isPollerStalled,
    sessions: all.length,
    connected,
    ...(failing > 0 && { failing }),
    ...(failingTasks.length > 0 && { failing_tasks: failingTasks }),
    store: trouble ? 'unavailable' : 'ok',
    ...(pollingRole.isEnding && { draining: true }),
    disk,
    ...(said && { trouble: { message: said.message, hint: said.hint } }),
  }
}

// Only errors written for callers: other errors may contain paths, and anybody may read the health.
const unreadableError = (error: unknown): SvcError =>
  error instanceof SvcError ? error : unavailable('the data directory cannot be read')

const unavailable = (problem: string, hint?: string) =>
  new SvcError('store_unavailable', problem, hint === undefined ? {} : { hint })

const stuckError = () =>
  unavailable(
    'messages that were received cannot be stored',
    'Look at the log of svc for why; it tries again by itself.',
  )
const lateError = () => unavailable('the database does not answer', databaseHint)
const slowError = (ms: number) =>
  unavailable(`the database is slow: a commit took ${(ms / 1000).toFixed(1)} s`, databaseHint)
const leaseError = () => unavailable('this node cannot renew its lease, so it polls nothing', databaseHint)
