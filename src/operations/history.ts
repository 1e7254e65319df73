import type { Gateway } from '../gateway/gateway-api.ts'
import { badArgument } from '../model/error.ts'
import { Direction, HistoryPage, MessageKind } from '../model/message.ts'
import { normalizeSessionName, sessionKeyOf, sessionNotFoundError } from '../model/session.ts'
import { closed, optional, withDescription } from '../model/shapes.ts'
import { isUserId } from '../model/user-id.ts'
import { exampleReceived, exampleSent, exampleUser } from './example-values.ts'
import { defineTool } from './operation.ts'
import { Offset, RowId, Time } from './schema.ts'

/** Filters for messages, and which page of the matches to return. */
export const HistoryInput = closed({
  user_id: optional.bounded(
    512,
    'Id of a user, or the name that people gave to the user: only messages from or to this user.',
    {
      examples: [exampleUser],
    },
  ),
  bot_id: optional.bounded(512, 'Only messages of this bot account.'),
  session: optional.bounded(200, 'Only messages of this session.'),
  msg_type: optional(withDescription(MessageKind, 'Kind of the first item.')),
  direction: optional(withDescription(Direction, 'received: from users.')),
  since: optional(
    Time('From this time on: Unix milliseconds or ISO 8601, no zone = UTC.', {
      examples: [1767225600000, '2026-01-01T00:00:00+08:00'],
    }),
  ),
  until: optional(
    Time('Before this time, in the same forms.', {
      examples: ['2026-01-02'],
    }),
  ),
  text_contains: optional.bounded(
    1000,
    'Part of the text, of a file name or of the transcript of a voice message, taken literally; the case of A to Z does not matter.',
    { examples: ['你好', '100%'] },
  ),
  limit: optional.between(1, 200, 'Most messages to return.', { default: 50 }),
  offset: optional(Offset('Matches to skip, from the newest; `before` pages better.')),
  before: optional(
    RowId(
      'Row id: only messages before it. Pass `next_before` of the previous page, which stays right while new messages arrive.',
    ),
  ),
})

export const history = defineTool({
  name: 'history',
  title: 'Search message history',
  effect: 'read',
  right: 'history',
  description: `Searches old conversations: finds stored messages (chat history) of WeChat (Weixin, 微信), received and sent, newest first. All filters must match.

Only messages that passed through this service, for a limited time (30 days and 100,000 messages unless configured): WeChat offers bots no history of its own.`,
  input: HistoryInput,
  output: HistoryPage,
  errors: ['session_not_found', 'rate_limited'],
  cli: {
    path: ['history'],
    positionals: ['text_contains'],
    short: { user_id: 'u', session: 's', limit: 'n' },
    names: { user_id: 'user', bot_id: 'bot', msg_type: 'type', text_contains: 'text' },
    about:
      'The newest that match are printed in the order of the conversation; with --json newest first. A message that waited before it was sent stands at the time when it was written. The end of the output says how to see older messages.',
    addsExamples: true,
    examples: [['svc history -u Mum --since yesterday', 'The messages since yesterday']],
    help: {
      before: 'Row id: only messages before it. The end of the output names the one for the next page.',
    },
  },
  examples: [
    {
      summary: 'The newest messages with one user',
      input: { user_id: exampleUser, limit: 2 },
      output: {
        messages: [exampleSent, exampleReceived],
        total: 42,
        total_is_lower_bound: false,
        limit: 2,
        offset: 0,
        next_before: 42,
      },
    },
    {
      summary: 'A word in what users wrote on one day',
      input: { text_contains: '你好', direction: 'received', since: '2026-01-01', until: '2026-01-02' },
      output: {
        messages: [exampleReceived],
        total: 1,
        total_is_lower_bound: false,
        limit: 50,
        offset: 0,
      },
    },
  ],
  async run(gateway, { limit = 50, offset = 0, ...filters }, { signal, startFitCheck }) {
    const { since, until } = filters
    if (since !== undefined && until !== undefined && since > until)
      throw badArgument('until', 'expected a time after since')
    return getPage(gateway, { ...filters, limit, offset }, signal, startFitCheck?.())
  },
})

/**
 * Returns a page of messages. Fails for an unknown session or name of a user: an empty page for a misspelt
 * name would look like a session or user without messages.
 *
 * @throws SvcError same as `History.page`; `session_not_found`; `invalid_arguments` for a name that no user
 *   has
 */
export async function getPage(
  gateway: Gateway,
  ...args: Parameters<Gateway['history']['page']>
): Promise<HistoryPage> {
  const page = await gateway.history.page(...args)
  const [{ session, user_id }] = args
  if (page.total > 0) return page
  if (session !== undefined) await resolveSessionName(gateway, session)
  if (user_id !== undefined && !isUserId(user_id)) await gateway.users.list({ user_id })
  return page
}

/**
 * Returns the name of a session in its own spelling. Also finds a session that was logged out or renamed, if
 * it has left messages.
 *
 * @throws SvcError `session_not_found`
 */
export async function resolveSessionName(gateway: Gateway, text: string): Promise<string> {
  const name = normalizeSessionName(text)
  const session = (await gateway.accounts.list()).find(
    ({ name: other }) => sessionKeyOf(other) === sessionKeyOf(name),
  )
  if (session) return session.name
  const { total } = await gateway.history.page({ session: name, limit: 1, offset: 0 })
  if (total === 0) throw sessionNotFoundError(name)
  return name
}
