/** Lines of the audit log for calls that change something, and for calls that a key may not make. */
import type { Gateway } from '../gateway/gateway-api.ts'
import type { Call } from '../model/call.ts'
import type { SvcError } from '../model/error.ts'
import { formatPrincipal, keyIdOf, type Principal } from '../model/principal.ts'
import { isPlainUserId } from '../model/user-id.ts'
import { escapeControls } from '../platform/escape-controls.ts'
import { withoutUndefined } from '../platform/fields.ts'
import type { Log } from '../platform/log.ts'
import type { NewAuditLine } from '../storage/audit.ts'

/** Keys of inputs and outputs with the subject of a line: ids, names of sessions, the hash of an erased user. */
const subjectKeys: readonly string[] = [
  'id',
  'session',
  'session_name',
  'old_name',
  'user_id',
  'webhook',
  'login_id',
  'upload_id',
  'hash',
]

/**
 * Keys with a user. The id is written and never a name: when a person is erased, only the present name is known, and
 * an earlier one would stay.
 */
const userKeys: readonly string[] = ['user', 'user_id', 'to']

/** A call whose input was checked. */
interface AuditedCall<O> {
  readonly name: string
  readonly subject?: readonly string[] | undefined
  readonly input: Readonly<Record<string, unknown>>
  /** Returns what the line has in addition. */
  findDetails?(): Promise<Partial<NewAuditLine>>
  /** What a call that only looks for an end is asked after it ran. */
  readonly isEnd?: ((output: O) => boolean) | undefined
  run(): Promise<O>
  asSvcError(error: unknown): SvcError
}

/**
 * Runs a call between the two writes of its audit line. The line is there before the call, so a crash leaves one
 * without an outcome. A call that looks for an end has a line after it. If the line cannot be written, a call with a key fails, and a call of the owner goes on.
 */
export async function runAudited<O>(
  { name, subject: keys = subjectKeys, input, findDetails, isEnd, run, asSvcError }: AuditedCall<O>,
  { audit, clock }: Pick<Gateway, 'audit' | 'clock'>,
  call: Call,
  log: Log,
): Promise<O> {
  if (isEnd) {
    const output = await run()
    if (!isEnd(output)) return output
    return runAudited(
      { name, subject: keys, input, run: async () => output, asSvcError },
      { audit, clock },
      call,
      log,
    )
  }
  const details = await findDetails?.()
  const subject = details?.subject ?? subjectOf(input, keys)
  const line = await audit.add(toLine(name, call, clock.now(), { ...details, subject })).catch(error => {
    if (keyIdOf(call.by) !== undefined) throw error
    log.warn('no line in the audit log', { tool: name, error })
    return undefined
  })
  const settle = async (outcome: string, made?: string) => {
    if (line === undefined) return
    await audit
      .settle(line, outcome, made)
      .catch(error => log.warn('no outcome in the audit log', { tool: name, error }))
  }
  try {
    const output = await run()
    // The output has the id of a new thing, or of a user that the input names.
    const made = subjectOf(Object(output), [...subjectKeys, 'user'])
    await settle('done', hasUserName(input, keys) ? (made ?? subject) : (subject ?? made))
    return output
  } catch (error) {
    const svcError = asSvcError(error)
    await settle(svcError.code)
    throw svcError
  }
}

const minuteMs = 60_000
/** Denied calls of a key to one operation that get a line each, in a minute. */
const maxDeniedLines = 20
/** Calls in this minute that have lines together, by operation. */
const counted = new WeakMap<Principal, Map<string, number>>()

/** Input keys with the subject of a denied call, which has no output. */
const deniedKeys: readonly string[] = [
  'session',
  ...subjectKeys.filter(key => key !== 'session'),
  'user',
  'to',
]
/** The input of a denied call was not checked: it may be too long, or have characters that the store rejects. */
const deniedSubjectOf = (input: unknown): string | undefined => {
  const given = subjectOf(Object(input), deniedKeys)
  return given && escapeControls(given.slice(0, 200))
}

/** Writes the audit line of a call that a key may not make, or for a session that the key may not see. */
export function auditDenial(
  operation: string,
  input: unknown,
  gateway: Pick<Gateway, 'audit' | 'clock'>,
  call: Call,
  log: Log,
  outcome = 'denied',
): Promise<void> {
  return addCounted(operation, { outcome }, deniedSubjectOf(input), maxDeniedLines, gateway, call, log)
}

/** Writes the audit line of a call that a key makes often. */
export async function auditCounted(
  { name, subject = [] }: { name: string; subject?: readonly string[] | undefined },
  input: Readonly<Record<string, unknown>>,
  gateway: Pick<Gateway, 'audit' | 'clock'>,
  call: Call,
  log: Log,
): Promise<void> {
  const line = { outcome: 'done', subject: subjectOf(input, subject) }
  // What a topic's own signature sends is the topic's.
  if (call.by.kind !== 'open') await addCounted(name, line, undefined, 1, gateway, call, log)
}

/**
 * Writes a line. If there are many such in a minute, the last ones get one with their number at its end: otherwise a key could
 * fill the disk.
 *
 * @param subject of this line alone
 */
async function addCounted(
  operation: string,
  line: Pick<NewAuditLine, 'outcome' | 'subject'>,
  subject: string | undefined,
  maxLines: number,
  { audit, clock }: Pick<Gateway, 'audit' | 'clock'>,
  call: Call,
  log: Log,
): Promise<void> {
  const { by } = call
  if (keyIdOf(by) === undefined) return
  const write = (more: { count?: number; subject?: string | undefined }) =>
    audit
      .add(toLine(operation, call, clock.now(), { ...line, ...more }))
      .catch(error => log.warn('no line in the audit log', { tool: operation, error }))
  const counts = counted.get(by) ?? new Map<string, number>()
  counted.set(by, counts)
  const kind = [operation, line.outcome, line.subject].join(' ')
  const count = (counts.get(kind) ?? 0) + 1
  counts.set(kind, count)
  const writeLater = async () => {
    await clock.sleep(minuteMs, by.ended)
    const more = (counts.get(kind) ?? 0) - maxLines
    counts.delete(kind)
    if (more > 0) await write({ count: more })
  }
  if (count === 1) void writeLater()
  if (count <= maxLines) await write(subject === undefined ? {} : { subject })
}

const toLine = (
  operation: string,
  { address, by, requestId }: Call,
  at: number,
  more: Partial<NewAuditLine>,
) =>
  withoutUndefined({ at, principal: formatPrincipal(by), operation, address, request_id: requestId, ...more })

function subjectOf(from: Readonly<Record<string, unknown>>, keys: readonly string[]): string | undefined {
  const isName = (value: unknown) => typeof value === 'number' || (typeof value === 'string' && value !== '')
  const named = keys
    .filter(key => !hasUserName(from, [key]))
    .map(key => from[key])
    .filter(isName)
  return named.length > 0 ? named.join(' ') : undefined
}

const hasUserName = (from: Readonly<Record<string, unknown>>, keys: readonly string[]): boolean =>
  keys.some(key => {
    const value = from[key]
    return userKeys.includes(key) && typeof value === 'string' && !isPlainUserId(value)
  })
