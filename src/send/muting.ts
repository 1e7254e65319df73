/**
 * Detects whether WeChat mutes an account (protocol notes 5.7), from the results of its messages and
 * uploads. Writes the result into the session's file, which all processes read. If upstream never returns
 * message ids, nothing is concluded from missing ones.
 */
import { isILinkError } from '../ilink/http.ts'
import { type BotInfo, type Marks, mutedAfter } from '../model/session.ts'
import { RunningPart } from '../platform/runtime.ts'
import type { StoredMessage } from '../storage/messages.ts'
import type { PolledSessions } from '../storage/state.ts'
import type { MessageLog } from '../storage/store.ts'
import type { DeliveryResult } from './delivery.ts'

export interface MutingPorts {
  state: { sessions: Pick<PolledSessions, 'get' | 'mark'> }
  store: { log: Pick<MessageLog, 'search'> }
}

/** Whose message was handed over, and its `timestamp` in Unix ms. */
export interface HandedMessage {
  session: string
  bot: BotInfo
  at: number
}

const notMuted: Marks = { muted_at: undefined, muted_because: undefined }
/** Refused uploads that are further apart than this are independent. */
const refusalSpanMs = 24 * 60 * 60_000
/** Number of newest messages to check. */
const maxCheckedMessages = 50

/** Returns whether WeChat took the message. */
const wasTaken = ({ status }: StoredMessage): boolean => status === 'accepted' || status === 'suspect'

export class Muting extends RunningPart<MutingPorts> {
  /** Pending notes, in order: each is judged with the result of the earlier ones. */
  #pendingNotes: Promise<void> = Promise.resolve()

  /**
   * Resolves when all notes are written. A send does not wait for it, because another process may hold the
   * lock of the file.
   */
  get pendingNotes(): Promise<void> {
    return this.#pendingNotes
  }

  /** Notes the stored result of a message. */
  noteMessage({ session, bot, at }: HandedMessage, status: DeliveryResult['status']): void {
    if (status === 'accepted' && bot.ids_at !== undefined && bot.muted_because === undefined) return
    this.#queueNote(session, bot, async now => {
      if (status === 'accepted') {
        const isOver = now.muted_because === 'no_ids'
        if (now.ids_at !== undefined && !isOver) return undefined
        return { ids_at: at, ...(isOver && notMuted) }
      }
      if (status !== 'suspect' || now.ids_at === undefined || now.muted_at !== undefined) return undefined
      // Up to this message; later messages are judged on their own.
      const { rows } = await this.ports.store.log.search({
        session,
        direction: 'sent',
        until: at + 1,
        limit: maxCheckedMessages,
        offset: 0,
      })
      const run = rows.filter(wasTaken).slice(0, mutedAfter)
      const isMuted = run.length === mutedAfter && run.every(row => row.status === 'suspect')
      return isMuted ? { muted_at: run.at(-1)!.timestamp, muted_because: 'no_ids' } : undefined
    })
  }

  /**
   * Notes how an upload for a user ended. WeChat accepted it if `error` is undefined, or refused it. Other
   * errors are ignored.
   */
  noteUpload(session: string, bot: BotInfo, to: string, error?: unknown): void {
    if (error !== undefined && !isILinkError(error, 'refused')) return
    this.#queueNote(session, bot, async now => {
      const since = now.upload_refused_at
      if (error === undefined) {
        const isOver = now.muted_because === 'uploads_refused'
        return since === undefined && !isOver
          ? undefined
          : { upload_refused_at: undefined, ...(isOver && notMuted) }
      }
      const at = this.runtime.clock.now()
      if (since === undefined) return { upload_refused_at: at }
      // An old refusal had another cause. The next refusal counts as the first.
      if (at - since > refusalSpanMs && now.muted_at === undefined) return { upload_refused_at: undefined }
      const { rows } = await this.ports.store.log.search({
        session,
        user_id: to,
        direction: 'sent',
        since,
        limit: maxCheckedMessages,
        offset: 0,
      })
      return rows.some(wasTaken) && now.muted_at === undefined
        ? { muted_at: since, muted_because: 'uploads_refused' }
        : undefined
    })
  }

  #queueNote(session: string, bot: BotInfo, judgeMarks: (now: BotInfo) => Promise<Marks | undefined>): void {
    const { bus, log } = this.runtime
    const { sessions } = this.ports.state
    const note = async () => {
      const now = (await sessions.get(session))?.bot
      const marks = now?.token === bot.token ? await judgeMarks(now) : undefined
      if (!marks) return
      await sessions.mark(session, bot.token, marks)
      if (!('muted_at' in marks)) return
      if (marks.muted_at === undefined) log.info('account is no longer muted', { session })
      else
        log.warn('WeChat may have muted this account', {
          session,
          because: marks.muted_because,
          since: new Date(marks.muted_at).toISOString(),
        })
      bus.notify('sessionsChanged')
    }
    // A send succeeds even if the note cannot be read or written.
    this.#pendingNotes = this.#pendingNotes
      .then(note)
      .catch(error => log.error('whether an account is muted was not noted', { session, error }))
  }
}
