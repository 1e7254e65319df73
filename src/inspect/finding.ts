/** What svc finds when it looks at itself: for `svc doctor`, `svc status` and `svc sessions`, in the same words. */
import { mutedAdvice, type Session } from '../model/session.ts'
import { formatCount, formatLocalTime } from '../platform/format.ts'
import type { FailingTask } from '../platform/tasks.ts'
import type { BackupFailure } from '../storage/backups.ts'
import type { WebhookProblem } from '../storage/inspection.ts'

/**
 * Severity of a finding.
 *
 * - ok: as expected
 * - note: worth knowing, but not a problem
 * - warning: works now, and may fail later
 * - error: does not work, or is open to others
 */
export type Severity = 'ok' | 'note' | 'warning' | 'error'

export interface Finding {
  /** Name of the check, one word for programs. One check may have several findings. */
  check: string
  severity: Severity
  /** The finding in one sentence, without secrets. */
  what: string
  /** A command, or a sentence that says what to do. */
  fix?: string
}

type CreateFinding = (check: string, what: string, fix: string) => Finding

const create =
  (severity: Severity) =>
  (check: string, what: string, fix?: string): Finding => ({ check, severity, what, fix })

/** Create findings. */
export const finding = {
  ok: create('ok') as (check: string, what: string) => Finding,
  note: create('note'),
  warning: create('warning') as CreateFinding,
  error: create('error') as CreateFinding,
}

/** What a check finds: nothing, one finding, or several. */
export type Found = Finding | undefined | false | readonly Found[]

/** Returns the findings in what checks found. */
export const listFindings = (...found: readonly Found[]): Finding[] =>
  found.flatMap(one => (isList(one) ? listFindings(...one) : one || []))

const isList = (found: Found): found is readonly Found[] => Array.isArray(found)

type Doubtful = Pick<
  Session,
  'name' | 'poll_error' | 'failing_since' | 'muted_since' | 'muted_because' | 'suspect_count'
>

/** Returns what may be wrong with a session, besides its status. */
export function findDoubts(session: Doubtful): Finding[] {
  const { failing_since, muted_because, muted_since, name, poll_error, suspect_count = 0 } = session
  const since = (at: number | undefined) => (at === undefined ? '' : ` since ${formatLocalTime(at)}`)
  const why =
    muted_because === 'uploads_refused'
      ? 'it refuses files while texts go'
      : 'it accepts messages without an id, which it used to give'
  const muted = `WeChat may have muted the account of "${name}"${since(muted_since)}: ${why}`
  return listFindings(
    poll_error !== undefined &&
      finding.warning(
        'session',
        `polls of "${name}" fail${since(failing_since)}: ${poll_error}`,
        'If WeChat has a problem, there is nothing to do: svc polls again by itself. Otherwise check the network and the proxy.',
      ),
    muted_since !== undefined
      ? finding.warning('muted', muted, mutedAdvice)
      : suspect_count > 0 &&
          finding.warning(
            'shown',
            `${formatCount(suspect_count, 'message')} of "${name}" in the last 24 hours may not have been shown: WeChat accepted them without an id`,
            'Ask a user whether they arrived. WeChat may show them later, or never: send fewer messages that nobody asked for.',
          ),
  )
}

/** Returns which work in the background of a process fails. */
export const findFailingTasks = (tasks: readonly FailingTask[]): Finding[] =>
  tasks.map(({ error, hint, name, since }) =>
    finding.warning(
      'task',
      `the task ${name} in the background fails since ${formatLocalTime(since)}: ${error}`,
      hint ?? 'Remove the cause: svc tries again by itself. The log of svc has more.',
    ),
  )

/** Returns what is wrong with the work that svc does by itself. @param command formats a command of svc */
export function findFailures(
  webhooks: readonly WebhookProblem[],
  backup: BackupFailure | undefined,
  command: (words: string) => string,
): Finding[] {
  const found = webhooks.map(({ id, since, status, why }) => {
    const isDisabled = status === 'disabled'
    const what = `webhook ${id} ${isDisabled ? 'was disabled' : 'has failed since'} ${formatLocalTime(since)}: ${why}`
    const test = `${command(`webhook test ${id}`)} tries it.`
    return finding.warning(
      'webhook',
      what,
      isDisabled ? `${command(`webhook resume ${id}`)} enables it, ${test}` : test,
    )
  })
  if (backup) {
    const what = `the backup by schedule of ${formatLocalTime(backup.at)} failed: ${backup.error}`
    const fix = 'Remove the cause. svc tries again within an hour; a restart of the service tries at once.'
    found.push(finding.warning('backup', what, fix))
  }
  return found
}
