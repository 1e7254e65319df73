/** Operations for users: list those who have written, and give them names. */
import { Type } from '@sinclair/typebox'
import { KnownUser, NamedUser, NameRequest, UserFilter } from '../model/session.ts'
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
  title: 'List the users who may be answered',
  effect: 'read',
  right: 'users',
  description:
    'Lists everybody who has written: how many answers are left and until when, and the name that people gave. WeChat lets a bot answer for about 24 hours after a user wrote, about 10 times.',
  input: UserFilter,
  output: Type.Array(KnownUser, { description: 'The users, latest writer first.' }),
  errors: ['session_not_found', 'store_unavailable'],
  examples: [{ summary: 'One user', output: [exampleKnown] }],
  rest: { route: 'GET /users', tag: 'messages' },
  cli: {
    path: ['users'],
    summary: 'list the users who have written, and the answers left',
    about:
      'Lists the users who have written to the bot since its login, latest first, with the number of answers left and the time until which they can be sent. WeChat lets a bot answer about 10 times within about 24 hours after a user wrote.',
    positionals: ['session'],
    short: { session: 's', user_id: 'u' },
    names: { user_id: 'user' },
    ownExamples: true,
    examples: [['svc users', 'The users that svc send can reach now']],
  },
  library: { positionals: [] },
  run: ({ users }, filter) => users.list(filter),
})

export const nameUser = defineOperation({
  name: 'name_user',
  title: 'Give a user a name',
  effect: 'write',
  right: 'names',
  description:
    'The name is shown with the messages of the user. `send` and `history` accept it in place of the id, if only one user has it. It is kept when the session is logged out. Users of two sessions may have the same name: `namesakes` then lists the others. For people and their programs: agents can read names over MCP but cannot set them.',
  input: NameRequest,
  output: NamedUser,
  errors: ['not_found', 'session_not_found', 'store_unavailable'],
  examples: [{ summary: 'Named', input: { user_id: exampleUser, name: 'Mum' }, output: exampleKnown }],
  rest: { route: 'PUT /users/{user_id}/name', tag: 'messages' },
  cli: {
    path: ['users', 'name'],
    about:
      'Gives a user a name that svc shows instead of the id, and that svc send and svc history accept. A name is unique in its session and contains no "@". It is kept when the session is logged out. Agents can read names but not set them.',
    positionals: ['user_id', 'name'],
    optionalPositionals: ['name'],
    short: { session: 's' },
    names: { user_id: 'user' },
    help: {
      user_id: 'Id or current name of the user.',
      name: 'New name; an empty one removes the name.',
      session: 'Session of the user. Without it: the session that the user last wrote to.',
    },
    ownExamples: true,
    examples: [
      ['svc users name o9cq80x1y2z3@im.wechat Mum', 'From now on: svc send Mum "Hello!"'],
      ['svc users name Mum --clear', 'Show the id again'],
    ],
  },
  library: { positionals: ['user_id', 'name'] },
  run: ({ users }, request) => users.name(request),
})
