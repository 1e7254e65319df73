/** How a gateway is: for callers, so it names no paths. */
import { SvcError } from '../model/error.ts'
import type { Health } from './gateway-api.ts'
import type { Directory, Receive } from './rooms.ts'

export async function healthOf(
  version: string,
  { space, state, store }: Directory,
  { dispatcher, poller }: Receive,
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
    'error' in found ? unreadable(found.error) : (store.trouble() ?? (poller.stuck ? stuck() : undefined))
  const disk = (await space.isLow()) ? 'low' : 'ok'
  const isWell = !trouble && !dispatcher.stalled && connected === all.length && failing === 0 && disk === 'ok'
  return {
    status: isWell ? 'ok' : 'degraded',
    version,
    role: dispatcher.role,
    stalled: dispatcher.stalled,
    sessions: all.length,
    connected,
    ...(failing > 0 && { failing }),
    ...(trouble
      ? { store: 'unavailable', trouble: { message: trouble.message, hint: trouble.hint } }
      : { store: 'ok' }),
    disk,
  }
}

// Only what is put into words for callers: other errors may name paths, and anybody may ask for the health.
const unreadable = (error: unknown): SvcError =>
  error instanceof SvcError ? error : new SvcError('store_unavailable', 'the data directory cannot be read')

const stuck = (): SvcError =>
  new SvcError('store_unavailable', 'messages that were received cannot be stored', {
    hint: 'Look at the log of svc for why; it tries again by itself.',
  })
