import { Type } from '@sinclair/typebox'
import { Session } from '../model/session.ts'
import { exampleSession } from './example-values.ts'
import { defineTool } from './operation.ts'

export const sessions = defineTool({
  name: 'sessions',
  title: 'List sessions',
  effect: 'read',
  right: 'sessions',
  machineOnly: true,
  description: `Lists the WeChat (Weixin, 微信) bot accounts, called sessions, with their status. Call it to see whether any account is connected (logged in), and when send fails with \`not_connected\` or \`session_expired\`.

\`expired\`: WeChat no longer accepts the login; log the same session in again. \`lapsed\`: WeChat answers but may bring no messages any more. \`muted_since\`: WeChat may have muted the account: it takes what is sent, but users do not see it.`,
  output: Type.Array(Session, { description: 'All sessions, including the default session.' }),
  cli: { path: ['sessions'] },
  examples: [{ summary: 'One connected session', input: {}, output: [exampleSession] }],
  run: gateway => gateway.accounts.list(),
})
