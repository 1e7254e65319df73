/**
 * The gate: every door calls operations through `invoke`. It checks the right of the caller and the input,
 * runs the operation, and turns every failure into an error of the catalogue (`model/error.ts`).
 */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import type { Log } from '../platform/log.ts'
import type { Operation } from './operation.ts'
import { hasRight } from './rights.ts'

/**
 * Runs an operation and returns its output.
 *
 * @throws SvcError `forbidden` for a caller without the right; `internal` with an id for a bug, which the
 *   log has with the same id; the errors of the operation
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
  if (!hasRight(call.by.kind, operation.right))
    throw new SvcError('forbidden', `${operation.name} needs the right "${operation.right}"`)
  try {
    return await operation.run(gateway, operation.parse(input), call)
  } catch (error) {
    throw toSvcError(error, log, { tool: operation.name, signal: call.signal })
  }
}

/**
 * Converts a thrown value to an error that callers may see. A value that is not an SvcError is a bug: it is
 * logged with its stack and an id, and the caller sees only the id. An abort is not a bug: the service stops,
 * or the caller has left.
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
      return new SvcError('shutting_down', 'The call was aborted', { cause: error })
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
