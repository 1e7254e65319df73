/** Functions and triggers of writers: they append to the log and its events, and follow what happens to the server. */
import { copyLock, erasedState, placesPerMessage } from './tables.ts'

/** More rows than a standby that took over can lack. */
const lostRows = 1_000_000

/** SQL that makes them. */
export const writeFunctions = `
  -- Fails if what a script rests on has changed.
  CREATE FUNCTION expect(holds boolean) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF holds IS NOT TRUE THEN RAISE EXCEPTION 'changed meanwhile' USING ERRCODE = '40001'; END IF;
  END $$;

  CREATE FUNCTION erased_mark(who text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(convert_to((SELECT hash_key FROM meta) || who, 'UTF8')), 'hex')
  $$;
  -- What stands for an erased user; NULL for any other user.
  CREATE FUNCTION find_erased(who text) RETURNS text LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT EXISTS (SELECT FROM erased) THEN RETURN NULL; END IF;
    RETURN (SELECT hash FROM erased WHERE mark = erased_mark(who));
  END $$;
  -- Users who write are no longer erased.
  CREATE FUNCTION users_wrote(rows jsonb) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT EXISTS (SELECT FROM erased) THEN RETURN; END IF;
    DELETE FROM erased WHERE ended = 1
      AND mark IN (SELECT erased_mark(one ->> 'peer') FROM jsonb_array_elements(rows) AS all_rows(one));
  END $$;
  -- Whoever stores something about an erased user fails, or, with an argument, stores nothing.
  CREATE FUNCTION reject_erased() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    who text;
  BEGIN
    IF NOT EXISTS (SELECT FROM erased) THEN RETURN new; END IF;
    -- A lane of a message that arrives.
    IF to_jsonb(new) ->> 'received_at' IS NOT NULL OR to_jsonb(new) ->> 'token' IS NOT NULL THEN RETURN new; END IF;
    FOR who IN SELECT to_jsonb(new) ->> 'peer'
      UNION ALL SELECT jsonb_array_elements_text((to_jsonb(new) ->> 'grant')::jsonb -> 'users')
    LOOP
      IF find_erased(who) IS NULL THEN CONTINUE; END IF;
      IF TG_NARGS > 0 THEN RETURN NULL; END IF;
      RAISE EXCEPTION 'the user was erased' USING ERRCODE = '${erasedState}';
    END LOOP;
    RETURN new;
  END $$;
  CREATE TRIGGER reject_erased BEFORE INSERT ON outbox_lane FOR EACH ROW EXECUTE FUNCTION reject_erased();
  CREATE TRIGGER reject_erased BEFORE INSERT ON user_name FOR EACH ROW EXECUTE FUNCTION reject_erased();
  CREATE TRIGGER reject_erased BEFORE INSERT ON agent_conversation FOR EACH ROW EXECUTE FUNCTION reject_erased();
  CREATE TRIGGER reject_erased BEFORE INSERT ON webhook FOR EACH ROW EXECUTE FUNCTION reject_erased();
  CREATE TRIGGER reject_erased BEFORE INSERT ON access_key FOR EACH ROW EXECUTE FUNCTION reject_erased();
  CREATE TRIGGER reject_erased BEFORE INSERT ON read_mark FOR EACH ROW EXECUTE FUNCTION reject_erased('quietly');
  CREATE TRIGGER reject_erased BEFORE INSERT ON person_mark FOR EACH ROW EXECUTE FUNCTION reject_erased('quietly');
  CREATE TRIGGER reject_erased BEFORE INSERT ON webhook_lane FOR EACH ROW EXECUTE FUNCTION reject_erased('quietly');
  CREATE FUNCTION hash_erased() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF new.subject IS NULL OR NOT EXISTS (SELECT FROM erased) THEN RETURN new; END IF;
    new.subject := (SELECT string_agg(coalesce(find_erased(word), word), ' ' ORDER BY nth)
      FROM string_to_table(new.subject, ' ') WITH ORDINALITY AS words(word, nth));
    RETURN new;
  END $$;
  CREATE TRIGGER hash_erased BEFORE INSERT OR UPDATE OF subject ON audit FOR EACH ROW EXECUTE FUNCTION hash_erased();

  -- Time of the program's clock in Unix ms, which scripts set; else of the server's.
  CREATE FUNCTION now_ms() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(nullif(current_setting('svc.now', true), '')::bigint,
      (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  $$;

  -- Appends messages, and returns the id of the last one. rows: JSON, each with the columns of message without id, and
  -- the stored outbox part that it is of. A message that svc sends is followed by its event, and by the line of its caller.
  CREATE FUNCTION add_messages(rows jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    n bigint := jsonb_array_length(rows);
    hi bigint;
  BEGIN
    IF n = 0 THEN RETURN 0; END IF;
    UPDATE head SET last = last + n, place = greatest(place, (last + n) * ${placesPerMessage}
      + CASE WHEN rows -> -1 ->> 'sent' = '1' THEN 1 ELSE 0 END) RETURNING last INTO hi;
    INSERT INTO message (id, message_id, session, sent, status, bot_id, peer, msg_type, timestamp, stored_at,
        content_hash, text, raw, reason, reason_code, reason_quote, sent_with, sent_by)
      SELECT hi - n + nth, r.message_id, r.session, r.sent, r.status, r.bot_id, r.peer, r.msg_type, r.timestamp,
        r.stored_at, r.content_hash, r.text, r.raw, r.reason, r.reason_code, r.reason_quote, r.sent_with, r.sent_by
      FROM jsonb_array_elements(rows) WITH ORDINALITY AS all_rows(one, nth), jsonb_populate_record(NULL::message, one) AS r;
    INSERT INTO session_bot (bot_id, session)
      SELECT DISTINCT one ->> 'bot_id', (one ->> 'session')::bigint FROM jsonb_array_elements(rows) AS all_rows(one)
      ON CONFLICT DO NOTHING;
    IF rows @> '[{"sent":1}]' THEN
      INSERT INTO event (place, type, at, message, status)
        SELECT (hi - n + nth) * ${placesPerMessage} + 1, 'message.status', (one ->> 'stored_at')::bigint, hi - n + nth,
          one ->> 'status' FROM jsonb_array_elements(rows) WITH ORDINALITY AS all_rows(one, nth)
        WHERE one ->> 'sent' = '1' AND one ->> 'status' IN ('queued', 'sending');
      IF jsonb_path_exists(rows, '$[*].part') THEN
        UPDATE outbox_part p SET message = hi - n + nth FROM jsonb_array_elements(rows) WITH ORDINALITY AS all_rows(one, nth)
          WHERE p.id = (one ->> 'part')::bigint;
      END IF;
      IF jsonb_path_exists(rows, '$[*].sent_by') THEN
        INSERT INTO audit (at, principal, operation, subject, outcome, request_id, address, message)
          SELECT m.stored_at, split_part(m.sent_by, ' ', 1), 'send',
            (SELECT name FROM session WHERE key = m.session) || ' ' || m.peer, m.status,
            nullif(split_part(m.sent_by, ' ', 2), ''), nullif(substr(m.sent_by,
              length(split_part(m.sent_by, ' ', 1)) + length(split_part(m.sent_by, ' ', 2)) + 3), ''), m.id FROM message m
          WHERE m.id > hi - n AND m.id <= hi AND m.sent = 1 AND m.sent_by IS NOT NULL ORDER BY m.id;
      END IF;
    END IF;
    RETURN hi;
  END $$;

  -- Writes what polls brought, and returns the id of the last message. w: JSON. Fails if one of the accounts guarded, or
  -- one of lanes, has changed since it was read.
  CREATE FUNCTION write_batches(w jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    n bigint;
    now_at bigint;
  BEGIN
    IF w ? 'rows' THEN PERFORM users_wrote(w -> 'rows'); END IF;
    IF w ? 'guarded' THEN
      SELECT count(*) INTO n FROM (SELECT 1 FROM account a
        JOIN jsonb_to_recordset(w -> 'guarded') AS r(name_key text, version text) ON a.name_key = r.name_key
        WHERE a.xmin = r.version::xid ORDER BY a.name_key FOR UPDATE OF a) held;
      PERFORM expect(n = jsonb_array_length(w -> 'guarded'));
    END IF;
    IF w ? 'lanes' THEN
      UPDATE outbox_lane l SET token = r.token, received_at = r.received_at, first_seen = r.first_seen, used = r.used
        FROM jsonb_to_recordset(w -> 'lanes') AS r(id bigint, version text, token text, received_at bigint,
          first_seen bigint, used bigint) WHERE l.id = r.id AND l.xmin = r.version::xid;
      GET DIAGNOSTICS n = ROW_COUNT;
      PERFORM expect(n = jsonb_array_length(w -> 'lanes'));
    END IF;
    IF w ? 'new_lanes' THEN
      INSERT INTO outbox_lane (session, peer, token, received_at, first_seen, used)
        SELECT r.session, r.peer, r.token, r.received_at, r.first_seen, r.used FROM jsonb_to_recordset(w -> 'new_lanes')
          AS r(session bigint, peer text, token text, received_at bigint, first_seen bigint, used bigint);
    END IF;
    IF w ? 'accounts' THEN
      UPDATE head SET revision = revision + 1 RETURNING revision INTO now_at;
      UPDATE account a SET cursor = r.cursor, info = r.info, changed = now_at
        FROM jsonb_to_recordset(w -> 'accounts') AS r(name_key text, cursor text, info text)
        WHERE a.name_key = r.name_key;
    END IF;
    RETURN CASE WHEN w ? 'rows' THEN add_messages(w -> 'rows') ELSE 0 END;
  END $$;

  -- Appends events, in order. rows: JSON, each with the columns of event without place. kept: places that they leave free.
  CREATE FUNCTION add_events(rows jsonb, kept bigint DEFAULT 0) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    n bigint := jsonb_array_length(rows);
    hi bigint;
    newest bigint;
  BEGIN
    UPDATE head SET place = greatest(place, last * ${placesPerMessage}) + n
      WHERE greatest(place, last * ${placesPerMessage}) + n - last * ${placesPerMessage} < ${placesPerMessage} - kept
      RETURNING place, last INTO hi, newest;
    IF hi IS NULL THEN RETURN; END IF;
    INSERT INTO event (place, type, at, message, status, session, data)
      SELECT hi - n + nth, r.type, r.at, r.message, r.status, r.session, r.data
      FROM jsonb_array_elements(rows) WITH ORDINALITY AS all_rows(one, nth), jsonb_populate_record(NULL::event, one) AS r;
  END $$;

  -- Changes rows of sent messages, in order. rows: JSON. status, reason, reason_code and reason_quote are always set;
  -- upstream_id only if no other row has it; sent_with only with local_id, or to the id of the row carrier; must: fails
  -- if there is no such row.
  CREATE FUNCTION change_messages(rows jsonb) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    r record;
  BEGIN
    FOR r IN SELECT * FROM jsonb_to_recordset(rows) AS one(id bigint, status text, reason text, reason_code text,
      reason_quote text, upstream_id text, local_id text, bot_id text, timestamp bigint, text text, raw text,
      sent_with text, carrier bigint, must boolean)
    LOOP
      UPDATE message m SET status = r.status, reason = r.reason, reason_code = r.reason_code,
        reason_quote = r.reason_quote, bot_id = coalesce(r.bot_id, m.bot_id),
        message_id = CASE WHEN r.upstream_id IS NULL OR EXISTS (SELECT 1 FROM message o
            WHERE id_hash(o.message_id) = id_hash(r.upstream_id) AND o.message_id = r.upstream_id AND o.id <> r.id)
          THEN coalesce(r.local_id, m.message_id) ELSE r.upstream_id END,
        timestamp = coalesce(r.timestamp, m.timestamp), text = coalesce(r.text, m.text), raw = coalesce(r.raw, m.raw),
        sent_with = CASE WHEN r.local_id IS NOT NULL THEN r.sent_with
          ELSE coalesce((SELECT o.message_id FROM message o WHERE o.id = r.carrier), m.sent_with) END
        WHERE m.id = r.id AND m.sent = 1;
      IF r.must AND NOT FOUND THEN PERFORM expect(false); END IF;
    END LOOP;
  END $$;

  -- Writes what was decided about lanes, entries and parts, and returns the id of the last added message. w: JSON. Fails
  -- if a lane, or a session whose slots count, has changed since it was read.
  CREATE FUNCTION write_outbox(w jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    r record;
    hi bigint;
    set_now text;
  BEGIN
    set_now := set_config('svc.now', w ->> 'now', true);
    IF w ? 'sessions' THEN
      FOR r IN SELECT * FROM jsonb_to_recordset(w -> 'sessions') AS one(key bigint, version text) ORDER BY one.key LOOP
        UPDATE session SET bookings = bookings + 1 WHERE key = r.key AND xmin = r.version::xid;
        IF NOT FOUND THEN PERFORM expect(false); END IF;
      END LOOP;
    END IF;
    IF w ? 'lanes' THEN
      FOR r IN SELECT * FROM jsonb_to_recordset(w -> 'lanes') AS one(lane_id bigint, lane_version text, used bigint,
        last_sent_at bigint, held_at bigint, held_until bigint, holds bigint, lane_owner text, lease_until bigint)
        ORDER BY one.lane_id
      LOOP
        UPDATE outbox_lane SET used = r.used, last_sent_at = r.last_sent_at, held_at = r.held_at,
          held_until = r.held_until, holds = r.holds, owner = r.lane_owner, lease_until = r.lease_until
          WHERE id = r.lane_id AND xmin = r.lane_version::xid;
        IF NOT FOUND THEN PERFORM expect(false); END IF;
      END LOOP;
    END IF;
    -- taken: with it, slots up to old and after late are removed.
    IF w ? 'slots' THEN
      FOR r IN SELECT * FROM jsonb_to_recordset(w -> 'slots') AS one(session bigint, peer text, taken double precision,
        given_back double precision, old double precision, late double precision)
      LOOP
        IF r.taken IS NULL THEN
          DELETE FROM turn t WHERE t.ctid = (SELECT o.ctid FROM turn o WHERE o.session = r.session AND o.peer = r.peer
            AND o.at = r.given_back LIMIT 1);
        ELSE
          DELETE FROM turn t WHERE t.session = r.session AND t.at <= r.old;
          DELETE FROM turn t WHERE t.session = r.session AND t.at > r.late;
          INSERT INTO turn (session, peer, at) VALUES (r.session, r.peer, r.taken);
        END IF;
      END LOOP;
    END IF;
    IF w ? 'entries' THEN
      INSERT INTO outbox (id, lane, mode, owner, key, content, created_at, expires_at, asked, send_at, made_by,
        origin)
        SELECT e.id, e.lane, e.mode, e.owner, e.key, e.content, e.created_at, e.expires_at, e.asked, e.send_at,
        e.made_by, e.origin
        FROM jsonb_populate_recordset(NULL::outbox, w -> 'entries') e;
    END IF;
    IF w ? 'parts' THEN
      FOR r IN SELECT * FROM jsonb_to_recordset(w -> 'parts') AS one(id bigint, status text, tries bigint,
        message_id text, error text, slot double precision, has_sender boolean, owner text, began_at bigint)
      LOOP
        UPDATE outbox_part p SET status = r.status, tries = r.tries, message_id = r.message_id, error = r.error,
          slot = r.slot, owner = CASE WHEN r.has_sender THEN r.owner ELSE p.owner END,
          began_at = CASE WHEN r.has_sender THEN r.began_at ELSE p.began_at END WHERE p.id = r.id;
      END LOOP;
    END IF;
    IF w ? 'ended' THEN
      FOR r IN SELECT * FROM jsonb_to_recordset(w -> 'ended') AS one(id bigint, at bigint, used bigint,
        received_at bigint, has_content boolean)
      LOOP
        UPDATE outbox SET ended_at = r.at, used = r.used, received_at = r.received_at WHERE id = r.id;
        IF r.has_content THEN UPDATE outbox_part SET file = NULL, text = '""', raw = '' WHERE entry = r.id; END IF;
      END LOOP;
    END IF;
    IF w ? 'removed' THEN
      FOR r IN SELECT one::bigint AS id FROM jsonb_array_elements_text(w -> 'removed') AS all_ids(one) LOOP
        DELETE FROM outbox_part WHERE entry = r.id;
        DELETE FROM outbox WHERE id = r.id;
      END LOOP;
    END IF;
    IF w ? 'rows' THEN PERFORM change_messages(w -> 'rows'); END IF;
    IF w ? 'added' THEN hi := add_messages(w -> 'added'); END IF;
    -- added: place of its message among those.
    IF w ? 'new_parts' THEN
      INSERT INTO outbox_part (id, entry, lane, kind, msg_type, status, tries, message, slot, owner, began_at, file, text, raw)
        SELECT p.id, p.entry, p.lane, p.kind, p.msg_type, p.status, p.tries,
          hi - jsonb_array_length(w -> 'added') + p.added, p.slot, p.owner, p.began_at, p.file, p.text, p.raw
        FROM jsonb_to_recordset(w -> 'new_parts') AS p(id bigint, entry bigint, lane bigint, kind text, msg_type text,
          status text, tries bigint, added bigint, slot double precision, owner text, began_at bigint, file text,
          text text, raw text);
    END IF;
    RETURN hi;
  END $$;

  CREATE FUNCTION message_status() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    free bigint;
  BEGIN
    UPDATE head SET place = greatest(place, last * ${placesPerMessage}) + 1
      WHERE greatest(place, last * ${placesPerMessage}) + 1 - last * ${placesPerMessage} < ${placesPerMessage}
      RETURNING place INTO free;
    IF free IS NOT NULL THEN
      INSERT INTO event (place, type, at, message, status) VALUES (free, 'message.status', now_ms(), new.id, new.status);
    END IF;
    IF new.sent_by IS NOT NULL THEN UPDATE audit SET outcome = new.status WHERE message = new.id; END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER message_status AFTER UPDATE OF status, reason_code ON message FOR EACH ROW
    WHEN (new.sent = 1 AND (new.status IS DISTINCT FROM old.status OR new.reason_code IS DISTINCT FROM old.reason_code))
    EXECUTE FUNCTION message_status();

  CREATE FUNCTION message_of_other_bot() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO session_bot VALUES (new.bot_id, new.session) ON CONFLICT DO NOTHING;
    RETURN NULL;
  END $$;
  -- Its name comes after that of message_status, which locks head: add_messages locks head before session_bot too.
  CREATE TRIGGER session_of_other_bot AFTER UPDATE OF bot_id ON message FOR EACH ROW
    WHEN (new.bot_id <> old.bot_id) EXECUTE FUNCTION message_of_other_bot();

  -- Notes that sessions changed, by the form in which their names are compared.
  CREATE FUNCTION touch_sessions(names text[]) RETURNS bigint LANGUAGE plpgsql AS $$
  DECLARE
    now_at bigint;
  BEGIN
    -- Before head, as all writers lock them.
    PERFORM 1 FROM account WHERE name_key = ANY (names) ORDER BY name_key FOR UPDATE;
    UPDATE head SET revision = revision + 1 RETURNING revision INTO now_at;
    UPDATE account SET changed = now_at WHERE name_key = ANY (names);
    RETURN now_at;
  END $$;

  -- The history of the server that this is; NULL where it cannot be told.
  CREATE FUNCTION timeline() RETURNS text LANGUAGE plpgsql AS $$
  BEGIN
    RETURN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
  EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
  END $$;

  -- Where this is: ids of the server, the database and a table, and the name of the database. A standby that takes over has
  -- the same; a dump that was restored has not.
  CREATE FUNCTION home() RETURNS text LANGUAGE plpgsql STABLE AS $$
  DECLARE
    server text := '-';
  BEGIN
    BEGIN
      server := (SELECT system_identifier FROM pg_control_system());
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    RETURN concat_ws(' ', server, (SELECT oid FROM pg_database WHERE datname = current_database()),
      to_regclass('svc.meta')::oid, current_database());
  END $$;
  UPDATE meta SET home = home();

  -- A server that crashed may have lost the newest commits, whose revisions nodes have seen: the next ones are far beyond
  -- them. So are the next ids of a standby that took over, and may lack rows that readers have seen.
  CREATE FUNCTION follow_server() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    now_on text;
    known text;
  BEGIN
    IF EXISTS (SELECT 1 FROM server_run) THEN RETURN new; END IF;
    INSERT INTO server_run VALUES (gen_random_uuid());
    new.revision := new.revision + ${lostRows};
    now_on := timeline();
    known := (SELECT timeline FROM meta);
    IF now_on IS NULL OR now_on = known THEN RETURN new; END IF;
    UPDATE meta SET timeline = now_on, timeline_at = CASE WHEN known IS NOT NULL THEN clock_timestamp() END;
    IF known IS NOT NULL THEN
      INSERT INTO gap VALUES (old.last, ${lostRows}, old.place);
      new.last := new.last + ${lostRows};
      new.place := new.place + ${lostRows}::bigint * ${placesPerMessage};
    END IF;
    RETURN new;
  END $$;
  UPDATE meta SET timeline = timeline();
  CREATE TRIGGER follow_server BEFORE UPDATE ON head FOR EACH ROW EXECUTE FUNCTION follow_server();

  -- No process may use the store while it is copied, nor after it was moved. Who copies it holds the lock.
  CREATE FUNCTION node_may_join() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(${copyLock})
      OR (SELECT moved_to IS NOT NULL OR copying IS NOT NULL FROM meta) THEN
      RAISE EXCEPTION 'the store is closed' USING ERRCODE = '55006';
    END IF;
    RETURN new;
  END $$;
  CREATE TRIGGER node_may_join BEFORE INSERT OR UPDATE OF lease_until ON node FOR EACH ROW
    WHEN (new.lease_until > clock_timestamp()) EXECUTE FUNCTION node_may_join();

  -- Whether a process runs that has this id.
  CREATE FUNCTION lives(owner text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT 1 FROM node WHERE id = owner AND lease_until > clock_timestamp())
  $$;
`
