/** What the panel's API takes and answers, as schemas: checked by our one parse, shown in its document. */
import { type Static, Type } from '@sinclair/typebox'
import { Conversation, Hour } from '../../model/conversation.ts'
import { Direction, MediaKind, Message, MessageKind } from '../../model/message.ts'
import { LoginStatus, Session, SessionUser } from '../../model/session.ts'
import { RowId, Time } from '../../tools/schema.ts'

const closed = { additionalProperties: false } as const
const name = (description: string) => Type.String({ maxLength: 200, description })
const unixMs = (description: string) => Type.Integer({ description: `Unix milliseconds: ${description}` })

export const Status = Type.Object({
  version: Type.String(),
  connected: Type.Boolean({ description: 'Whether any session is.' }),
  session_count: Type.Integer(),
  connected_count: Type.Integer(),
  role: Type.Unsafe<'poller' | 'watcher'>({ type: 'string', enum: ['poller', 'watcher'] }),
  stalled: Type.Boolean({ description: 'Of a watcher: the polling process shows no life.' }),
  poller_pid: Type.Optional(
    Type.Integer({ description: 'Of a stalled one: the process that keeps polling to itself.' }),
  ),
  store: Type.Unsafe<'ok' | 'unavailable'>({ type: 'string', enum: ['ok', 'unavailable'] }),
  started_at: unixMs('when this process started.'),
  base_path: Type.String(),
  media_root: Type.String(),
  store_max_age_days: Type.Integer({ description: '0: no limit.' }),
  store_max_count: Type.Integer({ description: '0: no limit.' }),
  max_upload_bytes: Type.Integer(),
  sandbox_phone: Type.Optional(Type.String({ description: 'Address of the simulated phone.' })),
  rest_url: Type.Optional(Type.String({ description: 'Address of the REST service beside the panel.' })),
  token_required: Type.Boolean(),
})
export type Status = Static<typeof Status>

export const Sessions = Type.Object({
  sessions: Type.Array(Type.Composite([Session, Type.Object({ users: Type.Array(SessionUser) })])),
})

export const LoginBody = Type.Object(
  {
    name: Type.Optional(name('Of the session; "" or absent is default.')),
    force: Type.Optional(Type.Boolean({ description: 'Log in again although it is connected.' })),
  },
  closed,
)
export const LoginQuery = Type.Object(
  {
    login_id: Type.Optional(Type.String({ maxLength: 64, description: 'From the start of the login.' })),
    session: Type.Optional(name('Instead of login_id: the newest login of that session.')),
    seen: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'The revision known already: a newer one is answered at once.',
      }),
    ),
    timeout: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 30,
        default: 0,
        description: 'Longest wait in seconds for a change.',
      }),
    ),
  },
  closed,
)
export const CodeBody = Type.Object(
  {
    login_id: Type.String({ maxLength: 64 }),
    verify_code: Type.String({ minLength: 1, maxLength: 32, description: 'The digits on the phone.' }),
  },
  closed,
)
export const CancelBody = Type.Object({ login_id: Type.String({ maxLength: 64 }) }, closed)
export const Login = Type.Composite([
  LoginStatus,
  Type.Object({
    login_id: Type.String({
      description: '"" when the session is connected already and nothing was started.',
    }),
    revision: Type.Integer({ description: 'Counts the changes; pass it on as seen.' }),
    qr_svg: Type.Optional(Type.String({ description: 'The QR code as an SVG image.' })),
  }),
])
export type Login = Static<typeof Login>

export const SessionPath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 200 }) }, closed)
export const RenameBody = Type.Object({ new_name: Type.String({ minLength: 1, maxLength: 200 }) }, closed)
export const Success = Type.Object({ success: Type.Boolean() })
export const Renamed = Type.Object({ success: Type.Boolean(), name: Type.String() })
export const DefaultSet = Type.Object({ success: Type.Boolean(), default_session: Type.String() })

export const Conversations = Type.Object({ conversations: Type.Array(Conversation) })
export const ReadBody = Type.Object(
  {
    session: Type.String({ minLength: 1, maxLength: 200 }),
    user_id: Type.String({ minLength: 1, maxLength: 512 }),
    up_to: RowId({ description: 'Row id of the newest message that was looked at.' }),
  },
  closed,
)

export const MessagesQuery = Type.Object(
  {
    session: Type.Optional(name('Only of this session.')),
    user_id: Type.Optional(Type.String({ maxLength: 512, description: 'Only with this user.' })),
    text_contains: Type.Optional(Type.String({ maxLength: 10_000, description: 'A part of the text.' })),
    msg_type: Type.Optional(MessageKind),
    direction: Type.Optional(Direction),
    since: Type.Optional(Time({ description: 'From then on.' })),
    until: Type.Optional(Time({ description: 'Before then.' })),
    before: Type.Optional(RowId({ description: 'Only what stands before this row, newest first.' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
  },
  closed,
)
export const Messages = Type.Object({
  messages: Type.Array(Message),
  total: Type.Integer(),
  total_is_lower_bound: Type.Boolean(),
  next_before: Type.Optional(Type.Integer({ description: 'Row id to pass as before for the next page.' })),
})

export const SendBody = Type.Object(
  {
    to: Type.String({ minLength: 1, maxLength: 512 }),
    session: Type.Optional(name('Send from this session.')),
    text: Type.Optional(Type.String()),
    media: Type.Optional(
      Type.Array(
        Type.Object(
          {
            kind: MediaKind,
            upload_id: Type.String({ maxLength: 64 }),
            file_name: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
          },
          closed,
        ),
        { maxItems: 20 },
      ),
    ),
    idempotency_key: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
    when_closed: Type.Optional(Type.Unsafe<'fail' | 'queue'>({ type: 'string', enum: ['fail', 'queue'] })),
  },
  closed,
)

export const StatsQuery = Type.Object(
  { hours: Type.Optional(Type.Integer({ minimum: 1, maximum: 168, default: 24 })) },
  closed,
)
export const Stats = Type.Object({
  hours: Type.Array(Hour, { description: 'Oldest first; the running one last.' }),
})

export const SignInBody = Type.Object({ token: Type.String({ minLength: 1, maxLength: 1000 }) }, closed)
