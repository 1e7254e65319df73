/** How a gateway is: for callers, so it names no paths. */
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
    stalled: flag('Of a watcher: the polling process keeps its lock and shows no life.'),
    sessions: Type.Integer(),
    connected: Type.Integer(),
    failing: optional(
      integer('Of how many accounts the polls have failed for 30 s or more; absent when of none.'),
    ),
    store: oneOf(['ok', 'unavailable']),
    disk: oneOf(
      ['ok', 'low'],
      'low: less is free than is kept for messages. Uploads and downloads are refused; messages are still stored.',
    ),
    trouble: optional(
      Type.Object(
        { message: Type.String(), hint: Type.String() },
        { description: 'Only with a store that is unavailable: what is wrong and what to do.' },
      ),
    ),
  },
  { description: 'How the service is.' },
)
export type Health = Static<typeof Health>

export async function healthOf(
  version: string,
  { space, state, store }: Directory,
  { pollingRole, poller }: Receive,
): Promise<Health> {
  // A directory that cannot be read is trouble to report, not a reason to fail.
  const found = await state.sessions.list().catch(error => ({ error }))
  const all = 'error' in found ? [] : found
  let [connected, failing] = [0, 0]
  for (const { bot } of all) {
    if (bot && bot.expired_at === undefined) connected++
    if (bot?.failing_since !== undefined) failing++
  }
  const trouble =
    'error' in found
      ? unreadable(found.error)
      : ((await store.upkeep.trouble()) ?? (poller.stuck ? stuck() : undefined))
  const disk = (await space.isLow()) ? 'low' : 'ok'
  const isWell =
    !trouble && !pollingRole.stalled && connected === all.length && failing === 0 && disk === 'ok'
  return {
    status: isWell ? 'ok' : 'degraded',
    ...{ version, role: pollingRole.role, stalled: pollingRole.stalled, sessions: all.length, connected },
    ...(failing > 0 && { failing }),
    store: trouble ? 'unavailable' : 'ok',
    disk,
    ...(trouble && { trouble: { message: trouble.message, hint: trouble.hint } }),
  }
}

// Only what is put into words for callers: other errors may name paths, and anybody may ask for the health.
const unreadable = (error: unknown): SvcError =>
  error instanceof SvcError ? error : new SvcError('store_unavailable', 'the data directory cannot be read')

const stuck = (): SvcError =>
  new SvcError('store_unavailable', 'messages that were received cannot be stored', {
    hint: 'Look at the log of svc for why; it tries again by itself.',
  })
