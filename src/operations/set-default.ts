import { Type } from '@sinclair/typebox'
import { bounded, closed, text } from '../model/shapes.ts'
import { defineTool } from './operation.ts'

export const setDefault = defineTool({
  name: 'set_default',
  title: 'Set the default session',
  effect: 'write',
  right: 'set_default',
  machineOnly: true,
  description: `Makes a session the default: for logout without a name, and for messages to users who never wrote. Answers still go out through the session that the user last wrote to.`,
  input: closed({ session_name: bounded(200, 'Name of the session.') }),
  output: Type.Object({ success: Type.Boolean(), default_session: text('The new default session.') }),
  errors: ['session_not_found'],
  cli: {
    path: ['sessions', 'default'],
    positionals: ['session_name'],
    names: { session_name: 'session' },
  },
  examples: [
    {
      summary: 'By name',
      input: { session_name: 'support' },
      output: { success: true, default_session: 'support' },
    },
  ],
  run: (gateway, input) => gateway.accounts.setDefault(input.session_name),
})
