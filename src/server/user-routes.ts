/** Who has written, and what people call them, over HTTP. */
import { Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { KnownUser, NamedUser, NameRequest, UserFilter } from '../model/session.ts'
import { closed } from '../model/shapes.ts'
import { exampleUser } from '../operations/example-values.ts'
import { jsonRoutes, type RouteContext } from './route.ts'

const { user_id, ...nameBody } = NameRequest.properties
const UserPath = closed({ user_id })
const NameBody = closed(nameBody)

const exampleKnown = {
  session: 'default',
  user_id: exampleUser,
  name: 'Mum',
  first_seen: 1767222000000,
  last_received: 1767225600000,
  last_sent: 1767225660000,
  remaining: 9,
  window_expires_at: 1767312000000,
}

/** Adds GET /users and PUT /users/{user_id}/name, below `prefix`. */
export function addUserRoutes(app: Elysia, context: RouteContext, prefix = ''): void {
  const { users } = context.gateway
  const add = jsonRoutes(app, context, 'messages', prefix)
  add('GET /users', 'list_users', {
    summary: 'List who may be answered',
    description:
      'Everybody who has written: how many answers are left and until when, and what people call them. WeChat lets a bot answer for about 24 hours after a user wrote, about 10 times.',
    query: UserFilter,
    answer: Type.Array(KnownUser, { description: 'Who wrote last comes first.' }),
    errors: ['session_not_found', 'store_unavailable'],
    examples: [{ summary: 'One user', output: [exampleKnown] }],
    run: ({ query }) => users.list(query),
  })
  add('PUT /users/:user_id/name', 'name_user', {
    summary: 'Give a user a name',
    description:
      'It is shown with the messages of the user, and `send` and `history` take it where it is one user’s. It is kept when the session is logged out. Users of two sessions may have the same name: then `namesakes` says so. For people and their programs: agents read names over MCP and cannot set them.',
    params: UserPath,
    body: NameBody,
    answer: NamedUser,
    errors: ['not_found', 'session_not_found', 'store_unavailable'],
    examples: [{ summary: 'Named', input: { name: 'Mum' }, output: exampleKnown }],
    run: ({ params, body }) => users.name({ ...params, ...body }),
  })
}
