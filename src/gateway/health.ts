/** The health of a gateway. Any caller may read it, so it contains no paths. */
import { type Static, Type } from '@sinclair/typebox'
import { SvcError } from '../model/error.ts'
import { flag, integer, oneOf, optional } from '../model/shapes.ts'
import type { Directory, Receive } from './rooms.ts'

export const Health = Type.Object(
  {
    status: oneOf(
      ['ok', 'degraded'],
      'degraded: the store fails, the poller is stalled, the disk is nearly full, or an account is not connected or its polls fail.',
    ),
    version: Type.String(),
    role: oneOf(['poller', 'watcher'], 'watcher: another process polls, this one follows the store.'),
    stalled: flag('For a watcher: the polling process keeps its lock but does not respond.'),
    sessions: Type.Integer(),
    connected: Type.Integer(),
    failing: optional(
      integer('Number of accounts whose polls have failed for 30 s or more; absent if there are none.'),
    ),
    store: oneOf(['ok', 'unavailable']),
    disk: oneOf(
      ['ok', 'low'],
      'low: the free space is below what is reserved for messages. Uploads and downloads are rejected; messages are still stored.',
    ),
    trouble: optional(
      Type.Object(
        { message: Type.String(), hint: Type.String() },
        { description: 'Only if the store is unavailable: what is wrong, and what to do.' },
      ),
    ),
  },
  { description: 'The health of the service.' },
)
export type Health = Static<typeof Health>

export async function healthOf(
  version: string,
  { space, state, store }: Directory,
  { pollingRole, poller }: Receive,
): Promise<Health> {
  // A directory that cannot be read is reported as a problem, not thrown.
  const found = await state.sessions.list().catch(error => ({ error }))
  const all = 'error' in found ? [] : found
  let [connected, failing] = [0, 0]
  for (const { bot } of all) {
    if (bot && bot.expired_at === undefined) connected++
    if (bot?.failing_since !== undefined) failing++
  }
  const trouble =
    'error' in found
      ? unreadableError(found.error)
      : ((await store.maintenance.checkWritable()) ?? (poller.isStuck ? stuckError() : undefined))
  const disk = (await space.isLow()) ? 'low' : 'ok'
  const isWell =
    !trouble && !pollingRole.isPollerStalled && connected === all.length && failing === 0 && disk === 'ok'
  return {
    status: isWell ? 'ok' : 'degraded',
    version,
    role: pollingRole.role,
    stalled: pollingRole.isPollerStalled,
    sessions: all.length,
    connected,
    ...(failing > 0 && { failing }),
    store: trouble ? 'unavailable' : 'ok',
    disk,
    ...(trouble && { trouble: { message: trouble.message, hint: trouble.hint } }),
  }
}

// Only errors written for callers: other errors may contain paths, and anybody may read the health.
const unreadableError = (error: unknown): SvcError =>
  error instanceof SvcError ? error : new SvcError('store_unavailable', 'the data directory cannot be read')

const stuckError = (): SvcError =>
  new SvcError('store_unavailable', 'messages that were received cannot be stored', {
    hint: 'Look at the log of svc for why; it tries again by itself.',
  })
