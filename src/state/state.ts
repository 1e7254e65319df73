/** The two kinds of session files together, and the one write that touches both: the commit of a polled batch. */
import { writeDurably, writeDurablyInOrder } from '../platform/files.ts'
import type { FileLock } from '../platform/lock.ts'
import type { Log } from '../platform/log.ts'
import { Contexts, type Inbound } from './contexts.ts'
import { told } from './json-file.ts'
import { Sessions, serialized } from './sessions.ts'

/** A batch whose messages are stored. */
export interface BatchCommit {
  session: string
  /** The token it was polled with. */
  token: string
  /** The cursor it was polled with, and the one that came with it. */
  cursorFrom: string
  cursorTo: string
  inbound: Inbound[]
  /** Unix ms by the clock that dated these. */
  now?: number
}

export interface State {
  sessions: Sessions
  contexts: Contexts
  /**
   * Merges the context tokens, then moves the cursor, in one hold of the data lock; a crash between leaves the cursor
   * behind, never ahead.
   *
   * @returns `gone` when the session was logged out, renamed, logged in anew or polled by another process meanwhile:
   *   then nothing is written
   */
  commitBatch(batch: BatchCommit): Promise<'moved' | 'gone'>
}

export function openState(options: { dir: string; lock: FileLock; log: Log }): State {
  const { lock } = options
  const sessions = new Sessions(options)
  const contexts = new Contexts({ sessions, log: options.log })
  sessions.onNewBot = name => contexts.forget(name)

  return {
    sessions,
    contexts,
    commitBatch: batch =>
      told(() =>
        lock.run(async () => {
          const { session, cursorFrom, cursorTo } = batch
          const file = sessions.token(session)
          if (file?.bot.token !== batch.token) return 'gone'
          // A try that failed after the rename has moved it already.
          const { cursor } = file.bot
          if (cursor !== cursorFrom && cursor !== cursorTo) return 'gone'
          const contextText = await contexts.merged(session, batch.inbound, batch.now)
          const tokenText =
            cursor === cursorTo ? undefined : serialized({ ...file.fields, ...file.bot, cursor: cursorTo })
          const contextsFile = { path: sessions.contextsPath(session), text: contextText ?? '' }
          const tokenFile = { path: sessions.tokenPath(session), text: tokenText ?? '' }
          try {
            if (contextText !== undefined && tokenText !== undefined)
              await writeDurablyInOrder([contextsFile, tokenFile])
            else if (contextText !== undefined) await writeDurably(contextsFile.path, contextsFile.text)
            else if (tokenText !== undefined) await writeDurably(tokenFile.path, tokenFile.text)
          } finally {
            sessions.written(session)
            contexts.written(session)
          }
          contexts.back(
            session,
            batch.inbound.map(({ user_id }) => user_id),
          )
          return 'moved'
        }),
      ),
  }
}
