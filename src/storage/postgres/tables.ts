/**
 * The tables in the schema `svc`. Names and columns are those of messages.db where both have them, so that
 * `svc store copy` moves rows as they are. JSON is stored as text where svc alone reads it.
 *
 * - **Order.** A row id, or a place in the event log, must never become visible after a higher one. So every id is
 *   taken from `head`, one row, inside a function or a script: no round trip to a node is made while it is locked.
 * - **Horizon.** Commits do not wait for the disk or a standby. `durable` has how far each node knows that everything
 *   is durable, and readers stop there.
 */
import { constantSql, type Sql } from '../../platform/sql.ts'
import { logEnd } from '../log-rows.ts'
import { unreleasedForms } from '../unreleased.ts'

export { erasedSession, placesPerMessage, receivedElsewhere } from '../log-rows.ts'

/** Key of the advisory lock of who copies the store. Only svc takes it. */
export const copyLock = 0x737670

/** SQLSTATE of a write about a user who was erased. */
export const erasedState = 'SVC01'
/** The SQLSTATE for a consumer that finds no place. */
export const noPlaceState = 'SVC02'
/** The SQLSTATE for a new consumer of a key that was revoked. */
export const endedKeyState = 'SVC03'

/** The highest row id that readers may see. */
export const horizon: Sql = constantSql('(SELECT coalesce(max(upto), 0) FROM durable)')
/** The highest place in the event log that readers may see. */
export const placeHorizon: Sql = constantSql('(SELECT coalesce(max(place), 0) FROM durable)')

/** SQL that makes the tables. */
export const tables = `
  -- form: grows by one with each step. min_reader: lowest form that a program must know to use these tables.
  -- timeline: history of the server that the ids belong to; another one means that a standby took over. timeline_at: since when.
  CREATE TABLE meta (
    form bigint NOT NULL,
    min_reader bigint NOT NULL,
    store_id text NOT NULL,
    hash_key text NOT NULL,
    -- Counts the users who were erased.
    erasures bigint NOT NULL DEFAULT 0,
    -- Events up to this place were removed for their age.
    events_removed bigint NOT NULL DEFAULT 0,
    secret_key text,
    -- Some values may still be sealed with this key: svc secrets rotate has not finished.
    old_key text,
    -- As home() returned it: elsewhere this is a copy, on which nothing runs.
    home text,
    timeline text,
    timeline_at timestamptz,
    -- The store was moved there, and must not be used here any more.
    moved_to text,
    -- A copy into this store has not finished; JSON.
    copying text,
    -- When a node ran last, by its clock; how long svc has to run until the clock is trusted.
    clock_seen bigint,
    clock_doubt_ms bigint NOT NULL DEFAULT 0
  );
  INSERT INTO meta (form, min_reader, store_id, hash_key) VALUES
    (0, ${unreleasedForms + 1}, substr(md5(gen_random_uuid()::text), 1, 10), md5(gen_random_uuid()::text) || md5(gen_random_uuid()::text));

  -- The last row id, the last place in the event log, and a counter of changes to sessions. Every writer of these locks it.
  CREATE TABLE head (last bigint NOT NULL, place bigint NOT NULL, revision bigint NOT NULL) WITH (fillfactor = 10,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
  INSERT INTO head VALUES (0, 0, 0);
  -- Up to here everything is durable, as each node knows. Readers stop at the highest.
  CREATE TABLE durable (node text PRIMARY KEY, upto bigint NOT NULL, place bigint NOT NULL) WITH (fillfactor = 10,
    autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
  -- Ids after a row that no row has, since a standby took over. place: of the last event before them.
  CREATE TABLE gap (after bigint PRIMARY KEY, size bigint NOT NULL, place bigint NOT NULL);
  -- Names a run of the server: a server that crashed, and a standby that took over, begin with an empty unlogged table.
  CREATE UNLOGGED TABLE server_run (id uuid NOT NULL);
  INSERT INTO server_run VALUES (gen_random_uuid());
  -- Counts changes that wake waiting readers and are neither rows nor events.
  CREATE SEQUENCE touched;

  -- Processes that use the store, by the database's clock. polls: it takes part in polling; epoch: of its lease.
  -- keys: ids of its secret keys, first of the one that seals. token: keyed hash of the token that its callers need.
  -- max_age_days and max_count: what it keeps of the log; 0: no limit.
  CREATE TABLE node (
    id text PRIMARY KEY,
    name text NOT NULL,
    version text NOT NULL,
    url text,
    polls boolean NOT NULL DEFAULT false,
    epoch bigint NOT NULL DEFAULT 0,
    keys text[] NOT NULL DEFAULT '{}',
    token text,
    max_age_days bigint NOT NULL DEFAULT 0,
    max_count bigint NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    lease_until timestamptz NOT NULL
  ) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

  -- Rows refer to their session by key, so a rename changes one row. Several keys may have the same name; new rows get
  -- the key with the highest named. name_key: the form in which names are compared. bookings: counts what is written only
  -- if nothing else was written since, such as slots of the pace.
  CREATE TABLE session (
    key bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    name_key text NOT NULL,
    named bigint NOT NULL DEFAULT 0,
    bookings bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50);
  CREATE INDEX session_name ON session (name_key, named, key);

  -- Credentials of sessions. Without bot_id: there is no such session; the row says since which revision.
  -- token: sealed. info: the other fields of the credentials, as JSON. node and fence: who polls it.
  CREATE TABLE account (
    name_key text PRIMARY KEY,
    name text NOT NULL,
    bot_id text,
    token text,
    info text,
    cursor text,
    created_at bigint,
    chosen boolean NOT NULL DEFAULT false,
    changed bigint NOT NULL DEFAULT 0,
    node text,
    fence bigint NOT NULL DEFAULT 0
  ) WITH (fillfactor = 50);
  CREATE INDEX account_changed ON account (changed);
  CREATE UNIQUE INDEX account_chosen ON account (chosen) WHERE chosen;
  CREATE INDEX account_bot ON account (bot_id) WHERE bot_id IS NOT NULL;

  -- Ids have no gaps but those in gap: rows are removed only at the low end. sent: 1 by the bot, 0 received, 2 received by another program.
  CREATE TABLE message (
    id bigint PRIMARY KEY ${logEnd},
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
    text text NOT NULL,
    raw text NOT NULL,
    reason text,
    reason_code text,
    reason_quote text,
    sent_with text,
    sent_by text
  ) WITH (fillfactor = 90);
  -- Upstream's ids, and what other programs import, may be longer than an entry of a B-tree. Look up by id_hash as well.
  CREATE FUNCTION id_hash(id text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$ SELECT sha256(replace(id, '\\', '\\\\')::bytea) $$;
  CREATE UNIQUE INDEX message_message_id ON message (id_hash(message_id));
  CREATE INDEX message_session ON message (session, id);
  CREATE INDEX message_peer ON message (peer, id) INCLUDE (session);
  CREATE INDEX message_time ON message (timestamp, content_hash) INCLUDE (id, sent, status);
  CREATE INDEX message_stored ON message USING brin (stored_at);
  CREATE INDEX message_kind ON message (msg_type, id) WHERE msg_type <> 'TEXT';
  CREATE INDEX message_sent ON message (id) WHERE sent = 1;
  CREATE INDEX message_past ON message (id) WHERE sent = 2;
  CREATE INDEX message_suspect ON message (timestamp, session) WHERE status = 'suspect';
  -- The accounts that have, or had, messages in a session.
  CREATE TABLE session_bot (bot_id text NOT NULL, session bigint NOT NULL, PRIMARY KEY (bot_id, session));
  -- Pairs of characters of the texts up to the row indexed.upto.
  CREATE TABLE gram (id bigint PRIMARY KEY, pairs integer[] NOT NULL);
  -- Indexing adds to the list of pending entries, and merges it at the end.
  CREATE INDEX gram_pairs ON gram USING gin (pairs) WITH (fastupdate = on, gin_pending_list_limit = 65536);
  CREATE TABLE indexed (upto bigint NOT NULL);
  INSERT INTO indexed VALUES (0);

  CREATE TABLE consumer (name text PRIMARY KEY, position bigint NOT NULL, seen_at bigint NOT NULL) WITH (fillfactor = 50);
  CREATE TABLE consumer_ahead (
    consumer text NOT NULL,
    session bigint NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (consumer, session)
  );
  CREATE TABLE acknowledged (
    consumer text NOT NULL,
    session bigint NOT NULL,
    position bigint NOT NULL,
    handed_out bigint NOT NULL,
    PRIMARY KEY (consumer, session)
  );
  CREATE TABLE lease (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    consumer text NOT NULL,
    ids bigint[] NOT NULL,
    owner text NOT NULL,
    expires_at bigint NOT NULL,
    hand_outs bigint NOT NULL DEFAULT 0
  );
  CREATE INDEX lease_consumer ON lease (consumer);

  -- One row for each user of each session: what is known of the right to answer (token, sealed; received_at, first_seen),
  -- answers used since, what waits and who sends it. first_seen: NULL as long as received_at is of the counter alone, and
  -- ContextStore does not know the user.
  CREATE TABLE outbox_lane (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    session bigint NOT NULL,
    peer text NOT NULL,
    token text,
    received_at bigint,
    first_seen bigint,
    used bigint NOT NULL DEFAULT 0,
    last_sent_at bigint,
    held_at bigint,
    held_until bigint,
    holds bigint NOT NULL DEFAULT 0,
    not_before bigint NOT NULL DEFAULT 0,
    failures bigint NOT NULL DEFAULT 0,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0,
    UNIQUE (session, peer)
  ) WITH (fillfactor = 60);
  CREATE INDEX outbox_lane_peer ON outbox_lane (peer);
  CREATE TABLE outbox (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    lane bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    mode text NOT NULL,
    owner text,
    key text,
    content text,
    ended_at bigint,
    used bigint,
    received_at bigint,
    asked text,
    send_at bigint,
    made_by text,
    approved_by text,
    ended_by text,
    address text
  );
  CREATE UNIQUE INDEX outbox_key ON outbox (key) WHERE key IS NOT NULL;
  CREATE INDEX outbox_expiry ON outbox (expires_at) WHERE mode = 'queue';
  CREATE INDEX outbox_in_lane ON outbox (lane) WHERE mode = 'queue' AND ended_at IS NULL;
  CREATE INDEX outbox_open ON outbox (id) WHERE ended_at IS NULL;
  CREATE INDEX outbox_ended ON outbox (ended_at) WHERE ended_at IS NOT NULL;
  -- Ids of the parts of an entry start at a thousand times its id. A waiting part of mode fail has no message yet.
  CREATE TABLE outbox_part (
    id bigint PRIMARY KEY,
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
  CREATE INDEX outbox_part_entry ON outbox_part (entry);
  CREATE INDEX outbox_part_message ON outbox_part (message) WHERE message IS NOT NULL;
  CREATE INDEX outbox_part_waiting ON outbox_part (lane, id) WHERE status = 'queued' AND message IS NOT NULL;
  CREATE INDEX outbox_part_call ON outbox_part (lane) WHERE status = 'queued' AND message IS NULL;
  CREATE INDEX outbox_part_sending ON outbox_part (began_at) WHERE status = 'sending';
  CREATE INDEX outbox_part_asked ON outbox_part (entry) WHERE status = 'asked';
  -- Slots of the pace.
  CREATE TABLE turn (session bigint NOT NULL, peer text NOT NULL, at double precision NOT NULL);
  CREATE INDEX turn_session ON turn (session, at);
  CREATE INDEX turn_user ON turn (session, peer, at);

  CREATE TABLE read_mark (
    session bigint NOT NULL,
    peer text NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (session, peer)
  );
  CREATE TABLE person_mark (
    reader text NOT NULL,
    session bigint NOT NULL,
    peer text NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (reader, session, peer)
  );
  CREATE TABLE user_name (
    session bigint NOT NULL,
    peer text NOT NULL,
    name text NOT NULL,
    folded text NOT NULL,
    PRIMARY KEY (session, peer)
  );
  CREATE INDEX user_name_folded ON user_name (folded);

  -- Users who were erased and have not written since. mark: recognizes the id, and does not tell it. hash: what stands
  -- for the user in the audit log. ended: 0 while the erasure runs, in which nothing that the user writes ends it. The
  -- triggers of write-functions.ts store nothing about them.
  CREATE TABLE erased (mark text PRIMARY KEY, hash text NOT NULL, ended bigint NOT NULL DEFAULT 0);

  -- All events except received messages, which are events themselves. session: folded. data: JSON.
  CREATE TABLE event (
    place bigint PRIMARY KEY,
    type text NOT NULL,
    at bigint NOT NULL,
    message bigint,
    status text,
    session text,
    data text
  );
  CREATE INDEX event_session ON event (session, place) WHERE session IS NOT NULL;
  CREATE TABLE event_reader (name text PRIMARY KEY, place bigint NOT NULL, seen_at bigint NOT NULL) WITH (fillfactor = 50);

  CREATE TABLE webhook (
    nth bigint GENERATED BY DEFAULT AS IDENTITY,
    id text PRIMARY KEY,
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
    deliverer text,
    made_by text,
    "grant" text,
    subscription text,
    expires_at bigint
  ) WITH (fillfactor = 50);
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
  );
  CREATE TABLE webhook_try (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    webhook text NOT NULL,
    at bigint NOT NULL,
    event text NOT NULL,
    type text NOT NULL,
    outcome text NOT NULL,
    status bigint,
    took_ms bigint NOT NULL,
    detail text,
    code text
  );
  CREATE INDEX webhook_try_outcome ON webhook_try (webhook, outcome, id);

  -- revision: taken while the head is locked, so that none becomes visible after a higher one.
  CREATE TABLE access_key (
    nth bigint GENERATED BY DEFAULT AS IDENTITY,
    id text PRIMARY KEY,
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
  CREATE INDEX access_key_maker ON access_key (made_by);
  CREATE INDEX access_key_expiry ON access_key (expires_at) WHERE revoked_at IS NULL;
  -- What each process used of the limits of a key.
  CREATE TABLE key_use (
    key text NOT NULL,
    node text NOT NULL,
    calls double precision NOT NULL,
    open bigint NOT NULL,
    bytes bigint NOT NULL,
    day_began timestamptz NOT NULL,
    PRIMARY KEY (key, node)
  ) WITH (fillfactor = 50);
  CREATE TABLE invitation (
    id text PRIMARY KEY,
    name text NOT NULL,
    hash text NOT NULL UNIQUE,
    agent text,
    trusted bigint NOT NULL,
    turns_per_day bigint NOT NULL,
    uses bigint NOT NULL,
    inviter text,
    topic text,
    made_by text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    revoked_at bigint
  );
  CREATE TABLE invitation_use (login text PRIMARY KEY, invitation text NOT NULL, at bigint NOT NULL);
  CREATE INDEX invitation_use_invitation ON invitation_use (invitation);
  CREATE TABLE audit (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at bigint NOT NULL,
    principal text NOT NULL,
    operation text NOT NULL,
    subject text,
    outcome text,
    address text,
    count bigint,
    message bigint
  );
  CREATE INDEX audit_principal ON audit (principal, id) WHERE principal <> 'owner';
  CREATE INDEX audit_message ON audit (message) WHERE message IS NOT NULL;
  CREATE TABLE backup (path text PRIMARY KEY, created_at bigint NOT NULL, size bigint NOT NULL, took_ms bigint NOT NULL);
  CREATE TABLE backup_failure (at bigint NOT NULL, error text NOT NULL);

  CREATE TABLE agent_conversation (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
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
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    conversation bigint NOT NULL,
    state text NOT NULL,
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
  CREATE INDEX agent_turn_open ON agent_turn (conversation) WHERE state IN ('waiting', 'running', 'answering');
  CREATE INDEX agent_turn_started ON agent_turn (started_at);
  CREATE INDEX agent_turn_ended ON agent_turn (ended_at) WHERE ended_at IS NOT NULL;
  CREATE TABLE agent_question (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
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

  -- A topic is for the user peer of a session. Priorities: 1 (min) to 5 (max). priorities, missed, unread: JSON.
  CREATE TABLE topic (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    session bigint NOT NULL,
    peer text NOT NULL,
    min_priority bigint NOT NULL,
    max_priority bigint NOT NULL,
    quiet text,
    zone text,
    digest bigint NOT NULL,
    answers bigint NOT NULL,
    keep_ms bigint NOT NULL,
    template text,
    secret text,
    priorities text,
    attach_private bigint NOT NULL,
    missed text NOT NULL,
    unread text NOT NULL DEFAULT '{}',
    sent bigint NOT NULL DEFAULT 0,
    expired bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    made_by text NOT NULL,
    created_at bigint NOT NULL
  );
  CREATE INDEX topic_peer ON topic (peer);
  -- state: waiting, sending, sent, unknown, over. tags, media: JSON. mark: what is the same has the same one.
  CREATE TABLE notice (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    topic bigint NOT NULL,
    peer text NOT NULL,
    mark text NOT NULL,
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
    bulletin text
  );
  CREATE UNIQUE INDEX notice_mark ON notice (topic, mark);
  CREATE INDEX notice_waiting ON notice (topic, size) WHERE state = 'waiting';
  CREATE INDEX notice_expires ON notice (expires_at);
  CREATE INDEX notice_bulletin ON notice (bulletin) WHERE bulletin IS NOT NULL;
  CREATE INDEX notice_peer ON notice (peer);
  -- state: sending, sent, unknown. media, missed, names: JSON.
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
  );
  CREATE INDEX bulletin_peer ON bulletin (peer, created_at);
  CREATE INDEX bulletin_sending ON bulletin (created_at) WHERE state = 'sending';

  -- QR logins. data: the login as JSON, its QR code sealed. owner: the process that asks WeChat about it.
  CREATE TABLE login_flow (
    name_key text PRIMARY KEY,
    id text NOT NULL,
    version text NOT NULL,
    until bigint NOT NULL,
    ended boolean NOT NULL,
    data text NOT NULL,
    owner text,
    lease_until bigint NOT NULL DEFAULT 0
  );
  CREATE INDEX login_flow_until ON login_flow (ended, until);
  CREATE TABLE sign_in_link (code text PRIMARY KEY, until bigint NOT NULL);
  CREATE TABLE ended_sign_in (name text PRIMARY KEY, until bigint NOT NULL);
  -- Files: uploads, which expire, and files of waiting messages. size, md5: NULL until the file is complete; until then
  -- it has room for reserved bytes.
  CREATE TABLE upload (
    id text PRIMARY KEY,
    store text NOT NULL,
    size bigint,
    reserved bigint NOT NULL DEFAULT 0,
    md5 text,
    sha256 text,
    note text,
    begun_at bigint NOT NULL,
    expires_at bigint
  );
  CREATE INDEX upload_store ON upload (store, begun_at);
  CREATE TABLE blob (
    id text NOT NULL REFERENCES upload ON DELETE CASCADE,
    n bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (id, n)
  );
  ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;
`
