/** Operations for users: list those who have written, and give them names. */
import { Type } from '@sinclair/typebox'
import { linkNext, pageInput, pageOf } from '../model/page.ts'
import { KnownUser, NamedUser, NameRequest, UserFilter } from '../model/session.ts'
import { closed } from '../model/shapes.ts'
import { exampleUser } from './example-values.ts'
import { defineOperation } from './operation.ts'

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

export const listUsers = defineOperation({
  name: 'list_users',
  title: 'List the users who have written, and the answers left',
  effect: 'read',
  right: 'users',
  description:
    'Lists the users who have written to the bot since its login, latest first: how many answers are left and until when, and the name that people gave. WeChat lets a bot answer about 10 times within about 24 hours after a user wrote.',
  input: closed({ ...UserFilter.properties, ...pageInput('users') }),
  output: Type.Array(KnownUser, { description: 'The users, latest writer first.' }),
  errors: ['session_not_found'],
  examples: [{ summary: 'One user', output: [exampleKnown] }],
  rest: { route: 'GET /users', tag: 'messages', answerHeaders: linkNext },
  cli: {
    path: ['users'],
    positionals: ['session'],
    short: { session: 's', user_id: 'u', limit: 'n' },
    names: { user_id: 'user' },
    examples: [['svc users', 'The users that svc send can reach now']],
  },
  run: async ({ users }, { limit, offset, ...filter }) => pageOf(await users.list(filter), { limit, offset }),
})

export const nameUser = defineOperation({
  name: 'name_user',
  title: 'Give a user a name',
  effect: 'write',
  right: 'names',
  description:
    'Gives a user a name, which is shown with the messages of the user. `send` and `history` accept it in place of the id, if only one user has it. It is kept when the session is logged out. Users of two sessions may have the same name: `namesakes` then lists the others. For people and their programs: agents can read names over MCP but cannot set them.',
  input: NameRequest,
  output: NamedUser,
  errors: ['not_found', 'session_not_found'],
  examples: [{ summary: 'Named', input: { user_id: exampleUser, name: 'Mum' }, output: exampleKnown }],
  rest: { route: 'PUT /users/{user_id}/name', tag: 'messages' },
  cli: {
    path: ['users', 'name'],
    optionalPositionals: ['name'],
    short: { session: 's' },
    names: { user_id: 'user' },
    examples: [
      ['svc users name o9cq80x1y2z3@im.wechat Mum', 'From now on: svc send Mum "Hello!"'],
      ['svc users name Mum --clear', 'Show the id again'],
    ],
  },
  positionals: ['user_id', 'name'],
  run: ({ users }, request) => users.name(request),
})
