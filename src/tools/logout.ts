import { Type } from '@sinclair/typebox'
import { defineTool } from './tool.ts'

export const logout = defineTool({
  name: 'logout',
  title: 'Log a session out',
  effect: 'destroy',
  machineOnly: true,
  description: `Ends a session: polling stops, and its credentials and the right to answer its users are deleted from this machine. Messages stay in the history. To use the account again, log in by QR code; users then have to write first.`,
  input: Type.Object(
    {
      session_name: Type.Optional(
        Type.String({
          maxLength: 200,
          default: '',
          description: 'Name of the session; "" is the default session.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    success: Type.Boolean(),
    session: Type.String({ description: 'The session that was logged out.' }),
  }),
  errors: ['session_not_found', 'store_unavailable'],
  cli: {
    path: ['logout'],
    positionals: ['session_name'],
    short: { session_name: 's' },
    names: { session_name: 'session' },
  },
  examples: [
    {
      summary: 'By name',
      input: { session_name: 'support' },
      output: { success: true, session: 'support' },
    },
  ],
  run: (gateway, input) => gateway.accounts.logout(input.session_name ?? ''),
})
