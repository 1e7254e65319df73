/** What the panel's API takes and answers, as schemas: checked by our one parse, shown in its document. */

import { type Static, Type } from '@sinclair/typebox'
import { Conversation, Hour } from '../../model/conversation.ts'
import { LoginStatus } from '../../model/login.ts'
import { HistoryPage, MediaContent, Message, MessageKind } from '../../model/message.ts'
import { Session, SessionUser } from '../../model/session.ts'
import { bounded, closed, flag, integer, oneOf, optional, seconds, text, told } from '../../model/shapes.ts'
import { HistoryInput } from '../../operations/history.ts'
import { RowId } from '../../operations/schema.ts'
import { SendInput } from '../../operations/send.ts'

const name = (description: string) => Type.String({ maxLength: 200, description })
const unixMs = (description: string) => integer(`Unix milliseconds: ${description}`)

export const Status = Type.Object({
  version: Type.String(),
  connected: flag('Whether any session is.'),
  session_count: Type.Integer(),
  connected_count: Type.Integer(),
  role: oneOf(['poller', 'watcher']),
  stalled: flag('Of a watcher: the polling process shows no life.'),
  poller_pid: optional(integer('Of a stalled one: the process that keeps polling to itself.')),
  store: oneOf(['ok', 'unavailable']),
  started_at: unixMs('when this process started.'),
  polls_since: optional(unixMs('of a poller: since when it is.')),
  base_path: Type.String(),
  media_root: Type.String(),
  store_max_age_days: integer('0: no limit.'),
  store_max_count: integer('0: no limit.'),
  max_upload_bytes: Type.Integer(),
  sandbox_phone: optional(text('Address of the simulated phone.')),
  rest_url: optional(text('Address of the REST service beside the panel.')),
  token_required: Type.Boolean(),
})
export type Status = Static<typeof Status>

export const Sessions = Type.Object({
  sessions: Type.Array(Type.Object({ ...Session.properties, users: Type.Array(SessionUser) })),
})

export const LoginBody = closed({
  name: optional(name('Of the session; "" or absent is default.')),
  force: optional(flag('Log in again although it is connected.')),
})
export const LoginQuery = closed({
  login_id: optional(Type.String({ maxLength: 64, description: 'From the start of the login.' })),
  session: optional(name('Instead of login_id: the newest login of that session.')),
  seen: optional(
    Type.Integer({
      minimum: 0,
      description: 'The revision known already: a newer one is answered at once.',
    }),
  ),
  timeout: optional(seconds(30, 0, 'Longest wait in seconds for a change.')),
})
export const CodeBody = closed({
  login_id: Type.String({ maxLength: 64 }),
  verify_code: bounded(32, 'The digits on the phone.'),
})
export const CancelBody = closed({
  login_id: Type.String({ maxLength: 64 }),
  left: optional(
    flag('The page was left: it ends within a minute, unless somebody follows it or has scanned the code.'),
  ),
})
export const Login = Type.Object({
  ...LoginStatus.properties,
  login_id: text('"" when the session is connected already and nothing was started.'),
  revision: integer('Counts the changes; pass it on as seen.'),
  qr_svg: optional(text('The QR code as an SVG image.')),
})
export type Login = Static<typeof Login>

export const SessionPath = closed({ name: bounded(200) })
export const RenameBody = closed({ new_name: bounded(200) })
export const Success = Type.Object({ success: Type.Boolean() })
export const Renamed = Type.Object({ success: Type.Boolean(), name: Type.String() })
export const DefaultSet = Type.Object({ success: Type.Boolean(), default_session: Type.String() })

/** So much of the text of a message stands in a line of the list. */
export const shortText = 200
const lineParts = ['id', 'direction', 'status', 'user_name', 'text', 'timestamp', 'items'] as const
/** A conversation as a line of the list: all of them come with each look. */
export const ConversationLine = Type.Object({
  ...Conversation.properties,
  last_message: Type.Pick(Message, lineParts, {
    description: `The newest message in short: the first ${shortText} characters of its text, and of its items those that are no text.`,
  }),
})
export type ConversationLine = Static<typeof ConversationLine>
export const Conversations = Type.Object({ conversations: Type.Array(ConversationLine) })
export const ReadBody = closed({
  session: bounded(200),
  user_id: bounded(512),
  up_to: RowId('Row id of the newest message that was looked at.'),
})
export type ReadBody = Static<typeof ReadBody>

export const UnreadBody = closed({
  session: bounded(200),
  user_id: bounded(512),
})
export type UnreadBody = Static<typeof UnreadBody>

const { bot_id: _, offset: __, ...filters } = HistoryInput.properties
export const MessagesQuery = closed({
  ...filters,
  msg_type: optional(told(MessageKind, 'With an item of this kind.')),
})
export const Messages = Type.Omit(HistoryPage, ['limit', 'offset'])
export type Messages = Static<typeof Messages>

const { to, text: words, session, idempotency_key, when_closed } = SendInput.properties
const { kind, file_name } = MediaContent.properties
const Uploaded = closed({ kind, file_name, upload_id: bounded(64) })
export const SendBody = closed({
  ...{ to, text: words, session, idempotency_key, when_closed },
  media: optional(Type.Array(Uploaded, { maxItems: 20 })),
})
export type SendBody = Static<typeof SendBody>

export const StatsQuery = closed({ hours: optional(Type.Integer({ minimum: 1, maximum: 168, default: 24 })) })
export const Stats = Type.Object({
  hours: Type.Array(Hour, { description: 'Oldest first; the running one last.' }),
})

export const SignInBody = closed({ token: bounded(1000) })
