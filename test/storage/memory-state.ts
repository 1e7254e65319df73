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
import type { BatchCommit, SessionRecord, State } from '../../src/storage/state.ts'

interface Kept {
  name: string
  bot: BotInfo
  users: Map<string, UserContext>
}

export function memoryState(): State {
  const kept = new Map<string, Kept>()
  let chosen: string | undefined
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
  return {
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
        if (was) chosen = oldest()
      },
      async rename(oldName, newName) {
        const found = existing(oldName)
        const to = sessionName(newName)
        const taken = one(to)
        if (taken && taken !== found) throw new SvcError('session_exists', 'that name is taken')
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
    async commitBatch({ session, token, cursorFrom, cursorTo, inbound, marks, now }: BatchCommit) {
      const found = one(session)
      const cursor = found?.bot.cursor
      if (found?.name !== session || found.bot.token !== token) return 'gone'
      if (cursor !== cursorFrom && cursor !== cursorTo) return 'gone'
      for (const message of inbound) {
        const after = contextAfter(found.users.get(message.user_id), message, now ?? Number.POSITIVE_INFINITY)
        if (after) found.users.set(message.user_id, after)
      }
      found.bot = { ...(marked(found.bot, marks ?? {}) ?? found.bot), cursor: cursorTo }
      return 'moved'
    },
  }
}
