/**
 * The gate: every door calls operations through `invoke`. It checks the right of the caller and the input,
 * writes the line of the audit log, runs the operation, and turns every failure into an error of the
 * catalogue (`model/error.ts`).
 */
import type { Gateway } from '../gateway/gateway-api.ts'
import { viewFor } from '../gateway/scoped.ts'
import type { Right } from '../model/access.ts'
import type { Call } from '../model/call.ts'
import { SvcError } from '../model/error.ts'
import { formatList } from '../platform/format.ts'
import type { Log } from '../platform/log.ts'
import { auditCounted, auditDenial, runAudited } from './audited.ts'
import type { Operation, RestShape } from './operation.ts'
import { hasRight, mayCall, rightsOf } from './rights.ts'

/** The part of an operation that the gate needs. */
type InvokedOperation = Pick<
  Operation,
  | 'name'
  | 'parse'
  | 'right'
  | 'furtherRights'
  | 'effect'
  | 'audited'
  | 'subject'
  | 'findAuditDetails'
  | 'poll'
>

/**
 * Runs an operation and returns its output.
 *
 * @throws SvcError `forbidden` for a caller without the right; `internal` with an id for a bug, which the
 *   log has with the same id; the errors of the operation
 */
export async function invoke<O>(
  operation: InvokedOperation & {
    run(gateway: Gateway, input: Record<string, unknown>, call: Call): Promise<O>
  },
  gateway: Gateway,
  input: unknown,
  call: Call,
  log: Log,
): Promise<O> {
  const { by } = call
  const deny = async (needed: readonly Right[]) => {
    await auditDenial(operation.name, input, gateway, call, log)
    return denialOf(operation.name, needed)
  }
  if (!mayCall(by, operation)) throw await deny(rightsOf(operation))
  const { audited = operation.effect !== 'read' } = operation
  const asSvcError = (error: unknown) =>
    toSvcError(error, log, { tool: operation.name, signal: call.signal, requestId: call.requestId })
  try {
    by.ended?.throwIfAborted()
    const parsed = operation.parse(input)
    const further = operation.furtherRights?.(parsed).map(right => rightsOf({ right })) ?? []
    const missing = further.find(oneOf => !oneOf.some(right => hasRight(by, right)))
    if (missing !== undefined) throw await deny(missing)
    const view = viewFor(gateway, by)
    const run = () => operation.run(view, parsed, call)
    const findDetails = async () => operation.findAuditDetails?.(view, parsed, call) ?? {}
    const { poll } = operation
    const isEnd = poll && (await poll.isOne(view, parsed, call)) ? poll.isEnd : undefined
    const output =
      audited === true
        ? await runAudited(
            { ...operation, input: parsed, findDetails, isEnd, run, asSvcError },
            gateway,
            call,
            log,
          )
        : await run()
    if (audited === 'counted') await auditCounted(operation, parsed, gateway, call, log)
    // The key ended while the call waited.
    by.ended?.throwIfAborted()
    return output
  } catch (error) {
    const svcError = asSvcError(error)
    // The session may exist outside the scope of the caller, which the answer does not show.
    if (svcError.code === 'session_not_found' && audited !== true)
      await auditDenial(operation.name, input, gateway, call, log, svcError.code)
    throw svcError.code === 'session_not_found' ? await withSessionNames(svcError, gateway, call) : svcError
  }
}

/** Adds the names of the sessions that the caller may see to the error for another one. */
async function withSessionNames(error: SvcError, gateway: Gateway, { by }: Call): Promise<SvcError> {
  const may = hasRight(by, 'sessions')
  const sessions = may
    ? await viewFor(gateway, by)
        .accounts.list()
        .catch(() => [])
    : []
  if (sessions.length === 0) return error
  const names = formatList(
    sessions.map(({ name }) => name),
    10,
  )
  const details = { ...error.details, sessions: sessions.map(({ name }) => name) }
  return new SvcError(error.code, `${error.problem}, only ${names}`, { ...error.options, details })
}

/** Returns the headers of an answer, which have only what its caller may see. */
export const answerHeadersOf = (
  { answerHeaders }: Pick<RestShape, 'answerHeaders'>,
  gateway: Gateway,
  { by }: Pick<Call, 'by'>,
  input: unknown,
  output: unknown,
): ReturnType<NonNullable<RestShape['answerHeaders']>> | undefined =>
  answerHeaders?.(viewFor(gateway, by), input, output)

const denialOf = (operation: string, needed: readonly Right[]): SvcError =>
  new SvcError('forbidden', `${operation} needs the right "${needed.join('" or "')}"`, {
    hint: 'Ask the owner of the service for a key with that right.',
    details: { right: needed[0] },
  })

/**
 * Converts a thrown value to an error that callers may see. A value that is not an SvcError is a bug: it is
 * logged with its stack and an id, and the caller sees only the id. An abort is not a bug: the service stops,
 * or the caller has left.
 */
export function toSvcError(
  error: unknown,
  log: Log,
  context: { tool?: string; signal?: AbortSignal; requestId?: string | undefined } = {},
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
    request_id: context.requestId,
    tool: context.tool,
    error,
    stack: error instanceof Error ? error.stack : undefined,
  })
  return new SvcError('internal', `Unexpected error ${id}`, { details: { id }, cause: error })
}
