/** Opens both sides of a copy as the settings name them, and copies. */
import type { Config } from '../../config.ts'
import type { Clock } from '../../platform/clock.ts'
import { silentLog } from '../../platform/log.ts'
import type { NewAuditLine } from '../../storage/audit.ts'
import { type CopyProgress, type CopyResult, copyStore, movedError } from './copy.ts'
import { openDirectorySource, openDirectoryTarget } from './directory-side.ts'
import { openPgSource, openPgTarget } from './postgres-side.ts'
import type { CopySource, CopyTarget } from './side.ts'

export interface MoveOptions {
  /** The data directory is `basePath`; the database is `storeUrl`. */
  config: Pick<Config, 'basePath' | 'keepFreeBytes' | 'mediaRoot'> & {
    storeUrl: string
    secretKey: string
  }
  clock: Clock
  /** Whether the store is on PostgreSQL now. */
  isFromPostgres: boolean
  onProgress(progress: CopyProgress): void
  /** Line of the audit log, without a subject. */
  line?: NewAuditLine
}

/**
 * Moves a store.
 *
 * @throws SvcError `store_unavailable` if a process uses either side, or a side does not work; `invalid_arguments` for a
 * target that is not empty; `not_found` without a source. The same call carries on
 */
export async function moveStore({
  clock,
  config,
  isFromPostgres,
  line,
  onProgress,
}: MoveOptions): Promise<CopyResult> {
  const { basePath: dir, keepFreeBytes, mediaRoot, secretKey: secret, storeUrl: url } = config
  const shared = { secret, clock }
  const directory = { ...shared, dir, mediaRoot, keepFreeBytes }
  const database = { ...shared, url, log: silentLog }
  await using source = await (isFromPostgres ? openPgSource(database) : openDirectorySource(directory))
  await using target = await openTarget(source, from =>
    isFromPostgres ? openDirectoryTarget(directory, from) : openPgTarget(database, from),
  )
  return await copyStore(source, target, { line, onProgress })
}

/** If the source was moved, only an interrupted copy can be completed: any other target has what it needs. */
async function openTarget(
  source: CopySource & { movedTo?: string },
  open: (from: CopySource) => Promise<CopyTarget>,
): Promise<CopyTarget> {
  if (source.movedTo === undefined) return await open(source)
  try {
    return await open(source)
  } catch (cause) {
    throw Object.assign(movedError(source), { cause })
  }
}
