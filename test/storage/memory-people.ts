/** Erasing people in the engine in memory. */
import { createHmac } from 'node:crypto'
import type { PeopleStore } from '../../src/storage/people.ts'
import { isOf, type Tables } from './memory-tables.ts'

const withoutUser = <G extends { users?: readonly string[] }>(grant: G, user: string): G => ({
  ...grant,
  users: grant.users?.filter(one => one !== user),
})

export function memoryPeople(db: Tables): PeopleStore {
  const hashOf = (user: string) =>
    `user:${createHmac('sha256', db.id).update(user).digest('hex').slice(0, 16)}`
  return {
    listFiles: async user =>
      db.entries
        .filter(isOf(undefined, user))
        .flatMap(({ parts }) => parts.flatMap(({ file }) => file?.name ?? [])),
    hashOf: async user => hashOf(user),
    async erase(user) {
      const isOther = (one: { user: string }) => one.user !== user
      const named = db.names.filter(isOf(undefined, user)).map(({ name }) => name)
      const told = db.events.flatMap(({ data }) => (data && 'subject' in data ? data : []))
      for (const line of [...db.audit, ...told] as { subject?: string }[])
        for (const word of [user, ...named])
          if (line.subject !== undefined)
            line.subject = line.subject.replaceAll(new RegExp(RegExp.escape(word), 'gi'), hashOf(user))
      for (const { data } of db.events)
        if (data && 'user_id' in data && data.user_id === user) delete data.user_id
      const ids = new Set(db.rows.filter(isOf(undefined, user)).map(({ id }) => id))
      db.rows = db.rows.filter(isOther)
      db.events = db.events.filter(({ message }) => message === undefined || !ids.has(message))
      db.leased = db.leased.filter(({ row }) => !ids.has(row))
      const sends = db.entries.filter(isOf(undefined, user))
      db.entries = db.entries.filter(isOther)
      for (const slot of db.slots) if (slot.user === user) slot.user = ''
      db.lanes = db.lanes.filter(isOther)
      db.marks = db.marks.filter(isOther)
      db.names = db.names.filter(isOther)
      const webhooks = db.webhooks.filter(({ webhook }) => webhook.user === user)
      db.webhooks = db.webhooks.filter(({ webhook }) => webhook.user !== user)
      for (const one of db.webhooks) {
        one.lanes = one.lanes.filter(isOther)
        one.webhook.epoch += 1
        if (one.webhook.grant) one.webhook.grant = withoutUser(one.webhook.grant, user)
      }
      const keys = db.keys.filter(({ grant }) => grant.users?.includes(user))
      for (const key of keys)
        Object.assign(key, { grant: withoutUser(key.grant, user), revision: ++db.keyRevision })
      db.wake()
      return {
        messages: ids.size,
        sends: sends.filter(({ ended }) => !ended).length,
        webhooks: webhooks.map(({ webhook }) => webhook.id),
        keys: keys.map(({ id }) => id),
        files: sends.flatMap(({ parts }) => parts.flatMap(({ file }) => file?.name ?? [])),
      }
    },
    scrub: async () => {},
  }
}
