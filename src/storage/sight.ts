/**
 * What is stored, for who looks without taking part: nothing is opened for others, mended, or kept from a writer. A look goes
 * by what is there, also where svc never ran, and while a newer version does.
 */
import type { BotInfo, SessionStatus, UserContext } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { ProcessState } from '../platform/other-process.ts'

export interface Sight {
  /** The sessions. What cannot be read of one is told with it. */
  sessions(): Promise<SeenSessions>

  /**
   * The message log and what waits in it.
   *
   * @param check whether to look for damage, which reads all of it: about a second for a gigabyte
   * @returns undefined when there is none
   * @throws the engine's error when it cannot be read
   */
  store(options?: { check?: boolean }): Promise<StoreStats | undefined>

  /**
   * What people call users, and the webhooks. Empty where there is no store, or one of a newer version.
   *
   * @throws the engine's error when it cannot be read
   */
  named(): Promise<Named>

  /**
   * Who polls. A holder whose last sign of life is old, or in the future after the clock was set, is watched for one more
   * sign, some 5 s, before it counts as stalled.
   *
   * @throws the system's error when that cannot be read
   */
  polling(clock: Clock): Promise<Polling>
}

/** A session as it is stored. */
export interface SeenSession {
  name: string
  status: Exclude<SessionStatus, 'logging_in'>
  /** Its credentials, when they can be read: never to be shown. */
  bot?: BotInfo
  isDefault: boolean
  /** Why it is disconnected: what is stored of it does not parse, or the system refuses to show it. */
  trouble?: { kind: 'damaged' } | { kind: 'unreadable'; error: unknown }
  /** How its contexts are: of damaged ones nobody can be answered. */
  contexts: 'read' | 'absent' | 'damaged'
  users: ReadonlyMap<string, UserContext>
}

export interface SeenSessions {
  /** The default one first, then the oldest first. */
  sessions: SeenSession[]
  /** What was made the default, when that is no session. */
  lostDefault?: string
}

export interface StoreStats {
  /** Of the tables; `newest` is the one this version writes. */
  form: number
  newest: number
  sizeBytes: number
  walBytes: number
  messages: number
  outbox: { sends: number; messages: number; users: number; oldestAt?: number; firstExpiryAt?: number }
  /** Sends that wait for a person's yes. */
  asked: number
  /** By session, how many messages of the last 24 h WeChat took without giving them an id. */
  suspects: ReadonlyMap<string, number>
  /** Webhooks that do not work, where there are any. */
  webhooks?: WebhookTrouble[]
  /** What the check of the whole file found wrong; absent when it was not asked for. */
  damage?: string[]
}

/** What a command line may name. */
export interface Named {
  users: { name: string; session: string }[]
  webhooks: { id: string; url: string }[]
}

/** A webhook that svc switched off, or of which nothing has succeeded for a minute. */
export interface WebhookTrouble {
  id: string
  status: 'disabled' | 'failing'
  why: string
  /** Unix ms. */
  since: number
}

export interface Polling {
  /** Whether somebody has the right to poll; undefined when that cannot be told. */
  held: boolean | undefined
  /** Who took it last, as recorded; of a held one that is its holder. */
  pid?: number
  /** Unix ms since when. */
  since?: number
  /** Of a holder: how its process is. `gone`: it runs in another container, or on another machine. */
  process?: ProcessState
  /** Of a holder: it shows no life. */
  stalled: boolean
  /** Unix ms of the last sign of life. */
  seenAt?: number
}
