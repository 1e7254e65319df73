/**
 * The nine tools, in the order of the docs: a new one is a file beside this and a line here. And the one way into a tool, for
 * every door: parse, run, and turn whatever goes wrong into the closed catalogue.
 */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Log } from '../platform/log.ts'
import { download } from './download.ts'
import { history } from './history.ts'
import { login } from './login.ts'
import { logout } from './logout.ts'
import { recv } from './recv.ts'
import { renameSession } from './rename-session.ts'
import { send } from './send.ts'
import { sessions } from './sessions.ts'
import { setDefault } from './set-default.ts'
import type { Tool } from './tool.ts'

export { type CommandShape, describedFor, type Effect, type Example, type Tool } from './tool.ts'

/** By the names of the library's methods. */
export const verbs = {
  recv,
  send,
  download,
  history,
  sessions,
  login,
  logout,
  renameSession,
  setDefault,
} as const

export const tools: readonly Tool[] = Object.values(verbs)

/**
 * What the tool answers to this input.
 *
 * @throws SvcError always of the catalogue; a bug leaves as `internal` with an id that the log carries too
 */
export async function invoke<O>(
  tool: Pick<Tool, 'name' | 'parse'> & {
    run(gateway: Gateway, input: Record<string, unknown>, call: Call): Promise<O>
  },
  gateway: Gateway,
  input: unknown,
  call: Call,
  log: Log,
): Promise<O> {
  try {
    return await tool.run(gateway, tool.parse(input), call)
  } catch (error) {
    throw toSvcError(error, log, { tool: tool.name, signal: call.signal })
  }
}

/**
 * Any thrown value as an error that may be shown. What is not of the catalogue is a bug: it is logged with its stack
 * under an id, and only the id is shown. An abort is not a bug: the service is stopping, or nobody listens any more.
 */
export function toSvcError(
  error: unknown,
  log: Log,
  context: { tool?: string; signal?: AbortSignal } = {},
): SvcError {
  if (error instanceof SvcError) return error
  if (context.signal?.aborted) {
    const reason: unknown = context.signal.reason
    if (reason instanceof SvcError) return reason
    if (error === reason || (error instanceof Error && error.name === 'AbortError'))
      return new SvcError('shutting_down', 'The call was cut off', { cause: error })
  }
  const id = crypto.randomUUID()
  log.error('unexpected error', {
    id,
    tool: context.tool,
    error,
    stack: error instanceof Error ? error.stack : undefined,
  })
  return new SvcError('internal', `Unexpected error ${id}`, { details: { id }, cause: error })
}
