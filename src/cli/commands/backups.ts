/** Declares `svc backups`: shows the newest backup, and whether the schedule works. */
import type { BackupStatus } from '../../model/backup.ts'
import { getBackups } from '../../operations/backups.ts'
import { formatBytes, formatDuration, formatLocalTime } from '../../platform/format.ts'
import { operationCommand } from '../operation-command.ts'
import type { CommandOutput } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands = [operationCommand(getBackups, { createEmpty: () => ({}), render: formatBackups })]

function formatBackups(
  { every_ms = 0, failure, folder, keep, newest }: BackupStatus,
  again: string,
): CommandOutput {
  const text = [
    newest &&
      `newest    ${formatLocalTime(newest.created_at)}, ${formatBytes(newest.size)}: ${oneLine(newest.path)}`,
    failure && `failed    ${formatLocalTime(failure.at)}: ${oneLine(failure.error)}`,
    folder && `schedule  every ${formatDuration(every_ms)} into ${oneLine(folder)}, keeps ${keep}`,
  ]
  return { text, note: newest ? undefined : `no backup was made yet: svc backup FILE${again}` }
}
