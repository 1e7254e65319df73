/** Programs that speak WeChat's protocol to svc, each with a key of its own. The rules for every method are in `store.ts`. */
import type { RelayAnswers } from '../model/relay.ts'

export interface RelayClient {
  /** Id of its key. */
  readonly key: string
  /** That of the key. */
  readonly name: string
  /** The consumer that is its position in the log. */
  readonly consumer: string
  /** The session whose account it answers. */
  readonly session: string
  readonly answers: RelayAnswers
  /** Unix ms, as the other times. */
  readonly created_at: number
  readonly polled_at?: number
  /** What tells programs that use one token apart: that of the last poll. */
  readonly source?: string
  /** When two programs polled with its token. */
  readonly doubled_at?: number
  /** Sends that were refused: how many; when the last one was, and its error code. */
  readonly refused: number
  readonly refused_at?: number
  readonly refusal?: string
}

/** A client as a list shows it. */
export interface ListedRelayClient extends RelayClient {
  /** What it has sent since the session received its newest message. */
  readonly answered: number
}

/** What a poll or a refused send changes. */
export type RelayNote = Partial<Pick<RelayClient, 'polled_at' | 'source' | 'doubled_at' | 'refusal'>>

/** A client ends with its key: `KeyStore.revoke` removes it and its consumer. */
export interface RelayStore {
  /**
   * Adds a client of a key that exists. Its consumer is registered at the end of the log in the same write.
   *
   * @throws SvcError `unauthorized` if the key was revoked
   */
  add(client: Pick<RelayClient, 'key' | 'session' | 'answers' | 'created_at'>): Promise<void>

  /** Lists the clients whose keys are not revoked, oldest first. */
  list(): Promise<ListedRelayClient[]>

  get(key: string): Promise<RelayClient | undefined>

  /** Counts what a client has sent to a user since this user last wrote. What was refused does not count. */
  countAnswers(key: string, user: string): Promise<number>

  /** Records what happened to a client. `refusal` counts one more. Not durable. */
  note(key: string, note: RelayNote): Promise<void>
}
