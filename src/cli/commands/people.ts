/** Declares `svc forget`, and the command that a service runs for it. */
import type { Forgotten } from '../../model/person.ts'
import { forgetUser } from '../../operations/people.ts'
import { formatLocalTime } from '../../platform/format.ts'
import { type CommandSpec, configFrom } from '../command.ts'
import { operationCommand } from '../operation-command.ts'
import { formatNote } from '../show.ts'
import { oneLine } from '../terminal.ts'

export const commands: readonly CommandSpec[] = [
  operationCommand(forgetUser, {
    changeMade: 'erased',
    render: result => ({ text: formatForgotten(result), note: noteOf(result) }),
  }),
  {
    words: 'scrub',
    summary: 'rewrite the message store after an erasure',
    about:
      'Rewrite messages.db, so that nothing that was erased is left in its free space. A service does this after forget.',
    hidden: true,
    noSandboxHint: 'ever',
    config: 'tool',
    examples: [['svc scrub', 'rewrite the message store']],
    async run(command) {
      const { scrubStore } = await import('../../gateway/directory.ts')
      await scrubStore(configFrom(command).basePath)
    },
  },
]

function formatForgotten({ hash, keys, messages, sends, webhooks }: Forgotten): string {
  const counts = [
    `${messages} messages erased`,
    `${sends} sends cancelled`,
    ...(webhooks.length > 0 ? [`webhooks removed: ${webhooks.join(', ')}`] : []),
    ...(keys.length > 0 ? [`keys that no longer reach the user: ${keys.join(', ')}`] : []),
  ]
  return `${counts.join('; ')}\nThe audit log names the user ${hash}\n`
}

/** Names the backups that still have the user. */
function noteOf({ backups }: Forgotten): string | undefined {
  if (backups.length === 0) return undefined
  const lines = backups.map(({ path, created_at }) => `${oneLine(path)} (${formatLocalTime(created_at)})`)
  return formatNote(`These backups still have the user; remove them yourself: ${lines.join(', ')}`)
}
