/** The ways in which what was opened with a key ends. */
import type { Keys } from '../../src/access/keys.ts'
import { owner } from '../../src/model/principal.ts'
import type { TestClock } from './clock.ts'

export const keyEnds = ['revoked', 'rotated', 'rotated, and the time of --keep-old is over'] as const

/** Ends what was opened with the secret that a key has. @param clock that of the process of the callers */
export async function endSecret(
  way: (typeof keyEnds)[number],
  keys: Pick<Keys, 'revoke' | 'rotate'>,
  id: string,
  clock: TestClock,
): Promise<void> {
  if (way === 'revoked') await keys.revoke(id, owner)
  else if (way === 'rotated') await keys.rotate(id, 0, owner)
  else {
    await keys.rotate(id, 60_000, owner)
    clock.advance(60_000)
  }
}
