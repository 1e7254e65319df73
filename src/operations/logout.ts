import { Type } from '@sinclair/typebox'
import { badArgument } from '../model/error.ts'
import { sessionKeyOf, sessionNotFoundError } from '../model/session.ts'
import { closed, optional, text } from '../model/shapes.ts'
import { defineTool } from './operation.ts'

export const logout = defineTool({
  name: 'logout',
  title: 'Log a session out',
  effect: 'destroy',
  right: 'logout',
  machineOnly: true,
  description: `Disconnects (signs out) a WeChat (Weixin, 微信) account and ends its session: its credentials and the right to answer its users are deleted from this machine. Messages stay in the history. To use it again, log in by QR code; users then have to write first.`,
  input: closed({
    session_name: optional(
      Type.String({
        maxLength: 200,
        default: '',
        description: 'Name of the session; "" is the default session.',
      }),
    ),
  }),
  output: Type.Object({ success: Type.Boolean(), session: text('The session that was logged out.') }),
  errors: ['session_not_found'],
  cli: {
    path: ['logout'],
    positionals: ['session_name'],
    short: { session_name: 's' },
    names: { session_name: 'session' },
    help: { session_name: 'Name of the session. Without it: the default session.' },
    about:
      "People report that WeChat may refuse a new code once the credentials are gone: keep a copy of the session's folder if you are not sure. On a terminal it asks first. Without a terminal it needs the name, or --yes for the default session.",
    async reject(gateway, { session_name }) {
      const names = (await gateway.accounts.list()).map(({ name }) => name)
      if (session_name || names.length < 2) return
      throw badArgument('session_name', `expected the name of one of the sessions: ${names.join(', ')}`, {
        next: { action: 'run', command: ['logout', 'NAME'] },
      })
    },
    async question(gateway, { session_name }) {
      const sessions = await gateway.accounts.list()
      const session = sessions.find(({ name, is_default }) =>
        session_name ? sessionKeyOf(name) === sessionKeyOf(String(session_name)) : is_default,
      )
      if (!session) throw sessionNotFoundError(String(session_name || 'default'))
      return `This deletes the credentials of session ${session.name}; WeChat may refuse a new QR code without them. Log it out? [y/N]`
    },
  },
  examples: [
    { summary: 'By name', input: { session_name: 'support' }, output: { success: true, session: 'support' } },
  ],
  run: (gateway, input) => gateway.accounts.logout(input.session_name ?? ''),
})
