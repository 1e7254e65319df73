/** State as simple as its interface allows: one process, nothing written. It shows what an engine has to do, and no more. */
import { SvcError } from '../../src/model/error.ts'
import { hasWritten, nextContextOf, normalizeSessionName, withMarks } from '../../src/model/session.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type { Lease, Leases } from '../../src/storage/leases.ts'
import type { LoginStore } from '../../src/storage/logins.ts'
import type { SessionStore, State } from '../../src/storage/state.ts'
import type { Ingested, Storage } from '../../src/storage/storage.ts'
import { MemoryStore } from './memory-store.ts'
import { isOf, type Tables, verbs } from './memory-tables.ts'

function loginFlows(db: Tables, { get, save }: SessionStore): LoginStore {
  const me = {}
  const at = (session: string) => db.logins.find(({ login }) => isOf(normalizeSessionName(session))(login))
  const flows: LoginStore = {
    list: async now => db.logins.map(({ login }) => login).filter(({ until }) => until > now),
    listRunning: async now => (await flows.list(now)).filter(({ ended }) => !ended),
    get: async (session, now) => (await flows.list(now)).find(isOf(normalizeSessionName(session))),
    async put(given, now) {
      const before = at(given.session)
      const version = before && before.login.until > now ? before.login.version : ''
      if (version !== given.version) return undefined
      const login = { ...given, version: crypto.randomUUID() }
      const owner = before?.login.id === login.id ? before.owner : undefined
      db.logins = [...db.logins.filter(one => one !== before), { login, ...(owner && { owner }) }]
      return login
    },
    async finish(login, bot, now) {
      const kept = await flows.put(login, now)
      if (kept && (await get(login.session))?.bot?.token !== bot.token) await save(login.session, bot)
      return kept
    },
    async claim({ id, session }) {
      const found = at(session)
      if (found?.login.id !== id || (found.owner && found.owner !== me)) return false
      found.owner = me
      return true
    },
    async release({ session }) {
      const found = at(session)
      if (found?.owner === me) delete found.owner
    },
    async wait({ session, version }, signal) {
      while (!signal.aborted && at(session)?.login.version === version) await Bun.sleep(10)
    },
  }
  return flows
}

function changedSince(db: Tables, revision = 0) {
  const names = new Set(db.changedSessions.slice(revision))
  const at = (name: string) => db.sessions.find(session => session.name === name)
  return { revision: db.changedSessions.length, changed: new Map([...names].map(name => [name, at(name)])) }
}

/** All sessions are one process's to poll. */
function leasesOf(db: Tables): Leases {
  let mine: object | undefined
  const give = (one: object | undefined) => {
    if (one && db.holder === one) db.holder = undefined
  }
  return {
    async join() {
      if (db.holder) return undefined
      const own = {}
      db.holder = own
      mine = own
      const lease: Lease = {
        lost: new AbortController().signal,
        listOwned: async revision => changedSince(db, revision),
        mayPoll: () => db.holder === own,
        release: async () => give(own),
      }
      return lease
    },
    // Whoever stands still here stands still with everybody.
    isStalled: async () => false,
    findHolder: async () => db.holder && process.pid,
    close: async () => give(mine),
  }
}

/** Several over one `Tables` are as several processes. */
export function memoryStorage(db: Tables, clock: Clock, keep = { maxAgeDays: 0, maxCount: 0 }): Storage {
  const store = new MemoryStore(db, clock, keep)
  const leases = leasesOf(db)
  const one = (name: string) =>
    db.sessions.find(({ name: session }) => isOf(name.normalize('NFC'))({ session }))
  const existing = (name: string) => {
    const found = one(name)
    if (!found) throw new SvcError('session_not_found', `there is no session named "${name}"`)
    return found
  }
  const choose = () => {
    if (!db.chosen || !db.sessions.includes(db.chosen))
      db.chosen = db.sessions.toSorted((a, b) => a.bot.created_at - b.bot.created_at)[0]
  }
  /** Nothing is counted of its answers any more, and no lane of it is held. */
  const forget = (session: string) => {
    for (const lane of db.lanes.filter(isOf(session)))
      Object.assign(lane, { counter: { used: 0 }, not_before: 0, failures: 0, hold: undefined })
  }
  const sessions: State['sessions'] = {
    list: async () => db.sessions,
    listChangedSince: async revision => changedSince(db, revision),
    get: async name => one(name),
    getDefaultName: async () => db.chosen?.name,
    async save(name, bot) {
      const before = one(name) ?? { name: normalizeSessionName(name), bot }
      if (!db.sessions.includes(before)) db.sessions.push(before)
      if (before.bot.bot_id !== bot.bot_id) {
        forget(before.name)
        for (const kept of db.contexts.filter(isOf(before.name)))
          kept.context = { used: 0, first_seen: kept.context.first_seen }
      }
      before.bot = { ...bot }
      db.changedSessions.push(before.name)
      choose()
    },
    async mark(name, token, wanted) {
      const found = one(name)
      if (found?.bot.token !== token) return
      found.bot = withMarks(found.bot, wanted) ?? found.bot
      db.changedSessions.push(found.name)
    },
    async remove(name) {
      const found = existing(name)
      db.sessions = db.sessions.filter(other => other !== found)
      db.contexts = db.contexts.filter(kept => !isOf(found.name)(kept))
      forget(found.name)
      db.changedSessions.push(found.name)
      choose()
    },
    async rename(oldName, newName) {
      const found = existing(oldName)
      if ((one(newName) ?? found) !== found) throw new SvcError('session_exists', 'that name is taken')
      db.rename(found.name, normalizeSessionName(newName))
      db.changedSessions.push(found.name, normalizeSessionName(newName))
      found.name = normalizeSessionName(newName)
    },
    async setDefault(name) {
      db.chosen = existing(name)
    },
    sweep: async () => 0,
  }
  const contexts: State['contexts'] = {
    find: async (session, user) => db.contexts.find(isOf(session, user))?.context,
    listUsers: async names =>
      new Map(
        names.map(session => [
          session,
          db.contexts.filter(isOf(session)).flatMap(({ context, user }) => {
            const { counter } = db.lanes.find(isOf(session, user)) ?? {}
            const { name } = db.names.find(isOf(session, user)) ?? {}
            return hasWritten(context) ? [{ user_id: user, context, counter, name }] : []
          }),
        ]),
      ),
    countWriters: async names => {
      const wrote = db.contexts.filter(({ context }) => hasWritten(context))
      return new Map(names.map(name => [name, wrote.filter(isOf(name)).length]))
    },
    findSessions: async user => new Set(db.contexts.filter(isOf(undefined, user)).map(one => one.session)),
  }
  const signIns: State['signIns'] = {
    addLink: async (code, until) => void db.links.set(code, until),
    async takeLink(code, now) {
      const until = db.links.get(code) ?? 0
      return db.links.delete(code) && until > now
    },
    filterEnded: async names => new Set(names.filter(name => db.signedOut.has(name))),
    async end(names, until, now) {
      for (const name of names) db.signedOut.set(name, until)
      for (const [name, at] of db.signedOut) if (at <= now) db.signedOut.delete(name)
    },
  }
  const unfinished = new Map<string, { id: string; rows: Ingested['rows'] }>()
  return {
    state: verbs({
      sessions,
      contexts,
      logins: loginFlows(db, sessions),
      signIns,
      async forgetUser(user: string) {
        db.contexts = db.contexts.filter(kept => kept.user !== user)
        for (const { bot, name } of db.sessions) {
          if (bot.user_id === user) delete bot.user_id
          db.changedSessions.push(name)
        }
      },
    }),
    store,
    leases,
    async ingest({ id, session, token, botId, cursorFrom, cursorTo, messages, marks, now }) {
      const before = unfinished.get(token)
      const found = one(session)
      const isLate = found && found.bot.bot_id !== botId
      const taken = isLate ? messages.map(one => ({ ...one, written_at: undefined })) : messages
      const rows = before?.id === id ? before.rows : store.receive(session, botId, taken)
      unfinished.set(token, { id, rows })
      const isOurs = found?.name === session && found.bot.token === token
      if (!isOurs || ![cursorFrom, cursorTo].includes(found.bot.cursor)) return { rows, cursor: 'gone' }
      for (const [nth, { from_user: user, contextToken, repeated, written_at }] of messages.entries()) {
        const isNew = rows[nth] !== 'duplicate' && written_at !== undefined
        const said = {
          user_id: user,
          token: contextToken,
          ...(isNew ? { received_at: written_at } : repeated),
        }
        const before = db.contexts.find(isOf(session, user))
        const context = user && nextContextOf(before?.context, said, now)
        if (context) db.contexts = [...db.contexts.filter(one => one !== before), { session, user, context }]
      }
      found.bot = { ...(withMarks(found.bot, marks ?? {}) ?? found.bot), cursor: cursorTo }
      db.changedSessions.push(session)
      return { rows, cursor: 'moved' }
    },
    async close() {
      store.close()
      await leases.close()
    },
  }
}
