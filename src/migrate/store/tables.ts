/** The tables that a copy of a store moves, with the columns that both engines have. */
import { mapContextToken, mapRaw, mapWebhook, type SecretChange } from '../../storage/sealed-places.ts'

/** A row as both engines understand it. Absent is NULL. */
export type CopyRow = Record<string, string | number | undefined>

export interface CopyTable {
  readonly name: string
  readonly columns: readonly string[]
  /** Columns that identify a row and order the rows. None: the rows are identified by their place alone. */
  readonly key: readonly string[]
  /** Rows are only added, or seldom changed: a copy that was interrupted is carried on behind the last one. */
  readonly grows?: true
  /** The column that each engine numbers by itself, if it must never give a number twice. */
  readonly numbered?: string
  /** Columns that may be long: fewer rows are read at once. */
  readonly wide?: readonly string[]
  /** Returns a row with changed secrets. */
  map?(row: CopyRow, change: SecretChange): CopyRow
}

const words = (text: string): string[] => text.split(/\s+/).filter(word => word !== '')

/** @param columns the columns of the key come first, then `|` */
function table(
  name: string,
  columns: string,
  more: Omit<CopyTable, 'name' | 'columns' | 'key'> = {},
): CopyTable {
  const [key = '', others = ''] = columns.split('|')
  return { name, key: words(key), columns: [...words(key), ...words(others)], ...more }
}

/**
 * All tables that hold something of the store. Not those that an engine makes by itself (index for search, leases of
 * nodes, horizon), nor what lives for minutes (running logins, links to sign in).
 */
export const copiedTables: readonly CopyTable[] = [
  table('session', 'key | name named', { numbered: 'key' }),
  table(
    'message',
    `id | message_id session sent status bot_id peer msg_type timestamp stored_at content_hash text raw reason
     reason_code reason_quote sent_with sent_by`,
    {
      grows: true,
      numbered: 'id',
      wide: ['text', 'raw'],
      map: (row, change) => ({ ...row, raw: mapRaw(String(row.raw), String(row.message_id), change) }),
    },
  ),
  table('session_bot', 'bot_id session |'),
  table('event', 'place | type at message status session data', { grows: true, wide: ['data'] }),
  table('consumer', 'name | position seen_at'),
  table('consumer_ahead', 'consumer session | position'),
  table('acknowledged', 'consumer session | position handed_out'),
  table('lease', 'id | consumer ids owner expires_at hand_outs', { numbered: 'id' }),
  table(
    'outbox_lane',
    `id | session peer token received_at first_seen used last_sent_at held_at held_until holds not_before failures`,
    {
      numbered: 'id',
      map: (row, change) => ({
        ...row,
        token: row.token && mapContextToken(String(row.token), String(row.peer), change),
      }),
    },
  ),
  table(
    'outbox',
    `id | lane created_at expires_at mode owner key content ended_at used received_at asked send_at made_by
     approved_by ended_by address`,
    { numbered: 'id' },
  ),
  table(
    'outbox_part',
    `id | entry lane kind msg_type status tries message message_id error slot owner began_at file text raw`,
    { wide: ['text', 'raw'] },
  ),
  table('turn', '| session peer at'),
  table('read_mark', 'session peer | position'),
  table('person_mark', 'reader session peer | position'),
  table('user_name', 'session peer | name folded'),
  table('erased', 'mark | hash ended'),
  table('event_reader', 'name | place seen_at'),
  table(
    'webhook',
    `nth | id url types session peer headers secrets link_key allow_private replies paused disabled disabled_at
     disabled_code created_at position replayed epoch last_success_at failing_since last_error last_error_code
     next_try_at tries_done tries_failed tries_gave_up made_by grant`,
    {
      numbered: 'nth',
      map: (row, change) => ({
        ...row,
        ...mapWebhook(
          {
            headers: String(row.headers),
            secrets: String(row.secrets),
            link_key: String(row.link_key),
          },
          String(row.id),
          change,
        ),
      }),
    },
  ),
  table('webhook_lane', 'webhook session peer | position event tries failed_at retry_at'),
  table('webhook_try', 'id | webhook at event type outcome status took_ms detail code', { numbered: 'id' }),
  table(
    'access_key',
    `nth | id name hash replaced_hash replaced_until grant can made_by created_at expires_at revoked_at last_used_at
     last_address revision`,
    { numbered: 'nth' },
  ),
  table('audit', 'id | at principal operation subject outcome address count message', {
    grows: true,
    numbered: 'id',
  }),
  table('backup', 'path | created_at size took_ms'),
  table('backup_failure', '| at error'),
  table('agent_conversation', 'id | agent session peer agent_session folder', { numbered: 'id' }),
  table(
    'agent_turn',
    `id | conversation state source first messages prompt fresh created_at started_at ended_at answer parts parts_sent
     error stopping`,
    { numbered: 'id', wide: ['messages', 'prompt', 'answer'] },
  ),
  table(
    'agent_question',
    `id | turn text options code asked_at expires_at answer answered_by entry message_id sent_at drafts`,
    { numbered: 'id' },
  ),
]

/**
 * Returns a row without the process that had it: none of the source runs any more. What such a process left behind is
 * then taken or ended as after its death.
 */
export function withoutOwner(table: string, row: CopyRow): CopyRow {
  // What no reader saw stays so.
  if (table === 'lease') return { ...row, owner: '', expires_at: Math.min(Number(row.expires_at), 0) }
  if (table === 'outbox_part') return { ...row, owner: row.owner === undefined ? undefined : '' }
  if (table !== 'outbox' || row.owner === undefined) return row
  const isOpenCall = row.mode === 'fail' && row.ended_at === undefined
  return { ...row, owner: '', ...(isOpenCall && { expires_at: 0 }) }
}
