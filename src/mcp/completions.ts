/**
 * Completions for the arguments of prompts and the variables of URI templates: session names, users, message
 * ids.
 */
import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { sessionKeyOf } from '../model/session.ts'
import { verbs } from '../operations/tools.ts'
import { listUsers } from '../operations/users.ts'
import { callOperation, type McpContext } from './context.ts'
import { readableSessions } from './resources.ts'
import { conversationTemplate, mediaTemplate, usersTemplate } from './uris.ts'

/** The other arguments that are already filled in. */
type FilledArguments = Readonly<Record<string, string>>
/** Returns possible values of an argument, the likeliest first. */
type Completer = (context: McpContext, given: FilledArguments) => Promise<string[]>

const completeSessions: Completer = async context =>
  readableSessions(await callOperation(context, verbs.sessions, {})).map(({ name }) => name)

/**
 * Returns ids and names of users, latest writer first: of the session that is filled in, else of all
 * sessions.
 */
const completeUsers: Completer = async (context, { session }) => {
  const found = await callOperation(context, listUsers, { session: session || undefined }).catch(() => [])
  return [
    ...new Set(found.flatMap(({ user_id, name }) => (name === undefined ? [user_id] : [user_id, name]))),
  ]
}

const listMessagesWithMedia = async (context: McpContext) =>
  (await callOperation(context, verbs.history, { limit: 200 })).messages.filter(({ items }) =>
    items.some(item => item.has_media),
  )

const completeMessageIds: Completer = async context =>
  (await listMessagesWithMedia(context)).map(({ message_id }) => message_id)

const completeItems: Completer = async (context, { message_id }) => {
  const found = (await listMessagesWithMedia(context)).find(message => message.message_id === message_id)
  return (found?.items ?? []).filter(item => item.has_media).map((_item, index) => String(index))
}

/** Completers by `prompt/<name>` or URI template, and then by argument. */
const completers = new Map<string, { readonly [Argument in string]?: Completer }>([
  ['prompt/answer_newest', { session: completeSessions, user: completeUsers }],
  ['prompt/summarise_conversation', { session: completeSessions, user: completeUsers }],
  [usersTemplate, { session: completeSessions }],
  [conversationTemplate, { session: completeSessions, user: completeUsers }],
  [mediaTemplate, { message_id: completeMessageIds, item: completeItems }],
])

/** Maximum number of values in an answer. MCP sets this limit. */
const maxValues = 100

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
    const values = matchesOf(await completer(own, context?.arguments ?? {}), argument.value)
    const hasMore = values.length > maxValues
    return { completion: { values: values.slice(0, maxValues), total: values.length, hasMore } }
  })
}

function matchesOf(values: readonly string[], text: string): string[] {
  const searched = sessionKeyOf(text)
  const matches = values
    .map(value => ({ value, at: value.toLowerCase().indexOf(searched) }))
    .filter(({ at }) => at >= 0)
  return [...matches.filter(({ at }) => at === 0), ...matches.filter(({ at }) => at > 0)].map(
    ({ value }) => value,
  )
}
