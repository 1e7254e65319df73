/**
 * Completions for the arguments of prompts and the variables of URI templates: session names, users, message
 * ids.
 */
import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { sessionKey } from '../model/session.ts'
import { verbs } from '../operations/tools.ts'
import { listUsers } from '../operations/users.ts'
import { ask, type McpContext } from './context.ts'
import { readable } from './resources.ts'
import { conversationTemplate, mediaTemplate, usersTemplate } from './uris.ts'

/** The other arguments that are already filled in. */
type Given = Readonly<Record<string, string>>
/** Returns possible values of an argument, the likeliest first. */
type Completer = (context: McpContext, given: Given) => Promise<string[]>

const sessions: Completer = async context =>
  readable(await ask(context, verbs.sessions, {})).map(({ name }) => name)

/** Ids and names of users, latest writer first: of the session that is filled in, else of all sessions. */
const users: Completer = async (context, { session }) => {
  const found = await ask(context, listUsers, { session: session || undefined }).catch(() => [])
  return [
    ...new Set(found.flatMap(({ user_id, name }) => (name === undefined ? [user_id] : [user_id, name]))),
  ]
}

const withMedia = async (context: McpContext) =>
  (await ask(context, verbs.history, { limit: 200 })).messages.filter(({ items }) =>
    items.some(item => item.has_media),
  )

const messageIds: Completer = async context => (await withMedia(context)).map(({ message_id }) => message_id)

const items: Completer = async (context, { message_id }) => {
  const found = (await withMedia(context)).find(message => message.message_id === message_id)
  return (found?.items ?? []).filter(item => item.has_media).map((_item, index) => String(index))
}

/** Completers by `prompt/<name>` or URI template, and then by argument. */
const completers = new Map<string, { readonly [Argument in string]?: Completer }>([
  ['prompt/answer_newest', { session: sessions, user: users }],
  ['prompt/summarise_conversation', { session: sessions, user: users }],
  [usersTemplate, { session: sessions }],
  [conversationTemplate, { session: sessions, user: users }],
  [mediaTemplate, { message_id: messageIds, item: items }],
])

/** Maximum number of values in an answer. MCP sets this limit. */
const mostValues = 100

/** Answers `completion/complete`. Values that start with the text come before those that only contain it. */
export function addCompletions(server: McpServer, own: McpContext): void {
  server.server.registerCapabilities({ completions: {} })
  server.server.setRequestHandler('completion/complete', async ({ params }) => {
    const { ref, argument, context } = params
    const key = ref.type === 'ref/prompt' ? `prompt/${ref.name}` : ref.uri
    const byArgument = completers.get(key)
    if (!byArgument)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is nothing to complete for ${key}`)
    const completer = Object.hasOwn(byArgument, argument.name) ? byArgument[argument.name] : undefined
    if (!completer) return { completion: { values: [], total: 0, hasMore: false } }
    const values = matching(await completer(own, context?.arguments ?? {}), argument.value)
    const hasMore = values.length > mostValues
    return { completion: { values: values.slice(0, mostValues), total: values.length, hasMore } }
  })
}

function matching(values: readonly string[], text: string): string[] {
  const searched = sessionKey(text)
  const matches = values
    .map(value => ({ value, at: value.toLowerCase().indexOf(searched) }))
    .filter(({ at }) => at >= 0)
  return [...matches.filter(({ at }) => at === 0), ...matches.filter(({ at }) => at > 0)].map(
    ({ value }) => value,
  )
}
