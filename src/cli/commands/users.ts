/** `svc users`: who has written, and what they are called. */
import { badArgument } from '../../model/error.ts'
import type { Bearer } from '../../model/next-step.ts'
import type { KnownUser } from '../../model/session.ts'
import { localTime } from '../../platform/format.ts'
import { table } from '../columns.ts'
import { resultCommand, wordCommand } from '../result.ts'
import { note, type Shown, sessionsText } from '../show.ts'
import { colours, oneLine } from '../terminal.ts'

export const commands = [
  wordCommand({
    words: 'users',
    summary: 'list the users who have written, and the answers left',
    about:
      'Lists the users who have written to the bot since its login, latest first, with the number of answers left and the time until which they can be sent. WeChat lets a bot answer about 10 times within about 24 hours after a user wrote.',
    takes: command => command.argument('[session]', 'Only users of this session.'),
    examples: [['svc users', 'The users that svc send can reach now']],
    reads: true,
    work: ({ users }, session) => users.list(session ? { session } : {}),
    nothing: [],
    async show(users, again, { typed: session, gateway }) {
      if (users.length > 0) return usersText(users)
      if ((await gateway.accounts.list()).length === 0) return sessionsText([], again)
      const before = { direction: 'received', limit: 1, offset: 0, ...(session && { session }) } as const
      const { total } = await gateway.history.page(before)
      const said =
        total === 0
          ? 'nobody has written yet'
          : `nobody has written since the login; who did before: svc history${again}`
      return { text: '', note: note(said) }
    },
  }),
  resultCommand({
    words: 'users name',
    summary: 'give a user a name',
    about:
      'Gives a user a name that svc shows instead of the id, and that svc send and svc history accept. A name is unique in its session and contains no "@". It is kept when the session is logged out. Agents can read names but not set them.',
    takes: command =>
      command
        .argument('<user>', 'Id or present name of the user.')
        .argument('[name]', 'New name; an empty one removes the name.')
        .option(
          '-s, --session <session>',
          'Session of the user; without it the one that the user last wrote to.',
        )
        .option('--clear', 'Remove the name.'),
    examples: [
      ['svc users name o9cq80x1y2z3@im.wechat Mum', 'From now on: svc send Mum "Hello!"'],
      ['svc users name Mum --clear', 'Show the id again'],
    ],
    typed(command) {
      const { session, clear } = command.opts<{ session?: string; clear?: boolean }>()
      const [user_id = '', name = clear ? '' : undefined] = command.args
      if (name === undefined) throw badArgument('<name>', 'missing; give a name, or --clear')
      if (clear && name !== '') throw badArgument('--clear', 'takes no name beside it')
      return { user_id, name, session }
    },
    work: ({ users }, request) => users.name(request),
    done: 'named',
    show: ({ name, namesakes, session, user_id }) => ({
      text: `${oneLine(session)}: ${oneLine(user_id)} ${name === undefined ? 'has no name' : `is ${oneLine(name)}`}\n`,
      ...(namesakes && { note: note(sharedText(namesakes)) }),
    }),
  }),
]

const sharedText = (users: readonly Bearer[]) =>
  `Has this name too: ${users.map(one => oneLine(`${one.user_id} of ${one.session}`)).join(', ')}. With it say of which session (-s), or give the id.`

/** The table of those who have written, and what may be answered. */
function usersText(users: readonly KnownUser[]): Shown {
  const isAnyNamed = users.some(({ name }) => name !== undefined)
  const rows = users.map(user => [
    oneLine(user.name ?? user.user_id),
    oneLine(user.session),
    localTime(user.last_received),
    String(user.remaining),
    user.remaining === 0 ? '–' : localTime(user.window_expires_at),
    ...(isAnyNamed ? [user.name === undefined ? '' : oneLine(user.user_id)] : []),
  ])
  const heads = ['USER', 'SESSION', 'LAST WROTE', 'ANSWERS LEFT', 'UNTIL', ...(isAnyNamed ? ['ID'] : [])]
  return { text: table(heads, rows, colours.bold) }
}
