/** Operations for the data of persons: erase it. */
import { Type } from '@sinclair/typebox'
import { Forgotten } from '../model/person.ts'
import { bounded, closed, optional } from '../model/shapes.ts'
import { exampleUser } from './example-values.ts'
import { defineOperation } from './operation.ts'

export const forgetUser = defineOperation({
  name: 'forget',
  title: 'Erase a user',
  effect: 'destroy',
  right: 'forget',
  // The line must not name the user. Its subject is the hash in the output.
  subject: [],
  description:
    'Erases everything that svc has about a user, in all sessions: messages and events, contexts, names, read marks, queued sends and their files, webhooks that were limited to the user, and the id in keys and in the audit log, where a keyed hash stays. Then it rewrites the message store, so that free pages have nothing of it either; writers wait meanwhile, about a second for 100 MB. It cannot be undone. It does not reach backups and other places that the answer lists, files that were downloaded or uploaded, what is in conversations with other users, and WeChat itself. If the user writes again, the conversation begins with that message. If the call fails, call again: it completes what is left.',
  input: closed({
    user: bounded(512, 'Id or name of the user.', { examples: [exampleUser] }),
    rewrite: optional(
      Type.Boolean({
        description:
          'On PostgreSQL: write the tables anew (VACUUM FULL), so that their files have nothing of the user either. Nothing can use a table meanwhile, about a second for 100 MB, and the disk needs room for a copy of the largest one. Without it, VACUUM lets their space be used again. A data directory is always rewritten.',
        default: false,
      }),
    ),
  }),
  output: Forgotten,
  examples: [
    {
      summary: 'A user with one queued send',
      input: { user: exampleUser },
      output: {
        hash: 'user:0b9c2f4e7d1a3658',
        messages: 42,
        sends: 1,
        webhooks: [],
        keys: [],
        agents: [],
        backups: [{ path: '/backups/svc-20261126T203000Z.tar', created_at: 1795725000000 }],
        remains: ['what the receivers of webhooks got: wh_4f1d0c'],
      },
    },
  ],
  rest: { route: 'POST /forget', tag: 'messages' },
  cli: {
    path: ['forget'],
    async question({ events, people }, { user: given }) {
      const { user = '' } = await events.resolveFilter({ user: String(given) })
      const agents = await people.listOwned(user)
      const owned = agents.length > 0 ? ` Agents that nobody owns then: ${agents.join(', ')}.` : ''
      return `This erases all messages with ${user}, in all sessions, and cannot be undone.${owned} Erase them? [y/N]`
    },
    addsExamples: true,
    examples: [['svc forget Mum', 'The same by name; it asks first']],
  },
  positionals: ['user'],
  run: ({ people }, { user, rewrite }) => people.forget(user, rewrite),
})
