/** Keys and the audit log in memory. */
import type { AuditLine } from '../../src/model/audit.ts'
import { badArgument } from '../../src/model/error.ts'
import type { Clock } from '../../src/platform/clock.ts'
import type { AuditStore } from '../../src/storage/audit.ts'
import type { BackupFailure, BackupStore, KnownBackup } from '../../src/storage/backups.ts'
import { hasKeyEnded, type KeyStore, keyEndedReason, type StoredKey } from '../../src/storage/keys.ts'
import { askAgain } from './memory-outbox.ts'
import type { Tables } from './memory-tables.ts'

const dayMs = 24 * 60 * 60_000

export function memoryKeys(db: Tables, clock: Clock): KeyStore {
  const find = (id: string) => db.keys.find(key => key.id === id)
  const change = (key: StoredKey & { revision: number }, changes: Partial<StoredKey>) =>
    Object.assign(key, changes, { revision: ++db.keyRevision })
  const revoke = (id: string, at: number): string[] => {
    const ending = new Set([id])
    for (let size = 0; size < ending.size; ) {
      size = ending.size
      for (const key of db.keys) if (ending.has(key.made_by.split(':')[1] ?? '')) ending.add(key.id)
    }
    const ended = db.keys.filter(key => ending.has(key.id) && key.revoked_at === undefined)
    for (const key of ended) change(key, { revoked_at: at })
    const ids = new Set(ended.map(key => key.id))
    const isTheirs = (maker: string | undefined) => ids.has(maker?.split(':')[1] ?? '')
    const hooks = db.webhooks.map(({ webhook }) => webhook).filter(({ made_by }) => isTheirs(made_by))
    for (const hook of hooks.filter(({ disabled }) => !disabled)) {
      const data = { id: hook.id, url: hook.url, reason: keyEndedReason, reason_code: 'key_revoked' }
      hook.disabled = { reason: keyEndedReason, code: 'key_revoked', at }
      db.happened({ type: 'endpoint.disabled', at: clock.now(), data, hidden: false })
    }
    for (const entry of db.entries) {
      const isByHook = hooks.some(hook => entry.made_by === `webhook:${hook.id}`)
      const isOpen = entry.mode === 'queue' && !entry.ended && !entry.asked
      if (isOpen && (isByHook || isTheirs(entry.made_by))) askAgain(db, entry, at + dayMs, clock.now())
    }
    return [...ids]
  }
  return {
    hasAny: async () => db.keys.length > 0,
    list: async () => db.keys.map(({ revision: _, ...key }) => structuredClone(key)),
    async get(id) {
      const { revision: _, ...key } = find(id) ?? { revision: 0 }
      return 'id' in key ? structuredClone(key) : undefined
    },
    async listChangedSince(since) {
      const found = db.keys.filter(({ revision }) => revision > since)
      return {
        keys: found.map(({ revision: _, ...key }) => structuredClone(key)),
        revision: Math.max(since, ...found.map(({ revision }) => revision)),
      }
    },
    async add(key) {
      if (db.keys.some(one => one.name === key.name && !hasKeyEnded(one, clock.now())))
        throw badArgument('name', 'another key has this name')
      db.keys.push({ ...structuredClone(key), revision: ++db.keyRevision })
    },
    async rotate(id, hash, until) {
      const key = find(id)
      if (!key || key.revoked_at !== undefined) return false
      change(key, { replaced: { hash: key.hash, until }, hash })
      return true
    },
    revoke: async (id, at) => revoke(id, at),
    endExpired: async at =>
      db.keys
        .filter(({ expires_at = Number.POSITIVE_INFINITY, revoked_at }) => expires_at <= at && !revoked_at)
        .flatMap(({ id }) => revoke(id, at)),
    async noteUse(id, at, address) {
      const key = find(id)
      if (key) Object.assign(key, { last_used_at: at }, address !== undefined && { last_address: address })
    },
  }
}

export function memoryAudit(db: Tables, clock: Clock): AuditStore {
  const shown = ({ message: _, ...line }: Tables['audit'][number]): AuditLine => {
    const key = db.keyOf(line.principal)
    return { ...line, ...(key && { name: key.name }) }
  }
  const announce = (line: AuditLine) =>
    db.happened({ type: 'audit.line', data: shown(line), at: clock.now(), hidden: false })
  return {
    async add(given) {
      const line = { ...given, id: ++db.last.audit }
      db.audit.push(line)
      if (line.outcome !== undefined) announce(line)
      return line.id
    },
    async settle(id, outcome, subject) {
      const line = db.audit.find(one => one.id === id)
      if (line) announce(Object.assign(line, { outcome }, subject !== undefined && { subject }))
    },
    async list({ after, before = Number.POSITIVE_INFINITY, since = 0, limit, ...only }) {
      const isWanted = ({ id, at, operation, principal }: AuditLine) =>
        id > (after ?? 0) &&
        id < before &&
        at >= since &&
        only.principals?.includes(principal) !== false &&
        (only.operation ?? operation) === operation
      const found = db.audit.filter(isWanted)
      return (after === undefined ? found.reverse() : found).slice(0, limit).map(shown)
    },
    async prune(before) {
      db.audit = db.audit.filter(({ at }) => at >= before)
      return false
    },
  }
}

export function memoryBackups(): BackupStore {
  let known: KnownBackup[] = []
  let failure: BackupFailure | undefined
  return {
    list: async () => known.toSorted((a, b) => b.created_at - a.created_at),
    async add(backup) {
      failure = undefined
      known = [...known.filter(({ path }) => path !== backup.path), backup]
    },
    async remove(paths) {
      known = known.filter(({ path }) => !paths.includes(path))
    },
    getFailure: async () => failure,
    async fail(latest) {
      failure = latest
    },
  }
}
