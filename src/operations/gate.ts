/**
 * The one way into an operation, for every door: who calls is asked whether they may, the input is checked, the operation runs,
 * and whatever goes wrong leaves as an error of the closed catalogue.
 */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Log } from '../platform/log.ts'
import type { Operation } from './operation.ts'
import { holds } from './rights.ts'

/**
 * What the operation answers to this input.
 *
 * @throws SvcError always of the catalogue: `forbidden` for a caller without the right; a bug leaves as `internal` with an id
 *   that the log carries too
 */
export async function invoke<O>(
  operation: Pick<Operation, 'name' | 'parse' | 'right'> & {
    run(gateway: Gateway, input: Record<string, unknown>, call: Call): Promise<O>
  },
  gateway: Gateway,
  input: unknown,
  call: Call,
  log: Log,
): Promise<O> {
  if (!holds(call.by.kind, operation.right))
    throw new SvcError('forbidden', `${operation.name} needs the right "${operation.right}"`)
  try {
    return await operation.run(gateway, operation.parse(input), call)
  } catch (error) {
    throw toSvcError(error, log, { tool: operation.name, signal: call.signal })
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
