/** Declares `svc forget`, and the command that a service runs for it. */
import type { Forgotten } from '../../model/person.ts'
import { forgetUser } from '../../operations/people.ts'
import { formatCount, formatLocalTime } from '../../platform/format.ts'
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
    `${formatCount(messages, 'message')} erased`,
    `${formatCount(sends, 'send')} cancelled`,
    ...(webhooks.length > 0 ? [`webhooks removed: ${webhooks.join(', ')}`] : []),
    ...(keys.length > 0 ? [`keys that no longer reach the user: ${keys.join(', ')}`] : []),
  ]
  return `${counts.join('; ')}\nThe audit log names the user ${hash}\n`
}

/** Names what still has the user, and agents without an owner. */
function noteOf({ agents, backups, remains }: Forgotten): string | undefined {
  const files = backups.map(({ path, created_at }) => `${oneLine(path)} (${formatLocalTime(created_at)})`)
  const notes = [
    ...(files.length > 0
      ? [`These backups still have the user; remove them yourself: ${files.join(', ')}`]
      : []),
    ...remains.map(what => `svc does not reach: ${what}`),
    ...(agents.length > 0
      ? [`Nobody owns these agents now: ${agents.join(', ')}. A login of the account makes an owner.`]
      : []),
  ]
  return notes.length > 0 ? notes.map(formatNote).join('') : undefined
}
