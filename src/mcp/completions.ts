/**
 * Completions for the arguments of prompts and the variables of URI templates: session names, users, message
 * ids.
 */
import { type McpServer, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { sessionKeyOf } from '../model/session.ts'
import { getConversation } from '../operations/conversations.ts'
import { getMedia } from '../operations/media.ts'
import type { Operation } from '../operations/operation.ts'
import { mayCall } from '../operations/rights.ts'
import { verbs } from '../operations/tools.ts'
import { listUsers } from '../operations/users.ts'
import { callOperation, type McpContext } from './context.ts'
import { promptOperations } from './prompts.ts'
import { readableSessions } from './resources.ts'
import { conversationTemplate, mediaTemplate, usersTemplate } from './uris.ts'

/** The other arguments that are already filled in. */
type FilledArguments = Readonly<Record<string, string>>
interface Completer {
  /** The operation that finds the values. */
  readonly reads: Pick<Operation, 'name' | 'right'>
  /** Returns possible values of an argument, the likeliest first. */
  find(context: McpContext, given: FilledArguments): Promise<string[]>
}

const sessionNames: Completer = {
  reads: verbs.sessions,
  find: async context =>
    readableSessions(await callOperation(context, verbs.sessions, {})).map(({ name }) => name),
}

/** Ids and names of users, latest writer first: of the session that is filled in, else of all sessions. */
const users: Completer = {
  reads: listUsers,
  async find(context, { session }) {
    const found = await callOperation(context, listUsers, { session: session || undefined }).catch(() => [])
    return [
      ...new Set(found.flatMap(({ user_id, name }) => (name === undefined ? [user_id] : [user_id, name]))),
    ]
  },
}

const listMessagesWithMedia = async (context: McpContext) =>
  (await callOperation(context, verbs.history, { limit: 200 })).messages.filter(({ items }) =>
    items.some(item => item.has_media),
  )

const messageIds: Completer = {
  reads: verbs.history,
  find: async context => (await listMessagesWithMedia(context)).map(({ message_id }) => message_id),
}

const items: Completer = {
  reads: verbs.history,
  async find(context, { message_id }) {
    const found = (await listMessagesWithMedia(context)).find(message => message.message_id === message_id)
    return (found?.items ?? []).filter(item => item.has_media).map((_item, index) => String(index))
  },
}

/** A prompt or URI template, whose arguments can be completed. */
interface Completable {
  /** The operations that it calls. */
  readonly calls: readonly Pick<Operation, 'name' | 'right'>[]
  readonly completers: { readonly [Argument in string]?: Completer }
}

/** By `prompt/<name>` or URI template. */
const completables = new Map<string, Completable>([
  ...Object.entries(promptOperations).map(
    ([name, calls]) =>
      [`prompt/${name}`, { calls, completers: { session: sessionNames, user: users } }] as const,
  ),
  [usersTemplate, { calls: [listUsers], completers: { session: sessionNames } }],
  [conversationTemplate, { calls: [getConversation], completers: { session: sessionNames, user: users } }],
  [mediaTemplate, { calls: [getMedia], completers: { message_id: messageIds, item: items } }],
])

/** Maximum number of values in an answer. MCP sets this limit. */
const maxValues = 100

/**
 * Answers `completion/complete` with what the caller may read. Values that start with the text come before
 * those that only contain it.
 */
export function addCompletions(server: McpServer, own: McpContext): void {
  server.server.registerCapabilities({ completions: {} })
  server.server.setRequestHandler('completion/complete', async ({ params }) => {
    const { ref, argument, context } = params
    const key = ref.type === 'ref/prompt' ? `prompt/${ref.name}` : ref.uri
    const completable = completables.get(key)
    if (!completable?.calls.every(operation => mayCall(own.by, operation)))
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is nothing to complete for ${key}`)
    const { completers } = completable
    const completer = Object.hasOwn(completers, argument.name) ? completers[argument.name] : undefined
    if (!completer || !mayCall(own.by, completer.reads))
      return { completion: { values: [], total: 0, hasMore: false } }
    const values = matchesOf(await completer.find(own, context?.arguments ?? {}), argument.value)
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
