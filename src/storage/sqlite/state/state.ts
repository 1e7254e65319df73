/**
 * Opens the session files: sessions and contexts, and the commit of a polled batch, which
 * writes both sessions and contexts.
 */
import { type Inbound, type Marks, withMarks } from '../../../model/session.ts'
import { writeDurablyInOrder } from '../../../platform/files.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { Log } from '../../../platform/log.ts'
import { noSealer, type Sealer } from '../../../platform/sealing.ts'
import type { State } from '../../state.ts'
import { ContextFiles } from './contexts.ts'
import { forgetUser } from './forget-user.ts'
import { SessionFiles, type SessionRows } from './sessions.ts'
import { translateErrors } from './token-file.ts'

/** Changes that follow from a batch whose messages are stored. */
interface BatchCommit {
  session: string
  token: string
  cursorFrom: string
  cursorTo: string
  inbound: Inbound[]
  marks?: Marks | undefined
  /** Unix ms by the clock that dated the messages. */
  now?: number
}

/** The state as the engine sees it; other rooms get a `State`. */
export interface FileState extends Omit<State, 'logins' | 'signIns'> {
  readonly sessions: SessionFiles
  readonly contexts: ContextFiles
  /** The file part of `Storage.ingest`: writes the contexts of the senders, then the cursor. */
  commitBatch(batch: BatchCommit): Promise<'moved' | 'gone'>
}

/** A caller of `shareLock` that waits. */
interface Waiting<Item, Result> {
  item: Item
  done: PromiseWithResolvers<Result>
}

type Commit = FileState['commitBatch']
type Read = () => Promise<unknown>

/** Maximum number of callers in a group. Each batch has files open while it is written. */
const groupSize = 32

/**
 * Opens the state. Batches of several sessions are committed while holding the lock once, so that thousands
 * do not wait for each other.
 */
export function openState(options: {
  dir: string
  lock: Pick<FileLock, 'run'>
  log: Log
  /** By default secrets stay as they are. */
  sealer?: Sealer
  rows?: SessionRows
}): FileState {
  const { lock, log, rows, sealer = noSealer } = options
  const sessions = new SessionFiles({ ...options, sealer })
  const contexts = new ContextFiles({ sessions, log, sealer, rows })
  sessions.onNewBot = name => contexts.forget(name)
  const one: Commit = batch => commit({ sessions, contexts }, batch)
  const grouped = shareLock<BatchCommit, 'moved' | 'gone'>(lock, group => commitAll(group, one))
  const readAll = async (group: readonly Waiting<Read, unknown>[]) => {
    contexts.forgetRead()
    const reads = await sessions.readLocked(() => group.map(({ item: read }) => read()))
    for (const [nth, { done }] of group.entries()) done.resolve(reads[nth])
  }
  const locked = shareLock<Read, unknown>(lock, readAll, { brief: true })
  return {
    sessions,
    contexts,
    commitBatch: batch => translateErrors(() => grouped(batch)),
    async readTogether<T>(read: () => Promise<T>) {
      await sessions.refreshMany()
      return (await locked(read)) as T
    },
    forgetUser: user => forgetUser(options.dir, { lock, sealer }, { sessions, contexts }, user),
  }
}

/** Commits one batch. Call it under the data lock. */
async function commit(
  { sessions, contexts }: Pick<FileState, 'sessions' | 'contexts'>,
  batch: BatchCommit,
): Promise<'moved' | 'gone'> {
  const { session, cursorFrom, cursorTo } = batch
  const file = sessions.readToken(session)
  if (file?.bot.token !== batch.token) return 'gone'
  // An earlier try that failed after the file was renamed has already moved the cursor.
  const { cursor } = file.bot
  if (cursor !== cursorFrom && cursor !== cursorTo) return 'gone'
  const contextText = await contexts.merge(session, batch.inbound, batch.now)
  const moved = { ...file.fields, ...file.bot, cursor: cursorTo }
  const fields = withMarks(moved, batch.marks ?? {}) ?? (cursor === cursorTo ? undefined : moved)
  const files = [
    { path: sessions.contextsPath(session), text: contextText },
    { path: sessions.tokenPath(session), text: fields && sessions.toTokenText(fields) },
  ]
  try {
    await writeDurablyInOrder(files.flatMap(({ path, text }) => (text === undefined ? [] : { path, text })))
  } finally {
    sessions.markWritten(session)
    contexts.markWritten(session)
  }
  await contexts.dropArchived(session, batch.inbound)
  return 'moved'
}

/**
 * Joins callers that wait for the lock in a group, whose work is done while holding it once. For a brief hold, the group
 * has all callers of this turn of the event loop: requests that came together are handled one by one.
 */
function shareLock<Item, Result>(
  lock: Pick<FileLock, 'run'>,
  work: (group: readonly Waiting<Item, Result>[]) => Promise<void>,
  options?: Parameters<FileLock['run']>[1],
): (item: Item) => Promise<Result> {
  let group: Waiting<Item, Result>[] | undefined
  return item => {
    const done = Promise.withResolvers<Result>()
    if (group && group.length < groupSize) group.push({ item, done })
    else {
      const mine = [{ item, done }]
      const closed = () => {
        if (group === mine) group = undefined
      }
      group = mine
      const begin = () =>
        lock
          .run(() => {
            closed()
            return work(mine)
          }, options)
          .catch(error => {
            closed()
            for (const { done } of mine) done.reject(error)
          })
      if (options?.brief) setImmediate(begin)
      else void begin()
    }
    return done.promise
  }
}

/**
 * Commits batches in order within a session, in parallel across sessions: the disk handles many writes at
 * once.
 */
async function commitAll(
  group: readonly Waiting<BatchCommit, 'moved' | 'gone'>[],
  one: Commit,
): Promise<void> {
  const inOrder = async (batches: typeof group) => {
    for (const { item, done } of batches) await one(item).then(done.resolve, done.reject)
  }
  await Promise.all([...Map.groupBy(group, ({ item }) => item.session).values()].map(inOrder))
}
