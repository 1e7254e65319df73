/** token.json: parses and formats it. */
import { type BotInfo, markedTexts, markedTimes, marks } from '../../../model/session.ts'
import type { JsonObject } from '../../../platform/json-file.ts'
import type { Sealer } from '../../../platform/sealing.ts'
import { storeErrorOf } from '../../../platform/system-error.ts'
import { mapToken } from '../../sealed-places.ts'

/** Content of a token.json, including unknown fields, which a rewrite keeps. */
export interface TokenFile {
  bot: BotInfo
  fields: JsonObject
}

/** Returns the fields of a token file that a new login keeps: all except marks, and what the person was. */
export const withoutMarks = ({ invitation: _, ...fields }: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => !(marks as readonly string[]).includes(key)))

export const toJsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Returns the text of a token.json. */
export const toTokenText = (fields: JsonObject, { seal }: Sealer): string =>
  toJsonText(mapToken(fields, seal))

/**
 * Files may have been written manually: only bot id and token are required. @throws SvcError
 * `store_unavailable` for a token that cannot be opened
 */
export function parseTokenFile(written: JsonObject, { open }: Sealer): TokenFile | undefined {
  const fields = mapToken(written, open)
  const text = (key: string) => (typeof fields[key] === 'string' ? fields[key] : undefined)
  const time = (key: string) => (Number.isSafeInteger(fields[key]) ? (fields[key] as number) : undefined)
  const bot_id = text('bot_id')
  const token = text('token')
  if (!bot_id || !token) return undefined
  const bot: BotInfo = {
    bot_id,
    token,
    base_url: text('base_url') ?? '',
    cursor: text('cursor') ?? '',
    created_at: time('created_at') ?? 0,
  }
  const user_id = text('user_id')
  if (user_id !== undefined) bot.user_id = user_id
  const invitation = text('invitation')
  if (invitation !== undefined) bot.invitation = invitation
  for (const mark of markedTimes) {
    const at = time(mark)
    if (at !== undefined) bot[mark] = at
  }
  for (const mark of markedTexts) {
    const value = text(mark)
    if (value !== undefined) bot[mark] = value
  }
  return { bot, fields }
}

/**
 * Runs `work`, which writes session files, and translates system errors.
 *
 * @throws SvcError `store_unavailable` for system errors; others unchanged
 */
export async function translateErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw storeErrorOf(error, "the session's files cannot be written")
  }
}
