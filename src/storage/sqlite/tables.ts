/** The tables of messages.db, as the first step makes them. `src/README.md` says what each column holds. */
import { logEnd, placesPerMessage } from '../log-rows.ts'

/** SQL for the place of an event that is written now. `row`: SQL for the row id of the newest message. */
export const nextPlace = (row: string): string =>
  `max(coalesce((SELECT max(place) FROM event), 0), coalesce(${row}, 0) * ${placesPerMessage}) + 1`
/** NULL until the first message is stored. */
export const newestRow = `(SELECT seq FROM sqlite_sequence WHERE name = 'message')`

const messages = `
  -- Rows refer to their session by key, so a rename changes one row. Several keys may have the same name: new rows get
  -- the key with the highest value of named. renaming: the name that the folder of the session is being renamed to.
  -- users_named: grows with each change of a user name of the session, by any version of svc.
  CREATE TABLE session (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    named INTEGER NOT NULL DEFAULT 0,
    renaming TEXT,
    users_named INTEGER
  );
  CREATE INDEX session_name ON session (name, named);
  CREATE INDEX session_users_named ON session (users_named) WHERE users_named IS NOT NULL;

  -- Ids have no gaps: rows are removed only at the low end, and a message that is not stored uses no id.
  -- reason: why a sent message was refused, or why its result is unknown. sent_with: for a queued text that was joined
  -- to another message, the message_id of that message. sent_by: the principal and the address of its call, separated by
  -- a space. text and raw are last: the columns for filters and lists are in the row's first page.
  CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT ${logEnd},
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
    reason TEXT,
    reason_code TEXT,
    reason_quote TEXT,
    sent_with TEXT,
    sent_by TEXT,
    text TEXT NOT NULL,
    raw TEXT NOT NULL
  );
  CREATE INDEX message_session ON message (session);
  CREATE INDEX message_peer ON message (peer);
  -- With the content hash, to detect a message that is delivered again under a new id.
  CREATE INDEX message_time ON message (timestamp, content_hash);
  -- For searches for media and sent messages. Received texts need no entry here.
  CREATE INDEX message_kind ON message (msg_type) WHERE msg_type <> 'TEXT';
  CREATE INDEX message_sent ON message (sent) WHERE sent = 1;
  -- Messages that another program received are counted separately from those that readers receive.
  CREATE INDEX message_past ON message (sent) WHERE sent = 2;
  -- Messages that WeChat accepted without an id: few, and counted with every read of the sessions.
  CREATE INDEX message_suspect ON message (timestamp, session) WHERE status = 'suspect';

  -- The accounts that have, or had, messages in a session: a scope of accounts reads these sessions only.
  CREATE TABLE session_bot (bot_id TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (bot_id, session)) WITHOUT ROWID;
  CREATE TRIGGER message_of_bot AFTER INSERT ON message
    WHEN NOT EXISTS (SELECT 1 FROM session_bot WHERE bot_id = new.bot_id AND session = new.session)
  BEGIN
    INSERT INTO session_bot VALUES (new.bot_id, new.session);
  END;
  CREATE TRIGGER message_of_other_bot AFTER UPDATE OF bot_id ON message WHEN new.bot_id <> old.bot_id
  BEGIN
    INSERT OR IGNORE INTO session_bot VALUES (new.bot_id, new.session);
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

const readers = `
  CREATE TABLE consumer (name TEXT PRIMARY KEY, position INTEGER NOT NULL, seen_at INTEGER NOT NULL) WITHOUT ROWID;
  -- Positions of readers of a single session that are ahead of the consumer's position.
  CREATE TABLE consumer_ahead (
    consumer TEXT NOT NULL,
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (consumer, session)
  ) WITHOUT ROWID;
  -- Positions of consumers that acknowledge, for one session or (0) for all. Nothing else moves them.
  CREATE TABLE acknowledged (
    consumer TEXT NOT NULL,
    session INTEGER NOT NULL,
    position INTEGER NOT NULL,
    handed_out INTEGER NOT NULL,
    PRIMARY KEY (consumer, session)
  ) WITHOUT ROWID;
  -- Rows that were delivered and not confirmed. ids: JSON array of row ids, ascending. hand_outs: how often they were
  -- written to a reader that did not confirm them.
  CREATE TABLE lease (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    consumer TEXT NOT NULL,
    ids TEXT NOT NULL,
    owner TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    hand_outs INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX lease_consumer ON lease (consumer);
`

const outbox = `
  -- One row for each user of each session. One process at a time sends what waits in it: owner, lease_until.
  -- received_at: time of the message whose answers are counted. token: that of the message of token_at, until
  -- contexts.json has it. context: the contexts.json entry of a user who wrote long ago, as JSON.
  -- holds: number of unexplained refusals in a row; nothing is sent before held_until, unless the user writes after
  -- held_at. not_before: nothing is sent before that time.
  CREATE TABLE outbox_lane (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0,
    received_at INTEGER,
    token TEXT,
    token_at INTEGER,
    used INTEGER NOT NULL DEFAULT 0,
    last_sent_at INTEGER,
    held_at INTEGER,
    held_until INTEGER,
    holds INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    context TEXT,
    UNIQUE (session, peer)
  );
  CREATE INDEX outbox_lane_kept ON outbox_lane (peer) WHERE context IS NOT NULL;

  -- One call of send. mode: 'fail' entries belong to owner and end with it; 'queue' entries wait for the user.
  -- key: the caller's key, for a day; content: what it stands for. used, received_at: the answer counter at the end.
  -- asked: for an entry that waits for approval, its mode if it may not be sent then. send_at: Unix ms, until it waits
  -- for this time. made_by, approved_by, ended_by: the principals that made the call, approved it and cancelled it. address: of the call, for rows in message that are
  -- written later.
  CREATE TABLE outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    lane INTEGER NOT NULL,
    mode TEXT NOT NULL DEFAULT 'queue',
    owner TEXT,
    key TEXT,
    content TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER,
    used INTEGER,
    received_at INTEGER,
    asked TEXT,
    send_at INTEGER,
    made_by TEXT,
    address TEXT,
    approved_by TEXT,
    ended_by TEXT
  );
  CREATE UNIQUE INDEX outbox_key ON outbox (key) WHERE key IS NOT NULL;
  -- A plain send changes only one index of the outbox, that of the parts in flight.
  CREATE INDEX outbox_expiry ON outbox (expires_at) WHERE mode = 'queue';
  -- A queued send is kept for a week, so that callers can look up its result; few of them wait.
  CREATE INDEX outbox_in_lane ON outbox (lane) WHERE mode = 'queue' AND ended_at IS NULL;

  -- One complete message each: retention may remove its row in the log. The part ids of an entry start at a thousand
  -- times its id. status: parts that wait for approval or their time are 'asked', which no version sends; that makes them
  -- 'queued'. message: its row, absent until a part of mode 'fail' begins. slot: by the pace, Unix ms. error, file: JSON.
  -- raw: as in the log while it waits.
  CREATE TABLE outbox_part (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    entry INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    kind TEXT NOT NULL,
    msg_type TEXT NOT NULL,
    status TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    message INTEGER,
    message_id TEXT,
    error TEXT,
    slot REAL,
    owner TEXT,
    began_at INTEGER,
    file TEXT,
    text TEXT NOT NULL,
    raw TEXT NOT NULL
  );
  CREATE INDEX outbox_part_sending ON outbox_part (began_at) WHERE status = 'sending';
  -- A waiting part of mode 'queue' has a message, one of mode 'fail' has none yet.
  CREATE INDEX outbox_part_waiting ON outbox_part (lane) WHERE status = 'queued' AND message IS NOT NULL;
  CREATE INDEX outbox_part_call ON outbox_part (lane) WHERE status = 'queued' AND message IS NULL;
  CREATE INDEX outbox_part_asked ON outbox_part (entry) WHERE status = 'asked';

  -- Slots: when each message was or will be sent (Unix ms), for the pace that all processes keep together.
  CREATE TABLE turn (session INTEGER NOT NULL, peer TEXT NOT NULL, at REAL NOT NULL);
  CREATE INDEX turn_session ON turn (session, at);
  CREATE INDEX turn_user ON turn (session, peer, at);
`

const people = `
  -- Names that people gave to users of a session. folded: the form in which names are compared.
  CREATE TABLE user_name (
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    PRIMARY KEY (session, peer)
  ) WITHOUT ROWID;
  CREATE INDEX user_name_folded ON user_name (folded);
  CREATE TRIGGER user_named AFTER INSERT ON user_name BEGIN
    UPDATE session SET users_named = (SELECT coalesce(max(users_named), 0) + 1 FROM session) WHERE key = new.session;
  END;
  CREATE TRIGGER user_unnamed AFTER DELETE ON user_name BEGIN
    UPDATE session SET users_named = (SELECT coalesce(max(users_named), 0) + 1 FROM session) WHERE key = old.session;
  END;

  -- Users who were erased. mark: recognizes the id, and does not tell it. hash: what stands for the user in the audit
  -- log. ended: 0 while the erasure runs, in which nothing that the user writes ends it.
  CREATE TABLE erased (mark TEXT PRIMARY KEY, hash TEXT NOT NULL, ended INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;

  -- How far a person has read a conversation.
  CREATE TABLE read_mark (
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (session, peer)
  ) WITHOUT ROWID;
  -- Each person has marks of their own. reader: the id of the key that the person signed in with.
  CREATE TABLE person_mark (
    reader TEXT NOT NULL,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (reader, session, peer)
  ) WITHOUT ROWID;
`

const events = `
  -- id: of this store, which is part of each cursor. hash_key: the key of the hashes that stand for the ids of forgotten
  -- users. erasures: counts those that have ended. events_removed: events up to this place were removed for their age.
  -- clock_seen: when a process ran last, by its clock. clock_doubt_ms: how long svc has to run until the clock is trusted.
  CREATE TABLE store_id (
    id TEXT NOT NULL,
    hash_key TEXT,
    erasures INTEGER NOT NULL DEFAULT 0,
    events_removed INTEGER NOT NULL DEFAULT 0,
    clock_seen INTEGER,
    clock_doubt_ms INTEGER NOT NULL DEFAULT 0
  );
  INSERT INTO store_id (id, hash_key) VALUES (lower(hex(randomblob(5))), lower(hex(randomblob(32))));

  -- All events except received messages, which are events themselves. session: folded. data: JSON.
  CREATE TABLE event (
    place INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    at INTEGER NOT NULL,
    message INTEGER,
    status TEXT,
    session TEXT,
    data TEXT
  );
  CREATE INDEX event_session ON event (session, place) WHERE session IS NOT NULL;
  -- seen_at: Unix ms. A reader with the place -1 lost its place.
  CREATE TABLE event_reader (
    name TEXT PRIMARY KEY,
    place INTEGER NOT NULL,
    seen_at INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
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

  -- Endpoints that events are delivered to. types, headers, secrets: JSON. deliverer: the process that delivered for it
  -- last, and its epoch. grant: what the key that added the endpoint may do, as JSON.
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
    disabled_code TEXT,
    deliverer TEXT,
    made_by TEXT,
    "grant" TEXT,
    created_at INTEGER NOT NULL,
    position TEXT NOT NULL,
    replayed TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    last_success_at INTEGER,
    failing_since INTEGER,
    last_error TEXT,
    last_error_code TEXT,
    next_try_at INTEGER,
    tries_done INTEGER NOT NULL DEFAULT 0,
    tries_failed INTEGER NOT NULL DEFAULT 0,
    tries_gave_up INTEGER NOT NULL DEFAULT 0,
    subscription TEXT,
    expires_at INTEGER
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
    detail TEXT,
    code TEXT
  );
  CREATE INDEX webhook_try_outcome ON webhook_try (webhook, outcome, id);
`

const access = `
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

  -- Links by which people log an account in by themselves. hash: SHA-256 of the secret. made_by: the principal that made it.
  CREATE TABLE invitation (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    agent TEXT,
    trusted INTEGER NOT NULL,
    turns_per_day INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    inviter TEXT,
    topic TEXT,
    made_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER
  );
  -- Each person who joined, by the login.
  CREATE TABLE invitation_use (login TEXT PRIMARY KEY, invitation TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX invitation_use_invitation ON invitation_use (invitation);

  -- The triggers write the lines of sends, in the transaction that writes the message. A queued message has its row, and
  -- so its line, from then on.
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

  -- Backups that were made of this store, as far as svc knows where they are.
  CREATE TABLE backup (
    path TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    size INTEGER NOT NULL,
    took_ms INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- The last backup by schedule that failed, if none has succeeded since.
  CREATE TABLE backup_failure (at INTEGER NOT NULL, error TEXT NOT NULL);
`

const agents = `
  -- Agents in front of WeChat. owner: the process that works on the conversation.
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
  -- first: the first message of a turn, so that messages that come again make no second turn. messages, answer: JSON.
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
  -- Questions: of a turn of an agent, or of a caller (asked_by) to the user peer. options: JSON. lasts_ms: time to answer.
  -- grants: the choice allows a program something. answered_in: row of the message with the answer.
  CREATE TABLE agent_question (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    turn INTEGER,
    text TEXT NOT NULL,
    options TEXT NOT NULL,
    code TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    answer TEXT,
    answered_by TEXT,
    entry INTEGER,
    message_id TEXT,
    sent_at INTEGER,
    drafts TEXT,
    session INTEGER,
    peer TEXT,
    asked_by TEXT,
    asked_key TEXT,
    lasts_ms INTEGER,
    grants INTEGER,
    answered_at INTEGER,
    answered_in INTEGER
  );
  CREATE INDEX agent_question_turn ON agent_question (turn);
  CREATE INDEX agent_question_unanswered ON agent_question (id) WHERE answer IS NULL;
  CREATE INDEX agent_question_peer ON agent_question (peer) WHERE peer IS NOT NULL;
  CREATE UNIQUE INDEX agent_question_key ON agent_question (asked_key) WHERE asked_key IS NOT NULL;
`

/** Topics, what was said to them, and what goes out as one message. */
const topics = `
  -- A topic is for the user peer of a session. Priorities: 1 (min) to 5 (max). priorities, missed, unread: JSON.
  CREATE TABLE topic (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    min_priority INTEGER NOT NULL,
    max_priority INTEGER NOT NULL,
    quiet TEXT,
    zone TEXT,
    digest INTEGER NOT NULL,
    answers INTEGER NOT NULL,
    keep_ms INTEGER NOT NULL,
    template TEXT,
    secret TEXT,
    priorities TEXT,
    attach_private INTEGER NOT NULL,
    missed TEXT NOT NULL,
    unread TEXT NOT NULL DEFAULT '{}',
    sent INTEGER NOT NULL DEFAULT 0,
    expired INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 0,
    made_by TEXT NOT NULL,
    created_at INTEGER NOT NULL
  );
  CREATE INDEX topic_peer ON topic (peer);
  -- state: waiting, sending, sent, unknown, over. tags, media: JSON. mark: what is the same has the same one.
  CREATE TABLE notice (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL,
    peer TEXT NOT NULL,
    mark TEXT NOT NULL,
    name TEXT NOT NULL,
    title TEXT,
    text TEXT NOT NULL,
    priority INTEGER NOT NULL,
    tags TEXT,
    click TEXT,
    media TEXT,
    size INTEGER NOT NULL,
    count INTEGER NOT NULL,
    telling INTEGER NOT NULL DEFAULT 0,
    reported INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    resolved INTEGER NOT NULL,
    bulletin TEXT
  );
  CREATE UNIQUE INDEX notice_mark ON notice (topic, mark);
  CREATE INDEX notice_waiting ON notice (topic, size) WHERE state = 'waiting';
  CREATE INDEX notice_expires ON notice (expires_at);
  CREATE INDEX notice_bulletin ON notice (bulletin) WHERE bulletin IS NOT NULL;
  CREATE INDEX notice_peer ON notice (peer);
  -- state: sending, sent, unknown. media, missed, names: JSON.
  CREATE TABLE bulletin (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL,
    peer TEXT NOT NULL,
    text TEXT NOT NULL,
    media TEXT NOT NULL,
    answers INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    missed TEXT NOT NULL,
    names TEXT NOT NULL,
    state TEXT NOT NULL,
    named_in TEXT,
    created_at INTEGER NOT NULL,
    owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE INDEX bulletin_peer ON bulletin (peer, created_at);
  CREATE INDEX bulletin_sending ON bulletin (created_at) WHERE state = 'sending';
`

/** SQL that makes the tables. */
export const tables: string = [messages, readers, outbox, people, events, access, agents, topics].join('')
