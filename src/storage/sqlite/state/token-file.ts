/** token.json: what stands in it, how it is read, and how it is written again. */
import { type BotInfo, markedTexts, markedTimes, marks } from '../../../model/session.ts'
import type { JsonObject } from '../../../platform/json-file.ts'
import { unavailable } from '../../../platform/system-error.ts'

/** A token.json as it stands, unknown fields included: they survive a rewrite. */
export interface TokenFile {
  bot: BotInfo
  fields: JsonObject
}

/** What a new login takes over of a token file. */
export const unmarked = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([key]) => !(marks as readonly string[]).includes(key)))

export const serialized = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Files may have been written by hand: only bot id and token must be there. */
export function parseToken(fields: JsonObject): TokenFile | undefined {
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
  for (const mark of markedTimes) {
    const at = time(mark)
    if (at !== undefined) bot[mark] = at
  }
  for (const mark of markedTexts) {
    const said = text(mark)
    if (said !== undefined) bot[mark] = said
  }
  return { bot, fields }
}

/**
 * Does `work`, which writes session files, and translates the machine's errors.
 *
 * @throws SvcError `store_unavailable` for those; anything else as it is
 */
export async function told<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw unavailable(error, "the session's files cannot be written")
  }
}
