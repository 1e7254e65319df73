/** Declares `svc users`: lists who has written, and names users. */
import { badArgument } from '../../model/error.ts'
import type { UserWithName } from '../../model/next-step.ts'
import type { KnownUser } from '../../model/session.ts'
import { verbs } from '../../operations/tools.ts'
import { listUsers, nameUser } from '../../operations/users.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { type Column, formatTable } from '../columns.ts'
import { operationCommand } from '../operation-command.ts'
import { describeNext, formatSessions } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands = [
  operationCommand(listUsers, {
    createEmpty: () => [],
    async render(users, again, { input, ask }) {
      if (users.length > 0) return { text: formatUsers(users), note: describeNext(input, users) }
      const { session } = input
      if ((await ask(verbs.sessions, {})).length === 0) return formatSessions([], again)
      const { total } = await ask(verbs.history, { direction: 'received', limit: 1, session })
      if (total === 0) return { note: 'nobody has written yet' }
      return { note: `nobody has written since the login; earlier messages: svc history${again}` }
    },
  }),
  operationCommand(nameUser, {
    addOptions: command => command.option('--clear', 'Remove the name.'),
    changeMade: 'named',
    toInput(typed, command) {
      if (command.opts().clear !== true) return typed
      if (typed.name) throw badArgument('--clear', 'takes no name beside it')
      return { ...typed, name: '' }
    },
    render: ({ name, namesakes, session, user_id }) => ({
      text: [
        `${oneLine(session)}: ${oneLine(user_id)} ${name === undefined ? 'has no name' : `is ${oneLine(name)}`}`,
      ],
      note: namesakes && describeNamesakes(namesakes),
    }),
  }),
]

const describeNamesakes = (users: readonly UserWithName[]) =>
  `Other users with this name: ${users.map(user => oneLine(`${user.user_id} of ${user.session}`)).join(', ')}. To tell them apart, add the session (-s) or use the id.`

/** Formats the table of users who have written, with how many answers each may still get. */
function formatUsers(users: readonly KnownUser[]): string {
  const columns: Column<KnownUser>[] = [
    ['USER', ({ name, user_id }) => oneLine(name ?? user_id)],
    ['SESSION', 'session'],
    ['LAST WROTE', ({ last_received }) => formatLocalTime(last_received)],
    ['ANSWERS LEFT', 'remaining'],
    ['UNTIL', user => formatLocalTime(user.remaining === 0 ? undefined : user.window_expires_at)],
  ]
  if (users.some(({ name }) => name !== undefined))
    columns.push(['ID', ({ name, user_id }) => (name === undefined ? '' : oneLine(user_id))])
  return formatTable(users, columns)
}
