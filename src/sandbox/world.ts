/** The parts of the simulated WeChat, and the database file that they share. */
import { join } from 'node:path'
import { SvcError } from '../model/error.ts'
import { ensurePrivateDir, errorCodeOf, makePrivate } from '../platform/files.ts'
import { type Database, findDatabaseError, openDatabase, readSchemaVersion } from '../platform/sqlite.ts'
import { storeErrorOf } from '../platform/system-error.ts'
import { Core, type RequestInterceptor, type SandboxOptions } from './core.ts'
import { SandboxInbox } from './inbox.ts'
import { SandboxLogins } from './logins.ts'
import { SandboxMedia } from './media.ts'
import { SandboxOutbox } from './outbox.ts'
import { UsersAndBots } from './people.ts'

/** The opened parts of the simulated WeChat. */
export type World = Awaited<ReturnType<typeof openWorld>>

/**
 * Opens the simulated WeChat of this folder, or creates one with one user.
 *
 * @throws Error if its file cannot be used
 */
export async function openWorld(options: SandboxOptions) {
  const db = await openWorldFile(options.dir)
  const core = new Core({ ...options, db })
  const people = new UsersAndBots({ core })
  const media = new SandboxMedia({ core })
  const intercept: RequestInterceptor = options.intercept ?? ((_request, honest) => honest())
  await media.sweep()
  await removeOld(core, media)
  void keepRemoving(core, media)
  people.ensureFirstUser()
  return {
    core,
    people,
    media,
    intercept,
    logins: new SandboxLogins({ core, people }),
    inbox: new SandboxInbox({ core, people }),
    outbox: new SandboxOutbox({ core, people, media }),
    close() {
      core.waiters.notifyAll()
      db.close()
    },
  }
}

/** Messages, media and logins are kept for this long, in the simulated time. */
const keptMs = 30 * 24 * 60 * 60_000
const sweepEveryMs = 60 * 60_000

/** The newest message stays: the next one gets the number after it. */
async function removeOld(core: Core, media: SandboxMedia): Promise<void> {
  const { db } = core
  const before = core.now() - keptMs
  db.run`DELETE FROM message WHERE at < ${before} AND seq < (SELECT max(seq) FROM message)`
  db.run`DELETE FROM login WHERE created_at < ${before}`
  await media.removeOld(before)
}

async function keepRemoving(core: Core, media: SandboxMedia): Promise<void> {
  const { clock, closing, log } = core
  while (!closing.aborted) {
    await clock.sleep(sweepEveryMs, closing)
    if (closing.aborted) return
    await removeOld(core, media).catch(error =>
      log.warn('old messages of the sandbox not removed', { error }),
    )
  }
}

const schemaVersion = 1

const schema = `
CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE user (id TEXT PRIMARY KEY, name TEXT NOT NULL, created_at INTEGER NOT NULL) STRICT;
CREATE TABLE bot (
  id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL, created_at INTEGER NOT NULL,
  live INTEGER NOT NULL DEFAULT 1, started INTEGER NOT NULL DEFAULT 0,
  confirmed_seq INTEGER NOT NULL DEFAULT 0, delivered_seq INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX bot_user ON bot (user_id, created_at);
CREATE TABLE login (
  qrcode TEXT PRIMARY KEY, url TEXT NOT NULL, local_tokens TEXT NOT NULL, created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'wait', told TEXT NOT NULL DEFAULT 'wait',
  user_id TEXT, bot_id TEXT, verify_code TEXT, wrong_codes INTEGER NOT NULL DEFAULT 0,
  auto_confirm INTEGER NOT NULL DEFAULT 0, redirected INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX login_created ON login (created_at);
CREATE TABLE peer (
  bot_id TEXT NOT NULL, user_id TEXT NOT NULL, context_token TEXT, last_inbound_at INTEGER,
  used INTEGER NOT NULL DEFAULT 0, attempts TEXT NOT NULL DEFAULT '[]', blocked INTEGER NOT NULL DEFAULT 0,
  ticket TEXT, typing_until INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (bot_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE message (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL, bot_id TEXT NOT NULL, user_id TEXT NOT NULL,
  direction TEXT NOT NULL, at INTEGER NOT NULL, client_id TEXT, wire TEXT NOT NULL,
  shown INTEGER NOT NULL DEFAULT 1, note TEXT
) STRICT;
CREATE INDEX message_queue ON message (bot_id, direction, seq);
CREATE INDEX message_user ON message (user_id, seq);
CREATE INDEX message_id ON message (message_id);
CREATE TABLE media (
  id TEXT PRIMARY KEY, upload_param TEXT UNIQUE, filekey TEXT, param TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
  key_hex TEXT NOT NULL, raw_size INTEGER NOT NULL, cipher_size INTEGER NOT NULL, md5 TEXT NOT NULL,
  name TEXT, plain INTEGER NOT NULL DEFAULT 0, ready INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL
) STRICT;
`

/**
 * Opens `<dir>/world.db` (mode 0600, the folder 0700), and creates it if absent. Every change is in it
 * before the answer is sent, and reads use it too: memory has no copy that a kill -9 could lose. WAL with
 * synchronous=NORMAL: a killed process loses nothing. A power cut may lose the last moments, which is
 * enough for a simulation, and NORMAL is ten times as fast as FULL.
 *
 * @throws SvcError `store_unavailable` if the file is damaged or read-only, or if a newer version wrote it
 */
async function openWorldFile(dir: string): Promise<Database> {
  await ensurePrivateDir(dir)
  const path = join(dir, 'world.db')
  try {
    return await openWorldAt(path)
  } catch (error) {
    const why = storeErrorOf(
      await findDatabaseError(path, error),
      `the sandbox's world in ${path} cannot be opened`,
    )
    if (!/^SQLITE_(CORRUPT|NOTADB)/.test(errorCodeOf(error) ?? '')) throw why
    throw new SvcError('store_unavailable', `the sandbox's world in ${path} is damaged`, {
      hint: 'Stop the programs that use it. Then move it away with its -wal and -shm files; svc creates a new one.',
      cause: error,
    })
  }
}

async function openWorldAt(path: string): Promise<Database> {
  if (((await readSchemaVersion(path)) ?? 0) > schemaVersion) {
    throw new SvcError('store_unavailable', `the sandbox's world in ${path} was written by a newer svc`, {
      hint: 'Use that version or a newer one, or another data directory.',
    })
  }
  const db = await openDatabase(path)
  try {
    db.exec('PRAGMA busy_timeout=5000')
    db.exec('PRAGMA journal_mode=WAL')
    db.exec('PRAGMA synchronous=NORMAL')
    if (Number(db.get`PRAGMA user_version`?.user_version ?? 0) === 0) {
      db.transaction(() => {
        db.exec(schema)
        db.exec(`PRAGMA user_version=${schemaVersion}`)
      })
    }
    // Outside `schema`, so that files of earlier versions get it too. Each send looks up its `client_id` in
    // the user's messages.
    db.exec('CREATE INDEX IF NOT EXISTS message_client ON message (user_id, client_id)')
    for (const end of ['', '-wal', '-shm']) await makePrivate(path + end)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}
