import { Type } from '@sinclair/typebox'
import { closed } from '../model/shapes.ts'
import { defineTool } from './operation.ts'

const name = (description: string) => Type.String({ minLength: 1, maxLength: 200, description })

export const renameSession = defineTool({
  name: 'rename_session',
  title: 'Rename a session',
  effect: 'write',
  right: 'rename',
  machineOnly: true,
  description: `Gives a session another name. It stays connected, keeps its messages and users, and stays the default if it was. Names are unique, ignoring case.`,
  input: closed({
    old_name: name('Current name.'),
    new_name: name('1 to 64 letters of any script, digits, ".", "_", "-", no leading dot.'),
  }),
  output: Type.Object({ success: Type.Boolean(), old_name: Type.String(), new_name: Type.String() }),
  errors: ['session_not_found', 'session_exists'],
  cli: {
    path: ['sessions', 'rename'],
    positionals: ['old_name', 'new_name'],
    names: { old_name: 'session', new_name: 'new-name' },
  },
  examples: [
    {
      summary: 'A better name',
      input: { old_name: 'support', new_name: '客服' },
      output: { success: true, old_name: 'support', new_name: '客服' },
    },
  ],
  run: (gateway, input) => gateway.accounts.rename(input.old_name, input.new_name),
})
