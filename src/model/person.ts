/** What is left to say of a person who was erased. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, text } from './shapes.ts'

export const Forgotten = Type.Object({
  hash: text('What stands for the user in the audit log: a keyed hash of the id.'),
  messages: integer('Number of messages whose content was erased.'),
  sends: integer('Number of sends that had not ended. They were cancelled.'),
  webhooks: Type.Array(Type.String(), {
    description: 'Ids of webhooks that were limited to the user. They were removed.',
  }),
  keys: Type.Array(Type.String(), {
    description: 'Ids of keys that were limited to this user, among others or alone. They no longer are.',
  }),
  agents: Type.Array(Type.String(), {
    description:
      'Names of agents that worked for an account of the user. Nobody owns them now: they answer only those who are allowed.',
  }),
  backups: Type.Array(
    Type.Object({
      path: text('The file.'),
      created_at: integer('Unix ms when it was made.'),
    }),
    { description: 'Backups that exist: they were not changed and still have the user.' },
  ),
  remains: Type.Array(Type.String(), {
    description: 'What else may still have the user and was not reached, in words for people.',
  }),
})
export type Forgotten = Static<typeof Forgotten>
