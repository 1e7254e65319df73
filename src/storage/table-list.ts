/**
 * All tables of both engines, with what the machines that go through whole stores know of their columns: what `svc store copy`
 * moves, what is secret, what names a process, and what may tell of a person. `test/storage/table-list.test.ts` fails for a
 * column that is missing here.
 */
import {
  mapContext,
  mapContextToken,
  mapLogin,
  mapRaw,
  mapToken,
  mapTopicSecret,
  mapWebhook,
  type SecretChange,
} from './sealed-places.ts'

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
 * Who removes what is over. `Housekeeping` calls those with a dot or with `prune` every ten minutes. `forget`: with a person.
 * `caller`: somebody who calls svc, or the next one that adds something.
 */
type Remover = string

/** Each table and file, by its bound and by who removes. `file.`: names of `dataFiles`, and what is in their folders. */
const keeping: readonly (readonly [Bound, Remover, string])[] = [
  ['age and number', 'prune', 'message event file.store'],
  ['age', 'prune', 'turn'],
  ['age', 'pruneOutbox', 'outbox'],
  ['age', 'audit.prune', 'audit'],
  ['age', 'keys.prune', 'access_key'],
  ['age', 'invitations.prune', 'invitation'],
  ['age', 'agents.prune', 'agent_turn agent_question'],
  ['age', 'topics.expire', 'notice bulletin'],
  ['age', 'media.sweep', 'upload file.media file.uploads'],
  ['age', 'sessions.sweep', 'file.halfWritten'],
  ['age', 'sandbox', 'file.sandbox'],
  ['age', 'caller', 'login_flow sign_in_link file.logins'],
  ['message', 'prune', 'gram gap'],
  ['outbox', 'pruneOutbox', 'outbox_part'],
  ['outbox', 'media.sweep', 'file.queued'],
  ['invitation', 'invitations.prune', 'invitation_use'],
  ['access_key', 'prune', 'key_use'],
  ['upload', 'media.sweep', 'blob'],
  ['consumer', 'caller', 'consumer_ahead acknowledged lease'],
  ['webhook', 'caller', 'webhook_lane'],
  ['file', 'backups.forgetGone', 'backup'],
  ['number', 'caller', 'consumer event_reader webhook webhook_try topic ended_sign_in'],
  ['number', 'caller', 'file.endedSignIns file.backups'],
  ['person', 'forget', 'outbox_lane read_mark person_mark user_name agent_conversation file.agents'],
  ['person', 'caller', 'erased'],
  ['session', 'caller', 'account file.token file.contexts'],
  ['process', 'process', 'node durable file.address'],
  ['one', 'nobody', 'backup_failure gram_position store_id meta head server_run indexed'],
  ['one', 'nobody', 'file.dataLock file.pollLock file.backupLock file.defaultSession file.signInLink'],
  ['one', 'nobody', 'file.mcpKey file.secrets file.restoring file.apiToken'],
  ['nothing', 'nobody', 'session session_bot'],
  ['nothing', 'operator', 'file.downloads file.aside'],
]

/** The same by name. */
export const keptBy: ReadonlyMap<string, Pick<StoreTable, 'bound' | 'removedBy'>> = new Map(
  keeping.flatMap(([bound, removedBy, names]) =>
    names.split(' ').map(name => [name, { bound, removedBy }] as const),
  ),
)

export interface StoreTable {
  readonly name: string
  readonly bound: Bound
  readonly removedBy: Remover
  /** Columns that a copy moves; none: an engine makes the table by itself, or it lives for minutes. */
  readonly columns: readonly string[]
  /** Columns that identify a row and order the rows. None: the rows are identified by their place alone. */
  readonly key: readonly string[]
  /** Columns that no copy moves: one engine has them, or they are of processes. */
  readonly left?: string
  /** The engine that has the table; absent: both. */
  readonly only?: 'sqlite' | 'postgres'
  /** Rows are only added, or seldom changed: a copy that was interrupted is carried on behind the last one. */
  readonly grows?: true
  /** The column that each engine numbers by itself, if it must never give a number twice. */
  readonly numbered?: string
  /** Columns that may be long: fewer rows are read at once. */
  readonly wide?: readonly string[]
  /** Columns with secrets, and the column that is the key of their place. */
  readonly secrets?: { readonly by: string; readonly columns: Readonly<Record<string, SecretColumn>> }
  /** Columns by which a process has the row: SQL for what they are where no process runs that had one. */
  readonly owners?: Readonly<Record<string, string>>
  /** Columns with cursors of the event log. */
  readonly cursors?: readonly string[]
  /** Columns that may hold the id, a name or words of a person; none: but its rows are of persons. */
  readonly people?: string
  /** With the person, all rows go that have the person in `peer`. `nouns/people.ts` has what happens to other tables. */
  readonly isErased?: true
}

/** Changes the secrets in a value. */
type SecretColumn = (value: string, key: string, change: SecretChange) => string

const words = (text = ''): string[] => text.split(/\s+/).filter(word => word !== '')

/** @param columns that a copy moves: those of the key come first, then `|` */
function table(
  name: string,
  columns: string,
  more: Omit<StoreTable, 'name' | 'bound' | 'removedBy' | 'columns' | 'key'> = {},
): StoreTable {
  const [key = '', others = ''] = columns.split('|')
  return { name, ...keptBy.get(name)!, key: words(key), columns: [...words(key), ...words(others)], ...more }
}

/** A table that no copy moves. */
const own = (only: StoreTable['only'], name: string, left: string, more: Partial<StoreTable> = {}) =>
  table(name, '', { ...more, left, ...(only && { only }) })

/** What is left when a claim with a lease ends. */
const unclaimed = { owner: 'NULL', lease_until: '0' }
const wasOwned = `CASE WHEN owner IS NOT NULL THEN '' END`

export const storeTables: readonly StoreTable[] = [
  table('session', 'key | name named', { numbered: 'key', left: 'renaming users_named name_key bookings' }),
  table(
    'message',
    `id | message_id session sent status bot_id peer msg_type timestamp stored_at content_hash text raw reason
     reason_code reason_quote sent_with sent_by`,
    {
      grows: true,
      numbered: 'id',
      wide: ['text', 'raw'],
      secrets: { by: 'message_id', columns: { raw: mapRaw } },
      people: 'peer text raw reason reason_quote',
    },
  ),
  table('session_bot', 'bot_id session |'),
  table('event', 'place | type at message status session data', {
    grows: true,
    wide: ['data'],
    people: 'data',
  }),
  table('consumer', 'name | position seen_at'),
  table('consumer_ahead', 'consumer session | position'),
  table('acknowledged', 'consumer session | position handed_out'),
  table('lease', 'id | consumer ids owner expires_at hand_outs', {
    numbered: 'id',
    // What no reader saw stays so.
    owners: { owner: `''`, expires_at: 'CASE WHEN expires_at < 0 THEN expires_at ELSE 0 END' },
    people: '',
  }),
  table(
    'outbox_lane',
    `id | session peer token received_at first_seen used last_sent_at held_at held_until holds not_before failures`,
    {
      left: 'owner lease_until token_at context',
      numbered: 'id',
      secrets: {
        by: 'peer',
        columns: {
          token: mapContextToken,
          context: (text, user, change) => JSON.stringify(mapContext(JSON.parse(text), user, change)),
        },
      },
      owners: unclaimed,
      people: 'peer',
    },
  ),
  table(
    'outbox',
    `id | lane created_at expires_at mode owner key content ended_at used received_at asked send_at made_by
     approved_by ended_by address`,
    {
      numbered: 'id',
      owners: {
        owner: wasOwned,
        expires_at: `CASE WHEN owner IS NOT NULL AND mode = 'fail' AND ended_at IS NULL THEN 0 ELSE expires_at END`,
      },
      people: '',
    },
  ),
  table(
    'outbox_part',
    `id | entry lane kind msg_type status tries message message_id error slot owner began_at file text raw`,
    { wide: ['text', 'raw'], owners: { owner: wasOwned }, people: 'error file text raw' },
  ),
  table('turn', '| session peer at', { people: 'peer' }),
  table('read_mark', 'session peer | position', { people: 'peer', isErased: true }),
  table('person_mark', 'reader session peer | position', { people: 'peer', isErased: true }),
  table('user_name', 'session peer | name folded', { people: 'peer name folded' }),
  table('erased', 'mark | hash ended'),
  table('event_reader', 'name | place seen_at'),
  table(
    'webhook',
    `nth | id url types session peer headers secrets link_key allow_private replies paused disabled disabled_at
     disabled_code created_at position replayed epoch last_success_at failing_since last_error last_error_code
     next_try_at tries_done tries_failed tries_gave_up made_by grant subscription expires_at`,
    {
      left: 'deliverer',
      numbered: 'nth',
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
    },
  ),
  table('webhook_lane', 'webhook session peer | position event tries failed_at retry_at', {
    cursors: ['position', 'event'],
    people: 'peer',
    isErased: true,
  }),
  table('webhook_try', 'id | webhook at event type outcome status took_ms detail code', {
    numbered: 'id',
    people: 'detail',
  }),
  table(
    'access_key',
    `nth | id name hash replaced_hash replaced_until grant can made_by created_at expires_at revoked_at last_used_at
     last_address revision`,
    { numbered: 'nth', people: 'name grant' },
  ),
  table(
    'invitation',
    'id | name hash agent trusted turns_per_day uses inviter topic made_by created_at expires_at revoked_at',
  ),
  table('invitation_use', 'login | invitation at'),
  table('audit', 'id | at principal operation subject outcome address count message', {
    grows: true,
    numbered: 'id',
    people: 'subject',
  }),
  table('backup', 'path | created_at size took_ms'),
  table('backup_failure', '| at error'),
  table('agent_conversation', 'id | agent session peer agent_session folder', {
    left: 'owner lease_until',
    numbered: 'id',
    owners: unclaimed,
    people: 'peer agent_session folder',
    isErased: true,
  }),
  table(
    'agent_turn',
    `id | conversation state source first messages prompt fresh created_at started_at ended_at answer parts parts_sent
     error stopping`,
    { numbered: 'id', wide: ['messages', 'prompt', 'answer'], people: 'prompt answer error' },
  ),
  table(
    'agent_question',
    `id | turn text options code asked_at expires_at answer answered_by entry message_id sent_at drafts session peer
     asked_by asked_key lasts_ms grants answered_at answered_in`,
    { numbered: 'id', people: 'text options peer', isErased: true },
  ),
  table(
    'topic',
    `id | name session peer min_priority max_priority quiet zone digest answers keep_ms template secret priorities
     attach_private missed unread sent expired revision made_by created_at`,
    {
      numbered: 'id',
      secrets: { by: 'name', columns: { secret: mapTopicSecret } },
      people: 'peer template missed unread',
      isErased: true,
    },
  ),
  table(
    'notice',
    `id | topic peer mark name title text priority tags click media size count telling reported received_at last_at
     expires_at state resolved bulletin`,
    { numbered: 'id', wide: ['text'], people: 'peer name title text tags click media', isErased: true },
  ),
  table('bulletin', 'id | session peer text media answers priority missed names state named_in created_at', {
    left: 'owner lease_until',
    wide: ['text'],
    owners: unclaimed,
    people: 'peer text media missed names',
    isErased: true,
  }),

  own(undefined, 'gram', 'body id pairs', { people: '' }),
  own('sqlite', 'gram_position', 'position'),
  own('sqlite', 'store_id', 'id hash_key erasures events_removed clock_seen clock_doubt_ms'),
  own(
    'postgres',
    'meta',
    `form min_reader store_id hash_key erasures events_removed secret_key old_key home timeline timeline_at moved_to
     copying clock_seen clock_doubt_ms`,
  ),
  own('postgres', 'head', 'last place revision'),
  own('postgres', 'durable', 'node upto place'),
  own('postgres', 'gap', 'after size place'),
  own('postgres', 'server_run', 'id'),
  own(
    'postgres',
    'node',
    'id name version url polls epoch started_at lease_until keys token max_age_days max_count',
  ),
  own('postgres', 'account', 'name_key name bot_id token info cursor created_at chosen changed node fence', {
    secrets: {
      by: 'bot_id',
      columns: { token: (token, bot_id, change) => String(mapToken({ bot_id, token }, change).token) },
    },
    people: 'info',
  }),
  own('postgres', 'indexed', 'upto'),
  own('postgres', 'key_use', 'key node calls open bytes day_began'),
  own('postgres', 'login_flow', 'name_key id version until ended data owner lease_until', {
    secrets: {
      by: 'id',
      columns: { data: (text, _, change) => JSON.stringify(mapLogin(JSON.parse(text), change)) },
    },
  }),
  own('postgres', 'sign_in_link', 'code until'),
  own('postgres', 'ended_sign_in', 'name until'),
  own('postgres', 'upload', 'id store size reserved md5 sha256 note begun_at expires_at'),
  own('postgres', 'blob', 'id n data'),
]

/** The tables that a copy of a store moves. */
export const copiedTables: readonly StoreTable[] = storeTables.filter(({ columns }) => columns.length > 0)

/** Pairs of a table and its column with cursors of the event log. */
export const cursorColumns: readonly (readonly [string, string])[] = storeTables.flatMap(
  ({ name, cursors = [] }) => cursors.map(column => [name, column] as const),
)

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
