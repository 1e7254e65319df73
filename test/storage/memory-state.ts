/** State as simple as its interface allows: one process, nothing written. It shows what an engine has to do, and no more. */
import { SvcError } from '../../src/model/error.ts'
import {
  type BotInfo,
  contextAfter,
  marked,
  sessionKey,
  sessionName,
  type UserContext,
} from '../../src/model/session.ts'
import type { PolledMessage } from '../../src/storage/messages.ts'
import type { SessionRecord, State } from '../../src/storage/state.ts'
import type { Ingested, PolledBatch, Storage } from '../../src/storage/storage.ts'
import type { MemoryStore } from './memory-store.ts'

interface Kept {
  name: string
  bot: BotInfo
  users: Map<string, UserContext>
}

export function memoryStorage(store: MemoryStore): Omit<Storage, 'leases'> {
  const kept = new Map<string, Kept>()
  let chosen: string | undefined
  const links = new Map<string, number>()
  const ended = new Map<string, number>()
  const one = (name: string) => {
    try {
      return kept.get(sessionKey(sessionName(name)))
    } catch {
      return undefined
    }
  }
  const existing = (name: string) => {
    const found = one(name)
    if (!found) throw new SvcError('session_not_found', `there is no session named "${name}"`)
    return found
  }
  const oldest = () => [...kept.values()].sort((a, b) => a.bot.created_at - b.bot.created_at)[0]?.name
  const chosenNow = () => (chosen === undefined ? undefined : one(chosen)?.name)
  const recordOf = ({ name, bot }: Kept): SessionRecord => ({ name, bot: { ...bot } })
  const state: State = {
    sessions: {
      list: async () => [...kept.values()].map(recordOf),
      async get(name) {
        const found = one(name)
        return found && recordOf(found)
      },
      defaultName: async () => chosenNow(),
      async save(name, bot) {
        const before = one(name)
        const users = new Map<string, UserContext>()
        for (const [user, context] of before?.users ?? []) {
          const { first_seen } = context
          users.set(user, before?.bot.bot_id === bot.bot_id ? context : { used: 0, first_seen })
        }
        const own = before?.name ?? sessionName(name)
        if (before?.bot.bot_id !== bot.bot_id) store.forget(own)
        kept.set(sessionKey(own), { name: own, bot: { ...bot }, users })
        chosen = chosenNow() ?? oldest()
      },
      async mark(name, token, wanted) {
        const found = one(name)
        if (found?.bot.token === token) found.bot = marked(found.bot, wanted) ?? found.bot
      },
      async remove(name) {
        const { name: own } = existing(name)
        const was = chosenNow() === own
        kept.delete(sessionKey(own))
        store.forget(own)
        if (was) chosen = oldest()
      },
      async rename(oldName, newName) {
        const found = existing(oldName)
        const to = sessionName(newName)
        const taken = one(to)
        if (taken && taken !== found) throw new SvcError('session_exists', 'that name is taken')
        await store.upkeep.renameSession(found.name, to)
        const was = chosenNow() === found.name
        kept.delete(sessionKey(found.name))
        kept.set(sessionKey(to), { ...found, name: to })
        if (was) chosen = to
      },
      async setDefault(name) {
        chosen = existing(name).name
      },
      sweep: async () => 0,
    },
    contexts: {
      find: async (session, user) => one(session)?.users.get(user),
      of: async session => new Map(one(session)?.users),
      writers: async sessions => {
        const wrote = ({ received_at, token }: UserContext) =>
          received_at !== undefined || token !== undefined
        const count = (name: string) => [...(one(name)?.users.values() ?? [])].filter(wrote).length
        return new Map(sessions.map(name => [name, count(name)]))
      },
      knowing: async user =>
        new Set([...kept.values()].flatMap(({ name, users }) => (users.has(user) ? [name] : []))),
    },
    signIns: {
      addLink: async (code, until) => void links.set(code, until),
      async takeLink(code, now) {
        const until = links.get(code) ?? 0
        return links.delete(code) && until > now
      },
      ended: async names => new Set(names.filter(name => ended.has(name))),
      async end(names, until, now) {
        for (const name of names) ended.set(name, until)
        for (const [name, at] of ended) if (at <= now) ended.delete(name)
      },
    },
  }
  const stored = new WeakMap<readonly PolledMessage[], Ingested['rows']>()
  return {
    ...{ state, store },
    async ingest({ session, token, botId, cursorFrom, cursorTo, messages, marks, now }: PolledBatch) {
      const rows = stored.get(messages) ?? (await store.intake.insertReceived(session, botId, messages))
      stored.set(messages, rows)
      const found = one(session)
      const cursor = found?.bot.cursor
      const isOurs = found?.name === session && found.bot.token === token
      if (!isOurs || (cursor !== cursorFrom && cursor !== cursorTo)) return { rows, cursor: 'gone' }
      for (const [nth, message] of messages.entries()) {
        const { from_user: user, contextToken, known, written_at } = message
        const isNew = rows[nth] !== 'duplicate' && written_at !== undefined
        const wrote = { user_id: user, token: contextToken, ...(isNew ? { received_at: written_at } : known) }
        const after = user && contextAfter(found.users.get(user), wrote, now)
        if (after) found.users.set(user, after)
      }
      found.bot = { ...(marked(found.bot, marks ?? {}) ?? found.bot), cursor: cursorTo }
      return { rows, cursor: 'moved' }
    },
    close: () => store.upkeep.close(),
  }
}
