/** The tables of messages.db, as the first step makes them: those of both engines, and what SQLite adds. */
import { placesPerMessage } from '../log-rows.ts'
import { sharedTables } from '../tables.ts'

/** SQL for the place of an event that is written now. `row`: SQL for the row id of the newest message. */
export const nextPlace = (row: string): string =>
  `max(coalesce((SELECT max(place) FROM event), 0), coalesce(${row}, 0) * ${placesPerMessage}) + 1`
/** NULL until the first message is stored. */
export const newestRow = `(SELECT seq FROM sqlite_sequence WHERE name = 'message')`

const shared = sharedTables({
  numbered: 'INTEGER PRIMARY KEY AUTOINCREMENT',
  given: 'INTEGER PRIMARY KEY',
  rowId: 'INTEGER PRIMARY KEY AUTOINCREMENT',
  rowIds: 'TEXT',
  keyed: ' WITHOUT ROWID',
})

const messages = `
  ALTER TABLE session ADD COLUMN renaming TEXT;
  ALTER TABLE session ADD COLUMN users_named INTEGER;
  CREATE INDEX session_name ON session (name, named);
  CREATE INDEX session_users_named ON session (users_named) WHERE users_named IS NOT NULL;

  CREATE UNIQUE INDEX message_message_id ON message (message_id);
  CREATE INDEX message_session ON message (session);
  CREATE INDEX message_peer ON message (peer);
  -- With the content hash, to detect a message that is delivered again under a new id.
  CREATE INDEX message_time ON message (timestamp, content_hash);
  -- For searches for media and sent messages. Received texts need no entry here.
  CREATE INDEX message_kind ON message (msg_type) WHERE msg_type <> 'TEXT';
  CREATE INDEX message_sent ON message (sent) WHERE sent = 1;
  -- Messages that another program received are counted separately from those that readers receive.
  CREATE INDEX message_past ON message (sent) WHERE sent = 2;

  CREATE TRIGGER message_of_bot AFTER INSERT ON message
    WHEN NOT EXISTS (SELECT 1 FROM session_bot WHERE bot_id = new.bot_id AND session = new.session)
  BEGIN
    INSERT INTO session_bot (bot_id, session) VALUES (new.bot_id, new.session);
  END;
  CREATE TRIGGER message_of_other_bot AFTER UPDATE OF bot_id ON message WHEN new.bot_id <> old.bot_id
  BEGIN
    INSERT OR IGNORE INTO session_bot (bot_id, session) VALUES (new.bot_id, new.session);
  END;

  -- The ascii tokenizer accepts letters, digits and everything beyond ASCII in a token, and folds A-Z.
  -- prefix='1' makes a single character one look-up too; without it a frequent one costs the sum of all its pairs
  -- (measured for 300,000 rows: 47 ms; with it 0.1 ms, for 5 µs more per row).
  CREATE VIRTUAL TABLE gram USING fts5(body, content='', contentless_delete=1, detail=none, prefix='1', tokenize='ascii');
  -- Merge 8 segments at a time, not 4: 10% more rows per second at 5,000,000 rows, and searches cost the same.
  INSERT INTO gram (gram, rank) VALUES ('automerge', 8);
  -- Rows up to this id are in the index of character pairs.
  CREATE TABLE gram_position (position INTEGER NOT NULL);
  INSERT INTO gram_position VALUES (0);
`

const outbox = `
  ALTER TABLE outbox_lane ADD COLUMN token_at INTEGER;
  ALTER TABLE outbox_lane ADD COLUMN context TEXT;
  CREATE INDEX outbox_lane_kept ON outbox_lane (peer) WHERE context IS NOT NULL;
  CREATE INDEX outbox_part_waiting ON outbox_part (lane) WHERE status = 'queued' AND message IS NOT NULL;
`

const people = `
  CREATE TRIGGER user_named AFTER INSERT ON user_name BEGIN
    UPDATE session SET users_named = (SELECT coalesce(max(users_named), 0) + 1 FROM session) WHERE key = new.session;
  END;
  CREATE TRIGGER user_unnamed AFTER DELETE ON user_name BEGIN
    UPDATE session SET users_named = (SELECT coalesce(max(users_named), 0) + 1 FROM session) WHERE key = old.session;
  END;
`

const events = `
  CREATE TABLE store_id (
    id TEXT NOT NULL,
    hash_key TEXT,
    erasures INTEGER NOT NULL DEFAULT 0,
    events_removed INTEGER NOT NULL DEFAULT 0,
    clock_seen INTEGER,
    clock_doubt_ms INTEGER NOT NULL DEFAULT 0,
    retention TEXT
  );
  INSERT INTO store_id (id, hash_key) VALUES (lower(hex(randomblob(5))), lower(hex(randomblob(32))));

  -- Triggers, since an older version that has the file open keeps sending. Imported messages have another status.
  CREATE TRIGGER message_goes_out AFTER INSERT ON message WHEN new.sent = 1 AND new.status IN ('queued', 'sending')
  BEGIN
    INSERT INTO event (place, type, at, message, status)
      VALUES (${nextPlace('new.id')}, 'message.status', new.stored_at, new.id, new.status);
  END;
  CREATE TRIGGER message_status AFTER UPDATE OF status, reason_code ON message
    WHEN new.status IS NOT old.status OR new.reason_code IS NOT old.reason_code
  BEGIN
    INSERT INTO event (place, type, at, message, status)
      VALUES (${nextPlace(newestRow)}, 'message.status', CAST(unixepoch('subsec') * 1000 AS INTEGER), new.id, new.status);
  END;
`

const audit = `
  -- Most lines are of the owner, who needs no index to be found.
  CREATE INDEX audit_principal ON audit (principal) WHERE principal <> 'owner';
  -- The triggers write the lines of sends, in the transaction that writes the message. A queued message has its row, and
  -- so its line, from then on.
  CREATE TRIGGER message_audited AFTER INSERT ON message WHEN new.sent = 1 AND new.sent_by IS NOT NULL
  BEGIN
    INSERT INTO audit (at, principal, operation, subject, outcome, request_id, address, message)
      SELECT new.stored_at, substr(new.sent_by, 1, instr(new.sent_by || ' ', ' ') - 1), 'send',
        (SELECT name FROM session WHERE key = new.session) || ' ' || new.peer, new.status,
        nullif(substr(origin, 1, instr(origin || ' ', ' ') - 1), ''),
        nullif(substr(origin, instr(origin || ' ', ' ') + 1), ''), new.id
      FROM (SELECT substr(new.sent_by, instr(new.sent_by || ' ', ' ') + 1) AS origin);
  END;
  CREATE TRIGGER message_audited_status AFTER UPDATE OF status ON message
    WHEN new.status IS NOT old.status AND new.sent_by IS NOT NULL
  BEGIN
    UPDATE audit SET outcome = new.status WHERE message = new.id;
  END;
`

/** SQL that makes the tables. */
export const tables: string = [shared, messages, outbox, people, events, audit].join('')
