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

/** A program that asks to log in by itself. */
export interface RelayAsk {
  /** What the program shows, and its owner types. */
  readonly number: string
  /** Hash of the secret with which it gets the token. */
  readonly hash: string
  readonly address?: string | undefined
  readonly until: number
  /** Numbers that were typed and are of nobody. */
  readonly wrong: number
  readonly agreed?: boolean
}

/** The one client that may log in by itself, and who asks for that. */
export interface RelayLogin {
  /** Id of its key. */
  readonly key: string
  readonly base_url: string
  readonly until: number
  readonly asks: readonly RelayAsk[]
  /** Changes with each write; '' if none is stored. */
  readonly version: string
}

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

  /** Returns the login that was stored last, also one that is over. */
  readLogin(): Promise<RelayLogin | undefined>

  /** Stores it in place of the one with its version. Not durable. @returns false, and nothing is written, if another one is stored */
  writeLogin(login: RelayLogin): Promise<boolean>
}
