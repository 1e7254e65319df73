/**
 * A routine is SQL that is written once, for both engines: it yields statements and gets their rows. SQLite drives it within
 * one call, PostgreSQL with one request for each step. A noun, in `nouns/`, has the routines of one contract: its verbs.
 */
import type { Scope } from '../model/access.ts'
import type { Clock } from '../platform/clock.ts'
import type { Sealer } from '../platform/sealing.ts'
import { constantSql, joinSql, type Sql, sql } from '../platform/sql.ts'
import type { EventType } from './events.ts'
import type { EntryFacts, LaneFacts, OutboxPlan } from './rules/outbox-plan.ts'

type Rows = Record<string, unknown>[]

/**
 * `write`: statements of one transaction. On SQLite it is the transaction of the whole verb. On PostgreSQL it is one of its
 * own, and what was read before may have changed: `Dialect.expect` and `Dialect.lock` say what must not.
 */
export type RoutineStep =
  /** `isHeld`: the verb rests on these rows. PostgreSQL locks them when it begins the verb again for the third time. */
  | { readonly read: Sql; readonly isHeld?: boolean }
  /** Locks such rows by a SELECT of its own, only when the verb begins for the third time. */
  | { readonly hold: Sql }
  | { readonly write: readonly Sql[] }

/** A verb under way. `T` is its result. */
export type Routine<T> = Generator<RoutineStep, T, Rows[]>

export function* readAll<R>(statement: Sql): Routine<R[]> {
  return (yield { read: statement })[0] as R[]
}

/** Reads rows on which the verb rests, as its write says with `Dialect.expect`. */
export function* readHeld<R>(statement: Sql): Routine<R[]> {
  return (yield { read: statement, isHeld: true })[0] as R[]
}

/** @returns the first row */
export function* readFirst<R>(statement: Sql): Routine<R | undefined> {
  return (yield* readAll<R>(statement))[0]
}

/** @returns the rows of the last statement; give it RETURNING to have them */
export function* write<R>(...statements: readonly Sql[]): Routine<R[]> {
  return (yield { write: statements }).at(-1) as R[]
}

/** Same. @returns whether the last statement, with its RETURNING, changed a row */
export function* changes(...statements: readonly Sql[]): Routine<boolean> {
  return (yield* write(...statements)).length > 0
}

/** When a verb resolves, and whom it wakes. */
export type Mode =
  /** It reads. */
  | 'plain'
  /** It writes with one statement, and does not wait for the disk. */
  | 'relaxed'
  /** It reads and writes in one transaction, and does not wait for the disk. */
  | 'light'
  /** Same, and wakes callers that wait for logins. */
  | 'touch'
  /** Same, and wakes callers that wait for messages and events, which PostgreSQL shows only once they are durable. */
  | 'redelivery'
  /** It reads and writes in one transaction, and what it wrote is durable when it resolves. */
  | 'write'
  /** Same; on SQLite in a transaction of its own. */
  | 'intake'
  /** Same, and wakes callers that wait for messages or events. */
  | 'news'

type Method = (...args: never[]) => Promise<unknown>

/** The verbs of a contract. */
export type Verbs<S> = {
  [K in keyof S]: S[K] extends (...args: infer A) => Promise<infer R> ? (...args: A) => Routine<R> : never
}

export type Modes<S> = { readonly [K in keyof S]: Mode }

export interface Noun<S> {
  readonly verbs: Verbs<S>
  readonly modes: Modes<S>
}

/** Runs a routine, again from its start after an attempt that lost against another writer. */
export type Runner = <T>(mode: Mode, begin: () => Routine<T>) => Promise<T>

/** Returns the contract of a noun. */
export function openNoun<S extends Record<keyof S, Method>>({ modes, verbs }: Noun<S>, run: Runner): S {
  const methods = Object.entries(modes).map(([name, mode]) => {
    const verb = verbs[name as keyof S] as unknown as (...args: unknown[]) => Routine<unknown>
    return [name, async (...args: unknown[]) => await run(mode as Mode, () => verb.apply(verbs, args))]
  })
  return Object.fromEntries(methods) as S
}

/** What SQL the engines have in common only by name. */
export interface Dialect {
  /** The condition that `value` is one of a list. */
  isOneOf(value: Sql, list: readonly string[] | readonly number[]): Sql
  /** Continues FROM: the row ids that a column lists, each as `one.value`. */
  rowIds(column: Sql): Sql
  /** Statements of a write that fail unless the condition holds. The verb then begins again. */
  expect(condition: Sql): readonly Sql[]
  /** Statements of a write that lock the rows of a SELECT until its end. */
  lock(select: Sql): readonly Sql[]
  /** Ends a subquery: locks its rows of the table with this name until the end of the write. */
  holding(table: string): Sql
  /** Statements of a write that let one writer at a time go on until its end. */
  oneAtATime(lock: number): readonly Sql[]
  /**
   * Follows the name of a table: the index by which its rows are found, where the planner may choose a worse one;
   * undefined: in the order of their ids.
   */
  by(index: string | undefined): Sql
  /** Continues a WHERE: the message is in a scope. `message`: its name in the statement, `m` by default. */
  inScope(scope: Scope | undefined, message?: Sql): Sql
  /** A text as JSON, for `->>` and `jsonOf`. */
  json(text: Sql): Sql
  /** JSON, as text, of an object with these columns, but for those with NULL. */
  jsonOf(columns: Readonly<Record<string, Sql>>): Sql
  /** Names of functions of several values, none of them NULL. */
  readonly least: Sql
  readonly greatest: Sql
  /** JOIN of tables in the order in which they are written. */
  readonly inOrderJoin: Sql
  /** Column that every write of a row changes, as text, for `expect`. */
  readonly version: Sql
}

/** SQL for names and values in turn, as functions take them that make JSON. */
export const namedColumns = (columns: Readonly<Record<string, Sql>>): Sql =>
  joinSql(Object.entries(columns).map(([name, value]) => sql`${constantSql(`'${name}'`)}, ${value}`))

/** A row that a process claims by a lease. */
export interface ClaimRow {
  owner?: string | undefined
  /** Unix ms. */
  lease_until: number
  /** What `Claims.isDead` reads. */
  dead?: unknown
}

/** Claims of processes. */
interface Claims {
  /** This process. */
  readonly owner: string
  /** SQL for the column `dead` of a `ClaimRow`, of a table with this name. */
  dead(table: string): Sql
  /** Whether the owner of a row certainly runs no more. */
  isDead(row: ClaimRow): boolean
}

/** What nouns need of an engine. */
export interface NounContext {
  readonly clock: Clock
  readonly sealer: Sealer
  readonly dialect: Dialect
  readonly claims: Claims
  /** SQL for the key for new rows of a session, or NULL; and for a subquery of all keys of it. */
  sessionKey(name: string): Sql
  sessionKeys(name: string): Sql
  /** Returns the key for new rows of a session; adds one if there is none. */
  ensureSession(name: string): Routine<number>
  /** Call it before something about a user is stored. @throws SvcError `window_closed` if the user was erased */
  rejectErased(user: string): Routine<void>
  /** Returns those of some users who were erased. */
  erasedOf(users: readonly string[]): Routine<readonly string[]>
  /** The hash of each erased user in place of the user, in a text for the audit log. */
  withoutErased(text: string | undefined): string | undefined
  /** SQL for the name of the key in a column with a principal; NULL if it is not one of a key. */
  keyName(column: string): Sql
  /** @returns the statement of a write that adds an event. `data`: SQL for JSON, of the one row of `from` if that is given */
  addEvent(event: { type: EventType; session?: string | undefined }, data: Sql, from?: Sql): Sql
  readonly keyChanges: KeyChanges
  /**
   * Changes entries `e` of the outbox by what `rules/outbox-ends.ts` decides. The write of the verb comes next.
   * @returns statements for it
   */
  changeEntries(
    which: Sql,
    decide: <L extends LaneFacts>(found: EntryFacts<L>, plan: OutboxPlan<L>) => void,
  ): Routine<readonly Sql[]>
}

/** How keys change: one change after another, so that a reader that follows the revisions misses none. */
export interface KeyChanges {
  /** The row that is locked meanwhile, to `hold`. */
  readonly row: Sql
  /** Statements before a change. */
  readonly begin: readonly Sql[]
  /** SQL for the revision that a change gets after them. */
  readonly revision: Sql
}

/** Whether a lease of `leaseMs` is over. Far more than all of it is left if the clock was set back. */
export const isLeaseOver = (leftMs: number, leaseMs: number): boolean => leftMs <= 0 || leftMs > 2 * leaseMs

/** Whether this process may take a row that was claimed for `leaseMs`, if at all. */
export function mayTake(
  { claims, clock }: Pick<NounContext, 'claims' | 'clock'>,
  row: ClaimRow,
  leaseMs: number,
): boolean {
  return (
    row.owner === undefined ||
    row.owner === claims.owner ||
    isLeaseOver(row.lease_until - clock.now(), leaseMs) ||
    claims.isDead(row)
  )
}

/** Verbs of a noun that are methods. */
export abstract class NounVerbs {
  readonly context: NounContext
  readonly clock: Clock
  readonly dialect: Dialect

  constructor(context: NounContext) {
    this.context = context
    this.clock = context.clock
    this.dialect = context.dialect
  }
}

/** Verbs that also need what an engine has alone. */
export abstract class EngineVerbs<Parts> extends NounVerbs {
  protected readonly parts: Parts

  constructor(context: NounContext, parts: Parts) {
    super(context)
    this.parts = parts
  }
}
