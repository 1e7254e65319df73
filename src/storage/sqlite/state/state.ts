/** The two kinds of session files together, and the one write that touches both: the commit of a polled batch. */
import type { Marks } from '../../../model/session.ts'
import { writeDurablyInOrder } from '../../../platform/files.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { Log } from '../../../platform/log.ts'
import { Contexts, type Inbound } from './contexts.ts'
import { told } from './json-file.ts'
import { Sessions } from './sessions.ts'
import { marked, serialized } from './token-file.ts'

/** A batch whose messages are stored. */
export interface BatchCommit {
  session: string
  /** The token it was polled with. */
  token: string
  /** The cursor it was polled with, and the one that came with it. */
  cursorFrom: string
  cursorTo: string
  inbound: Inbound[]
  /** As of `Sessions.mark`. */
  marks?: Marks | undefined
  /** Unix ms by the clock that dated these. */
  now?: number
}

export interface State {
  sessions: Sessions
  contexts: Contexts
  /**
   * Merges the context tokens, then moves the cursor, in one hold of the data lock; a crash between leaves the cursor
   * behind, never ahead. Batches of several sessions share a hold, so that thousands do not wait for each other.
   *
   * @returns `gone` when the session was logged out, renamed, logged in anew or polled by another process meanwhile:
   *   then nothing is written
   */
  commitBatch(batch: BatchCommit): Promise<'moved' | 'gone'>
}

interface Waiting {
  batch: BatchCommit
  done: PromiseWithResolvers<'moved' | 'gone'>
}

/** Each has files open while it is written. */
const groupSize = 32

export function openState(options: { dir: string; lock: Pick<FileLock, 'run'>; log: Log }): State {
  const sessions = new Sessions(options)
  const contexts = new Contexts({ sessions, log: options.log })
  sessions.onNewBot = name => contexts.forget(name)
  const grouped = inGroups(options.lock, batch => commit({ sessions, contexts }, batch))
  return { sessions, contexts, commitBatch: batch => told(() => grouped(batch)) }
}

/** Under the data lock. */
async function commit(
  { sessions, contexts }: Pick<State, 'sessions' | 'contexts'>,
  batch: BatchCommit,
): Promise<'moved' | 'gone'> {
  const { session, cursorFrom, cursorTo } = batch
  const file = sessions.token(session)
  if (file?.bot.token !== batch.token) return 'gone'
  // A try that failed after the rename has moved it already.
  const { cursor } = file.bot
  if (cursor !== cursorFrom && cursor !== cursorTo) return 'gone'
  const contextText = await contexts.merged(session, batch.inbound, batch.now)
  const moved = { ...file.fields, ...file.bot, cursor: cursorTo }
  const fields = marked(moved, batch.marks ?? {}) ?? (cursor === cursorTo ? undefined : moved)
  const files = [
    { path: sessions.contextsPath(session), text: contextText },
    { path: sessions.tokenPath(session), text: fields && serialized(fields) },
  ]
  try {
    await writeDurablyInOrder(files.flatMap(({ path, text }) => (text === undefined ? [] : { path, text })))
  } finally {
    sessions.written(session)
    contexts.written(session)
  }
  await contexts.back(
    session,
    batch.inbound.map(({ user_id }) => user_id),
  )
  return 'moved'
}

/** What waits for the lock goes with one hold of it. */
function inGroups(lock: Pick<FileLock, 'run'>, one: State['commitBatch']): State['commitBatch'] {
  let group: Waiting[] | undefined
  return batch => {
    const done = Promise.withResolvers<'moved' | 'gone'>()
    if (group && group.length < groupSize) group.push({ batch, done })
    else {
      const mine: Waiting[] = [{ batch, done }]
      const closed = () => {
        if (group === mine) group = undefined
      }
      group = mine
      lock
        .run(() => {
          closed()
          return commitAll(mine, one)
        })
        .catch(error => {
          closed()
          for (const { done } of mine) done.reject(error)
        })
    }
    return done.promise
  }
}

/** Those of one session one after the other, all others side by side: the disk takes many at once. */
async function commitAll(group: readonly Waiting[], one: State['commitBatch']): Promise<void> {
  const inOrder = async (batches: readonly Waiting[]) => {
    for (const { batch, done } of batches) await one(batch).then(done.resolve, done.reject)
  }
  await Promise.all([...Map.groupBy(group, ({ batch }) => batch.session).values()].map(inOrder))
}
