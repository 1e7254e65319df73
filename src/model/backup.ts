/** Backups, in the public form. */
import { type Static, Type } from '@sinclair/typebox'
import { integer, optional, text, withDescription } from './shapes.ts'

export const Backup = Type.Object(
  {
    path: text('Absolute path of the file, on the machine of the service.'),
    created_at: integer('Unix milliseconds.'),
    size: integer('Size in bytes.'),
    took_ms: integer('How long it took, in milliseconds.'),
  },
  { description: 'A backup that was made.' },
)
export type Backup = Static<typeof Backup>

export const BackupStatus = Type.Object(
  {
    folder: optional.text('Folder of the schedule; absent if the service has none.'),
    every_ms: optional.integer('Time between two backups by schedule, in milliseconds.'),
    keep: optional.integer('Number of backups that the schedule keeps.'),
    newest: optional(withDescription(Backup, 'The newest backup, made by schedule or by command.')),
    failure: optional(
      Type.Object(
        { at: integer('Unix milliseconds.'), error: text('Why.') },
        { description: 'Only while the last backup by schedule failed.' },
      ),
    ),
  },
  { description: 'The schedule of backups, and how it goes.' },
)
export type BackupStatus = Static<typeof BackupStatus>
