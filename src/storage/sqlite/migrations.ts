/**
 * The store's tables, as numbered steps that only go forward. `user_version` is the number of steps done.
 *
 * The number counts for the whole data directory: a version that finds a higher number than it knows does not
 * open the directory. So add a step also when the format of another file changes and older versions would
 * misread that file. The step is empty if the tables stay as they are.
 */
import { SvcError } from '../../model/error.ts'
import { type Database, readSchemaVersion } from '../../platform/sqlite.ts'
import { toSearchableText } from '../search-text.ts'
import { BigramIndex, gramTable } from './bigram-index.ts'
import { erasedUsersTable } from './erased-users.ts'
import { eventTables } from './events.ts'
import { migrateToOneOutbox } from './one-outbox.ts'

/** Each step is SQL, or a function for more complex steps. */
const steps: readonly (string | ((db: Database) => void))[] = [
  `
  -- Rows refer to their session by key, so a rename changes one row. Several keys may have the same name.
  CREATE TABLE session (key INTEGER PRIMARY KEY, name TEXT NOT NULL);
  CREATE INDEX session_name ON session (name);
  -- Ids have no gaps: rows are removed only at the low end, and a message that is not stored uses no id.
  -- raw is last: the columns for filters and lists are in the row's first page.
  CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    status TEXT,
    bot_id TEXT NOT NULL,
    peer TEXT NOT NULL,
    msg_type TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    content_hash TEXT,
    text TEXT NOT NULL,
    raw TEXT NOT NULL
  );
  CREATE INDEX message_session ON message (session);
  CREATE INDEX message_peer ON message (peer);
  -- With the content hash, to detect a message that is delivered again under a new id.
  CREATE INDEX message_time ON message (timestamp, content_hash);
  -- Sends that are not settled: few at any time.
  CREATE INDEX message_unsettled ON message (stored_at) WHERE status = 'sending';

  CREATE TABLE consumer (name TEXT PRIMARY KEY, position INTEGER NOT NULL, seen_at INTEGER NOT NULL) WITHOUT ROWID;
  -- Positions of readers of a single session that are ahead of the consumer's position.
  CREATE TABLE consumer_ahead (
    consumer TEXT NOT NULL,
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (consumer, session)
  ) WITHOUT ROWID;
  -- Rows that were delivered and not confirmed. ids: JSON array of row ids, ascending.
  CREATE TABLE lease (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer TEXT NOT NULL,
    ids TEXT NOT NULL,
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  );
  CREATE INDEX lease_consumer ON lease (consumer);
  ${gramTable}`,
  `
  -- Why a sent message was refused, or why its result is unknown.
  ALTER TABLE message ADD COLUMN reason TEXT;
  -- For a queued text that was joined to another message: the message_id of that message.
  ALTER TABLE message ADD COLUMN sent_with TEXT;
  -- Messages in flight and the process that sends them. What a dead process leaves here may have been sent.
  CREATE TABLE in_flight (message INTEGER PRIMARY KEY, owner TEXT NOT NULL, began_at INTEGER NOT NULL);
  INSERT INTO in_flight SELECT id, '', stored_at FROM message WHERE status = 'sending';
  DROP INDEX message_unsettled;

  -- One row for each user of each session with waiting messages. One process at a time sends them: owner, lease_until.
  -- held_at: nothing is sent until the user writes after that time; not_before: nothing is sent before that time (Unix ms).
  CREATE TABLE outbox_lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    held_at INTEGER,
    not_before INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    UNIQUE (session, peer)
  );
  -- One call of send. It is removed when none of its parts waits any more; the log keeps the results.
  CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  );
  CREATE INDEX outbox_expiry ON outbox (expires_at);
  CREATE INDEX outbox_in_lane ON outbox (lane);
  -- One complete message each: retention may remove its row in the log. file: JSON. raw: as in the log while it waits.
  CREATE TABLE outbox_part (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    kind TEXT NOT NULL,
    msg_type TEXT NOT NULL,
    status TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    message INTEGER NOT NULL,
    file TEXT,
    text TEXT NOT NULL,
    raw TEXT NOT NULL
  );
  CREATE INDEX outbox_part_entry ON outbox_part (entry);
  CREATE INDEX outbox_part_waiting ON outbox_part (lane) WHERE status = 'queued';
  CREATE INDEX outbox_part_message ON outbox_part (message);

  -- Calls of send with a key. plan: JSON of what they should send; messages: JSON of the row ids that were begun.
  CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    owner TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    plan TEXT,
    messages TEXT NOT NULL DEFAULT '[]',
    outbox INTEGER,
    result TEXT
  );
  CREATE INDEX idempotency_age ON idempotency (created_at);
  `,
  `
  -- For searches for media and sent messages. Received texts need no entry here.
  CREATE INDEX message_kind ON message (msg_type) WHERE msg_type <> 'TEXT';
  CREATE INDEX message_sent ON message (sent) WHERE sent = 1;
  `,
  `
  -- Slots: when each message was or will be sent (Unix ms), for the pace that all processes keep together.
  CREATE TABLE turn (session INTEGER NOT NULL, peer TEXT NOT NULL, at REAL NOT NULL);
  CREATE INDEX turn_session ON turn (session, at);
  CREATE INDEX turn_user ON turn (session, peer, at);
  `,
  `
  -- How far a person has read a conversation.
  CREATE TABLE read_mark (
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (session, peer)
  ) WITHOUT ROWID;
  `,
  `
  -- Messages that WeChat accepted without an id: few, and counted with every read of the sessions.
  CREATE INDEX message_suspect ON message (timestamp, session) WHERE status = 'suspect';
  `,
  migrateToOneOutbox,
  `
  -- The contexts.json entry of a user who wrote long ago, as JSON.
  ALTER TABLE outbox_lane ADD COLUMN context TEXT;
  CREATE INDEX outbox_lane_kept ON outbox_lane (peer) WHERE context IS NOT NULL;
  `,
  `
  -- Rows up to this id are in the index of character pairs.
  CREATE TABLE gram_position (position INTEGER NOT NULL);
  INSERT INTO gram_position SELECT coalesce(max(id), 0) FROM message;

  -- A plain send changes only one index of the outbox, that of the parts in flight. A waiting part of mode 'fail' has
  -- no message yet, one of mode 'queue' has. The part ids of an entry start at a thousand times its id.
  DROP INDEX outbox_expiry;
  CREATE INDEX outbox_expiry ON outbox (expires_at) WHERE mode = 'queue';
  DROP INDEX outbox_in_lane;
  CREATE INDEX outbox_in_lane ON outbox (lane) WHERE mode = 'queue';
  DROP INDEX outbox_open_call;
  DROP INDEX outbox_part_entry;
  DROP INDEX outbox_part_waiting;
  CREATE INDEX outbox_part_waiting ON outbox_part (lane) WHERE status = 'queued' AND message IS NOT NULL;
  CREATE INDEX outbox_part_call ON outbox_part (lane) WHERE status = 'queued' AND message IS NULL;
  UPDATE outbox_part SET id = -new.id FROM
    (SELECT id AS old, entry * 1000 + row_number() OVER (PARTITION BY entry ORDER BY id) - 1 AS id FROM outbox_part) AS new
    WHERE outbox_part.id = new.old;
  UPDATE outbox_part SET id = -id;
  `,
  `
  -- The error code, in addition to the text.
  ALTER TABLE message ADD COLUMN reason_code TEXT;
  `,
  `
  -- Names that people gave to users of a session. folded: the form in which names are compared.
  CREATE TABLE user_name (
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    PRIMARY KEY (session, peer)
  ) WITHOUT ROWID;
  CREATE INDEX user_name_folded ON user_name (folded);
  `,
  `
  -- A queued send is kept for a week, so that callers can look up its result; few of them wait.
  DROP INDEX outbox_in_lane;
  CREATE INDEX outbox_in_lane ON outbox (lane) WHERE mode = 'queue' AND ended_at IS NULL;
  `,
  indexFilesAndVoices,
  `
  -- For an entry that waits for approval: its mode if it may not be sent then. Its parts are 'asked', which no version
  -- sends; the approval makes them 'queued'.
  ALTER TABLE outbox ADD COLUMN asked TEXT;
  CREATE INDEX outbox_part_asked ON outbox_part (entry) WHERE status = 'asked';
  `,
  `
  -- Positions of consumers that acknowledge, for one session or (0) for all. An older version that runs at the same time
  -- moves its own position for the name, and does not use these.
  CREATE TABLE acknowledged (
    consumer TEXT NOT NULL,
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    handed_out INTEGER NOT NULL,
    PRIMARY KEY (consumer, session)
  ) WITHOUT ROWID;
  `,
  `
  -- Endpoints that events are delivered to. types, headers, secrets: JSON.
  CREATE TABLE webhook (
    id TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    types TEXT NOT NULL,
    session TEXT,
    peer TEXT,
    headers TEXT NOT NULL,
    secrets TEXT NOT NULL,
    link_key TEXT NOT NULL,
    allow_private INTEGER NOT NULL,
    replies INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    disabled TEXT,
    disabled_at INTEGER,
    created_at INTEGER NOT NULL,
    position TEXT NOT NULL,
    replayed TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    last_success_at INTEGER,
    failing_since INTEGER,
    last_error TEXT,
    tries_done INTEGER NOT NULL DEFAULT 0,
    tries_failed INTEGER NOT NULL DEFAULT 0,
    tries_gave_up INTEGER NOT NULL DEFAULT 0
  );
  -- Conversations with undelivered events before their endpoint's position.
  CREATE TABLE webhook_lane (
    webhook TEXT NOT NULL,
    session TEXT NOT NULL,
    peer TEXT NOT NULL,
    position TEXT NOT NULL,
    event TEXT,
    tries INTEGER,
    failed_at INTEGER,
    retry_at INTEGER,
    PRIMARY KEY (webhook, session, peer)
  ) WITHOUT ROWID;
  CREATE TABLE webhook_try (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook TEXT NOT NULL,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    type TEXT NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER,
    took_ms INTEGER NOT NULL,
    detail TEXT
  );
  CREATE INDEX webhook_try_outcome ON webhook_try (webhook, outcome, id);
  `,
  eventTables,
  'ALTER TABLE message ADD COLUMN reason_quote TEXT',
  `
  -- named: if several keys have one name, new rows get the key with the highest value. renaming: the name that the folder
  -- of the session is being renamed to.
  ALTER TABLE session ADD COLUMN named INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE session ADD COLUMN renaming TEXT;
  DROP INDEX session_name;
  CREATE INDEX session_name ON session (name, named);
  -- Messages that another program received are counted separately from those that readers receive.
  CREATE INDEX message_past ON message (sent) WHERE sent = 2;
  `,
  `
  ALTER TABLE webhook ADD COLUMN disabled_code TEXT;
  ALTER TABLE webhook ADD COLUMN last_error_code TEXT;
  ALTER TABLE webhook ADD COLUMN next_try_at INTEGER;
  ALTER TABLE webhook_try ADD COLUMN code TEXT;
  `,
  `
  -- Unix ms. A reader with the place -1 lost its place.
  ALTER TABLE event_reader ADD COLUMN seen_at INTEGER NOT NULL DEFAULT 0;
  UPDATE event_reader SET seen_at = CAST(unixepoch('subsec') * 1000 AS INTEGER);
  `,
  `
  -- The principals that made a call of send, approved it and cancelled it.
  ALTER TABLE outbox ADD COLUMN made_by TEXT;
  ALTER TABLE outbox ADD COLUMN approved_by TEXT;
  ALTER TABLE outbox ADD COLUMN ended_by TEXT;
  `,
  'ALTER TABLE outbox_lane ADD COLUMN token TEXT',
  `
  -- users_named: grows with each change of a user name of the session, by any version of svc.
  ALTER TABLE session ADD COLUMN users_named INTEGER;
  CREATE INDEX session_users_named ON session (users_named) WHERE users_named IS NOT NULL;
  CREATE TRIGGER user_named AFTER INSERT ON user_name BEGIN
    UPDATE session SET users_named = (SELECT coalesce(max(users_named), 0) + 1 FROM session) WHERE key = new.session;
  END;
  CREATE TRIGGER user_unnamed AFTER DELETE ON user_name BEGIN
    UPDATE session SET users_named = (SELECT coalesce(max(users_named), 0) + 1 FROM session) WHERE key = old.session;
  END;
  -- The process that delivered for an endpoint last, and its epoch.
  ALTER TABLE webhook ADD COLUMN deliverer TEXT;
  `,
  `
  -- token_at: received_at as token was written, since an older version that has the file open moves received_at alone.
  ALTER TABLE outbox_lane ADD COLUMN token_at INTEGER;
  `,
  `
  -- Keys of callers. hash: SHA-256 of the secret. grant, can: JSON. made_by: the principal that made it.
  CREATE TABLE access_key (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    replaced_hash TEXT,
    replaced_until INTEGER,
    "grant" TEXT NOT NULL,
    can TEXT NOT NULL,
    made_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER,
    last_address TEXT,
    revision INTEGER NOT NULL
  );
  CREATE INDEX access_key_revision ON access_key (revision);
  CREATE INDEX access_key_expiry ON access_key (expires_at) WHERE revoked_at IS NULL;
  -- message.sent_by: the principal and the address of its call, separated by a space. A queued message has its row,
  -- and so its line, from then on.
  CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    principal TEXT NOT NULL,
    operation TEXT NOT NULL,
    subject TEXT,
    outcome TEXT,
    address TEXT,
    count INTEGER,
    message INTEGER
  );
  -- Most lines are of the owner, who needs no index to be found.
  CREATE INDEX audit_principal ON audit (principal) WHERE principal <> 'owner';
  CREATE INDEX audit_message ON audit (message) WHERE message IS NOT NULL;
  ALTER TABLE message ADD COLUMN sent_by TEXT;
  -- The address of the call, for rows in message that are written later.
  ALTER TABLE outbox ADD COLUMN address TEXT;
  CREATE TRIGGER message_audited AFTER INSERT ON message WHEN new.sent = 1 AND new.sent_by IS NOT NULL
  BEGIN
    INSERT INTO audit (at, principal, operation, subject, outcome, address, message)
      VALUES (new.stored_at, substr(new.sent_by, 1, instr(new.sent_by || ' ', ' ') - 1), 'send',
        (SELECT name FROM session WHERE key = new.session) || ' ' || new.peer, new.status,
        nullif(substr(new.sent_by, instr(new.sent_by || ' ', ' ') + 1), ''), new.id);
  END;
  CREATE TRIGGER message_audited_status AFTER UPDATE OF status ON message
    WHEN new.status IS NOT old.status AND new.sent_by IS NOT NULL
  BEGIN
    UPDATE audit SET outcome = new.status WHERE message = new.id;
  END;
  -- grant: what the key that added the endpoint may do, as JSON.
  ALTER TABLE webhook ADD COLUMN made_by TEXT;
  ALTER TABLE webhook ADD COLUMN "grant" TEXT;
  -- Each person has marks of their own. reader: the id of the key that the person signed in with.
  CREATE TABLE person_mark (
    reader TEXT NOT NULL,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (reader, session, peer)
  ) WITHOUT ROWID;
  -- The accounts that have, or had, messages in a session: a scope of accounts reads these sessions only.
  CREATE TABLE session_bot (bot_id TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (bot_id, session)) WITHOUT ROWID;
  INSERT INTO session_bot SELECT DISTINCT bot_id, session FROM message;
  CREATE TRIGGER message_of_bot AFTER INSERT ON message
    WHEN NOT EXISTS (SELECT 1 FROM session_bot WHERE bot_id = new.bot_id AND session = new.session)
  BEGIN
    INSERT INTO session_bot VALUES (new.bot_id, new.session);
  END;
  CREATE TRIGGER message_of_other_bot AFTER UPDATE OF bot_id ON message WHEN new.bot_id <> old.bot_id
  BEGIN
    INSERT OR IGNORE INTO session_bot VALUES (new.bot_id, new.session);
  END;
  `,
  `
  -- Backups that were made of this store, as far as svc knows where they are.
  CREATE TABLE backup (
    path TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    took_ms INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- The last backup by schedule that failed, if none has succeeded since.
  CREATE TABLE backup_failure (at INTEGER NOT NULL, error TEXT NOT NULL);
  -- The key of the hashes that stand for the ids of forgotten users.
  ALTER TABLE store_id ADD COLUMN hash_key TEXT;
  UPDATE store_id SET hash_key = lower(hex(randomblob(32)));
  `,
  `
  -- Agents in front of WeChat. messages, answer, options: JSON. first: the first message of a turn, so that messages that
  -- come again make no second turn. owner: the process that works on the conversation.
  CREATE TABLE agent_conversation (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    agent_session TEXT,
    folder TEXT,
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, session, peer)
  );
  CREATE TABLE agent_turn (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL,
    state TEXT NOT NULL,
    source TEXT NOT NULL,
    first INTEGER,
    messages TEXT NOT NULL,
    prompt TEXT,
    fresh INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    answer TEXT,
    parts INTEGER,
    parts_sent INTEGER,
    error TEXT,
    stopping INTEGER NOT NULL DEFAULT 0
  );
  CREATE UNIQUE INDEX agent_turn_first ON agent_turn (conversation, first) WHERE first IS NOT NULL;
  CREATE INDEX agent_turn_conversation ON agent_turn (conversation, id);
  CREATE INDEX agent_turn_open ON agent_turn (conversation) WHERE state IN ('waiting', 'running', 'answering');
  CREATE INDEX agent_turn_started ON agent_turn (started_at);
  CREATE INDEX agent_turn_ended ON agent_turn (ended_at) WHERE ended_at IS NOT NULL;
  CREATE TABLE agent_question (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    turn INTEGER NOT NULL,
    text TEXT NOT NULL,
    options TEXT NOT NULL,
    code TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    answer TEXT,
    answered_by TEXT
  );
  CREATE INDEX agent_question_turn ON agent_question (turn);
  CREATE INDEX agent_question_unanswered ON agent_question (id) WHERE answer IS NULL;
  `,
  `
  -- How often the rows of a lease were written to a reader that did not confirm them.
  ALTER TABLE lease ADD COLUMN hand_outs INTEGER NOT NULL DEFAULT 0;
  `,
  erasedUsersTable,
  `
  ALTER TABLE agent_question ADD COLUMN entry INTEGER;
  ALTER TABLE agent_question ADD COLUMN message_id TEXT;
  ALTER TABLE agent_question ADD COLUMN sent_at INTEGER;
  ALTER TABLE agent_question ADD COLUMN drafts TEXT;
  `,
  `
  -- Earlier versions kept the tokens that contexts.json has. A message whose token it lacks is polled again.
  UPDATE outbox_lane SET token = NULL, token_at = NULL;
  `,
]

/** Makes rows of files and voice messages searchable by their names and transcripts. */
function indexFilesAndVoices(db: Database): void {
  const grams = new BigramIndex(db)
  // Only of the item itself: a quoted message is nested deeper.
  const found = db.all`SELECT id, (SELECT group_concat(atom, char(10)) FROM json_tree(raw)
      WHERE key IN ('text', 'file_name') AND path GLOB '*].*' AND path NOT GLOB '*].*.*') AS text
    FROM message INDEXED BY message_kind
    WHERE msg_type <> 'TEXT' AND msg_type IN ('FILE', 'VOICE') AND text = '' AND json_valid(raw)`
  for (const row of found) {
    if (typeof row.text !== 'string') continue
    const text = toSearchableText(row.text)
    db.run`UPDATE message SET text = ${text} WHERE id = ${Number(row.id)}`
    grams.update(Number(row.id), text)
  }
}

/** The schema version that this program writes. */
export const newestSchemaVersion: number = steps.length

/**
 * Call it before a store, or anything in its data directory, is opened: files that a newer version wrote stay
 * unchanged.
 *
 * @throws SvcError `store_unavailable` for the messages.db of a newer version
 */
export async function rejectNewer(path: string): Promise<void> {
  rejectNewerVersion((await readSchemaVersion(path)) ?? 0)
}

function rejectNewerVersion(schemaVersion: number): void {
  if (schemaVersion <= steps.length) return
  throw new SvcError(
    'store_unavailable',
    `messages.db was written by a newer version of svc (form ${schemaVersion})`,
    {
      hint: 'Use that version or a newer one, or another data directory.',
    },
  )
}

/**
 * Updates the tables to a schema version, the newest by default. Tests use it to create tables of older
 * versions.
 *
 * @throws SvcError `store_unavailable` for a store that a newer version wrote
 */
export function migrate(db: Database, target = newestSchemaVersion): void {
  const version = () => Number(db.get`PRAGMA user_version`?.user_version ?? 0)
  rejectNewerVersion(version())
  for (let taken = version(); taken < target; taken = version()) {
    db.transaction(() => {
      // Another process may have done this step while this one waited for the lock.
      if (version() !== taken) return
      const step = steps[taken]
      if (typeof step === 'string') db.exec(step)
      else step?.(db)
      db.exec(`PRAGMA user_version = ${taken + 1}`)
    })
  }
}
