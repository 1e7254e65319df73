/** How far the endpoints are delivered. Each engine says which process delivers. */
import { joinSql, noSql, type Sql, sql } from '../../platform/sql.ts'
import { type Noun, type Routine, readAll } from '../routine.ts'
import {
  maxTries,
  type TryOutcome,
  tryOutcomes,
  type WebhookConversation,
  type WebhookLane,
  type WebhookProgressStore,
  type WebhookTry,
} from '../webhooks.ts'

/** @param isErased whether a user was erased: no lane is stored then. Not needed where the tables check that */
export const createWebhookProgress = (
  isErased: (user: string) => boolean = () => false,
): Noun<Pick<WebhookProgressStore, 'addTry' | 'listTries' | 'save'>> => ({
  verbs: {
    *save(id, { epoch, position, lanes, ended, tries, health }): Routine<boolean> {
      const current = sql`FROM webhook WHERE id = ${id} AND epoch = ${epoch}`
      const [saved] = yield {
        write: [
          sql`UPDATE webhook SET position = ${position},
            last_success_at = coalesce(${health.last_success_at}, last_success_at),
            failing_since = ${health.failing_since}, last_error = ${health.last_error},
            last_error_code = ${health.last_error_code}, next_try_at = ${health.next_try_at}${counted(tries)}
            WHERE id = ${id} AND epoch = ${epoch} RETURNING id`,
          ...lanes.filter(({ user }) => !isErased(user)).map(lane => putLane(id, lane, current)),
          ...ended.map(lane => sql`${dropLane(id, lane)} AND EXISTS (SELECT 1 ${current})`),
          ...addTries(id, tries, current),
        ],
      }
      return saved!.length > 0
    },

    *addTry(id, attempt, epoch): Routine<boolean> {
      const tries = [attempt]
      const found = sql`WHERE id = ${id}${epoch === undefined ? noSql : sql` AND epoch = ${epoch}`}`
      const [saved] = yield {
        write: [
          sql`UPDATE webhook SET paused = paused${counted(tries)} ${found} RETURNING id`,
          ...addTries(id, tries, sql`FROM webhook ${found}`),
        ],
      }
      return saved!.length > 0
    },

    listTries(id, limit, outcome, event) {
      const [answer, ofEvent] =
        event === undefined ? [noSql, noSql] : [sql`, answer`, sql` AND event = ${event}`]
      // One walk in an index for each outcome.
      const each = (outcome === undefined ? tryOutcomes : [outcome]).map(
        one => sql`SELECT * FROM (SELECT * FROM webhook_try WHERE webhook = ${id} AND outcome = ${one}${ofEvent}
          ORDER BY id DESC LIMIT ${limit}) newest`,
      )
      return readAll<WebhookTry>(sql`SELECT at, event, type, outcome, status, took_ms, detail, code${answer}
        FROM (${joinSql(each, ' UNION ALL ')}) tries ORDER BY id DESC LIMIT ${limit}`)
    },
  },
  modes: { save: 'light', addTry: 'light', listTries: 'plain' },
})

export const dropLane = (id: string, { session, user }: WebhookConversation): Sql =>
  sql`DELETE FROM webhook_lane WHERE webhook = ${id} AND session = ${session} AND peer = ${user}`

/** @param current a FROM of the endpoint, with a WHERE: the lane is stored if it finds a row */
export const putLane = (id: string, { session, user, position, trouble }: WebhookLane, current: Sql): Sql =>
  sql`INSERT INTO webhook_lane (webhook, session, peer, position, event, tries, failed_at, retry_at)
    SELECT ${id}, ${session}, ${user}, ${position}, ${trouble?.event}, ${trouble?.tries}, ${trouble?.failed_at},
      ${trouble?.retry_at} ${current}
    ON CONFLICT (webhook, session, peer) DO UPDATE SET position = excluded.position, event = excluded.event,
      tries = excluded.tries, failed_at = excluded.failed_at, retry_at = excluded.retry_at`

/** SQL that continues a SET: counts all tries. */
function counted(tries: readonly WebhookTry[]): Sql {
  const count = (wanted: TryOutcome) => tries.filter(({ outcome }) => outcome === wanted).length
  return tries.length === 0
    ? noSql
    : sql`, tries_done = tries_done + ${count('done')}, tries_failed = tries_failed + ${count('failed')},
        tries_gave_up = tries_gave_up + ${count('gave_up')}`
}

/** Stores only as many tries of each outcome as are kept. */
function addTries(id: string, tries: readonly WebhookTry[], current: Sql): Sql[] {
  const kept = new Set(
    tryOutcomes.flatMap(wanted => tries.filter(({ outcome }) => outcome === wanted).slice(-maxTries[wanted])),
  )
  const added = tries.filter(one => kept.has(one))
  return [
    ...added.map(
      ({ answer, at, code, detail, event, outcome, status, took_ms, type }) =>
        sql`INSERT INTO webhook_try (webhook, at, event, type, outcome, status, took_ms, detail, code, answer)
          SELECT ${id}, ${at}, ${event}, ${type}, ${outcome}, ${status}, ${took_ms}, ${detail}, ${code}, ${answer} ${current}`,
    ),
    ...[...new Set(added.map(({ outcome }) => outcome))].map(
      outcome => sql`DELETE FROM webhook_try WHERE webhook = ${id} AND outcome = ${outcome} AND id <= (SELECT id
        FROM webhook_try WHERE webhook = ${id} AND outcome = ${outcome} ORDER BY id DESC LIMIT 1 OFFSET ${maxTries[outcome]})`,
    ),
  ]
}
