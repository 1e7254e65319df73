/** Invented values for the examples of several operations. */
import type { Message } from '../model/message.ts'
import type { Session } from '../model/session.ts'

export const exampleUser = 'o9cq80x1y2z3@im.wechat'
export const exampleBot = 'a1b2c3d4e5f6@im.bot'

export const exampleReceived: Message = {
  id: 42,
  message_id: '7412365478965412365',
  session: 'default',
  bot_id: exampleBot,
  direction: 'received',
  from_user: exampleUser,
  to_user: exampleBot,
  msg_type: 'TEXT',
  text: '你好',
  timestamp: 1767225600000,
  items: [{ kind: 'TEXT', text: '你好', has_media: false }],
}

export const exampleSent: Message = {
  id: 43,
  message_id: '7412365478965412366',
  session: 'default',
  bot_id: exampleBot,
  direction: 'sent',
  status: 'accepted',
  from_user: exampleBot,
  to_user: exampleUser,
  msg_type: 'TEXT',
  text: 'Hello!',
  timestamp: 1767225660000,
  items: [{ kind: 'TEXT', text: 'Hello!', has_media: false }],
}

export const exampleSession: Session = {
  name: 'default',
  bot_id: exampleBot,
  user_id: exampleUser,
  connected: true,
  status: 'connected',
  is_default: true,
  created_at: 1767139200000,
  last_poll_at: 1767225660000,
  user_count: 3,
}
