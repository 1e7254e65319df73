/** Programs that speak WeChat's protocol to svc, each with a key of its own. The rules for every method are in `store.ts`. */
import type { Relay, RelayAnswers } from '../model/relay.ts'

export interface RelayClient extends Omit<Relay, 'id' | 'answers' | 'answered' | 'unread'> {
  /** Id of its key. */
  readonly key: string
  /** The consumer that is its position in the log. */
  readonly consumer: string
  readonly answers: RelayAnswers
  /** What tells programs that use one token apart: that of the last poll. */
  readonly source?: string
}

/** A client as a list shows it. */
export interface ListedRelayClient extends RelayClient {
  /** What it has sent to the person who wrote last, since that message: as `countAnswers`. */
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
