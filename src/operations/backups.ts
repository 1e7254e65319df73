/** Operations for backups by schedule. `svc backup FILE` and `svc restore` are commands of the machine alone. */
import { Backup, BackupStatus } from '../model/backup.ts'
import { waitForAbort } from '../platform/signals.ts'
import { defineOperation } from './operation.ts'

const exampleBackup = {
  path: '/srv/backups/svc-20260131T200000Z.tar.age',
  created_at: 1769889600000,
  size: 48_230_400,
  took_ms: 910,
}

export const getBackups = defineOperation({
  name: 'get_backups',
  title: 'Show the newest backup, and whether the schedule works',
  effect: 'read',
  right: 'backup',
  description:
    'Returns the schedule of backups, the newest backup that svc knows of, and the reason if the last one by schedule failed. A file may have been moved since.',
  output: BackupStatus,
  examples: [
    {
      summary: 'A backup a day',
      output: { folder: '/srv/backups', every_ms: 86_400_000, keep: 7, newest: exampleBackup },
    },
  ],
  rest: { route: 'GET /backups', tag: 'service' },
  cli: {
    path: ['backups'],
    examples: [['svc backups --json | jq .newest.created_at', 'for programs']],
  },
  run: ({ backups }) => backups.status(),
})

export const makeBackup = defineOperation({
  name: 'backup',
  title: 'Make a backup now',
  effect: 'write',
  right: 'backup',
  description:
    'Makes a backup in the folder of the schedule (`--backup-to`) and waits until it is written and checked. Then removes the oldest ones that are too many. A call while another one runs returns the same backup. The backup is also finished if the caller leaves.',
  output: Backup,
  examples: [{ summary: 'A backup was made', output: exampleBackup }],
  rest: { route: 'POST /backups', tag: 'service' },
  run: ({ backups }, _input, { signal }) =>
    Promise.race([
      backups.make(),
      waitForAbort(signal).then(() => {
        throw signal.reason
      }),
    ]),
})
