/**
 * All tables of both engines, with what the machines that go through whole stores know of their columns: what `svc store copy`
 * moves, what is secret, what names a process, and what may tell of a person. `test/storage/table-list.test.ts` fails for a
 * table that is missing here.
 */
import { SvcError } from '../model/error.ts'
import { isOwnName } from '../platform/own-names.ts'
import type { KeptFile } from './outbox.ts'
import {
  mapContext,
  mapContextToken,
  mapKeyHash,
  mapLoginCode,
  mapRaw,
  mapToken,
  mapTopicSecret,
  mapWebhook,
  type SecretChange,
} from './sealed-places.ts'
import { type TableShape, tableShapes } from './tables.ts'

/** A row as both engines understand it. Absent is NULL. */
export type StoreRow = Record<string, string | number | undefined>

/**
 * What keeps a table or a file small: the age of its rows, a number, a person, an account (`session`), a process or a
 * file that it belongs to, or that there is one. Else the table with whose rows it goes.
 */
type Bound =
  | ('age' | 'age and number' | 'number' | 'person' | 'session' | 'process' | 'file' | 'one' | 'nothing')
  | ('access_key' | 'consumer' | 'invitation' | 'message' | 'outbox' | 'upload' | 'webhook')

/**
 * Who removes what is over. `Housekeeping` calls `prune`, `removeOld` and those with a dot every ten minutes. `forget`: with a person.
 * `caller`: somebody who calls svc, or the next one that adds something.
 */
type Remover = string

/** Each table and file, by its bound and by who removes. `file.`: names of `dataFiles`, and what is in their folders. */
const keeping: readonly (readonly [Bound, Remover, string])[] = [
  ['age and number', 'prune', 'message event file.store'],
  ['age', 'prune', 'turn'],
  ['age', 'removeOld', 'outbox audit access_key invitation agent_turn agent_question session'],
  ['session', 'removeOld', 'session_bot'],
  ['age', 'topics.expire', 'notice bulletin'],
  ['age', 'media.sweep', 'upload file.media file.uploads'],
  ['age', 'sessions.sweep', 'file.halfWritten'],
  ['age', 'sandbox', 'file.sandbox'],
  ['age', 'caller', 'login_flow sign_in_link'],
  ['message', 'prune', 'gram gap'],
  ['outbox', 'removeOld', 'outbox_part'],
  ['outbox', 'media.sweep', 'file.queued'],
  ['invitation', 'removeOld', 'invitation_use'],
  ['access_key', 'prune', 'key_use'],
  ['access_key', 'removeOld', 'relay_client'],
  ['upload', 'media.sweep', 'blob'],
  ['consumer', 'caller', 'consumer_ahead acknowledged lease'],
  ['webhook', 'caller', 'webhook_lane'],
  ['file', 'backups.forgetGone', 'backup'],
  ['number', 'caller', 'consumer event_reader webhook webhook_try topic topic_member ended_sign_in'],
  ['number', 'caller', 'file.backups'],
  [
    'person',
    'forget',
    'outbox_lane read_mark person_mark user_name agent_conversation agent_time file.agents',
  ],
  ['person', 'caller', 'erased'],
  ['session', 'caller', 'account file.token file.contexts'],
  ['process', 'process', 'node durable file.address'],
  ['one', 'nobody', 'backup_failure gram_position store_id meta head server_run indexed'],
  ['one', 'nobody', 'file.dataLock file.pollLock file.backupLock file.defaultSession'],
  ['one', 'nobody', 'file.mcpKey file.secrets file.restoring file.apiToken'],
  ['nothing', 'operator', 'file.downloads file.aside'],
]

/** The same by name. */
export const keptBy: ReadonlyMap<string, Pick<StoreTable, 'bound' | 'removedBy'>> = new Map(
  keeping.flatMap(([bound, removedBy, names]) =>
    names.split(' ').map(name => [name, { bound, removedBy }] as const),
  ),
)

/**
 * `columns`: those that a copy moves; none: an engine makes the table by itself, or it lives for minutes. `key` orders the rows
 * too; without one, rows are identified by their place alone.
 */
export interface StoreTable extends TableShape {
  readonly name: string
  readonly bound: Bound
  readonly removedBy: Remover
  /** The engine that has the table; absent: both. */
  readonly only?: 'sqlite' | 'postgres'
  /** Rows are only added, or seldom changed: a copy that was interrupted is carried on behind the last one. */
  readonly grows?: true
  /** Columns that may be long: fewer rows are read at once. */
  readonly wide?: readonly string[]
  /** Columns with secrets, and the column that is the key of their place. */
  readonly secrets?: { readonly by: string; readonly columns: Readonly<Record<string, SecretColumn>> }
  /** Columns by which a process has the row: SQL for what they are where no process runs that had one. */
  readonly owners?: Readonly<Record<string, string>>
  /** Columns that name a file or a folder, and whether a value has the form that svc gives. */
  readonly files?: Readonly<Record<string, (value: string) => boolean>>
  /** Columns with cursors of the event log. */
  readonly cursors?: readonly string[]
  /** Columns that may hold the id, a name or words of a person; none: but its rows are of persons. */
  readonly people?: string
  /** With the person, all rows go that have the person in `peer`. `nouns/people.ts` has what happens to other tables. */
  readonly isErased?: true
}

/** Changes the secrets in a value. */
type SecretColumn = (value: string, key: string, change: SecretChange) => string

const isSession = (name: string): boolean => isOwnName('session', name)
const isMedia = (name: string): boolean => isOwnName('media', name)

const words = (text = ''): string[] => text.split(/\s+/).filter(word => word !== '')

type More = Omit<StoreTable, 'name' | 'bound' | 'removedBy' | keyof TableShape>

/**
 * A table of both engines, which a copy moves.
 *
 * @param left columns that it does not move, since they are of processes
 * @param added columns that it moves, though one engine has others for them
 */
function table(
  name: string,
  { left, added = [], ...more }: More & { readonly left?: string; readonly added?: readonly string[] } = {},
): StoreTable {
  const { columns, ...shape } = tableShapes.get(name)!
  const moved = columns.filter(column => !words(left).includes(column))
  return { name, ...keptBy.get(name)!, ...shape, ...more, columns: [...moved, ...added] }
}

/** A table that no copy moves. */
const own = (name: string, more: More): StoreTable => {
  const kept = keptBy.get(name)!
  return { name, ...kept, columns: [], key: [], ...more }
}

/** What is left when a claim with a lease ends. */
const unclaimed = { owner: 'NULL', lease_until: '0' }
const wasOwned = `CASE WHEN owner IS NOT NULL THEN '' END`

export const storeTables: readonly StoreTable[] = [
  table('session', { files: { name: isSession } }),
  table('message', {
    grows: true,
    wide: ['text', 'raw'],
    secrets: { by: 'message_id', columns: { raw: mapRaw } },
    people: 'peer text raw reason reason_quote',
  }),
  table('session_bot', { people: 'person' }),
  table('event', { grows: true, wide: ['data'], people: 'data' }),
  table('consumer'),
  table('consumer_ahead'),
  table('acknowledged'),
  table('lease', {
    // What no reader saw stays so.
    owners: { owner: `''`, expires_at: 'CASE WHEN expires_at < 0 THEN expires_at ELSE 0 END' },
    people: '',
  }),
  table('outbox_lane', {
    left: 'owner lease_until',
    added: ['first_seen'],
    secrets: {
      by: 'peer',
      columns: {
        token: mapContextToken,
        context: (text, user, change) => JSON.stringify(mapContext(JSON.parse(text), user, change)),
      },
    },
    owners: unclaimed,
    people: 'peer',
  }),
  table('outbox', {
    owners: {
      owner: wasOwned,
      expires_at: `CASE WHEN owner IS NOT NULL AND mode = 'fail' AND ended_at IS NULL THEN 0 ELSE expires_at END`,
    },
    people: '',
  }),
  table('outbox_part', {
    wide: ['text', 'raw'],
    owners: { owner: wasOwned },
    people: 'error file text raw',
    files: { file: file => isMedia(String((JSON.parse(file) as KeptFile).name)) },
  }),
  table('turn', { people: 'peer' }),
  table('read_mark', { people: 'peer', isErased: true }),
  table('person_mark', { people: 'peer', isErased: true }),
  table('user_name', { people: 'peer name folded' }),
  table('erased'),
  table('event_reader'),
  table('webhook', {
    left: 'deliverer',
    secrets: {
      by: 'id',
      columns: {
        headers: mapWebhook('headers'),
        secrets: mapWebhook('secrets'),
        link_key: mapWebhook('link_key'),
      },
    },
    owners: { deliverer: 'NULL' },
    cursors: ['position', 'replayed'],
    people: 'peer last_error grant',
  }),
  table('webhook_lane', { cursors: ['position', 'event'], people: 'peer', isErased: true }),
  table('webhook_try', { people: 'detail answer' }),
  table('access_key', {
    secrets: { by: 'id', columns: { hash: mapKeyHash, replaced_hash: mapKeyHash } },
    people: 'name grant',
    files: { id: id => isOwnName('key', id) },
  }),
  table('relay_client'),
  table('invitation'),
  table('invitation_use'),
  table('ended_sign_in'),
  table('audit', { grows: true, people: 'subject' }),
  table('backup'),
  table('backup_failure'),
  table('agent_conversation', {
    left: 'owner lease_until',
    owners: unclaimed,
    people: 'peer agent_session folder kept',
    isErased: true,
  }),
  table('agent_turn', { wide: ['messages', 'prompt', 'answer'], people: 'prompt answer error' }),
  table('agent_time', { people: 'peer prompt', isErased: true }),
  table('agent_question', { people: 'text options peer', isErased: true }),
  table('topic', {
    secrets: { by: 'name', columns: { secret: mapTopicSecret } },
    people: 'template unread',
  }),
  table('topic_member', { people: 'peer missed', isErased: true }),
  table('notice', { wide: ['text'], people: 'peer name title text tags click media', isErased: true }),
  table('bulletin', {
    left: 'owner lease_until',
    wide: ['text'],
    owners: unclaimed,
    people: 'peer text media missed names',
    isErased: true,
  }),

  own('gram', { people: '' }),
  own('gram_position', { only: 'sqlite' }),
  own('store_id', { only: 'sqlite' }),
  own('sign_in_link', {}),
  own('account', {
    only: 'postgres',
    secrets: {
      by: 'bot_id',
      columns: { token: (token, bot_id, change) => String(mapToken({ bot_id, token }, change).token) },
    },
    people: 'info',
    files: { name: isSession },
  }),
  own('upload', { only: 'postgres', files: { id: isMedia } }),
  own('login_flow', { secrets: { by: 'id', columns: { qr: mapLoginCode } } }),
  ...words('meta head durable gap server_run node indexed key_use blob').map(name =>
    own(name, { only: 'postgres' }),
  ),
]

/** The tables that a copy of a store moves. */
export const copiedTables: readonly StoreTable[] = storeTables.filter(({ columns }) => columns.length > 0)

/** Pairs of a table and its column with cursors of the event log. */
export const cursorColumns: readonly (readonly [string, string])[] = storeTables.flatMap(
  ({ name, cursors = [] }) => cursors.map(column => [name, column] as const),
)

/**
 * Rejects a row of a store that comes from elsewhere.
 *
 * @throws SvcError `invalid_arguments` for a name that would lead to another file than one of svc
 */
export function rejectForeignNames({ files = {}, key: [by = ''], name }: StoreTable, row: StoreRow): void {
  for (const [column, isOurs] of Object.entries(files)) {
    const value = row[column]
    if (value === undefined || isOurs(String(value))) continue
    const which = row[by] === undefined ? '' : ` ${row[by]}`
    throw new SvcError(
      'invalid_arguments',
      `the row${which} of ${name} names a file in ${column} as svc does not: ${JSON.stringify(value)}`,
      {
        hint: 'Another program changed the store: use a copy from before.',
        details: { table: name, row: row[by], column },
      },
    )
  }
}

/** Returns a row with changed secrets, as far as it has columns with secrets. */
export function changeSecrets<T extends object>({ secrets }: StoreTable, row: T, change: SecretChange): T {
  if (!secrets) return row
  const changed = { ...row } as Record<string, unknown>
  for (const [column, map] of Object.entries(secrets.columns)) {
    const value = changed[column]
    if (typeof value === 'string' && value !== '')
      changed[column] = map(value, String(changed[secrets.by]), change)
  }
  return changed as T
}
