/** The two sides of a copy: each is a data directory or a database of PostgreSQL. */
import type { NewAuditLine } from '../../storage/audit.ts'
import { type MediaRules, type MediaStores, uploadRulesOf } from '../../storage/media-store.ts'
import type { SecretChange } from '../../storage/sealed-places.ts'
import type { StoreRow, StoreTable } from '../../storage/table-list.ts'

/** Rows, and characters in them, that are moved at once. */
export const pageRows = 1000
export const pageCharacters = 1024 * 1024

/** Uploads live as long as new ones from now on. All that are there have room. */
export const uploadRules: MediaRules = { lifeMs: uploadRulesOf(0).lifeMs! }

/**
 * What identifies a store: cursors of its event log, and the hashes that stand for erased users. `events_removed`: events up to
 * this place were removed for their age.
 */
export interface StoreIdentity {
  readonly id: string
  readonly hash_key: string
  readonly events_removed: number
}

/** Credentials of a session. */
export interface CopiedAccount {
  readonly name: string
  readonly bot_id: string
  readonly token: string
  readonly cursor: string
  readonly created_at: number
  /** The other fields, as JSON. */
  readonly info: string
  /** It was chosen as default. */
  readonly chosen: boolean
}

/** What a directory has in small files. */
export interface CopiedState {
  readonly accounts: readonly CopiedAccount[]
  /** Sessions whose credentials are damaged: they have to log in again. */
  readonly damaged: readonly string[]
}

/** A store that no process uses until this is disposed of. */
export interface CopySide extends AsyncDisposable {
  /** Where it is, without a password. */
  readonly place: string
  readonly media: MediaStores
  /** Opens its secrets. */
  readonly open: SecretChange
  /** Reads the rows behind a key in pages, in the order of the key. */
  read(table: StoreTable, after?: StoreRow): AsyncGenerator<StoreRow[]>
  readState(): Promise<CopiedState>
  /** Returns the highest number that was given, by table. */
  readNumbers(): Promise<ReadonlyMap<string, number>>
  /** Returns the ids of the uploads that may still be sent. */
  listUploads(): Promise<readonly string[]>
}

export interface CopySource extends CopySide {
  readonly identity: StoreIdentity
  /** From now on nobody can open it. */
  markMoved(to: string): Promise<void>
}

/** How far an earlier copy into a target has come. */
export type TargetState = 'empty' | 'begun' | 'verified'

export interface CopyTarget extends CopySide {
  /** State of an earlier copy from the same store. */
  readonly state: TargetState
  /** Begins to write. @param identity of the source; without it, the target keeps the one that it has */
  begin(identity: StoreIdentity): Promise<void>
  /** Seals secrets. */
  readonly seal: SecretChange
  /** Returns the key of the last row; undefined: there is none. */
  readLast(table: StoreTable): Promise<StoreRow | undefined>
  clear(table: StoreTable): Promise<void>
  write(table: StoreTable, rows: readonly StoreRow[]): Promise<void>
  writeState(state: CopiedState): Promise<void>
  /** Sets the numbers, and completes what the engine makes by itself. Everything is durable when it resolves. */
  complete(numbers: ReadonlyMap<string, number>): Promise<void>
  /** Notes that the copy is complete and equal to its source. It can still not be opened. */
  markVerified(): Promise<void>
  /** From now on it can be opened. @param line added to its audit log */
  release(line: NewAuditLine | undefined): Promise<void>
}
