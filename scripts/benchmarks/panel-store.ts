/** Makes the store of a busy panel: many accounts, and one conversation that is longer than all others. */
import { join } from 'node:path'
import { systemClock } from '../../src/platform/clock.ts'
import { silentLog } from '../../src/platform/log.ts'
import type { ReceivedMessage } from '../../src/storage/messages.ts'
import { openSqliteStore } from '../../src/storage/sqlite/store.ts'
import { botId } from './process.ts'
import { createMessage, createRandom, toWireText } from './texts.ts'

export const sessionName = (nth: number): string => `session-${nth}`

/** The user of the long conversation, whom the upstream also lets write. */
export const longUser: string = createMessage(0, 0, '', 1, () => 0).from

const batch = 2000
const othersOfEach = 5

/**
 * Fills `dir`: the first session gets `messages` from `longUser`, the others get one message from each of
 * some users.
 */
export async function fillPanelStore(dir: string, sessions: number, messages: number): Promise<void> {
  const path = join(dir, 'messages.db')
  const options = { path, clock: systemClock, log: silentLog, maxAgeDays: 0, maxCount: 0 }
  const store = await openSqliteStore(options)
  const next = createRandom(1)
  const write = async (session: string, run: number, count: number, users: number) => {
    const bot = botId(session)
    for (let from = 0; from < count; from += batch) {
      const rows = Array.from({ length: Math.min(batch, count - from) }, (_, n): ReceivedMessage => {
        const written = createMessage(run, from + n, bot, users, next)
        // Each session has its own users.
        const message = run === 0 ? written : { ...written, from: `${run}.${n}${written.from}` }
        return {
          message_id: message.messageId,
          derived_id: message.messageId,
          from_user: message.from,
          msg_type: 'TEXT',
          text: message.text,
          timestamp: Date.now() - 60_000 - (count - from - n) * 37,
          timed: true,
          contentHash: Bun.hash(message.messageId).toString(36),
          raw: toWireText(message),
        }
      })
      await store.intake.insertReceived(session, bot, rows)
    }
  }
  try {
    for (let nth = 1; nth < sessions; nth++) await write(sessionName(nth), nth, othersOfEach, othersOfEach)
    await write(sessionName(0), 0, messages, 1)
  } finally {
    await store.maintenance.close()
  }
}
