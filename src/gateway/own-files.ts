/** svc's own files: logins, tokens, the message log. No caller may name them, not even the user's own programs. */
import { resolve } from 'node:path'
import { SvcError } from '../model/error.ts'
import { insideDir, liesIn, realWay } from '../platform/files.ts'
import type { Call } from './call.ts'

/** Two folders, by their real paths. */
export interface Folders {
  /** Everything in it is svc's own, but for the media root. */
  readonly dataDir: string
  /** What remote callers may send from and save to. */
  readonly mediaRoot: string
}

/**
 * The real path of what a caller names to send or to save to, when he may: a remote caller inside the media root, a
 * local one anywhere, nobody among svc's own files. An agent that was talked into it would else send its user's login
 * to whoever did so.
 *
 * @param refusal what the error says of svc's own
 * @throws SvcError `forbidden`
 */
export async function allowedPath(
  given: string,
  refusal: string,
  { dataDir, mediaRoot }: Folders,
  { local }: Pick<Call, 'local'>,
): Promise<string> {
  const path = local ? resolve(given) : resolve(mediaRoot, given)
  // What leads nowhere is told by whoever opens it.
  const real = local ? await realWay(path).catch(() => path) : await insideDir(mediaRoot, path)
  // A media root that holds the whole data directory does not open it.
  const isMedia = mediaRoot !== dataDir && liesIn(dataDir, mediaRoot) && liesIn(mediaRoot, real)
  if (!liesIn(dataDir, real) || isMedia) return real
  throw new SvcError('forbidden', refusal, {
    hint: 'Name a path outside the data directory, or inside its media folder.',
  })
}
