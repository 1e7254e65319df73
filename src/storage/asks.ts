/** Questions of callers to people on WeChat, until they are answered or over. The rules for every method are in `store.ts`. */
import type { QuestionOption } from '../model/agent.ts'

/** A chat of a session with a user. */
export interface AskedChat {
  readonly session: string
  readonly user_id: string
}

export interface NewAsk extends AskedChat {
  readonly text: string
  readonly options: readonly QuestionOption[]
  /** What the person may type before the number of a choice. No two open questions have the same one. */
  readonly code: string
  /** The principal that asks. */
  readonly asked_by: string
  /** A later call with the same key gets the same question. */
  readonly asked_key?: string | undefined
  /** Time to answer, in milliseconds, from when it is sent. */
  readonly lasts_ms: number
  /** Whether a choice allows a program something: then a plain one counts only from the owner of the account. */
  readonly grants: boolean
}

export interface StoredAsk extends NewAsk {
  readonly id: number
  /** Unix ms. */
  readonly asked_at: number
  /** Until it is sent: the time after which it is not sent any more. */
  readonly expires_at: number
  /** Id of the chosen option; empty: it ended without one. */
  readonly answer?: string
  /** The user who answered, or the principal that cancelled it. */
  readonly answered_by?: string
  readonly answered_at?: number
  /** Row id of the message with the answer. */
  readonly answered_in?: number
  /** Id of the outbox entry, if its message waited there. */
  readonly entry?: number
  /** Id of its message; absent if WeChat did not confirm it. */
  readonly message_id?: string
  readonly sent_at?: number
}

interface AskEnd {
  /** Id of the chosen option; empty: none. */
  readonly answer: string
  readonly answered_by?: string | undefined
  readonly answered_in?: number | undefined
  /** Unix ms. */
  readonly answered_at: number
}

export interface AskStore {
  /**
   * Adds a question, which is open from now on.
   *
   * @returns the question with the same key if there is one; undefined if another open question has the code
   * @throws SvcError `window_closed` if the user was erased
   */
  add(ask: NewAsk): Promise<StoredAsk | undefined>

  get(id: number): Promise<StoredAsk | undefined>

  /** Returns the newest questions of a chat, open or not, the newest first; at most 100. */
  listIn(chat: AskedChat): Promise<StoredAsk[]>

  /** Records what became of the message of an open question. @returns false, without a change, if it is not open */
  change(
    id: number,
    change: Pick<StoredAsk, 'entry' | 'message_id' | 'sent_at'> & { expires_at?: number },
  ): Promise<boolean>

  /** Ends an open question. @returns false, without a change, if it is not open */
  end(id: number, end: AskEnd): Promise<boolean>

  /** Removes a question that was never sent. */
  remove(id: number): Promise<void>

  /**
   * Returns whether a question was the only open one of a chat at some time, those of agents included.
   *
   * @param at Unix ms
   */
  wasOnlyOne(id: number, at: number): Promise<boolean>
}
