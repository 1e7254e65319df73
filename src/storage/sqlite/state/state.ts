/** The two kinds of session files together, and the one write that touches both: the commit of a polled batch. */
import { join } from 'node:path'
import { dataFiles } from '../../../model/data-files.ts'
import { type Inbound, type Marks, marked } from '../../../model/session.ts'
import { writeDurablyInOrder } from '../../../platform/files.ts'
import type { FileLock } from '../../../platform/lock.ts'
import type { Log } from '../../../platform/log.ts'
import type { State } from '../../state.ts'
import { ContextFiles } from './contexts.ts'
import { LoginFiles } from './login-files.ts'
import { SessionFiles, type SessionRows } from './sessions.ts'
import { SignInFile } from './sign-ins.ts'
import { serialized, told } from './token-file.ts'

/** What follows from a batch whose messages are stored. */
export interface BatchCommit {
  session: string
  token: string
  cursorFrom: string
  cursorTo: string
  inbound: Inbound[]
  marks?: Marks | undefined
  /** Unix ms by the clock that dated these. */
  now?: number
}

/** The engine's own face: others are given a `State`. */
export interface FileState extends State {
  readonly sessions: SessionFiles
  readonly contexts: ContextFiles
  /** The files' half of `Storage.ingest`: the contexts of those who wrote, then the cursor. */
  commitBatch(batch: BatchCommit): Promise<'moved' | 'gone'>
}

interface Waiting {
  batch: BatchCommit
  done: PromiseWithResolvers<'moved' | 'gone'>
}

type Commit = FileState['commitBatch']

/** Each has files open while it is written. */
const groupSize = 32

/** Batches of several sessions share a hold of the lock, so that thousands do not wait for each other. */
export function openState(options: {
  dir: string
  lock: Pick<FileLock, 'run'>
  log: Log
  rows?: SessionRows
}): FileState {
  const { lock, log, rows } = options
  const sessions = new SessionFiles(options)
  const contexts = new ContextFiles({ sessions, log, rows })
  sessions.onNewBot = name => contexts.forget(name)
  const grouped = inGroups(lock, batch => commit({ sessions, contexts }, batch))
  const signIns = new SignInFile(join(options.dir, dataFiles.endedSignIns))
  const logins = new LoginFiles(join(options.dir, dataFiles.logins), { sessions, lock })
  return { sessions, contexts, logins, signIns, commitBatch: batch => told(() => grouped(batch)) }
}

/** Under the data lock. */
async function commit(
  { sessions, contexts }: Pick<FileState, 'sessions' | 'contexts'>,
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
function inGroups(lock: Pick<FileLock, 'run'>, one: Commit): Commit {
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
async function commitAll(group: readonly Waiting[], one: Commit): Promise<void> {
  const inOrder = async (batches: readonly Waiting[]) => {
    for (const { batch, done } of batches) await one(batch).then(done.resolve, done.reject)
  }
  await Promise.all([...Map.groupBy(group, ({ batch }) => batch.session).values()].map(inOrder))
}
