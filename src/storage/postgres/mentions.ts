/** Erases a person from the texts of the audit log and from events, some hundred at a time. */
import { nameKeyOf } from '../../model/user-name.ts'
import { sql } from '../../platform/sql.ts'
import { type ErasedPerson, eraseFromData, eraseFromSubject, patternOf } from '../mentions.ts'
import type { PgDatabase } from './database.ts'
import { erasedSession } from './tables.ts'

/** Lines or events that are checked in one step. */
const checkedAtOnce = 2000

/** Returns what finds the user's id and names in a subject. */
export async function mentionsOf(db: PgDatabase, user: string): Promise<RegExp> {
  const names = await db.all<{ name: string }>(sql`SELECT DISTINCT name FROM user_name WHERE peer = ${user}`)
  return patternOf([user, ...names.map(({ name }) => nameKeyOf(name))])
}

/** Lines of the audit log and events up to here were checked. */
export interface MentionProgress {
  line: number
  place: number
}

/** Puts the hash in place of the user, and removes events about erased messages. @param pause awaited after each step */
export async function eraseMentions(
  db: PgDatabase,
  person: ErasedPerson,
  progress: MentionProgress,
  pause: () => Promise<void>,
): Promise<void> {
  // Not until there are none: others may come all the time.
  while (await eraseFromLines(db, person, progress)) await pause()
  while (await eraseFromEvents(db, person, progress)) await pause()
}

/** @returns whether there may be more */
async function eraseFromLines(
  db: PgDatabase,
  person: ErasedPerson,
  progress: MentionProgress,
): Promise<boolean> {
  const rows = await db.all<{ id: number; subject: string }>(sql`SELECT id, subject FROM audit
    WHERE id > ${progress.line} AND subject IS NOT NULL ORDER BY id LIMIT ${checkedAtOnce}`)
  const changed = rows
    .map(({ id, subject }) => ({ id, subject, erased: eraseFromSubject(subject, person) }))
    .filter(({ subject, erased }) => erased !== subject)
  if (changed.length > 0)
    await db.run(sql`UPDATE audit a SET subject = c.subject
      FROM unnest(${changed.map(({ id }) => id)}::bigint[], ${changed.map(({ erased }) => erased)}::text[])
        AS c(id, subject) WHERE a.id = c.id`)
  progress.line = rows.at(-1)?.id ?? progress.line
  return rows.length === checkedAtOnce
}

/** @returns whether there may be more */
async function eraseFromEvents(
  db: PgDatabase,
  person: ErasedPerson,
  progress: MentionProgress,
): Promise<boolean> {
  const after = progress.place
  const rows = await db.all<{ place: number; data?: string }>(sql`SELECT place, data FROM event
    WHERE place > ${after} ORDER BY place LIMIT ${checkedAtOnce}`)
  const end = rows.at(-1)?.place
  if (end === undefined) return false
  const changed = rows.flatMap(({ place, data }) => {
    const erased = data === undefined ? data : eraseFromData(data, person)
    return erased === data ? [] : [{ place, erased: erased! }]
  })
  if (changed.length > 0)
    await db.run(sql`UPDATE event e SET data = c.data
      FROM unnest(${changed.map(({ place }) => place)}::bigint[], ${changed.map(({ erased }) => erased)}::text[])
        AS c(place, data) WHERE e.place = c.place`)
  await db.run(sql`DELETE FROM event e USING message m WHERE e.place > ${after} AND e.place <= ${end}
    AND m.id = e.message AND m.session = ${erasedSession}`)
  progress.place = end
  return rows.length === checkedAtOnce
}
