/** Keys of callers, and all that ends with one. */
import type { SvcError } from '../../model/error.ts'
import { changeApart, doneApart } from '../../platform/apart.ts'
import { constantSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { type KeyRow, keyOf } from '../key-rows.ts'
import {
  endedKeyError,
  familyOf,
  findTooMany,
  type KeyStore,
  keyEndedReason,
  keyOfMaker,
  listBelow,
  makersOf,
  maxKeysBelow,
  type StoredKey,
  sameNameError,
  tooManyKeysError,
} from '../keys.ts'
import { askLifeMs } from '../outbox-limits.ts'
import {
  changes,
  type Dialect,
  type Noun,
  type NounContext,
  openNoun,
  type Routine,
  type Runner,
  readAll,
  readFirst,
  readHeld,
  write,
} from '../routine.ts'
import { askAgain } from '../rules/outbox-ends.ts'
import { mapKeyHash } from '../sealed-places.ts'
import { removeConsumers } from './consumers.ts'

/** `shareUse` is the engine's: only one for many processes has something to share. */
type Keys = Omit<KeyStore, 'shareUse' | 'endExpired'> & {
  endKeys(ids: readonly string[], at: number): Promise<string[]>
  /** Lists the keys whose end by expiry is not recorded. */
  listExpired(at: number): Promise<string[]>
}

export function openKeys(context: NounContext, run: Runner): Omit<KeyStore, 'shareUse'> {
  const { endKeys, listExpired, ...keys } = openNoun(createKeys(context), run)
  return {
    ...keys,
    // Most often there are none, and nothing is written.
    async endExpired(at) {
      const ended: string[] = []
      const endThese = async (ids: readonly string[]) => void ended.push(...(await endKeys(ids, at)))
      const failures = await changeApart(await listExpired(at), id => `key ${id}`, endThese)
      return doneApart(failures, ended)
    },
  }
}

/**
 * Refuses what a revoked key writes.
 *
 * @returns statements for the write: the key is not revoked before that is committed
 * @param errorOf makes the error. By default the caller's own key is the revoked one
 * @throws SvcError `unauthorized`
 */
export function* refuseRevoked(
  dialect: Dialect,
  made_by: string | undefined,
  errorOf: () => SvcError = endedKeyError,
): Routine<readonly Sql[]> {
  const id = keyOfMaker(made_by)
  if (id === undefined) return []
  const isRevoked = sql`SELECT revoked_at IS NOT NULL AS ended FROM access_key WHERE id = ${id}`
  if ((yield* readFirst<{ ended: unknown }>(isRevoked))?.ended) throw errorOf()
  return dialect.expect(sql`(${isRevoked}${dialect.holding('access_key')}) IS NOT TRUE`)
}

/**
 * Returns how many there may be, if one more is too many: for all, or for the key of its maker with those that share its bounds.
 *
 * @param all those that there are
 */
export function* findExceeded(
  share: Readonly<Record<'most', number>>,
  all: readonly { made_by: string }[],
  made_by: string,
): Routine<number | undefined> {
  return findTooMany(share, yield* readMade(), all, made_by)
}

const readMade = () => readAll<MadeRow>(sql`SELECT id, made_by FROM access_key`)

/** SQL for the principal that stands behind an entry of the outbox: for a webhook, the one that made it. */
export const makerOf = (made_by: Sql): Sql =>
  sql`coalesce((SELECT hook.made_by FROM webhook hook WHERE hook.id = substr(${made_by}, 9)
    AND ${made_by} LIKE 'webhook:%'), ${made_by}, 'owner')`

/** Selects what `findTooMany` needs of keys. */
export const selectMakers: Sql = constantSql('SELECT id, made_by, revoked_at FROM access_key')

export function createKeys(context: NounContext): Noun<Keys> {
  const { clock, dialect, keyChanges, sealer } = context
  const list = (rest: Sql): Routine<KeyRow[]> =>
    readAll(sql`SELECT id, name, hash, replaced_hash, replaced_until, "grant", can, made_by, created_at, expires_at,
      revoked_at, last_used_at, last_address, revision FROM access_key ${rest}`)

  /** The key that was added last is never removed, so its number says whether another one was added. */
  const expectNoMore = (all: readonly MadeRow[]) =>
    dialect.expect(sql`(SELECT coalesce(max(nth), 0) FROM access_key) = ${all.at(-1)?.added ?? 0}`)

  const listExpired = function* (at: number): Routine<string[]> {
    const rows = yield* readAll<{ id: string }>(sql`SELECT id FROM access_key
      WHERE expires_at <= ${at} AND revoked_at IS NULL ORDER BY expires_at`)
    return rows.map(({ id }) => id)
  }

  /** Ends keys and those that they made. @returns ids of the keys that had not been revoked */
  function* end(tops: readonly string[], at: number): Routine<string[]> {
    const all = yield* readAll<MadeRow & { revoked_at?: number }>(
      sql`SELECT id, made_by, nth AS added, revoked_at FROM access_key ORDER BY nth`,
    )
    const ending = listBelow(all, ...tops)
    const ids = all.flatMap(key => (key.revoked_at === undefined && ending.has(key.id) ? [key.id] : []))
    if (ids.length === 0) return ids
    const makers = makersOf(ids)
    const ofThese = sql`disabled IS NULL AND ${dialect.isOneOf(sql`made_by`, makers)}`
    const webhooks = yield* readHeld<{ id: string; url: string }>(
      sql`SELECT id, url FROM webhook WHERE ${ofThese} ORDER BY created_at, nth`,
    )
    const asks = yield* context.changeEntries(isQueuedBy(dialect, makers), (found, plan) =>
      askAgain(found, at + askLifeMs, plan),
    )
    const areEnding = dialect.isOneOf(sql`id`, ids)
    const areReaders = (name: Sql) =>
      sql`EXISTS (SELECT 1 FROM access_key k WHERE ${dialect.isOneOf(sql`k.id`, ids)} AND ${name} LIKE k.id || '/%')`
    yield* write(
      ...disable(webhooks, at),
      ...asks,
      ...keyChanges.begin,
      ...expectNoMore(all),
      ...dialect.expect(
        sql`(SELECT count(*) FROM access_key WHERE ${areEnding} AND revoked_at IS NULL) = ${ids.length}`,
      ),
      sql`UPDATE access_key SET revoked_at = ${at}, revision = ${keyChanges.revision} WHERE ${areEnding}`,
      sql`UPDATE invitation SET revoked_at = ${at}
        WHERE revoked_at IS NULL AND ${dialect.isOneOf(sql`made_by`, makers)}`,
      sql`DELETE FROM person_mark WHERE ${dialect.isOneOf(sql`reader`, ids)}`,
      sql`DELETE FROM relay_client WHERE ${dialect.isOneOf(sql`key`, ids)}`,
      // After the line above about the key: no reader of it is added any more.
      ...removeConsumers(dialect, areReaders),
      sql`DELETE FROM event_reader WHERE ${areReaders(sql`event_reader.name`)}`,
      // A call of the key may have added one since, see `refuseRevoked`.
      ...dialect.expect(sql`NOT EXISTS (SELECT 1 FROM webhook WHERE ${ofThese})`),
      ...webhooks.map(webhook => {
        const data = { ...webhook, reason: keyEndedReason, reason_code: 'key_revoked' }
        return context.addEvent({ type: 'endpoint.disabled' }, sql`${JSON.stringify(data)}`)
      }),
    )
    return ids
  }

  function disable(webhooks: readonly { id: string }[], at: number): readonly Sql[] {
    if (webhooks.length === 0) return []
    const are = sql`${dialect.isOneOf(
      sql`id`,
      webhooks.map(({ id }) => id),
    )} AND disabled IS NULL`
    return [
      ...dialect.lock(sql`SELECT FROM webhook WHERE ${are}`),
      ...dialect.expect(sql`(SELECT count(*) FROM webhook WHERE ${are}) = ${webhooks.length}`),
      sql`UPDATE webhook SET disabled = ${keyEndedReason}, disabled_code = 'key_revoked', disabled_at = ${at}
        WHERE ${are}`,
    ]
  }

  return {
    verbs: {
      *hasAny() {
        return (yield* readFirst(sql`SELECT 1 AS found FROM access_key LIMIT 1`)) !== undefined
      },

      *list({ madeBy, page } = {}) {
        let which = noSql
        if (madeBy !== undefined) {
          const below = new Set(listBelow(yield* readMade(), madeBy))
          below.delete(madeBy)
          which = sql`WHERE ${dialect.isOneOf(sql`id`, [...below])}`
        }
        const part = page ? sql`LIMIT ${page.limit} OFFSET ${page.offset}` : noSql
        return (yield* list(sql`${which} ORDER BY nth ${part}`)).map(row => keyOf(row, sealer))
      },

      *get(id): Routine<StoredKey | undefined> {
        const [row] = yield* list(sql`WHERE id = ${id}`)
        return row && keyOf(row, sealer)
      },

      *listScans() {
        const rows = yield* readAll<{ bot_id: string; of: string }>(
          sql`SELECT bot_id, session || ' ' || person AS "of" FROM session_bot WHERE person IS NOT NULL`,
        )
        return new Map(rows.map(row => [row.bot_id, row.of]))
      },

      *listChangedSince(revision) {
        const rows = yield* list(sql`WHERE revision > ${revision} ORDER BY revision, nth`)
        return { keys: rows.map(row => keyOf(row, sealer)), revision: rows.at(-1)?.revision ?? revision }
      },

      *add({ id, name, hash, grant, can, made_by, created_at, expires_at }) {
        const held = yield* refuseRevoked(dialect, made_by)
        for (const user of grant.users ?? []) yield* context.rejectErased(user)
        yield { hold: keyChanges.row }
        const all = yield* readAll<
          MadeRow & { has_name: unknown }
        >(sql`SELECT id, made_by, nth AS added, name = ${name}
          AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${clock.now()}) AS has_name
          FROM access_key ORDER BY nth`)
        const maker = keyOfMaker(made_by)
        if (maker !== undefined && familyOf(all, maker).size > maxKeysBelow) throw tooManyKeysError()
        const seen = maker === undefined ? undefined : listBelow(all, maker)
        const namesakes = all.flatMap(key => (key.has_name && seen?.has(key.id) !== false ? [key.id] : []))
        if (namesakes.length > 0) throw sameNameError(namesakes)
        yield* write(
          ...keyChanges.begin,
          ...expectNoMore(all),
          ...held,
          sql`INSERT INTO access_key (id, name, hash, "grant", can, made_by, created_at, expires_at, revision)
            VALUES (${id}, ${name}, ${mapKeyHash(hash, id, sealer.seal)}, ${JSON.stringify(grant)}, ${JSON.stringify(can)}, ${made_by},
              ${created_at}, ${expires_at}, ${keyChanges.revision})`,
        )
      },

      rotate: (id, hash, keepUntil) =>
        changes(
          ...keyChanges.begin,
          sql`UPDATE access_key SET replaced_hash = hash, replaced_until = ${keepUntil},
            hash = ${mapKeyHash(hash, id, sealer.seal)},
            revision = ${keyChanges.revision} WHERE id = ${id} AND revoked_at IS NULL RETURNING id`,
        ),

      revoke: (id, at) => end([id], at),

      listExpired,

      endKeys: end,

      *noteUse(id, at, address) {
        yield* write(
          sql`UPDATE access_key SET last_used_at = ${at}, last_address = ${address} WHERE id = ${id}`,
        )
      },
    },
    modes: {
      hasAny: 'plain',
      list: 'plain',
      get: 'plain',
      listScans: 'plain',
      listChangedSince: 'plain',
      listExpired: 'plain',
      noteUse: 'relaxed',
      add: 'intake',
      rotate: 'intake',
      revoke: 'news',
      endKeys: 'news',
    },
  }
}

interface MadeRow {
  id: string
  made_by: string
  added: number
}

/** The condition that an entry `e` waits for its user, and one of these principals queued it, or a webhook of one. */
const isQueuedBy = (dialect: Dialect, makers: readonly string[]): Sql => sql`e.mode = 'queue'
  AND e.ended_at IS NULL AND e.asked IS NULL AND ${dialect.isOneOf(makerOf(constantSql('e.made_by')), makers)}`
