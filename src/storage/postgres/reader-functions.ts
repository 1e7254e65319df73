/** Functions of readers: consumers claim and acknowledge rows, and conversations are listed. */
import { maxReaders } from '../events.ts'
import { erasedSession, receivedElsewhere } from '../log-rows.ts'
import {
  maxBehind,
  maxLeases,
  mostLookedAt,
  neverSeen,
  ofProgram,
  programLeaseMs,
  rowLeaseMs,
  seenEveryMs,
} from '../nouns/readers.ts'
import { liveMs } from '../retention.ts'
import { endedKeyState, noPlaceState } from './tables.ts'

/**
 * Settings of a function: only walks in indexes. The planner does not know how many rows a walk to a LIMIT ends with, and
 * would read all rows of a user, or of the log, and sort them.
 */
const walks = `SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off`

/** SQL of the function that claims rows. */
const claimRows = `  -- Claims rows for a consumer: lapsed ones, else new ones up to the horizon. It locks the consumer only if there may be
  -- some. from_start: where a new consumer begins. keys: of one session; the position of the consumer stays then.
  CREATE FUNCTION claim_rows(reader text, from_start boolean, at bigint, asker text, most bigint, characters bigint,
      keys bigint[], bots text[], users text[],
      OUT claim bigint, OUT taken bigint[], OUT again bigint[], OUT acknowledges boolean) LANGUAGE plpgsql
    ${walks} AS $$
  DECLARE
    upto bigint := (SELECT coalesce(max(d.upto), 0) FROM durable d);
    own consumer%ROWTYPE;
    lapsed bigint[];
    touched bigint[];
    number bigint;
    reached bigint;
    times bigint;
  BEGIN
    SELECT * INTO own FROM consumer c WHERE c.name = reader;
    acknowledges := EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = reader);
    IF acknowledges OR (abs(at - own.seen_at) <= ${seenEveryMs}
      AND NOT EXISTS (SELECT 1 FROM lease l WHERE l.consumer = reader AND has_lapsed(l.expires_at, l.owner, at, asker))
      AND (own.position >= upto OR (keys IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM unread_rows(reader, own.position, upto, 1, keys, bots, users))))) THEN RETURN; END IF;

    own := locked_consumer(reader, CASE WHEN from_start THEN 0 ELSE upto END, at);
    acknowledges := EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = reader);
    IF acknowledges THEN RETURN; END IF;

    WITH ended AS MATERIALIZED (
      SELECT l.id, l.ids, l.expires_at, l.hand_outs FROM lease l
        WHERE l.consumer = reader AND has_lapsed(l.expires_at, l.owner, at, asker) ORDER BY l.id FOR UPDATE SKIP LOCKED
    ), wanted AS (
      SELECT ended.id AS lease, ended.expires_at, ended.hand_outs, m.id, CASE WHEN characters IS NULL THEN 0 ELSE utf16_length(m.raw) END AS size
        FROM ended CROSS JOIN unnest(ended.ids) AS one(id) JOIN message m ON m.id = one.id
        WHERE m.session <> ${erasedSession} AND (keys IS NULL OR m.session = ANY (keys))
          AND (bots IS NULL OR m.bot_id = ANY (bots)) AND (users IS NULL OR m.peer = ANY (users))
        ORDER BY ended.id, m.id LIMIT most
    ), equal AS (
      -- Rows that share a lease from now on were handed out equally often.
      SELECT w.* FROM wanted w WHERE w.hand_outs = (SELECT f.hand_outs FROM wanted f ORDER BY f.lease, f.id LIMIT 1)
    ), sized AS (
      SELECT w.*, sum(size) OVER in_order <= coalesce(characters, 0) OR row_number() OVER in_order = 1 AS fits
        FROM equal w WINDOW in_order AS (ORDER BY w.lease, w.id)
    )
    SELECT array_agg(s.id ORDER BY s.id), array_agg(s.id) FILTER (WHERE s.expires_at <> ${neverSeen}),
        array_agg(DISTINCT s.lease), (SELECT array_agg(ended.id) FROM ended), min(s.hand_outs)
      INTO taken, again, touched, lapsed, times FROM sized s WHERE s.fits;

    IF taken IS NOT NULL THEN
      -- What is left of these leases, without rows that retention removed.
      UPDATE lease l SET ids = ARRAY(SELECT m.id FROM message m WHERE m.id = ANY (l.ids) AND m.session <> ${erasedSession}
        EXCEPT SELECT unnest(taken) ORDER BY 1) WHERE l.id = ANY (touched);
      DELETE FROM lease l WHERE l.id = ANY (touched) AND l.ids = '{}';
    ELSE
      DELETE FROM lease l WHERE l.id = ANY (lapsed)
        AND NOT EXISTS (SELECT 1 FROM message m WHERE m.id = ANY (l.ids) AND m.session <> ${erasedSession});
      WITH unread AS (
        SELECT u.id, CASE WHEN characters IS NULL THEN 0 ELSE (SELECT utf16_length(m.raw) FROM message m WHERE m.id = u.id) END AS size
          FROM unread_rows(reader, own.position, upto, most, keys, bots, users) u
      ), sized AS (
        SELECT u.id, sum(size) OVER in_order <= coalesce(characters, 0) OR row_number() OVER in_order = 1 AS fits
          FROM unread u WINDOW in_order AS (ORDER BY u.id)
      )
      SELECT array_agg(s.id ORDER BY s.id) FILTER (WHERE s.fits), count(*), max(s.id) FILTER (WHERE s.fits)
        INTO taken, number, reached FROM sized s;
      IF keys IS NOT NULL THEN
        INSERT INTO consumer_ahead AS a (consumer, session, position)
          SELECT reader, m.session, max(m.id) FROM message m WHERE m.id = ANY (taken) GROUP BY m.session
          ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position;
      ELSE
        IF number < most AND number = coalesce(cardinality(taken), 0) THEN reached := upto; END IF;
        IF reached > own.position THEN
          UPDATE consumer c SET position = reached WHERE c.name = reader;
          DELETE FROM consumer_ahead a WHERE a.consumer = reader AND a.position <= reached;
        END IF;
      END IF;
    END IF;
    IF taken IS NULL THEN RETURN; END IF;
    INSERT INTO lease AS l (consumer, ids, owner, expires_at, hand_outs)
      VALUES (reader, taken, asker, at + ${rowLeaseMs}, coalesce(times, 0))
      RETURNING l.id INTO claim;
  END $$;
`

/** SQL that makes them. */
export const readerFunctions = `
  -- For readers: the index by which names of a user are found; tables that change with each claim; and counts of
  -- messages that read an index alone.
  CREATE INDEX user_name_peer ON user_name (peer);
  ALTER TABLE consumer SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
  ALTER TABLE lease SET (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1);
  ALTER TABLE message SET (autovacuum_vacuum_insert_scale_factor = 0.02);

  -- Length in UTF-16 code units: a character beyond U+FFFF counts twice.
  CREATE FUNCTION utf16_length(words text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT length(words) + CASE WHEN octet_length(words) = length(words) THEN 0
      ELSE length(regexp_replace(words, '[\\u0001-\\uffff]+', '', 'g')) END::bigint
  $$;

  -- Whether rows that a consumer has may be claimed again, at a time and by a process. Far more than a whole lease is
  -- left if the clock was set back.
  CREATE FUNCTION has_lapsed(expires_at bigint, owner text, at bigint, asker text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT expires_at <= at OR expires_at > at + ${2 * rowLeaseMs} OR (owner <> asker AND NOT lives(owner))
  $$;

  -- Received rows after a row and up to another one. In each session only those after the position that a consumer has
  -- there. keys, bots, users: only rows of these; NULL: of all. One walk in an index for each user or session.
  CREATE FUNCTION unread_rows(reader text, after bigint, upto bigint, most bigint, keys bigint[], bots text[], users text[])
    RETURNS TABLE (id bigint, session bigint) LANGUAGE plpgsql STABLE ${walks} AS $$
  BEGIN
    IF bots IS NOT NULL THEN
      keys := ARRAY(SELECT DISTINCT b.session FROM session_bot b
        WHERE b.bot_id = ANY (bots) AND (keys IS NULL OR b.session = ANY (keys)));
    END IF;
    IF users IS NOT NULL THEN
      RETURN QUERY SELECT one.* FROM (SELECT DISTINCT unnest(users) AS peer) wanted CROSS JOIN LATERAL (
          SELECT m.id, m.session FROM message m WHERE m.peer = wanted.peer AND m.id > after AND m.id <= upto AND m.sent = 0
            AND (keys IS NULL OR m.session = ANY (keys)) AND (bots IS NULL OR m.bot_id = ANY (bots))
            AND m.id > coalesce((SELECT a.position FROM consumer_ahead a WHERE a.consumer = reader AND a.session = m.session), 0)
          ORDER BY m.id LIMIT most) one
        ORDER BY one.id LIMIT most;
    ELSIF keys IS NOT NULL THEN
      RETURN QUERY SELECT one.* FROM (SELECT k.key, greatest(after, (SELECT a.position FROM consumer_ahead a
            WHERE a.consumer = reader AND a.session = k.key)) AS position FROM unnest(keys) k(key)) wanted CROSS JOIN LATERAL (
          SELECT m.id, m.session FROM message m WHERE m.session = wanted.key AND m.id > wanted.position AND m.id <= upto
            AND m.sent = 0 AND (bots IS NULL OR m.bot_id = ANY (bots))
          ORDER BY m.id LIMIT most) one
        ORDER BY one.id LIMIT most;
    ELSE
      RETURN QUERY SELECT m.id, m.session FROM message m WHERE m.id > after AND m.id <= upto AND m.sent = 0
          AND m.id > coalesce((SELECT a.position FROM consumer_ahead a WHERE a.consumer = reader AND a.session = m.session), 0)
        ORDER BY m.id LIMIT most;
    END IF;
  END $$;

  -- Rows after a row and up to another one.
  CREATE FUNCTION count_rows(first bigint, upto bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(0, upto - low - coalesce((SELECT sum(least(g.after + g.size, upto) - greatest(g.after, low)) FROM gap g
        WHERE g.after < upto AND g.after + g.size > low), 0))::bigint
      FROM (SELECT greatest(first, coalesce((SELECT min(id) FROM message), upto + 1) - 1) AS low) bounds
  $$;

  -- Received rows after a row and up to another one: all but the sent and imported ones, which have indexes.
  CREATE FUNCTION count_received(after bigint, upto bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT greatest(0, count_rows(after, upto)
      - (SELECT count(*) FROM message WHERE sent = 1 AND id > after AND id <= upto)
      - (SELECT count(*) FROM message WHERE sent = 2 AND id > after AND id <= upto))
  $$;

${claimRows}
  -- Locks the row of a consumer, which is active now. first: position of a new one.
  -- A key and the keys below it, see keys.ts.
  CREATE FUNCTION keys_below(top text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE below (id) AS (SELECT top UNION SELECT k.id FROM below b
      JOIN access_key k ON k.made_by = ANY (ARRAY['key:' || b.id, 'panel:' || b.id]))
    SELECT id FROM below $$;
  -- The keys that share their bounds with a key; an empty id stands for the callers without a key.
  CREATE FUNCTION family_of(key text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE above (id, steps) AS (SELECT key, 0 UNION ALL SELECT substr(k.made_by, strpos(k.made_by, ':') + 1), steps + 1
      FROM above JOIN access_key k USING (id) WHERE k.made_by ~ '^(key|panel):')
    SELECT keys_below((SELECT id FROM above ORDER BY steps DESC LIMIT 1)) $$;
  CREATE FUNCTION key_of_reader(name text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(name, greatest(strpos(name, '/') - 1, 0)) $$;
  -- Makes room for a new consumer, one at a time, so that no two take the last place. Its key is not revoked before the end.
  CREATE FUNCTION make_room(reader text, at bigint) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    idle record;
  BEGIN
    PERFORM form FROM meta FOR UPDATE;
    IF (SELECT k.revoked_at FROM access_key k WHERE k.id = key_of_reader(reader) FOR SHARE) IS NOT NULL
    THEN RAISE EXCEPTION 'the key was revoked' USING ERRCODE = '${endedKeyState}'; END IF;
    SELECT c.name, c.seen_at + ${liveMs} - at AS wait_ms INTO idle FROM consumer c
      WHERE key_of_reader(c.name) IN (SELECT family_of(key_of_reader(reader))) ORDER BY c.seen_at DESC LIMIT 1 OFFSET ${maxReaders - 1};
    IF idle.wait_ms > 0 THEN RAISE EXCEPTION 'no place' USING ERRCODE = '${noPlaceState}', DETAIL = idle.wait_ms; END IF;
    DELETE FROM consumer_ahead a WHERE a.consumer = idle.name;
    DELETE FROM acknowledged a WHERE a.consumer = idle.name;
    DELETE FROM lease l WHERE l.consumer = idle.name;
    DELETE FROM consumer c WHERE c.name = idle.name;
  END $$;
  CREATE FUNCTION locked_consumer(reader text, first bigint, at bigint) RETURNS consumer LANGUAGE plpgsql AS $$
  DECLARE
    own consumer%ROWTYPE;
  BEGIN
    SELECT * INTO own FROM consumer c WHERE c.name = reader FOR UPDATE;
    IF NOT FOUND THEN
      PERFORM make_room(reader, at);
      INSERT INTO consumer VALUES (reader, first, at) ON CONFLICT DO NOTHING;
      SELECT * INTO own FROM consumer c WHERE c.name = reader FOR UPDATE;
    END IF;
    IF abs(at - own.seen_at) > ${seenEveryMs} THEN UPDATE consumer c SET seen_at = at WHERE c.name = reader; END IF;
    RETURN own;
  END $$;

  -- Acknowledges rows for a consumer, up to ack: in the sessions keys, or NULL: in all. The first call turns it into one
  -- that acknowledges. Fails with SV001 for a row that was not delivered.
  CREATE FUNCTION acknowledge(reader text, ack bigint, first bigint, at bigint, keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    is_new boolean := NOT EXISTS (SELECT 1 FROM consumer c WHERE c.name = reader);
    own consumer := locked_consumer(reader, first, at);
    before bigint;
  BEGIN
    IF NOT EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = reader AND a.session = 0) THEN
      before := (SELECT min(l.ids[1]) - 1 FROM lease l WHERE l.consumer = reader);
      INSERT INTO acknowledged VALUES (reader, 0, least(own.position, before), CASE WHEN is_new THEN 0 ELSE own.position END);
      INSERT INTO acknowledged SELECT a.consumer, a.session, least(a.position, before), a.position
        FROM consumer_ahead a WHERE a.consumer = reader;
      DELETE FROM lease l WHERE l.consumer = reader;
      UPDATE consumer c SET position = least(c.position, before) WHERE c.name = reader;
      UPDATE consumer_ahead a SET position = least(a.position, before) WHERE a.consumer = reader;
    END IF;
    -- What was delivered without a session counts in each session.
    IF ack > (SELECT max(a.handed_out) FROM acknowledged a
      WHERE a.consumer = reader AND (a.session = 0 OR a.session = ANY (keys)))
    THEN RAISE EXCEPTION 'not delivered' USING ERRCODE = 'SV001'; END IF;
    INSERT INTO acknowledged AS a (consumer, session, position, handed_out)
      SELECT reader, k.key, ack, ack FROM unnest(coalesce(keys, '{0}')) k(key)
        WHERE ack > (SELECT max(b.position) FROM acknowledged b WHERE b.consumer = reader AND b.session IN (0, k.key))
          AND ack <= (SELECT max(b.handed_out) FROM acknowledged b WHERE b.consumer = reader AND b.session IN (0, k.key))
      ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position;
    -- The tables in which rows, retention and the backlog counts look the position up.
    UPDATE consumer c SET position = a.position FROM acknowledged a
      WHERE c.name = reader AND a.consumer = reader AND a.session = 0 AND a.position > c.position;
    INSERT INTO consumer_ahead AS h (consumer, session, position)
      SELECT a.consumer, a.session, a.position FROM acknowledged a
        WHERE a.consumer = reader AND a.session = ANY (keys) AND a.position > 0
      ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position WHERE h.position < excluded.position;
  END $$;

  -- Acknowledges, then lists the rows after that. again: whether a row was delivered before.
  CREATE FUNCTION read_after(reader text, ack bigint, from_start boolean, at bigint, most bigint,
      keys bigint[], bots text[], users text[]) RETURNS TABLE (id bigint, again boolean) LANGUAGE plpgsql AS $$
  DECLARE
    upto bigint := (SELECT coalesce(max(d.upto), 0) FROM durable d);
    own consumer%ROWTYPE;
  BEGIN
    SELECT * INTO own FROM consumer c WHERE c.name = reader;
    -- Most calls acknowledge nothing new. Such a call locks nothing.
    IF abs(at - own.seen_at) <= ${seenEveryMs} IS NOT TRUE
      OR NOT EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = reader AND a.session = 0)
      OR EXISTS (SELECT 1 FROM unnest(CASE WHEN keys = '{}' THEN '{0}' ELSE coalesce(keys, '{0}') END) k(key)
        WHERE ack > (SELECT max(a.position) FROM acknowledged a WHERE a.consumer = reader AND a.session IN (0, k.key)))
    THEN
      PERFORM acknowledge(reader, ack, CASE WHEN from_start THEN 0 ELSE upto END, at, keys);
      SELECT * INTO own FROM consumer c WHERE c.name = reader;
    END IF;
    RETURN QUERY SELECT u.id, u.id <= (SELECT max(a.handed_out) FROM acknowledged a
        WHERE a.consumer = reader AND a.session IN (0, u.session))
      FROM unread_rows(reader, own.position, upto, most, keys, bots, users) u ORDER BY u.id;
  END $$;

  -- Users with their newest rows, the newest first: only before a row, only these users; NULL: all. They are looked for
  -- among the newest messages first; else by two steps in the index for each user, however many messages there are.
  CREATE FUNCTION newest_users(before bigint, most bigint, users text[]) RETURNS TABLE (peer text, newest bigint)
    LANGUAGE plpgsql STABLE ${walks} AS $$
  DECLARE
    upto bigint := (SELECT coalesce(max(d.upto), 0) FROM durable d);
    until bigint := least(upto, before - 1);
    peers text[];
    ids bigint[];
  BEGIN
    IF users IS NOT NULL THEN
      RETURN QUERY SELECT one.* FROM (SELECT DISTINCT unnest(users) AS peer) u CROSS JOIN LATERAL (
          SELECT m.peer, m.id FROM message m WHERE m.peer = u.peer AND m.id <= upto ORDER BY m.peer DESC, m.id DESC LIMIT 1) one
        WHERE one.peer > '' AND one.id <= until ORDER BY one.id DESC LIMIT most;
      RETURN;
    END IF;
    SELECT array_agg(one.peer), array_agg(one.id) INTO peers, ids FROM (
      SELECT m.peer, m.id FROM message m WHERE m.id <= until AND m.id > until - 3000 AND m.peer > ''
          AND NOT EXISTS (SELECT 1 FROM message n WHERE n.peer = m.peer AND n.id > m.id AND n.id <= upto)
        ORDER BY m.id DESC LIMIT most) one;
    IF cardinality(ids) = most THEN
      RETURN QUERY SELECT * FROM unnest(peers, ids);
      RETURN;
    END IF;
    RETURN QUERY WITH RECURSIVE known (peer) AS (
        (SELECT m.peer FROM message m WHERE m.peer > '' ORDER BY m.peer LIMIT 1)
        UNION ALL
        SELECT (SELECT m.peer FROM message m WHERE m.peer > known.peer ORDER BY m.peer LIMIT 1) FROM known
          WHERE known.peer IS NOT NULL
      ), found AS MATERIALIZED (
        SELECT known.peer, (SELECT m.id FROM message m WHERE m.peer = known.peer AND m.id <= upto
          ORDER BY m.peer DESC, m.id DESC LIMIT 1) AS id FROM known WHERE known.peer IS NOT NULL
      )
      SELECT found.peer, found.id FROM found WHERE found.id <= until ORDER BY found.id DESC LIMIT most;
  END $$;

  -- Threads that have a message, in the order of asked: JSON, each with peer, and name_key if it is of one session. seen:
  -- the newest row that ends the unread messages, or was marked as read. Only a message that WeChat accepted ends them,
  -- or an imported one that was received elsewhere.
  CREATE FUNCTION find_threads(asked jsonb, bots text[], person text, counted bigint)
    RETURNS TABLE (id bigint, peer text, unread bigint, refused boolean) LANGUAGE plpgsql STABLE ${walks} AS $$
  DECLARE
    upto bigint := (SELECT coalesce(max(d.upto), 0) FROM durable d);
    of_bots bigint[] := CASE WHEN bots IS NOT NULL THEN ARRAY(SELECT DISTINCT b.session FROM session_bot b WHERE b.bot_id = ANY (bots)) END;
    one jsonb;
    keys bigint[];
    own bigint;
    mark bigint;
    seen bigint;
  BEGIN
    -- Most sessions have messages of one account: then the condition on the session is enough, and has an index.
    IF NOT EXISTS (SELECT 1 FROM session_bot b WHERE b.session = ANY (of_bots) AND b.bot_id <> ALL (bots)) THEN bots := NULL; END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(asked) LOOP
      peer := one ->> 'peer';
      keys := CASE WHEN one ? 'name_key' THEN ARRAY(SELECT s.key FROM session s
        WHERE s.name_key = one ->> 'name_key' AND (of_bots IS NULL OR s.key = ANY (of_bots))) ELSE of_bots END;
      SELECT m.id, m.session INTO id, own FROM message m
        WHERE m.peer = find_threads.peer AND m.id <= upto
          AND (keys IS NULL OR m.session = ANY (keys)) AND (bots IS NULL OR m.bot_id = ANY (bots))
        ORDER BY m.peer DESC, m.id DESC LIMIT 1;
      CONTINUE WHEN id IS NULL;
      mark := coalesce(CASE WHEN person IS NULL
        THEN (SELECT r.position FROM read_mark r WHERE r.session = own AND r.peer = find_threads.peer)
        ELSE (SELECT r.position FROM person_mark r
          WHERE r.reader = person AND r.session = own AND r.peer = find_threads.peer) END, 0);
      seen := (SELECT c.id FROM (
          SELECT m.id, m.session, m.sent, m.status FROM message m WHERE m.peer = find_threads.peer AND m.id <= upto
            AND (keys IS NULL OR m.session = ANY (keys)) AND (bots IS NULL OR m.bot_id = ANY (bots))
          ORDER BY m.peer DESC, m.id DESC LIMIT counted) c
        WHERE c.session = own AND (c.id <= abs(mark) OR c.sent = ${receivedElsewhere} OR c.status IN ('accepted', 'suspect'))
        LIMIT 1);
      unread := (SELECT count(*) FROM (
          SELECT m.session, m.sent FROM message m WHERE m.peer = find_threads.peer AND m.id <= upto AND m.id > coalesce(seen, 0)
            AND (keys IS NULL OR m.session = ANY (keys)) AND (bots IS NULL OR m.bot_id = ANY (bots))
          ORDER BY m.peer DESC, m.id DESC LIMIT counted) c
        WHERE c.session = own AND c.sent = 0) + CASE WHEN seen <= -mark THEN 1 ELSE 0 END;
      refused := NOT EXISTS (SELECT 1 FROM message m WHERE m.peer = find_threads.peer AND m.id <= upto
        AND (keys IS NULL OR m.session = ANY (keys)) AND (bots IS NULL OR m.bot_id = ANY (bots))
        AND m.status IS DISTINCT FROM 'refused');
      RETURN NEXT;
    END LOOP;
  END $$;

  -- Merges what was added to the index of texts. Only the owner of an index may do it.
  CREATE FUNCTION merge_grams() RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = svc, pg_catalog, pg_temp AS
    $$ SELECT gin_clean_pending_list('gram_pairs') $$;

  -- Whether the JSON of a message has an item with that payload. Text that is no JSON has none.
  CREATE FUNCTION has_item(raw text, payload text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
  DECLARE
    items jsonb;
  BEGIN
    -- jsonb takes neither U+0000 nor lone surrogates. Which characters a text has makes no difference here.
    items := regexp_replace(raw, '\\\\u(0000|[dD][89a-fA-F]..)', '\\\\u0020', 'g')::jsonb -> 'item_list';
    RETURN jsonb_typeof(items) = 'array' AND EXISTS (SELECT 1 FROM jsonb_array_elements(items) AS item
      WHERE jsonb_typeof(item -> payload) = 'object');
  EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN false;
  END $$;
`

/** SQL of the functions with which programs lease rows: a step of its own. */
export const leaseFunctions = `
  -- The lease of a program ends with no process.
  CREATE OR REPLACE FUNCTION has_lapsed(expires_at bigint, owner text, at bigint, asker text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT expires_at <= at OR expires_at > at + ${2 * rowLeaseMs} OR (owner NOT IN ('${ofProgram}', asker) AND NOT lives(owner))
  $$;

  -- Rows of lapsed leases of a consumer, oldest first. keys, bots, users: only rows of these; NULL: of all.
  CREATE FUNCTION waiting_rows(reader text, at bigint, asker text, keys bigint[], bots text[], users text[])
    RETURNS TABLE (lease bigint, id bigint, person text, seen boolean) LANGUAGE sql STABLE AS $$
    SELECT l.id, m.id, m.session || ' ' || m.peer, l.expires_at <> ${neverSeen}
      FROM lease l CROSS JOIN unnest(l.ids) AS one(id) JOIN message m ON m.id = one.id
      WHERE l.consumer = reader AND has_lapsed(l.expires_at, l.owner, at, asker) AND m.session <> ${erasedSession}
        AND (keys IS NULL OR m.session = ANY (keys)) AND (bots IS NULL OR m.bot_id = ANY (bots))
        AND (users IS NULL OR m.peer = ANY (users))
      ORDER BY m.id
  $$;

  -- Persons with an open row at a consumer, and how many rows programs have open.
  CREATE FUNCTION open_rows(reader text, at bigint, asker text, OUT persons text[], OUT leases bigint) LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(DISTINCT m.session || ' ' || m.peer) FILTER (WHERE m.id IS NOT NULL), '{}'),
        count(DISTINCT l.id) FILTER (WHERE l.owner = '${ofProgram}')
      FROM lease l CROSS JOIN unnest(l.ids) AS one(id) LEFT JOIN message m ON m.id = one.id
      WHERE l.consumer = reader AND NOT has_lapsed(l.expires_at, l.owner, at, asker)
  $$;

  -- Leases rows to a program, one of each person: of lapsed leases, then new ones up to the horizon. A new one whose person
  -- has an open row waits in a lease that no reader saw. It locks the consumer only if there may be some.
  CREATE FUNCTION lease_rows(reader text, from_start boolean, at bigint, asker text, most bigint,
      keys bigint[], bots text[], users text[],
      OUT leases bigint[], OUT taken bigint[], OUT again bigint[], OUT acknowledges boolean) LANGUAGE plpgsql
    ${walks} AS $$
  DECLARE
    upto bigint := (SELECT coalesce(max(d.upto), 0) FROM durable d);
    own consumer%ROWTYPE;
    persons text[];
    opened bigint;
    worth boolean := false;
    lapsed bigint[];
    behind bigint;
    waits bigint;
    later bigint[] := '{}';
    passed bigint[] := '{}';
    listed bigint := 0;
    room bigint;
    one record;
  BEGIN
    taken := '{}';
    again := '{}';
    SELECT * INTO own FROM consumer c WHERE c.name = reader;
    acknowledges := EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = reader);
    IF acknowledges THEN RETURN; END IF;
    -- Most calls find nothing. Such a call locks nothing.
    IF EXISTS (SELECT 1 FROM lease l WHERE l.consumer = reader) THEN
      SELECT o.persons, o.leases INTO persons, opened FROM open_rows(reader, at, asker) o;
      SELECT max(cardinality(l.ids)) INTO waits FROM lease l
        WHERE l.consumer = reader AND l.owner = '${ofProgram}' AND l.expires_at = ${neverSeen};
      worth := (opened < ${maxLeases} AND EXISTS (SELECT 1 FROM waiting_rows(reader, at, asker, keys, bots, users) w
          WHERE w.person <> ALL (persons)))
        OR EXISTS (SELECT 1 FROM lease l CROSS JOIN unnest(l.ids) AS gone(id) WHERE l.consumer = reader
          AND has_lapsed(l.expires_at, l.owner, at, asker)
          AND NOT EXISTS (SELECT 1 FROM message m WHERE m.id = gone.id AND m.session <> ${erasedSession}));
    END IF;
    IF abs(at - own.seen_at) <= ${seenEveryMs} AND NOT worth
      AND (waits >= ${maxBehind} OR own.position >= upto OR (keys IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM unread_rows(reader, own.position, upto, 1, keys, bots, users)))) THEN RETURN; END IF;

    own := locked_consumer(reader, CASE WHEN from_start THEN 0 ELSE upto END, at);
    acknowledges := EXISTS (SELECT 1 FROM acknowledged a WHERE a.consumer = reader);
    IF acknowledges THEN RETURN; END IF;
    SELECT coalesce(array_agg(e.id), '{}') INTO lapsed FROM (SELECT l.id FROM lease l
      WHERE l.consumer = reader AND has_lapsed(l.expires_at, l.owner, at, asker) ORDER BY l.id FOR UPDATE SKIP LOCKED) e;
    SELECT o.persons, o.leases INTO persons, opened FROM open_rows(reader, at, asker) o;
    -- A lease that is locked is being renewed.
    persons := persons || ARRAY(SELECT w.person FROM waiting_rows(reader, at, asker, NULL, NULL, NULL) w
      WHERE w.lease <> ALL (lapsed));
    room := least(most, ${maxLeases} - opened);

    FOR one IN SELECT * FROM waiting_rows(reader, at, asker, keys, bots, users) w WHERE w.lease = ANY (lapsed) LOOP
      EXIT WHEN cardinality(taken) >= room;
      CONTINUE WHEN one.person = ANY (persons);
      persons := persons || one.person;
      taken := taken || one.id;
      IF one.seen THEN again := again || one.id; END IF;
    END LOOP;
    -- What is left of these leases, without rows that retention removed.
    UPDATE lease l SET ids = left_of.ids FROM (SELECT o.id, ARRAY(SELECT m.id FROM message m
        WHERE m.id = ANY (o.ids) AND m.id <> ALL (taken) AND m.session <> ${erasedSession} ORDER BY m.id) AS ids
        FROM lease o WHERE o.id = ANY (lapsed)) AS left_of
      WHERE l.id = left_of.id AND l.ids <> left_of.ids;
    DELETE FROM lease l WHERE l.id = ANY (lapsed) AND l.ids = '{}';

    IF cardinality(taken) < most THEN
      SELECT l.id, cardinality(l.ids) INTO behind, waits FROM lease l
        WHERE l.id = ANY (lapsed) AND l.owner = '${ofProgram}' AND l.expires_at = ${neverSeen} ORDER BY l.id LIMIT 1;
      FOR one IN SELECT u.id, m.session || ' ' || m.peer AS person
          FROM unread_rows(reader, own.position, upto, ${mostLookedAt}, keys, bots, users) u JOIN message m ON m.id = u.id ORDER BY u.id LOOP
        listed := listed + 1;
        EXIT WHEN cardinality(taken) >= most OR coalesce(waits, 0) + cardinality(later) >= ${maxBehind};
        passed := passed || one.id;
        IF cardinality(taken) >= room OR one.person = ANY (persons) THEN
          later := later || one.id;
        ELSE
          persons := persons || one.person;
          taken := taken || one.id;
        END IF;
      END LOOP;
      IF keys IS NOT NULL THEN
        INSERT INTO consumer_ahead AS a (consumer, session, position)
          SELECT reader, m.session, max(m.id) FROM message m WHERE m.id = ANY (passed) GROUP BY m.session
          ON CONFLICT (consumer, session) DO UPDATE SET position = excluded.position;
      ELSE
        IF listed = cardinality(passed) AND listed < ${mostLookedAt} THEN passed := passed || upto; END IF;
        IF passed[cardinality(passed)] > own.position THEN
          UPDATE consumer c SET position = passed[cardinality(passed)] WHERE c.name = reader;
          DELETE FROM consumer_ahead a WHERE a.consumer = reader AND a.position <= passed[cardinality(passed)];
        END IF;
      END IF;
      IF behind IS NOT NULL THEN
        UPDATE lease l SET ids = ARRAY(SELECT unnest(l.ids || later) ORDER BY 1) WHERE l.id = behind AND later <> '{}';
      ELSIF later <> '{}' THEN
        INSERT INTO lease (consumer, ids, owner, expires_at) VALUES (reader, later, '${ofProgram}', ${neverSeen});
      END IF;
    END IF;
    WITH made AS (INSERT INTO lease AS l (consumer, ids, owner, expires_at)
      SELECT reader, ARRAY[t.id], '${ofProgram}', at + ${programLeaseMs} FROM unnest(taken) AS t(id) ORDER BY t.id
      RETURNING l.id, l.ids[1] AS row)
    SELECT array_agg(m.id ORDER BY m.row), array_agg(m.row ORDER BY m.row) INTO leases, taken FROM made m;
  END $$;
`
