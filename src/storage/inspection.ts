/**
 * Read-only inspection of the stored data: it opens nothing for others, repairs nothing, and blocks no
 * writer. It also works if svc never ran, and while a newer version runs.
 */
import type { Scope } from '../model/access.ts'
import type { NodeInfo, Replication } from '../model/nodes.ts'
import type { BotInfo, SessionStatus } from '../model/session.ts'
import type { Clock } from '../platform/clock.ts'
import type { ProcessState } from '../platform/other-process.ts'
import type { BackupFailure, KnownBackup } from './backups.ts'
import type { WaitingSends } from './outbox.ts'

export interface Inspection {
  /** Returns the sessions. Each one includes what could not be read. */
  listSessions(): Promise<InspectedSessions>

  /**
   * Reads statistics of the message log and the outbox.
   *
   * @param options.check whether to check for damage, which reads the whole file: about a second for a
   *   gigabyte
   * @returns undefined if there is no store
   * @throws the engine's error if it cannot be read
   */
  readStoreStats(options?: { check?: boolean }): Promise<StoreStats | undefined>

  /**
   * Returns the names that people gave to users, the webhooks and the keys. Empty if there is no store, or one of a
   * newer version.
   *
   * @throws the engine's error if it cannot be read
   */
  readNames(): Promise<KnownNames>

  /**
   * Returns the id of the key with which the secrets are encrypted: null if they are not. `from` and `to`: `svc
   * secrets` changes that and has not finished.
   *
   * @throws SvcError `store_unavailable` if that cannot be read
   */
  readSecrets(): Promise<SecretState>

  /**
   * Returns who polls. If the last sign of life of the holder is old (or in the future, after the clock was
   * set), this waits about 5 s for one more before the holder counts as stalled.
   *
   * @throws the system's error if that cannot be read
   */
  checkPolling(clock: Clock): Promise<Polling>

  /**
   * Reads the state of the nodes and of their database; undefined if the store is not shared by nodes.
   *
   * @throws SvcError `store_unavailable` if it cannot be read
   */
  readCluster(clock: Clock): Promise<ClusterState | undefined>
}

/** Id of a secret key; null: no key, and the secrets are not encrypted. */
export type KeyId = string | null

/** All secrets are encrypted with `key`, or `svc secrets` has begun to change that and has not finished. */
export type SecretState = { readonly key: KeyId } | { readonly from: KeyId; readonly to: KeyId }

/** A session as it is stored. */
export interface InspectedSession {
  name: string
  status: Exclude<SessionStatus, 'logging_in'>
  /** Its credentials, if they can be read; the token may be encrypted. Never print them. */
  bot?: BotInfo
  isDefault: boolean
  /** Why it is disconnected: its stored data does not parse, or the system does not let svc read it. */
  trouble?: { kind: 'damaged' } | { kind: 'unreadable'; error: unknown }
  /** State of its context file. If it is damaged, no user can be answered. */
  contexts: 'read' | 'absent' | 'damaged'
  /** Users who have written to it. */
  users: ReadonlySet<string>
}

export interface InspectedSessions {
  /** The default session first, then the oldest first. */
  sessions: InspectedSession[]
  /** The name that was chosen as default, if no such session exists. */
  lostDefault?: string
}

export interface StoreStats {
  /** Schema version of the tables. `newest` is the version that this program writes. */
  form: number
  newest: number
  sizeBytes: number
  walBytes: number
  messages: number
  outbox: WaitingSends
  /** Sends that wait for a person's approval. */
  asked: number
  /** Sends that wait for their time. */
  planned: number
  /** Number of messages of the last 24 h that WeChat accepted without giving them an id, by session. */
  suspects: ReadonlyMap<string, number>
  /** Names of the agents that ever ran; absent if none did. */
  agents?: string[]
  /** What the keys in use may see. */
  keys?: { name: string; scope: Scope }[]
  /** Webhooks that do not work; absent if there are none. */
  webhooks?: WebhookProblem[]
  /** The newest backup that was made of it, and the last failure of the schedule. */
  backups: { newest?: KnownBackup; failure?: BackupFailure }
  /** When it was restored from a backup (Unix ms); absent once it was used, and for a database. */
  restored?: number
  /** Damage that the check of the whole file found; absent if the check was not requested. */
  damage?: string[]
}

/** Names that a command line may contain. */
export interface KnownNames {
  users: { name: string; session: string }[]
  webhooks: { id: string; url: string }[]
  /** Keys that are not revoked. */
  keys: { id: string; name: string }[]
}

/** A webhook that svc disabled, or that had no success for a minute. */
export interface WebhookProblem {
  id: string
  status: 'disabled' | 'failing'
  why: string
  /** Unix ms. */
  since: number
}

export interface Polling {
  /** Whether a process has the right to poll; undefined if that cannot be determined. */
  held: boolean | undefined
  /** Process that took the right last, as recorded. If the right is held, that is the holder. */
  pid?: number
  /** Since when, in Unix ms. */
  since?: number
  /** State of the holder's process. `gone`: it runs in another container, or on another machine. */
  process?: ProcessState
  /** The holder shows no sign of life. */
  stalled: boolean
  /** When the holder last showed a sign of life, in Unix ms. */
  seenAt?: number
}

/** Why svc cannot work on a database. */
export interface DatabaseFault {
  /** As in `encoding`. */
  check: string
  problem: string
  fix: string
  /** What `problem` says, for a program. */
  details?: Record<string, unknown>
}

/** The database that nodes share, and the nodes. */
export interface ClusterState {
  /** As in `db.example:5432/svc`. */
  address: string
  /** Version of the server. */
  version: string
  fullPageWrites: boolean
  /** The worst first. */
  faults: DatabaseFault[]
  sizeBytes: number
  /** Connections of all programs, and the most that the server takes. */
  connections: number
  mostConnections: number
  /** How far the clock of the database is ahead of this machine's; 0 if it may be right. */
  clockOffsetMs: number
  /** Transactions that last long, or that others wait for. */
  transactions: {
    pid: number
    name: string
    role: string
    /** Empty if the role of svc may not see it. */
    state: string
    ageMs?: number
    /** For how long others have waited for it. */
    blocksMs?: number
  }[]
  /** Absent if there are no tables yet, or those of a newer version. */
  tables?: {
    nodes: NodeInfo[]
    /** How they differ where all must be alike. */
    differences: DatabaseFault[]
    replication: Replication
    /** Accounts that no living node polls. */
    unpolled: number
    /** Messages that the search index lacks; at most 100,000. */
    unindexed: number
    /** Where the store was moved to. */
    moved_to?: string
  }
}
