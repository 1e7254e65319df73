/**
 * The tables that both engines have. Each engine adds its own tables, columns, indexes and triggers. `src/README.md` says
 * what each column holds.
 *
 * Types are those of PostgreSQL, which SQLite takes as INTEGER, TEXT and REAL. What counts rows, places, bytes or
 * milliseconds has 64 bits.
 */
import { logEnd } from './log-rows.ts'

/** The SQL in which engines differ. */
export interface TableWords {
  /** The key of a table whose rows the engine numbers. It gives no number twice. */
  readonly numbered: string
  /** The key of a table whose rows svc numbers. */
  readonly given: string
  /** The key of the message log. */
  readonly rowId: string
  /** A list of row ids. */
  readonly rowIds: string
  /** After a table whose rows are found by their key alone. */
  readonly keyed: string
}

/** SQL that makes the tables. */
export const sharedTables = ({ numbered, given, rowId, rowIds, keyed }: TableWords): string => `
  CREATE TABLE session (
    key ${numbered},
    name text NOT NULL,
    named bigint NOT NULL DEFAULT 0,
    unused_since bigint
  );
  -- Ids have no gaps but those of PostgreSQL's table gap: rows are removed only at the low end, and a message that is not
  -- stored uses no id. text and raw are last: on SQLite the columns for filters and lists are in the row's first page.
  CREATE TABLE message (
    id ${rowId} ${logEnd},
    message_id text NOT NULL,
    session bigint NOT NULL,
    sent smallint NOT NULL,
    status text,
    bot_id text NOT NULL,
    peer text NOT NULL,
    msg_type text NOT NULL,
    timestamp bigint NOT NULL,
    stored_at bigint NOT NULL,
    content_hash text,
    reason text,
    reason_code text,
    reason_quote text,
    sent_with text,
    sent_by text,
    text text NOT NULL,
    raw text NOT NULL
  );
  CREATE INDEX message_suspect ON message (timestamp, session) WHERE status = 'suspect';
  -- The accounts that a session has, or had. person: who scanned, if that is known: grants follow to the next account there.
  CREATE TABLE session_bot (
    bot_id text NOT NULL,
    session bigint NOT NULL,
    person text,
    PRIMARY KEY (bot_id, session)
  )${keyed};
  CREATE TABLE consumer (name text PRIMARY KEY, position bigint NOT NULL, seen_at bigint NOT NULL)${keyed};
  CREATE TABLE consumer_ahead (
    consumer text NOT NULL,
    session bigint NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (consumer, session)
  )${keyed};
  CREATE TABLE acknowledged (
    consumer text NOT NULL,
    session bigint NOT NULL,
    position bigint NOT NULL,
    handed_out bigint NOT NULL,
    PRIMARY KEY (consumer, session)
  )${keyed};
  CREATE TABLE lease (
    id ${numbered},
    consumer text NOT NULL,
    ids ${rowIds} NOT NULL,
    owner text NOT NULL,
    expires_at bigint NOT NULL,
    hand_outs bigint NOT NULL DEFAULT 0
  );
  CREATE INDEX lease_consumer ON lease (consumer);
  CREATE TABLE outbox_lane (
    id ${numbered},
    session bigint NOT NULL,
    peer text NOT NULL,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0,
    received_at bigint,
    token text,
    used bigint NOT NULL DEFAULT 0,
    last_sent_at bigint,
    held_at bigint,
    held_until bigint,
    holds bigint NOT NULL DEFAULT 0,
    not_before bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    UNIQUE (session, peer)
  );
  -- A plain send changes only one index of the outbox, that of the parts in flight. A queued send is kept for a week, so
  -- that callers can look up its result; few of them wait.
  CREATE TABLE outbox (
    id ${numbered},
    lane bigint NOT NULL,
    mode text NOT NULL DEFAULT 'queue',
    owner text,
    key text,
    content text,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    ended_at bigint,
    used bigint,
    received_at bigint,
    asked text,
    send_at bigint,
    made_by text,
    origin text,
    approved_by text,
    ended_by text
  );
  CREATE UNIQUE INDEX outbox_key ON outbox (key) WHERE key IS NOT NULL;
  CREATE INDEX outbox_expiry ON outbox (expires_at) WHERE mode = 'queue';
  CREATE INDEX outbox_in_lane ON outbox (lane) WHERE mode = 'queue' AND ended_at IS NULL;
  -- One complete message each: retention may remove its row in the log. The ids of the parts of an entry start at a
  -- thousand times its id. A waiting part of mode 'queue' has a message, one of mode 'fail' has none yet.
  CREATE TABLE outbox_part (
    id ${given},
    entry bigint NOT NULL,
    lane bigint NOT NULL,
    kind text NOT NULL,
    msg_type text NOT NULL,
    status text NOT NULL,
    tries bigint NOT NULL DEFAULT 0,
    message bigint,
    message_id text,
    error text,
    slot double precision,
    owner text,
    began_at bigint,
    file text,
    text text NOT NULL,
    raw text NOT NULL
  );
  CREATE INDEX outbox_part_sending ON outbox_part (began_at) WHERE status = 'sending';
  CREATE INDEX outbox_part_call ON outbox_part (lane) WHERE status = 'queued' AND message IS NULL;
  CREATE INDEX outbox_part_asked ON outbox_part (entry) WHERE status = 'asked';
  CREATE TABLE turn (session bigint NOT NULL, peer text NOT NULL, at double precision NOT NULL);
  CREATE INDEX turn_session ON turn (session, at);
  CREATE INDEX turn_user ON turn (session, peer, at);
  CREATE TABLE user_name (
    session bigint NOT NULL,
    peer text NOT NULL,
    name text NOT NULL,
    folded text NOT NULL,
    PRIMARY KEY (session, peer)
  )${keyed};
  CREATE INDEX user_name_folded ON user_name (folded);
  CREATE TABLE erased (mark text PRIMARY KEY, hash text NOT NULL, ended bigint NOT NULL DEFAULT 0)${keyed};
  CREATE TABLE read_mark (
    session bigint NOT NULL,
    peer text NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (session, peer)
  )${keyed};
  CREATE TABLE person_mark (
    reader text NOT NULL,
    session bigint NOT NULL,
    peer text NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (reader, session, peer)
  )${keyed};
  -- All events except received messages, which are events themselves.
  CREATE TABLE event (
    place ${given},
    type text NOT NULL,
    at bigint NOT NULL,
    message bigint,
    status text,
    session text,
    data text
  );
  CREATE INDEX event_session ON event (session, place) WHERE session IS NOT NULL;
  CREATE TABLE event_reader (
    name text PRIMARY KEY,
    place bigint NOT NULL,
    seen_at bigint NOT NULL DEFAULT 0
  )${keyed};
  CREATE TABLE webhook (
    nth ${numbered},
    id text NOT NULL UNIQUE,
    url text NOT NULL,
    types text NOT NULL,
    session text,
    peer text,
    headers text NOT NULL,
    secrets text NOT NULL,
    link_key text NOT NULL,
    allow_private bigint NOT NULL,
    replies bigint NOT NULL,
    paused bigint NOT NULL DEFAULT 0,
    disabled text,
    disabled_at bigint,
    disabled_code text,
    deliverer text,
    made_by text,
    "grant" text,
    created_at bigint NOT NULL,
    position text NOT NULL,
    replayed text,
    epoch bigint NOT NULL DEFAULT 0,
    last_success_at bigint,
    failing_since bigint,
    last_error text,
    last_error_code text,
    next_try_at bigint,
    tries_done bigint NOT NULL DEFAULT 0,
    tries_failed bigint NOT NULL DEFAULT 0,
    tries_gave_up bigint NOT NULL DEFAULT 0,
    subscription text,
    expires_at bigint
  );
  CREATE TABLE webhook_lane (
    webhook text NOT NULL,
    session text NOT NULL,
    peer text NOT NULL,
    position text NOT NULL,
    event text,
    tries bigint,
    failed_at bigint,
    retry_at bigint,
    PRIMARY KEY (webhook, session, peer)
  )${keyed};
  CREATE TABLE webhook_try (
    id ${numbered},
    webhook text NOT NULL,
    at bigint NOT NULL,
    event text NOT NULL,
    type text NOT NULL,
    outcome text NOT NULL,
    status bigint,
    took_ms bigint NOT NULL,
    detail text,
    code text,
    answer text
  );
  CREATE INDEX webhook_try_outcome ON webhook_try (webhook, outcome, id);
  CREATE TABLE access_key (
    nth ${numbered},
    id text NOT NULL UNIQUE,
    name text NOT NULL,
    hash text NOT NULL,
    replaced_hash text,
    replaced_until bigint,
    "grant" text NOT NULL,
    can text NOT NULL,
    made_by text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    last_used_at bigint,
    last_address text,
    revision bigint NOT NULL
  );
  CREATE INDEX access_key_revision ON access_key (revision);
  CREATE INDEX access_key_expiry ON access_key (expires_at) WHERE revoked_at IS NULL;
  CREATE TABLE invitation (
    id text PRIMARY KEY,
    name text NOT NULL,
    hash text NOT NULL UNIQUE,
    agent text,
    trusted bigint NOT NULL,
    turns_per_day bigint NOT NULL,
    max_uses bigint NOT NULL,
    inviter text,
    topic text,
    made_by text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint
  );
  CREATE TABLE invitation_use (login text PRIMARY KEY, invitation text NOT NULL, at bigint NOT NULL)${keyed};
  CREATE INDEX invitation_use_invitation ON invitation_use (invitation);
  -- QR logins. data: the other fields of the login as JSON. owner: the process that asks WeChat about it.
  CREATE TABLE login_flow (
    name_key text PRIMARY KEY,
    id text NOT NULL,
    version text NOT NULL,
    until bigint NOT NULL,
    ended bigint NOT NULL,
    qr text,
    data text NOT NULL,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0
  );
  CREATE INDEX login_flow_until ON login_flow (ended, until);
  -- Sign-ins to the panel: hashes of links that count once, and the names of those that were ended early.
  CREATE TABLE sign_in_link (code text PRIMARY KEY, until bigint NOT NULL, shared bigint NOT NULL)${keyed};
  CREATE TABLE ended_sign_in (name text PRIMARY KEY, until bigint NOT NULL)${keyed};
  CREATE TABLE audit (
    id ${numbered},
    at bigint NOT NULL,
    principal text NOT NULL,
    operation text NOT NULL,
    subject text,
    outcome text,
    address text,
    request_id text,
    count bigint,
    message bigint,
    decided text,
    draft_by text,
    changed text
  );
  CREATE INDEX audit_message ON audit (message) WHERE message IS NOT NULL;
  CREATE INDEX audit_request ON audit (request_id) WHERE request_id IS NOT NULL;
  CREATE INDEX audit_decided ON audit (id) WHERE decided IS NOT NULL;
  CREATE TABLE backup (
    path text PRIMARY KEY,
    created_at bigint NOT NULL,
    size bigint NOT NULL,
    took_ms bigint NOT NULL
  )${keyed};
  CREATE TABLE backup_failure (at bigint NOT NULL, error text NOT NULL);
  CREATE TABLE agent_conversation (
    id ${numbered},
    agent text NOT NULL,
    session bigint NOT NULL,
    peer text NOT NULL,
    agent_session text,
    folder text,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0,
    UNIQUE (agent, session, peer)
  );
  CREATE TABLE agent_turn (
    id ${numbered},
    conversation bigint NOT NULL,
    status text NOT NULL,
    source text NOT NULL,
    first bigint,
    messages text NOT NULL,
    prompt text,
    fresh bigint NOT NULL DEFAULT 0,
    created_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint,
    answer text,
    parts bigint,
    parts_sent bigint,
    error text,
    stopping bigint NOT NULL DEFAULT 0
  );
  CREATE UNIQUE INDEX agent_turn_first ON agent_turn (conversation, first) WHERE first IS NOT NULL;
  CREATE INDEX agent_turn_conversation ON agent_turn (conversation, id);
  CREATE INDEX agent_turn_open ON agent_turn (conversation) WHERE status IN ('waiting', 'running', 'answering');
  CREATE INDEX agent_turn_started ON agent_turn (started_at);
  CREATE INDEX agent_turn_ended ON agent_turn (ended_at) WHERE ended_at IS NOT NULL;
  CREATE TABLE agent_question (
    id ${numbered},
    turn bigint,
    text text NOT NULL,
    options text NOT NULL,
    code text NOT NULL,
    asked_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    answer text,
    answered_by text,
    entry bigint,
    message_id text,
    sent_at bigint,
    drafts text,
    session bigint,
    peer text,
    asked_by text,
    asked_key text,
    lasts_ms bigint,
    grants bigint,
    answered_at bigint,
    answered_in bigint
  );
  CREATE INDEX agent_question_turn ON agent_question (turn);
  CREATE INDEX agent_question_unanswered ON agent_question (id) WHERE answer IS NULL;
  CREATE INDEX agent_question_peer ON agent_question (peer) WHERE peer IS NOT NULL;
  CREATE UNIQUE INDEX agent_question_key ON agent_question (asked_key) WHERE asked_key IS NOT NULL;
  CREATE TABLE topic (
    id ${numbered},
    name text NOT NULL UNIQUE,
    min_priority bigint NOT NULL,
    max_priority bigint NOT NULL,
    quiet text,
    time_zone text,
    digest bigint NOT NULL,
    answers bigint NOT NULL,
    keep_ms bigint NOT NULL,
    paused_until bigint,
    template text,
    secret text,
    priorities text,
    attach_private bigint NOT NULL,
    unread text NOT NULL DEFAULT '{}',
    sent bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    made_by text NOT NULL,
    created_at bigint NOT NULL
  );
  CREATE TABLE topic_member (
    id ${numbered},
    topic bigint NOT NULL,
    session bigint NOT NULL,
    peer text NOT NULL,
    quiet text,
    time_zone text,
    answers bigint,
    missed text NOT NULL,
    revision bigint NOT NULL DEFAULT 0
  );
  CREATE UNIQUE INDEX topic_member_topic ON topic_member (topic, peer);
  CREATE INDEX topic_member_peer ON topic_member (peer);
  CREATE TABLE notice (
    id ${numbered},
    member bigint NOT NULL,
    peer text NOT NULL,
    mark text NOT NULL,
    sender text NOT NULL,
    name text NOT NULL,
    title text,
    text text NOT NULL,
    priority bigint NOT NULL,
    tags text,
    click text,
    media text,
    size bigint NOT NULL,
    count bigint NOT NULL,
    telling bigint NOT NULL DEFAULT 0,
    reported bigint NOT NULL,
    received_at bigint NOT NULL,
    last_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    state text NOT NULL,
    resolved bigint NOT NULL,
    bulletin text,
    said text NOT NULL,
    raised bigint NOT NULL
  );
  CREATE UNIQUE INDEX notice_mark ON notice (member, mark, sender);
  CREATE INDEX notice_waiting ON notice (member, size) WHERE state = 'waiting';
  CREATE INDEX notice_expires ON notice (expires_at);
  CREATE INDEX notice_bulletin ON notice (bulletin) WHERE bulletin IS NOT NULL;
  CREATE INDEX notice_peer ON notice (peer);
  CREATE TABLE bulletin (
    id text PRIMARY KEY,
    session bigint NOT NULL,
    peer text NOT NULL,
    text text NOT NULL,
    media text NOT NULL,
    answers bigint NOT NULL,
    priority bigint NOT NULL,
    missed text NOT NULL,
    names text NOT NULL,
    state text NOT NULL,
    named_in text,
    created_at bigint NOT NULL,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0
  )${keyed};
  CREATE INDEX bulletin_peer ON bulletin (peer, created_at);
  CREATE INDEX bulletin_sending ON bulletin (created_at) WHERE state = 'sending';
`

/** The step after 0.9.0: what people choose in their chats with agents, and when agents are to do something. */
export const steeringTables = ({ numbered }: Pick<TableWords, 'numbered'>): string => `
  ALTER TABLE agent_conversation ADD COLUMN kept text;
  CREATE TABLE agent_time (
    id ${numbered},
    session bigint NOT NULL,
    peer text NOT NULL,
    agent text,
    prompt text NOT NULL,
    rule text NOT NULL,
    zone text NOT NULL,
    due_at bigint,
    created_at bigint NOT NULL,
    made_by text NOT NULL,
    turn bigint,
    missed_at bigint
  );
  CREATE INDEX agent_time_due ON agent_time (due_at) WHERE due_at IS NOT NULL;
  CREATE INDEX agent_time_peer ON agent_time (peer);
`

/** The next step: programs that speak WeChat's protocol to svc. */
export const relayTables = ({ keyed }: Pick<TableWords, 'keyed'>): string => `
  CREATE TABLE relay_client (
    key text PRIMARY KEY,
    session bigint NOT NULL,
    answers text NOT NULL,
    created_at bigint NOT NULL,
    polled_at bigint,
    source text,
    doubled_at bigint,
    refused bigint NOT NULL DEFAULT 0,
    refused_at bigint,
    refusal text
  )${keyed};
`

/** What the SQL of a table says of its columns. */
export interface TableShape {
  readonly columns: readonly string[]
  /** Columns that identify a row. */
  readonly key: readonly string[]
  /** The column whose numbers never come twice. */
  readonly numbered?: string
}

function shapeOf(definition: string): TableShape {
  const items = definition.split(/,\s*(?![^(]*\))/).map(item => item.trim().replaceAll('"', ''))
  const columns = items.filter(item => /^[a-z]/.test(item)).map(item => item.split(' '))
  const [keyColumn = '', type] = columns.find(words => words.includes('PRIMARY')) ?? []
  const key = /PRIMARY KEY \((.*?)\)/.exec(definition)?.[1] ?? keyColumn
  return {
    columns: columns.map(([name]) => name!),
    key: key.split(', ').filter(name => name !== ''),
    ...(type === 'numbered' && { numbered: keyColumn }),
  }
}

const numbered = 'numbered PRIMARY KEY'
const plainWords = { numbered, rowId: numbered, given: 'bigint PRIMARY KEY', rowIds: 'text', keyed: '' }

/** The steps after 0.9.0. */
const later = [steeringTables(plainWords), relayTables(plainWords)]
const addedColumns = [...later.join('').matchAll(/ALTER TABLE (\w+) ADD COLUMN (\w+)/g)].map(
  ([, name = '', column = '']) => [name, column] as const,
)

/** The columns of the tables that both engines have. */
export const tableShapes: ReadonlyMap<string, TableShape> = new Map(
  [...`${sharedTables(plainWords)}${later.join('')}`.matchAll(/CREATE TABLE (\w+) \((.*?)\);/gs)].map(
    ([, name = '', definition = '']) => {
      const { columns, ...shape } = shapeOf(definition)
      const added = addedColumns.flatMap(([table, column]) => (table === name ? [column] : []))
      return [name, { ...shape, columns: [...columns, ...added] }] as const
    },
  ),
)

/** Returns which step after 0.9.0 made a column, from 0 on; -1: none. */
export const stepOf = (table: string, column: string): number =>
  later.findIndex(
    step => step.includes(`TABLE ${table} (`) || step.includes(`TABLE ${table} ADD COLUMN ${column} `),
  )
