/** Finds quoted messages. */
import { call, type Message } from '../api.ts'
import { tellError } from '../ui/toasts.tsx'
import type { Thread } from './thread.ts'

/** Returns the row id of a quoted message: a loaded one, else one of that time with the same message id. */
export async function rowOf(
  thread: Thread,
  quote: NonNullable<Message['ref_msg']>,
): Promise<number | undefined> {
  const isIt = ({ message_id }: Message) => message_id === quote.message_id
  const loaded = thread.messages.peek().find(isIt)
  if (loaded || quote.timestamp === undefined) return loaded?.id
  try {
    const { messages } = await call('list_messages', {
      session: thread.session,
      user_id: thread.userId,
      limit: 200,
      since: quote.timestamp - 60_000,
      until: quote.timestamp + 60_000,
    })
    return messages.find(isIt)?.id
  } catch (error) {
    tellError(error)
    return undefined
  }
}
