/** Who has written, and what people call them, over HTTP. */
import { Type } from '@sinclair/typebox'
import type { Elysia } from 'elysia'
import { KnownUser } from '../model/session.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { exampleUser } from '../tools/example-values.ts'
import { jsonRoutes, type RouteContext } from './route.ts'

const user = 'A user id, or the name of one user.'

const ListQuery = closed({
  session: optional(bounded(200, 'Only users of this session.')),
  user_id: optional(bounded(512, user)),
})
const UserPath = closed({ user_id: bounded(512, user, { examples: [exampleUser] }) })
const NameBody = closed({
  name: Type.String({
    maxLength: 1000,
    description:
      'At most 64 characters without "@", as no other user of the session is called. An empty text takes the name away.',
    examples: ['Mum'],
  }),
  session: optional(bounded(200, 'Of this session; without it of the one that the user wrote to last.')),
})

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
    query: ListQuery,
    answer: Type.Array(KnownUser, { description: 'Who wrote last comes first.' }),
    errors: ['session_not_found', 'store_unavailable'],
    examples: [{ summary: 'One user', output: [exampleKnown] }],
    run: ({ query }) => users.list(query),
  })
  add('PUT /users/:user_id/name', 'name_user', {
    summary: 'Give a user a name',
    description:
      'It is shown with the messages of the user, and `send` and `history` take it where it is one user’s. It is kept when the session is logged out. For people and their programs: agents read names over MCP and cannot set them.',
    params: UserPath,
    body: NameBody,
    answer: KnownUser,
    errors: ['not_found', 'store_unavailable'],
    examples: [{ summary: 'Named', input: { name: 'Mum' }, output: exampleKnown }],
    run: ({ params, body }) => users.name({ ...params, ...body }),
  })
}
